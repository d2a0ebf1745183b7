"""Sentences: `sentence_offsets` next to its definition, whose offsets it finds, and others, which split otherwise.

They are segtok, and blingfire's text_to_sentences_and_offsets where it is installed.
"""

import importlib
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise

from segtok.segmenter import split_multi

from benchmarks.measuring import Report, Side, cleaned, figure, main, side_by_side, size_mb, text_column
from benchmarks.sentence_quality import inner_ends
from corpora.text.buffers import text_buffers
from corpora.text.sentences.splitter import sentence_offsets, split_sentences

Spans = list[list[tuple[int, int]]]


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare sentences of cleaned texts."""
    texts = cleaned(texts)
    buffers = text_buffers(text_column(texts))
    starts, ends, rows = sentence_offsets(buffers.data, buffers.offsets)
    bounds = zip(buffers.offsets.tolist(), pairwise(rows.tolist()), strict=False)
    ours: Spans = [
        [(int(starts[at]) - base, int(ends[at]) - base) for at in range(first, last)] for base, (first, last) in bounds
    ]
    assert ours == [split_sentences(text) for text in texts], "sentences differ from the definition's"
    sides = [
        Side(name="sentence_offsets", call=lambda _: sentence_offsets(buffers.data, buffers.offsets)),
        Side(name="segtok", call=lambda _: [list(split_multi(text)) for text in texts]),
        Side(name="definition (split_sentences)", call=lambda _: [split_sentences(text) for text in texts]),
    ]
    if find_spec("blingfire"):
        find = importlib.import_module("blingfire").text_to_sentences_and_offsets
        sides.insert(1, Side(name="blingfire", call=lambda _: [find(text) for text in texts]))
    amounts = {"MB": size_mb(texts), "K sentences": len(starts) / 1000}
    notes = [f"all {len(starts)} sentences equal the definition's", _agreement(texts, ours)]
    return [side_by_side("sentences", texts, sides, rounds, notes, amounts)]


def _agreement(texts: Sequence[str], ours: Spans) -> str:
    """Return how many sentence ends segtok and we have in common: those inside documents, not at their ends.

    >>> _agreement(["It rained. Nobody came."], [[(0, 10), (11, 23)]])
    "of 1 sentence ends inside documents segtok has 100 %, and of segtok's 1 we have 100 %"
    """
    left, right = set[tuple[int, int]](), set[tuple[int, int]]()
    for number, (text, spans) in enumerate(zip(texts, ours, strict=True)):
        raw = text.encode()
        left |= {(number, at) for at in inner_ends([raw[start:end].decode() for start, end in spans])}
        right |= {(number, at) for at in inner_ends(list(split_multi(text)))}
    shared = len(left & right)
    return (
        f"of {len(left)} sentence ends inside documents segtok has {figure(100 * shared / max(1, len(left)))} %, "
        f"and of segtok's {len(right)} we have {figure(100 * shared / max(1, len(right)))} %"
    )


if __name__ == "__main__":
    main(benchmark)
