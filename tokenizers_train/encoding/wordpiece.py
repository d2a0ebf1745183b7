"""WordPiece: ranges of text as ids of a vocabulary, at the speed of memory.

Promise: the ids that a Hugging Face tokenizer (BertNormalizer, BertPreTokenizer, WordPiece) gives each range by itself;
a special token written out in a text is text. `encode_plain` of `tokenizers_train.encoding.encoder` is the reference
implementation.

One kernel goes from bytes to ids. A word of at most 16 bytes that the cache holds (`piece_cache`) costs one lookup and
one store; the pieces of any other are found in a trie, byte by byte. Only words from a character that the tables leave
undecided (`characters.UNDECIDED`) up to the next space come from the reference.

Cost, on 8 MB of English novels with a vocabulary of 30,522 learned from them, on two busy cores: 197 MB/s of CPU time
if the words are known, 104 for a new engine with its making, of 2.5 by the reference. The trie of a vocabulary is made
in 0.1 s, and a process keeps the last four. Memory: 4 MiB of cache, and the ids.
"""

from collections.abc import Mapping
from copy import copy
from functools import lru_cache

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Int64s
from corpora.text.buffers import check_texts
from tokenizers_train.encoding.encoded import EncodedSentences, choose_id_dtype
from tokenizers_train.encoding.piece_cache import build_piece_cache
from tokenizers_train.encoding.trie import Trie, build_trie, keep_values_below
from tokenizers_train.encoding.wordpiece_kernels import (
    ROOT_BEGINNING,
    ROOT_CONTINUING,
    SLACK,
    Output,
    WordPieceModel,
    encode_ranges,
    encode_words,
)
from tokenizers_train.words.bert import BertWords, build_ranges, build_word_buffer, build_word_rules, split_by_reference
from tokenizers_train.words.bert_kernels import DONE, NEEDS_BUFFER, NEEDS_REFERENCE, NEEDS_ROOM

_NO_LIMIT = 1 << 62  # characters
_BYTES_PER_TOKEN = 3  # at first; English has 4.4, and room grows


class WordPieceEngine:
    """Encodes sentences with a WordPiece vocabulary and caches short words. It must not be shared between threads.

    Args:
        ids: Maps each token to its id.
        words: The rule that splits text into words.
        unknown: The token for a word that cannot be split into pieces.
        prefix: The prefix of pieces that continue a word.
        max_word_length: Words with more characters than this are encoded as the unknown token.

    Raises:
        InputError: If the unknown token is not in `ids`.
    """

    def __init__(
        self,
        ids: Mapping[str, int],
        words: BertWords,
        unknown: str,
        prefix: str = "##",
        max_word_length: int = 100,
    ) -> None:
        if unknown not in ids:
            raise InputError(
                f"The vocabulary has no token {unknown!r}, which stands for words without pieces: name in `unknown` "
                "the token that does, or add it to the vocabulary."
            )
        self._words = words
        self._rules = build_word_rules(words.characters)
        word_ids = ids if max_word_length > 0 else {}
        standalone_ids = np.array([word_ids.get(chr(code), ids[unknown]) for code in range(128)], np.int64)
        self._model = WordPieceModel(
            _build_trie(tuple(ids.items()), prefix), standalone_ids, ids[unknown], min(max_word_length, _NO_LIMIT)
        )
        self._size = max(ids.values()) + 1
        self._dtype = choose_id_dtype(self._size)
        self._cache = build_piece_cache()
        self._buffer = build_word_buffer()

    def without_last_tokens(self, num_tokens: int) -> "WordPieceEngine":
        """Return an engine for this WordPiece vocabulary without the last `num_tokens` tokens that it learned.

        These are the tokens with the highest ids. The unknown token is always kept.
        """
        model, smaller = self._model, copy(self)
        size = self._size - num_tokens
        standalone_ids = np.where(model.standalone_ids < size, model.standalone_ids, model.unknown_id)
        smaller._model = model._replace(trie=keep_values_below(model.trie, size), standalone_ids=standalone_ids)
        smaller._size, smaller._cache = size, build_piece_cache()
        return smaller

    def encode(self, data: Bytes, starts: Int64s, ends: Int64s) -> EncodedSentences:
        """Encode each sentence data[starts[s]:ends[s]] separately with WordPiece.

        The sentences may be in any order.

        Returns:
            The WordPiece tokens of the sentences, in the given order, without special tokens.

        Raises:
            InputError: If a sentence is not inside the data, splits a UTF-8 character or is not valid UTF-8.
        """
        check_texts(data, starts, ends)
        ranges, output = build_ranges(data, starts, ends), self._build_output(ends - starts)
        state = np.array([0, starts[0] if len(starts) else 0, 0], np.int64)
        fixed = (self._rules, self._model, self._cache)
        while (stop_reason := encode_ranges(ranges, *fixed, output, self._buffer, state)) != DONE:
            if stop_reason == NEEDS_REFERENCE:
                words, stop = split_by_reference(self._words, ranges, state, self._rules)
                output = self._append_words(output, words, state)
                state[1] = stop
            else:
                output = self._make_room(output, stop_reason)
        for array in (output.ids, output.word_starts):
            array.resize(int(state[2]), refcheck=False)  # gives back the rest; nothing else refers to it
        return EncodedSentences(output.ids, output.offsets, output.word_starts)

    def _append_words(self, output: Output, words: list[str], state: Int64s) -> Output:
        """Encode words found by the reference tokenizer and append them to the output.

        Args:
            output: The arrays that the kernels fill.
            words: The normalized words.
            state: The state of `encode_ranges`. Tokens are written from index state[2] on, and only state[2] is
                updated.

        Returns:
            The output, which may be a larger copy.
        """
        encoded = [word.encode() for word in words]
        ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
        starts = ends - np.array([len(word) for word in encoded], np.int64)
        ranges = build_ranges(np.frombuffer(b"".join(encoded), np.uint8), starts, ends)
        progress = np.array([0, 0, state[2]], np.int64)
        while (stop_reason := encode_words(ranges, self._model, output, progress)) != DONE:
            output = self._make_room(output, stop_reason)
        state[2] = progress[2]
        return output

    def _build_output(self, lengths: Int64s) -> Output:
        """Allocate output arrays for texts of the given lengths in bytes."""
        size = int(lengths.sum()) // _BYTES_PER_TOKEN + 2 * SLACK
        offsets = np.zeros(len(lengths) + 1, np.int64)
        return Output(np.empty(size, self._dtype), np.empty(size, np.uint8), offsets)

    def _make_room(self, output: Output, stop_reason: int) -> Output:
        """Double the output arrays or the word buffer, depending on why the kernel stopped. Returns the new output.

        Args:
            output: The arrays that the kernels fill.
            stop_reason: NEEDS_ROOM (the output arrays are doubled) or NEEDS_BUFFER (the word buffer of this engine is
                doubled, and the output is returned unchanged).
        """
        if stop_reason == NEEDS_BUFFER:
            self._buffer = build_word_buffer(2 * len(self._buffer.text))
            return output
        assert stop_reason == NEEDS_ROOM
        size = len(output.ids)
        ids, word_starts = np.empty(2 * size, self._dtype), np.empty(2 * size, np.uint8)
        ids[:size], word_starts[:size] = output.ids, output.word_starts
        return Output(ids, word_starts, output.offsets)


@lru_cache(maxsize=4)
def _build_trie(ids: tuple[tuple[str, int], ...], prefix: str) -> Trie:
    """Build a trie with two roots, one for the first piece of a word and one for the pieces after it.

    The second root stores the pieces without their prefix. The result is cached because building it takes 0.1 s and
    every thread has its own engine.

    Args:
        ids: Each token and its id.
        prefix: The prefix of pieces that continue a word.
    """
    tokens = [token.encode() for token, _ in ids]
    encoded_prefix = prefix.encode()
    continuing = [
        (token[len(encoded_prefix) :], number)
        for token, (_, number) in zip(tokens, ids, strict=True)
        if token.startswith(encoded_prefix) and token != encoded_prefix
    ]
    pieces = [*tokens, *(token for token, _ in continuing)]
    numbers = [*(number for _, number in ids), *(number for _, number in continuing)]
    roots = [ROOT_BEGINNING] * len(ids) + [ROOT_CONTINUING] * len(continuing)
    return build_trie(pieces, numbers, roots, num_roots=2)
