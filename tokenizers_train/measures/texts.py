"""One text cut by several vocabularies: the place of each piece, and the words that two of them cut at other places.

Promise: the pieces are those of the vocabulary's Hugging Face tokenizer, with their places in the text as it was given,
and a special token written out in it is text. A place between two pieces is given by the number of characters before it
that are not white space, so that a space is neither's, and `the` and `the` with its space agree.

A word here is what white space divides, the same for every vocabulary.

Cost: the reference's own speed, some 3 MB/s, for `cut_text`; that of `Encoder` for `measure_lines`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.text.buffers import to_text_buffers
from tokenizers_train.encoding.encoder import Encoder, build_text_tokenizer
from tokenizers_train.measures.measure import find_unknown_id
from tokenizers_train.vocabularies.borders import find_piece_offsets, keep_spaces
from tokenizers_train.vocabularies.vocabulary import Vocabulary

LINES_PER_BATCH = 4096  # encoded at once


class TextPiece(NamedTuple):
    """A token of a text: its id, and the range of characters text[start:end] that it covers."""

    id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMeasures:
    """Statistics of a vocabulary on a text.

    Attributes:
        lines: Number of lines.
        words: Number of words, separated by white space.
        characters: Number of characters. `CutText.measures` includes line ends, and `measure_lines` does not.
        bytes: Number of UTF-8 bytes. Line ends are treated as in `characters`.
        tokens: Number of tokens.
        unknown_tokens: Number of unknown tokens.
    """

    lines: int = 0
    words: int = 0
    characters: int = 0
    bytes: int = 0
    tokens: int = 0
    unknown_tokens: int = 0

    def __add__(self, other: "TextMeasures") -> "TextMeasures":
        return TextMeasures(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    @property
    def fertility(self) -> float | None:
        """Tokens per word of the text, or None if there are no words."""
        return self.tokens / self.words if self.words else None

    @property
    def bytes_per_token(self) -> float | None:
        """UTF-8 bytes per token of the text, or None if there are no tokens."""
        return self.bytes / self.tokens if self.tokens else None

    @property
    def unknown_share(self) -> float | None:
        """Fraction of unknown tokens among the tokens of the text, or None if there are no tokens."""
        return self.unknown_tokens / self.tokens if self.tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutText:
    """A text and its tokens in one vocabulary.

    Attributes:
        text: The text.
        pieces: The tokens in order.
        unknown_id: Id of the vocabulary's unknown token, or -1 if there is none.
    """

    text: str
    pieces: tuple[TextPiece, ...]
    unknown_id: int

    @property
    def measures(self) -> TextMeasures:
        """Statistics of the text. Line ends count as characters and bytes."""
        return TextMeasures(
            lines=len(self.text.splitlines()),
            words=len(self.text.split()),
            characters=len(self.text),
            bytes=len(self.text.encode()),
            tokens=len(self.pieces),
            unknown_tokens=sum(piece.id == self.unknown_id for piece in self.pieces),
        )


def cut_text(vocabulary: Vocabulary, text: str) -> CutText:
    """Split a text into tokens and locate each one in the text.

    Characters that the vocabulary's normalizer removes belong to no token.
    """
    [cut] = cut_texts(vocabulary, [text])
    return cut


def cut_texts(vocabulary: Vocabulary, texts: Sequence[str]) -> list[CutText]:
    """Split texts into tokens and locate each one in its text, as `cut_text` does. The tokenizer is built only once."""
    tokenizer, unknown_id = build_text_tokenizer(vocabulary), find_unknown_id(vocabulary)
    keep_spaces(tokenizer)
    cuts = []
    for text in texts:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        pieces = tuple(
            TextPiece(id, *place) for id, place in zip(encoding.ids, find_piece_offsets(text, encoding), strict=True)
        )
        cuts.append(CutText(text=text, pieces=pieces, unknown_id=unknown_id))
    return cuts


def find_boundaries(cut: CutText) -> set[int]:
    """Return the positions at which the tokens of a text begin, not including the start and the end of the text.

    Positions are counted in non-whitespace characters.
    """
    num_solid_before = list(accumulate((not character.isspace() for character in cut.text), initial=0))
    return {num_solid_before[piece.start] for piece in cut.pieces} - {0, num_solid_before[-1]}


def find_cut_differences(
    first: CutText, second: CutText, number: int
) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Find the words that two vocabularies split at different positions.

    Args:
        first: The text, split by the first vocabulary.
        second: The same text, split by the second vocabulary.
        number: Maximum number of distinct words to return.

    Returns:
        Maps each word to its parts in the first and in the second vocabulary. The words are in the order of the text.
    """
    differing: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    first_boundaries, second_boundaries, place = find_boundaries(first), find_boundaries(second), 0
    for word in first.text.split():
        inside = range(place + 1, place + len(word))
        places = [
            sorted({at - place for at in cuts.intersection(inside)}) for cuts in (first_boundaries, second_boundaries)
        ]
        if places[0] != places[1] and len(differing) < number:
            differing[word] = (_cut_at(word, places[0]), _cut_at(word, places[1]))
        place += len(word)
    return differing


def _cut_at(word: str, places: list[int]) -> tuple[str, ...]:
    return tuple(word[start:end] for start, end in pairwise([0, *places, len(word)]))


def measure_lines(*encoders: Encoder, lines: Iterable[str]) -> tuple[TextMeasures, ...]:
    """Compute the statistics of a text for each encoder. Each line is encoded separately.

    Args:
        encoders: One encoder per vocabulary.
        lines: The lines of the text, read in batches. Line ends are stripped and not counted.

    Returns:
        The statistics for each encoder, in the same order.
    """
    totals = [TextMeasures() for _ in encoders]
    for batch in _iter_batches(line.rstrip("\r\n") for line in lines):
        column = pa.array(batch, pa.large_string())
        words, characters = sum(len(line.split()) for line in batch), sum(map(len, batch))
        for place, encoder in enumerate(encoders):
            figures = _measure_column(encoder, column)
            totals[place] += replace(figures, lines=len(batch), words=words, characters=characters)
    return tuple(totals)


def _measure_column(encoder: Encoder, column: pa.Array) -> TextMeasures:
    """Count the bytes, tokens and unknown tokens of a large_string column of lines.

    The other fields of the result are 0.
    """
    _, offsets = to_text_buffers(column)
    ids = encoder.encode_sentences(column, offsets[:-1], offsets[1:]).ids
    unknown = int(np.count_nonzero(ids == find_unknown_id(encoder.vocabulary)))
    return TextMeasures(bytes=int(offsets[-1] - offsets[0]), tokens=len(ids), unknown_tokens=unknown)


def _iter_batches(lines: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(lines, LINES_PER_BATCH)):
        yield batch
