"""Token budgets: kernel and definition cut alike; every live example is read once, whatever cuts or ends a run."""

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from corpora.kernels.arrays import Bools, Int64s
from shards.reading.budgets import (
    BatchShape,
    compute_max_share_tokens,
    plan_micro_batches,
    plan_micro_batches_plain,
    round_shape_up,
    round_up,
)
from shards.reading.order import find_global_examples, step_slots


class Given(NamedTuple):
    """The input that a step is cut by."""

    lengths: list[int]
    ranks: int
    budget: int


@st.composite
def steps(draw: st.DrawFn) -> Given:
    """Any lengths within a budget, those of deleted examples included."""
    budget = draw(st.integers(1, 60))
    lengths = draw(st.lists(st.integers(0, budget) | st.sampled_from([0, 1, budget]), max_size=60))
    return Given(lengths, draw(st.integers(1, 5)), budget)


@given(steps())
@examples(300)
def test_the_kernel_cuts_as_its_definition_does(given: Given) -> None:
    """Fails if the heap gives another micro-batch than a look at all of them."""
    found = plan_micro_batches(np.array(given.lengths, np.int64), given.ranks, given.budget)
    assert (found.capacities.tolist(), found.bins.tolist()) == plan_micro_batches_plain(*given)


@given(steps())
@examples(300)
def test_every_slot_is_in_one_micro_batch_within_the_budget(given: Given) -> None:
    """Fails if processes differ in number or tokens of micro-batches, or a slot is read twice or nowhere."""
    lengths, ranks, budget = np.array(given.lengths, np.int64), given.ranks, given.budget
    found = plan_micro_batches(lengths, ranks, budget)
    shares = [found.list_micro_batches(rank) for rank in range(ranks)]
    assert {len(own) for own in shares} == {len(found.capacities)}
    assert sorted(int(place) for own in shares for places in own for place in places) == list(range(len(lengths)))
    for own in shares:
        for places, capacity in zip(own, found.capacities.tolist(), strict=True):
            assert lengths[places].sum() <= capacity <= budget
            assert lengths[places].tolist() == sorted(lengths[places], reverse=True)
    assert {*found.capacities.tolist()} <= {-(-part * budget // 8) for part in range(1, 9)}
    assert len(found.capacities) <= 2 * lengths.sum() / (ranks * budget) + 2


def test_lengths_of_texts_leave_little_room() -> None:
    """Fails if another way to deal examples out would need more micro-batches, or fill a tenth with nothing."""
    draw = np.random.default_rng(7)
    short = np.clip(draw.lognormal(3.2, 0.6, 5120).astype(np.int64), 4, 128)
    prose = np.where(draw.random(5120) < 0.5, 512, draw.integers(8, 512, 5120))
    for lengths, budget in ((short, 2048), (prose, 8192)):
        cuts = [plan_micro_batches(lengths[first : first + 256], 2, budget) for first in range(0, 5120, 256)]
        least = sum(-(-int(lengths[n * 256 : (n + 1) * 256].sum()) // (2 * budget)) for n in range(20))
        held = sum(2 * int(found.capacities.sum()) for found in cuts)
        assert sum(len(found.capacities) for found in cuts) <= 1.05 * least
        assert 0.93 < lengths.sum() / held <= 1


class Run(NamedTuple):
    """A part of a run, from a checkpoint to where it ended.

    lost:   steps after its last checkpoint, which the next part reads again
    forget: examples that are forgotten before it begins
    """

    ranks: int
    steps: int
    lost: int
    forget: list[int]


RUNS = st.lists(
    st.builds(
        Run,
        ranks=st.integers(1, 4),
        steps=st.integers(1, 6),
        lost=st.integers(0, 3),
        forget=st.lists(st.integers(0, 49), max_size=4),
    ),
    min_size=1,
    max_size=8,
)


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=50),
    runs=RUNS,
    batch=st.integers(1, 30),
    budget=st.integers(40, 400),
    seed=st.integers(0, 1 << 40),
)
@examples(200)
def test_each_live_example_is_read_once_an_epoch(
    lengths: list[int], runs: list[Run], batch: int, budget: int, seed: int
) -> None:
    """Fails if a kill, another number of processes or something forgotten makes an example come twice or never."""
    live, sizes = np.ones(len(lengths), bool), np.array(lengths, np.int64)
    read: dict[int, list[int]] = {}  # by step, what stands after all kills
    step = 0
    endless = Run(ranks=3, steps=-(-2 * len(lengths) // batch), lost=0, forget=[])
    for run in [*runs, endless]:
        live[[number for number in run.forget if number < len(live)]] = False
        for now in range(step, step + run.steps):
            again = read_step(now, batch, run.ranks, budget, live, sizes, seed)
            if now in read:
                assert sorted(again) == sorted(number for number in read[now] if live[number])
            read[now] = again
        step += run.steps - min(run.lost, run.steps)
    found = [number for now in sorted(read) for number in read[now]]
    slots = find_global_examples(np.arange(batch * len(read), dtype=np.int64), len(lengths), seed)
    epochs = len(slots) // len(lengths)
    assert epochs >= 2
    for number in np.flatnonzero(live).tolist():
        assert found.count(number) == np.count_nonzero(slots == number) in (epochs, epochs + 1)


def read_step(step: int, batch: int, ranks: int, budget: int, live: Bools, sizes: Int64s, seed: int) -> list[int]:
    """The live examples that all processes read of a step, each of which knows only all lengths."""
    examples = find_global_examples(np.array(step_slots(step, batch), np.int64), len(sizes), seed)
    lengths = np.where(live[examples], sizes[examples], 0)
    effective = min(budget, compute_max_share_tokens(batch, ranks, 40))
    places = [
        p
        for rank in range(ranks)
        for own in plan_micro_batches(lengths, ranks, effective).list_micro_batches(rank)
        for p in own
    ]
    assert len(places) == batch
    return [int(example) for example in examples[places] if live[example]]


def held(lengths: list[int], num_masked: int) -> BatchShape:
    """The shape of examples of these lengths."""
    return BatchShape(sum(lengths), len(lengths), num_masked, max(lengths, default=0))


@given(
    lengths=st.lists(st.integers(1, 100), max_size=40),
    num_masked=st.integers(0, 700),
    room=st.integers(0, 3000),
    more=st.integers(0, 500),
)
def test_a_shape_holds_what_it_is_for(lengths: list[int], num_masked: int, room: int, more: int) -> None:
    """Fails if examples, masks or what fills up the tokens do not go in, or a dummy has no position for a token."""
    positions = max([1, *lengths]) + more
    capacity = max(1, sum(lengths) + room)
    shape = round_shape_up(held(lengths, num_masked), capacity, positions)
    assert (
        shape.num_tokens == capacity
        and shape.num_masked >= num_masked
        and positions >= shape.max_length >= max([1, *lengths])
    )
    dummies = shape.num_sequences - len(lengths)
    assert dummies * shape.max_length >= capacity - sum(lengths) >= 0 <= dummies


def test_shapes_are_few() -> None:
    """Fails if the list grows with what is in the micro-batches: any 1,000 of them have at most some tens."""
    draw = np.random.default_rng(3)
    shapes = {
        round_shape_up(held(draw.integers(4, 129, 60).tolist(), int(draw.integers(500, 700))), 8192, 512)
        for _ in range(1000)
    }
    assert len(shapes) <= 12 and BatchShape(8192, 96, 640, 128) in shapes
    assert len({round_up(number, 8) for number in range(1 << 16)}) == 4 * 13 + 1
    assert all(number <= round_up(number, 1) < 1.25 * number for number in range(8, 5000))
