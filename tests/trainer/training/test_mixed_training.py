"""Training on mixtures: exact shares by phase, what was seen of each set, the same after kills and on other ranks."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from small_shards import put_shards
from small_training import as_rank, of, read_by, said, small_model, train_here

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.settings import ShardSettings
from trainer.build import plan_model
from trainer.feed import Feed
from trainer.job import (
    SetRead,
    TrainingJob,
    count_train_examples,
    describe_repeats,
    iter_seen_parts,
    list_readings,
    settle_phases,
)
from trainer.pretrain import find_cursor
from trainer.ranks import Ranks
from trainer.settings.phases import BatchRamp, PhaseSettings, Quota
from trainer.settings.training import TrainingSettings

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it


class Sets(dict[str, Manifest]):
    """Shard sets of one store by name, and what else a model is planned with."""

    place: Place
    vocabulary: Manifest


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Sets:
    """Pairs of two lengths that lost documents, others without labels, and one set twice."""
    found = Sets()
    found.place = Place(str(tmp_path_factory.mktemp("mixed")))
    kinds = {
        "long": ShardSettings(length=32, copies=2),
        "short": ShardSettings(length=20),
        "packed": ShardSettings(length=32, input="full-sentences"),
        "again": ShardSettings(length=20),
    }
    for name, kind in kinds.items():
        found[name], found.vocabulary = put_shards(found.place, kind, gone=(1, 2, 30), name=name)
    return found


def planned(sets: Sets, phases: Sequence[PhaseSettings], work: Path | None = None, **training: Any) -> Stage:
    """The stage of a model whose phases name sets; its job works in a folder."""
    names = [name for phase in phases for name in phase.mixture or [phase.shards or "long"]]
    settings = TrainingSettings(
        phase=tuple(phases),
        **{"learning_rate": 1e-3, "checkpoint_every": 2, "async_checkpoints": False, "processes": 1, **training},
    )
    stage = plan_model(sets.place, "m", [sets[name] for name in names], sets.vocabulary, small_model(), settings)
    if work is None:
        return stage
    job = replace(stage.parts[0].job, work=str(work))
    return replace(stage, parts=(replace(stage.parts[0], job=job),))


def job_of(stage: Stage) -> TrainingJob:
    job: TrainingJob = stage.parts[0].job
    return job


MIXED = (
    PhaseSettings(steps=6, batch=8, mixture={"long": 3, "short": 1}),
    PhaseSettings(steps=3, batch=8, shards="long"),
    PhaseSettings(steps=5, batch=7, mixture={"short": 0.5, "long": 0.5}),
)


@pytest.fixture(scope="module")
def whole(sets: Sets, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A model trained in this process."""
    stage = planned(sets, MIXED, tmp_path_factory.mktemp("whole"), evaluate_examples=20)
    train_here(job_of(stage))
    return stage


def test_weights_and_phases_are_exact_in_slots(sets: Sets) -> None:
    """Fails if a component gets other than its share, or a phase does not go on where an earlier one ended."""
    job = job_of(planned(sets, MIXED))
    found = [
        {shards.name: (begin, slots) for shards, begin, slots in zip(r.inputs, r.begins, r.slots, strict=True)}
        for r in list_readings(job)
    ]
    assert found[0] == {"long": (0, 36), "short": (0, 12)}
    assert found[1] == {"long": (36, 24)}
    assert {name: begin for name, (begin, _) in found[2].items()} == {"long": 60, "short": 12}
    assert sorted(slots for _, slots in found[2].values()) == [17, 18]
    assert [(find_cursor(job, step).phase, find_cursor(job, step).slot) for step in (0, 5, 6, 8, 9, 13)] == [
        (0, 0), (0, 40), (1, 36), (1, 52), (2, 0), (2, 28),
    ]  # fmt: skip


def test_what_names_a_mixture(sets: Sets) -> None:
    """Fails if the order in a recipe makes another model, a share does not, or a mixture of one is not that one."""

    def fingerprint(*phases: PhaseSettings) -> str:
        return planned(sets, phases).fingerprint

    one = PhaseSettings(steps=4, mixture={"long": 0.75, "short": 0.25})
    same = replace(one, mixture={"short": 1, "long": 3}, max_epochs=90)
    assert fingerprint(one) == fingerprint(same)
    assert job_of(planned(sets, [one])).identity == job_of(planned(sets, [same])).identity
    other = replace(one, mixture={"long": 0.25, "short": 0.75})
    assert len({fingerprint(one), fingerprint(other), fingerprint(replace(one, mixture={"long": 1}))}) == 3
    assert fingerprint(PhaseSettings(steps=4, mixture={"long": 0.1})) == fingerprint(PhaseSettings(steps=4))
    assert (
        TrainingJob.from_json(job_of(planned(sets, [one])).to_json()).identity == job_of(planned(sets, [one])).identity
    )


def test_quotas_become_slots_and_steps(sets: Sets) -> None:
    """Fails if a whole epoch's tokens are not a whole epoch's slots, or a phase ends before its quotas."""
    examples, tokens = count_train_examples(sets["short"])
    many, held = count_train_examples(sets["long"])
    mixture = {"short": Quota(tokens=2 * tokens), "long": Quota(tokens=held // 2)}
    [phase] = settle_phases(
        TrainingSettings(phase=(PhaseSettings(batch=8, mixture=mixture),)), list(map(sets.get, mixture))
    ).training.phase
    reading = list_readings(job_of(planned(sets, [PhaseSettings(batch=8, mixture=mixture)])))[0]
    slots = dict(zip([shards.name for shards in reading.inputs], reading.slots, strict=True))
    assert slots["short"] >= 2 * examples and slots["long"] >= -(-many // 2)
    assert sum(slots.values()) == phase.steps * 8 < 2 * examples + many / 2 + 1 + 8
    exact = dict(zip([shards.name for shards in reading.inputs], reading.shares, strict=True))
    assert exact["short"] * -(-(held // 2) * many // held) == exact["long"] * 2 * examples
    fixed = list_readings(job_of(planned(sets, [PhaseSettings(steps=2, batch=8, mixture=mixture)])))[0]
    assert fixed.shares == reading.shares and sum(fixed.slots) == 16


def test_tokens_and_epochs_become_steps(sets: Sets) -> None:
    """Fails if an epoch's tokens are not an epoch's slots, or a ramp makes a phase too short."""
    examples, tokens = count_train_examples(sets["short"])

    def settled(**said: Any) -> PhaseSettings:
        shards = [sets[name] for name in said.get("mixture", {"short": 1})]
        return settle_phases(TrainingSettings(phase=(PhaseSettings(batch=8, **said),)), shards).training.phase[0]

    steps = -(-5 * examples // 16)
    assert settled(epochs=2.5) == settled(tokens=5 * tokens // 2) == PhaseSettings(steps=steps, batch=8)
    growing = settled(epochs=2.5, batch_ramp=BatchRamp(first=2, tokens=tokens))
    assert growing.batch_ramp == BatchRamp(first=2, steps=-(-examples // 5))
    assert growing.count_slots_before(growing.steps - 1) < 2.5 * examples <= growing.slots
    many, held = count_train_examples(sets["long"])
    mixed = settled(tokens=3 * tokens, mixture={"short": 1, "long": 2})
    mean = (tokens / examples + 2 * held / many) / 3
    assert abs(mixed.steps * 8 * mean - 3 * tokens) <= 8 * mean
    with pytest.raises(InputError, match="max_epochs is 2"):
        settled(epochs=2.5, max_epochs=2)


def test_a_ramp_is_read_slot_by_slot(sets: Sets) -> None:
    """Fails if a phase with a ramp, or the one after it, reads a slot twice or not at all."""
    ramp = BatchRamp(first=2, steps=4)
    phases = [PhaseSettings(steps=6, batch=7, shards="short", batch_ramp=ramp), PhaseSettings(steps=2, batch=3)]
    job = job_of(planned(sets, [replace(phase, shards="short") for phase in phases]))
    for ranks, begin in ((1, 0), (3, 2)):
        found = list[int]()
        for phase, first in ((0, begin), (1, 0)):
            for rank in range(ranks):
                feed = Feed(job, phase, as_rank(rank, ranks))
                reader, read = feed._train, list[int]()
                feed._train = cast(Any, Recorded(reader, read))
                steps = read_by(feed, first, find_cursor(job, first if phase == 0 else 6).slot)
                assert len(steps) == job.training.phase[phase].steps - first
                found += read
        assert sorted(found) == list(range(job.training.phase[0].count_slots_before(begin), 2 + 3 + 4 + 5 + 7 + 7 + 6))


class Recorded:
    """A reader that says which slots it read."""

    def __init__(self, reader: Any, read: list[int]) -> None:
        self._reader, self._read = reader, read

    def gather(self, slots: Any) -> Any:
        """Note the slots, and return what is in them."""
        self._read.extend(slots)
        return self._reader.gather(slots)


def test_a_phase_has_a_mask_rate_of_its_own(sets: Sets) -> None:
    """Fails if a rate reaches other phases or held-out examples, or makes no other model."""
    said = [PhaseSettings(steps=2, batch=8, shards="long", mask_rate=rate) for rate in (None, 0.5)]
    stage = planned(sets, said)
    ranks = Ranks(rank=0, count=1, device=torch.device("cpu"), mesh=cast(Any, None))
    feeds = [Feed(job_of(stage), phase, ranks) for phase in (0, 1)]
    slots = range(40)
    usual, own = (feed._train.gather(slots) for feed in feeds)
    assert np.array_equal(usual.example_ids, own.example_ids)
    assert 3 * len(usual.masked) < len(own.masked) < 4 * len(usual.masked)
    held_out = [[len(each.guessed) for each in feed.iter_held_out(0)] for feed in feeds]
    assert held_out[0] == held_out[1] != []
    assert stage.fingerprint != planned(sets, [said[0], said[0]]).fingerprint


@pytest.mark.parametrize(
    ("mixture", "more", "told"),
    [
        ({"long": 1, "packed": 1}, {}, r"'long' and 'packed' of phase 1 cannot be mixed: input = 'segment-pair' has "),
        ({"short": 1, "again": 1}, {}, "'short' and 'again' of phase 1 hold the same examples: name one of them"),
        ({"short": 1e-6, "long": 1e6}, {}, "'short' are less than a millionth of the mixture of phase 1"),
        ({"short": 1}, {"steps": 10**6}, "without max_epochs 1,000 is the most: read less"),
        ({"short": 1, "long": 1}, {"steps": 100, "max_epochs": 2}, r"end of phase 1 .* 'short' .* max_epochs is 2"),
        ({"short": Quota(tokens="1M")}, {"steps": 0, "max_epochs": 1.5}, "read less of them, shorten the phase"),
        ({"short": Quota(tokens="900T"), "long": Quota(tokens="900T")}, {"steps": 0}, "phase 1 would take 2.* steps"),
        ({"short": Quota(tokens="1M"), "long": Quota(tokens=1)}, {"steps": 0, "warmup": 10**9}, "warmup_steps = "),
    ],
)  # fmt: skip
def test_what_cannot_be_mixed_is_refused(sets: Sets, mixture: Any, more: dict[str, Any], told: str) -> None:
    """Fails if a mixture that cannot be read is found out by training, or the message names no remedy."""
    warmup = more.pop("warmup", 0)
    with pytest.raises(InputError, match=told) as caught:
        planned(sets, [PhaseSettings(mixture=mixture, **{"steps": 4, **more})], warmup_steps=warmup)
    assert "\n" not in str(caught.value)


def test_text_that_is_read_more_often_than_helps_is_told(sets: Sets) -> None:
    """Fails if a set is repeated without a word, one that is not is warned of, or copies do not count as passes."""
    examples = {name: count_train_examples(sets[name])[0] for name in ("short", "long")}

    def notice(name: str, epochs: float, **more: Any) -> str:
        stage = planned(sets, [PhaseSettings(steps=round(epochs * examples[name] / 8), batch=8, shards=name)], **more)
        return str(stage.facts.get("notice", ""))

    assert notice("short", 63) == notice("long", 31) == ""
    assert "is read 66 times. Where tokens are masked" in notice("short", 66)
    assert "is read 66 times" in notice("long", 33)  # two copies of each document
    assert "is read 1,500 times" in notice("short", 1500, max_epochs=2000)
    with pytest.raises(InputError, match="max_epochs is 1400"):
        notice("short", 1500, max_epochs=1400)
    often = [SetRead(phase=1, name=name, slots=slots, examples=10) for name, slots in (("a", 50), ("b", 70), ("c", 40))]
    assert describe_repeats(often) == ""
    often = [replace(each, slots=10 * each.slots) for each in often]
    assert "shards 'b' is read 70 times" in describe_repeats(often)
    often = [replace(each, slots=2 * each.slots) for each in often]
    assert "shards 'b' is read 140 times (and of 2 more too often)" in describe_repeats(often)


@pytest.mark.parametrize("mixture", [{"long": 1.0, "short": 1.0}, {"long": Quota(tokens=9), "short": Quota(tokens=9)}])
def test_components_without_examples_are_refused(sets: Sets, mixture: Any) -> None:
    """Fails if a mixture of an empty set is planned, whose slots no example could fill."""
    held_out = tuple(part for part in sets["short"].parts if part.labels.get("split") == "held-out")
    empty = replace(sets["short"], parts=held_out)
    assert held_out and count_train_examples(empty) == (0, 0)
    phase = PhaseSettings(steps=1, mixture=mixture)
    with pytest.raises(InputError, match="'short' of phase 1 have no example to train on"):
        settle_phases(TrainingSettings(phase=(phase,)), [sets["long"], empty])


def counted(sets: Sets, job: TrainingJob) -> list[list[list[int]]]:
    """TALLIES of each phase and component, read once more without a mixture."""
    found = []
    for reading in list_readings(job):
        loaders = [Loader(ShardSet(sets.place, sets[shards.name]), job.training.seed) for shards in reading.inputs]
        of_phase = []
        for loader, begin, slots in zip(loaders, reading.begins, reading.slots, strict=True):
            read = loader.gather(range(begin, begin + slots))
            of_phase.append([slots, read.deleted, len(read.ids), len(read.masked)])
        found.append(of_phase)
    return found


def test_what_was_seen_is_counted(sets: Sets, whole: Stage) -> None:
    """Fails if a slot, a deleted example or a token is counted for another set or phase, or the sums are not those
    of the run."""
    facts = job_of(whole).read_export()
    assert facts is not None and facts["seen"] == counted(sets, job_of(whole))
    totals = np.sum([tally for phase in facts["seen"] for tally in phase], axis=0).tolist()
    assert totals[1] > 5
    assert totals == [facts["slots"], facts["deleted"], facts["tokens"], facts["masked_tokens"]]
    model = build_stage(sets.place, whole)
    parts = {(part.phase, part.name): part for part in iter_seen_parts(model)}
    assert [*parts] == [(1, "long"), (1, "short"), (2, "long"), (3, "long"), (3, "short")]
    for reading, tallies, phase in zip(list_readings(job_of(whole)), facts["seen"], (1, 2, 3), strict=True):
        for shards, tally in zip(reading.inputs, tallies, strict=True):
            part = parts[phase, shards.name]
            assert [part.read + part.deleted, part.deleted, part.tokens, part.masked] == tally
            assert part.epochs == pytest.approx(tally[0] / count_train_examples(sets[shards.name])[0])
    assert model.settings["phases"][1] == sets["long"].content
    assert sorted(part["share"] for part in model.settings["phases"][0]) == [1, 3]


def test_a_mixture_is_judged_as_a_whole_and_by_component(sets: Sets, whole: Stage) -> None:
    """Fails if a component's held-out split is not judged, or its figures do not add up to the whole."""
    first, second, third = of(said(job_of(whole)), "evaluation")
    assert "components" not in second
    for event, share in ((first, {"long": 15, "short": 5}), (third, {"long": 10, "short": 10})):
        parts = event["components"]
        assert {name: part["sequences"] + part["deleted"] for name, part in parts.items()} == share
        masked = sum(part["masked_tokens"] for part in parts.values())
        assert masked == event["masked_tokens"] > 20
        mean = sum(part["masked_loss"] * part["masked_tokens"] for part in parts.values()) / masked
        assert event["masked_loss"] == pytest.approx(mean)


@pytest.mark.slow
def test_a_mixture_that_was_killed_on_two_processes_goes_on_with_one(sets: Sets, whole: Stage, tmp_path: Path) -> None:
    """Fails if slots of a component are read twice or not at all, or counted so, after a kill on other ranks."""
    from small_training import kill

    job = replace(job_of(whole), work=str(tmp_path / "work"))
    two = replace(job, training=replace(job.training, processes=2))
    kill(two, 5)
    assert job.read_export() is None
    events = train_here(job)
    [resume] = of(events, "resume")
    assert resume["step"] >= 4 and {event["processes"] for event in of(events, "start")} == {2}
    facts = job.read_export()
    assert facts is not None and facts["seen"] == counted(sets, job)
    counts = ("step", "phase", "masked_tokens", "tokens", "sequences", "deleted")
    mine, theirs = (of(said(each), "step") for each in (job, job_of(whole)))
    assert [[event[name] for name in counts] for event in mine] == [
        [event[name] for name in counts] for event in theirs
    ]
