"""Encodes texts for a model with the `tokenizer.json` in its folder, truncated to its maximum length. No torch.

Promise: every sequence, even a truncated one, has the form that the tokenizer's template gives to one or two texts,
with a classification token first and a separator token last. Truncated tokens are counted. The tokenizer is checked
against the model before the first text. Cost: 4 microseconds per character (one x86-64 core, 2026-11-27). If a text is
truncated, only a part of it is tokenized at a time, which saves memory.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from tokenizers import Encoding, Tokenizer
from tokenizers.normalizers import Lowercase, Normalizer
from tokenizers.normalizers import Sequence as Normalizers

from corpora.errors import InputError
from corpora.kernels.arrays import Int32s
from tokenizers_train.vocabularies.borders import keep_spaces
from trainer.families.contract import ModelInputs
from trainer.huggingface.sentence_transformers import Prompt, SentenceFolder, read_sentences

TOKENIZER = "tokenizer.json"
TOKENIZER_FILES = (
    *(TOKENIZER, "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "spiece.model"),
)
PART_CHARACTERS, PARTS_AT_ONCE = (
    1 << 13,
    16,
)  # characters of a long text that are encoded together, and how many such parts at once
MAX_WORD_PARTS = 16  # parts, after which one is cut in the middle of a word
WORD_START = re.compile(r"[^\w]|[\u2e80-\u9fff]")  # at which a part may begin: no word of a vocabulary goes over it
CUT_LONGEST, CUT_FIRST, CUT_SECOND = "longest_first", "only_first", "only_second"  # of two texts, which is cut


def open_tokenizer(folder: Path, inputs: ModelInputs) -> Tokenizer:
    """Open the tokenizer of a model folder, without truncation and padding.

    Args:
        folder: The folder, which contains `tokenizer.json`.
        inputs: The vocabulary size and special ids of the model.

    Raises:
        InputError: If the tokenizer is missing or damaged, or has ids or special tokens that the model does not know.
    """
    path = folder / TOKENIZER
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{folder} has no {TOKENIZER}: save the model's own tokenizer there.") from error
    except Exception as error:  # tokenizers has no class of its own for what it cannot read
        raise InputError(f"{path} is not a tokenizer ({error}): save or copy it again.") from error
    special = inputs.special_ids
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    if highest >= inputs.vocab_size:
        raise InputError(
            f"{path} has a token with id {highest}, and the model knows {inputs.vocab_size} tokens: "
            "save the model's own tokenizer there."
        )
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if tokenizer.encode("").ids != [special.cls, special.sep]:
        raise InputError(
            f"{path} makes {tokenizer.encode('').ids} of an empty text, where the model expects "
            f"{[special.cls, special.sep]}: save the model's own tokenizer there, with its post-processor."
        )
    return tokenizer


@dataclass(slots=True, kw_only=True)
class TextEncoder:
    """A tokenizer that truncates sequences, and counts the truncated texts and tokens.

    max_length: maximum number of tokens of a sequence, including special tokens
    inputs:     the model's vocabulary size and special token ids
    prompts:    two prompts that callers put in front of texts: one for the first of several compared texts, and one for
                the others
    skipped:    the number of tokens of each prompt that are not pooled; () if all are pooled
    num_cut:    the number of texts that were truncated so far
    tokens_cut: the number of tokens that were removed by truncation so far
    """

    tokenizer: Tokenizer
    max_length: int
    inputs: ModelInputs
    prompts: Sequence[str] = ("", "")
    skipped: Sequence[int] = ()
    num_cut: int = field(default=0)
    tokens_cut: int = field(default=0)

    def __post_init__(self) -> None:
        keep_spaces(self.tokenizer)  # `find_piece_offsets` says where pieces begin

    @staticmethod
    def from_folder(
        folder: Path, inputs: ModelInputs, max_length: int, prompts: Sequence[Prompt] = ()
    ) -> "TextEncoder":
        """Open the tokenizer of a model folder as an encoder.

        Args:
            folder: The folder.
            inputs: The model's vocabulary size and special token ids.
            max_length: Maximum number of tokens of a sequence, including special tokens.
            prompts: The names of two prompts in a sentence-transformers folder, for first texts and for others; () to
                ignore the folder's prompts and lowercasing.

        Raises:
            InputError: If the tokenizer is missing or does not fit the model, or a named prompt is not in the folder.
        """
        encoder = TextEncoder(tokenizer=open_tokenizer(folder, inputs), max_length=max_length, inputs=inputs)
        sentences = read_sentences(folder) if prompts else None
        if sentences is not None:
            encoder._apply_folder_settings(sentences, prompts)
        elif prompts and isinstance(prompts[0], str) and prompts[0]:
            raise InputError(f"{folder} has no prompts, of which one is named: leave {prompts[0]!r} out.")
        return encoder

    def _apply_folder_settings(self, sentences: SentenceFolder, prompts: Sequence[Prompt]) -> None:
        """Use the lowercasing and two prompts of a sentence-transformers folder from now on. `prompts` are their names.

        Raises InputError if a prompt is missing.
        """
        own = self.tokenizer.normalizer
        alone: list[Any] = [own] if isinstance(own, Normalizer) else []
        steps = [*cast(Any, own)] if isinstance(own, Normalizers) else alone
        if sentences.lowercase and not any(isinstance(each, Lowercase) for each in steps):
            self.tokenizer.normalizer = Normalizers([Lowercase(), *steps])
        self.prompts = [sentences.find_prompt(asked) for asked in prompts]
        if any(self.prompts) and not sentences.include_prompt:
            self.skipped = [len(self.tokenizer.encode(each).ids) - 1 if each else 0 for each in self.prompts]

    def encode(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> list[Encoding]:
        """Encode texts, or pairs of texts, as sequences of at most `max_length` tokens, with special tokens.

        Long texts are tokenized part by part. All tokens that are removed by truncation are counted.

        Args:
            texts: The texts.
            seconds: A second text for each text; None if there are no second texts.
        """
        return self.join(self._encode_starts(texts), None if seconds is None else self._encode_starts(seconds))

    def _encode_starts(self, texts: Sequence[str]) -> list[Encoding]:
        """Tokenize the beginning of each text. If a text is too long, it gets at least one token more than fits.

        The tokens of the rest are counted as truncated.
        """
        parts = [_iter_parts(text, max(PART_CHARACTERS, 16 * self.max_length)) for text in texts]
        firsts = self.tokenize([text[slice(*next(part, (0, 0)))] for text, part in zip(texts, parts, strict=True)])
        return [self._extend_and_count(*each) for each in zip(firsts, texts, parts, strict=True)]

    def _extend_and_count(self, first: Encoding, text: str, parts: Iterator[tuple[int, int]]) -> Encoding:
        while some := [text[begin:end] for begin, end in islice(parts, PARTS_AT_ONCE)]:
            for encoding in self.tokenize(some):
                if len(first) > self.max_length:
                    self.tokens_cut += len(encoding)
                else:
                    first = Encoding.merge([first, encoding])
        return first

    def join(
        self, firsts: Sequence[Encoding], seconds: Sequence[Encoding] | None = None, cut: str = CUT_LONGEST
    ) -> list[Encoding]:
        """Combine tokenized texts to sequences: add special tokens, and truncate to `max_length`.

        Args:
            firsts: The tokens of first texts, as returned by `tokenize`. They are not changed.
            seconds: The tokens of second texts; None if there are no second texts.
            cut: Which text of a pair is truncated at its end: CUT_LONGEST or CUT_FIRST.
        """
        sides = [firsts] if seconds is None else [firsts, seconds]
        room = self.count_room(len(sides))
        self.tokenizer.enable_truncation(self.max_length, strategy=cut)
        encodings = [self.tokenizer.post_process(*both) for both in zip(*sides, strict=True)]
        self.tokenizer.no_truncation()
        for encoding, both in zip(encodings, zip(*sides, strict=True), strict=True):
            self.count_lost(sum(map(len, both)) + self.max_length - room - len(encoding))
        return encodings

    def encode_start(self, first: Encoding, second: Encoding) -> Encoding:
        """Encode a first text and as much of a second text as fits, as a sequence of at most `max_length` tokens.

        Both are encodings returned by `tokenize`. Tokens of the second text that do not fit are dropped and not counted
        as truncated.
        """
        self.tokenizer.enable_truncation(self.max_length, strategy=CUT_SECOND)
        encoding: Encoding = self.tokenizer.post_process(first, second)
        self.tokenizer.no_truncation()
        return encoding

    def shorten(self, pieces: Sequence[Encoding], max_tokens: int) -> None:
        """Truncate token sequences to `max_tokens` tokens, in place, and count the tokens that are removed."""
        for piece in pieces:
            self.count_lost(max(0, len(piece) - max_tokens))
            piece.truncate(max_tokens)

    def count_room(self, texts: int = 1) -> int:
        """Return the maximum number of tokens of a text, or of two texts together, excluding special tokens.

        `texts` is 1 or 2.
        """
        return self.max_length - int(self.tokenizer.num_special_tokens_to_add(texts == 2))

    def count_lost(self, num_tokens: int) -> None:
        """Record that a text lost `num_tokens` tokens. Unless that is 0, the text counts as truncated."""
        self.num_cut += num_tokens > 0
        self.tokens_cut += num_tokens

    def tokenize(self, texts: Sequence[str]) -> list[Encoding]:
        """Tokenize texts without special tokens or truncation, and return an encoding for each text."""
        encodings: list[Encoding] = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return encodings


def _iter_parts(text: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of a text, in characters, so that no word is divided.

    Parts have at most `size` characters, unless a word is longer.

    >>> [*_iter_parts("a good film", 8)]
    [(0, 6), (6, 11)]
    """
    begin = 0
    while begin < len(text):
        end, middle = begin + size, begin + size // 2
        if end < len(text):
            before = WORD_START.search(text[middle:end][::-1])
            after = None if before else WORD_START.search(text, end, begin + MAX_WORD_PARTS * size)
            end = end - before.end() if before else after.start() if after else begin + MAX_WORD_PARTS * size
        yield begin, min(end, len(text))
        begin = end


def to_ids(encoding: Encoding) -> Int32s:
    """Convert the token ids of an encoding to an array: int32 [T]."""
    return np.array(encoding.ids, np.int32)


def to_segment_ids(encoding: Encoding) -> Int32s:
    """Convert the segment ids of an encoding, 0 for the first text and 1 for the second, to an array: int32 [T]."""
    return np.array(encoding.type_ids, np.int32)
