"""Sentences: `sentence_offsets` beside its definition, whose offsets it finds, and segtok, which splits otherwise."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from segtok.segmenter import split_multi

from benchmarks.measuring import Report, Side, cleaned, described, figure, main, size_mb, take_turns, text_column
from corpora.sentences import sentence_offsets, split_sentences
from corpora.text.buffers import text_buffers

Spans = list[list[tuple[int, int]]]


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Sentences of cleaned texts."""
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
    return [
        Report(
            title=described("sentences", texts, rounds),
            amounts={"MB": size_mb(texts), "K sentences": len(starts) / 1000},
            rows=take_turns(sides, rounds),
            notes=(f"all {len(starts)} sentences equal the definition's", _agreement(texts, ours)),
        )
    ]


def _agreement(texts: Sequence[str], ours: Spans) -> str:
    """How many sentence ends segtok and we have in common: those inside documents, not at their ends."""
    left, right = set[tuple[int, int]](), set[tuple[int, int]]()
    for number, (text, spans) in enumerate(zip(texts, ours, strict=True)):
        raw = text.encode()
        left |= {(number, at) for at in inner_ends(raw[start:end].decode() for start, end in spans)}
        right |= {(number, at) for at in inner_ends(split_multi(text))}
    shared = len(left & right)
    return (
        f"of {len(left)} sentence ends inside documents segtok has {figure(100 * shared / max(1, len(left)))} %, "
        f"and of segtok's {len(right)} we have {figure(100 * shared / max(1, len(right)))} %"
    )


def inner_ends(sentences: Iterable[str]) -> list[int]:
    """How many characters other than white space stand before each end but the last.

    >>> inner_ends(["It rained.", " Nobody came. "])
    [9]
    """
    sizes = [size for size in (len("".join(sentence.split())) for sentence in sentences) if size]
    return [sum(sizes[: number + 1]) for number in range(len(sizes) - 1)]


if __name__ == "__main__":
    main(benchmark)
