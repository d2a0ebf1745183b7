"""Token budgets: `cut_step` next to its definition; what fills the micro-batches, and how many shapes a model meets.

An epoch of examples of three kinds, made of the texts: tickets (one to three sentences, up to 128 tokens), and segment
pairs of up to 128 and of up to 512 tokens. Steps of 256 examples are read by 4 processes, each of which may hold 4,096
tokens at once. Three ways are compared that keep within this: the budget; the number of examples that never exceeds it,
end to end; and that number padded to the longest of them. A shape is one of (tokens, sequences, masked tokens,
longest); of the tokens 15 % are masked, each for itself. The last examples of an epoch, less than a step, are left out.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.measuring import Report, Side, cleaned, described, main, take_turns
from benchmarks.pairs import Tokenised, tokenise_texts
from corpora.kernels.arrays import Int64s
from shards.builders.pairs import PairSettings, build_pairs
from shards.reading.budgets import BatchShape, cut_plain, cut_step, fitting_shape
from shards.reading.order import cut, share

BATCH, RANKS, BUDGET, RATE = 256, 4, 4096, 0.15


class Kind(NamedTuple):
    """Examples of a kind. longest: tokens that they may have"""

    name: str
    lengths: Int64s
    longest: int

    @property
    def steps(self) -> list[Int64s]:
        """The lengths of each step of an epoch, in an order drawn once."""
        order = np.random.default_rng(1).permutation(self.lengths)
        return [order[first : first + BATCH] for first in range(0, len(order) - BATCH + 1, BATCH)]


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Every step of an epoch cut, for each kind of examples."""
    tokenised = tokenise_texts(cleaned(texts))
    kinds = (
        Kind("tickets", tickets(tokenised), 128),
        *(Kind(f"pairs of {length}", pairs(tokenised, length), length) for length in (128, 512)),
    )
    return [_report(kind, texts, rounds) for kind in kinds if kind.steps]


def _report(kind: Kind, texts: Sequence[str], rounds: int) -> Report:
    steps = kind.steps
    for lengths in steps:
        ours = cut_step(lengths, RANKS, BUDGET)
        assert (ours.tokens.tolist(), ours.bins.tolist()) == cut_plain(lengths.tolist(), RANKS, BUDGET), "cuts differ"
    sides = (
        Side(name="cut_step", call=lambda _: [cut_step(lengths, RANKS, BUDGET) for lengths in steps]),
        Side(
            name="definition (cut_plain)",
            call=lambda _: [cut_plain(lengths.tolist(), RANKS, BUDGET) for lengths in steps],
        ),
    )
    mean = f"{kind.lengths.mean():.0f} tokens of at most {kind.longest}"
    return Report(
        title=f"{described('budgets', texts, rounds)}: {kind.name}, {mean}",
        amounts={"K slots": len(steps) * BATCH / 1000},
        rows=take_turns(sides, rounds),
        notes=(f"all {len(steps)} cuts equal the definition's", *(told(*way, kind) for way in WAYS)),
    )


def told(name: str, shapes: Callable[[Int64s, int], Iterator[BatchShape]], kind: Kind) -> str:
    """What a way holds of an epoch."""
    found = [shape for lengths in kind.steps for shape in shapes(lengths, kind.longest)]
    tokens = sum(int(lengths.sum()) for lengths in kind.steps)
    passes, least = len(found) / RANKS / len(kind.steps), tokens / len(kind.steps) / RANKS / BUDGET
    filled = 1 - tokens / sum(shape.tokens for shape in found)
    return (
        f"{name}: {filled:.1%} padding, {len({*found})} shapes, {passes:.2f} passes a step ({least:.2f} full budgets)"
    )


def by_budget(lengths: Int64s, longest: int) -> Iterator[BatchShape]:
    """What the processes hold under a budget."""
    found = cut_step(lengths, RANKS, BUDGET)
    for rank in range(RANKS):
        for places, capacity in zip(found.of(rank), found.tokens.tolist(), strict=True):
            yield fitting_shape(exactly(lengths[places]), capacity, longest)


def by_number(lengths: Int64s, longest: int) -> Iterator[BatchShape]:
    """What the processes hold of as many examples as never exceed the budget."""
    for rank in range(RANKS):
        mine, size = share(range(len(lengths)), rank, RANKS), BUDGET // longest
        for some in cut(mine, size, -(-len(mine) // size)):
            yield exactly(lengths[some.start : some.stop])


def padded(lengths: Int64s, longest: int) -> Iterator[BatchShape]:
    """The same in rows that are padded to the longest, masked or not."""
    for shape in by_number(lengths, longest):
        tokens = shape.sequences * shape.longest
        yield BatchShape(tokens, shape.sequences, tokens, shape.longest)


def exactly(lengths: Int64s) -> BatchShape:
    """The shape of examples as they are."""
    tokens = int(lengths.sum())
    masked = int(np.random.default_rng(lengths.tolist()).binomial(tokens, RATE))
    return BatchShape(tokens, len(lengths), masked, int(lengths.max(initial=0)))


WAYS = (("budget", by_budget), ("by number, end to end", by_number), ("by number, padded to the longest", padded))


def tickets(tokenised: Tokenised) -> Int64s:
    """Lengths of one to three sentences of one document, with two special tokens."""
    draw, sizes = np.random.default_rng(2), np.diff(tokenised.columns.sentences)
    found = []
    for first, end in zip(tokenised.columns.documents[:-1], tokenised.columns.documents[1:], strict=True):
        while first < end:
            number = int(draw.integers(1, 4))
            found.append(min(128, 2 + int(sizes[first : min(first + number, end)].sum())))
            first += number
    return np.array(found, np.int64)


def pairs(tokenised: Tokenised, length: int) -> Int64s:
    """Lengths of segment pairs."""
    return np.diff(build_pairs(tokenised.columns, PairSettings(length=length), **tokenised.ends)[0].offsets)


if __name__ == "__main__":
    main(benchmark)
