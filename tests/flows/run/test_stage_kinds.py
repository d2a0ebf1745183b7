"""A stage is described once: a made-up one, put into the table and on the page of the run, is everywhere by itself.

So is each stage that there is. `WALKERS` has everything that goes through stages: each is asked for the artifacts of a
run, and has to name all of them.
"""

import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from labelled_world import copied, world_of
from recorded_run import record
from small_recipe import Run, text_of

from corpora.build import Corpus
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage
from flows.command.trace import find_answers
from flows.export.exported import read_provenance
from flows.export.release_folder import export_release
from flows.integrity.inventory import find_faults, read_inventory
from flows.maintenance.garbage import Retention, list_unneeded, scan_store
from flows.orchestration.pages import describe_stage
from flows.report.page import build_page
from flows.run import pipeline
from flows.run.addresses import Artifact, find_artifacts
from flows.run.estimates.run_estimates import estimate_run
from flows.run.plan_run import plan_run
from flows.run.record.counts_text import describe_rows
from flows.run.record.releases import Release, add_release, list_run_artifacts
from flows.run.record.run_status import list_runs
from flows.run.stage_kinds import STAGES, StageKind

pytestmark = pytest.mark.slow

MADE_UP = StageKind(
    group="tasks",
    names=lambda recipe, rules: ["hard-words"],
    rows={"words": ("hard word", "hard words")},
    steps={"documents": "Explain hard words{name}"},
    seconds={"": {"documents": 1.0}},
    disk_bytes={"": {"documents": 100}},
    counts=("documents",),
    is_released=True,
    folder="glossary",
    has_answers=True,
)
WORDS = pa.schema([("word", pa.string())])
ABSENT = {"fits"}  # the recipe asks for no statistics
RUN = "20260103T000000000000-small"


def build_glossary(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Explain the same word to every document."""
    corpus: Corpus = plan.job
    ids = [document.id.hex() for document in corpus.iter_documents()]
    with writer.create_table("words", WORDS) as sink:
        sink.write(pa.record_batch([["river"] * len(ids)], schema=WORDS))
    rows = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ids, "answer": ["a wide brook"] * len(ids)}), rows)
    writer.write_file("glossary.parquet", rows.getvalue().to_pybytes(), "answers")
    return Ledger(accounts=(Account(unit="documents", total=len(ids), outcomes={"explained": len(ids)}),))


def plan_glossary(corpus: Corpus, name: str, version: int = 1) -> Stage:
    manifest = corpus.manifest
    part = PartPlan(name="all", key=manifest.content, job=corpus)
    return Stage(kind="glossaries", name=name, build_version=version, settings={}, parents=(manifest.as_parent(),),
                 libraries={}, parts=(part,), build=build_glossary)  # fmt: skip


@dataclass(frozen=True)
class Everything:
    """A run with a made-up stage on record, and on top of it a run of a later version of that stage."""

    run: Run
    old: Manifest

    @property
    def made(self) -> list[Manifest]:
        """The artifacts of the run."""
        return self.run.manifests


@pytest.fixture(scope="module")
def everything(learnt: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    world = world_of(copied(learnt, tmp_path_factory.mktemp("kinds") / "world"))
    answer_documents, version = pipeline.answer_documents, 1

    def answer_and_explain(place: Place, recipe: Any, corpus: Manifest, tasks: Any, perform: Any) -> None:
        answer_documents(place, recipe, corpus, tasks, perform)
        perform([plan_glossary(Corpus(place, corpus), recipe.name_artifact("hard-words"), version)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STAGES, "glossaries", MADE_UP)
        patch.setattr(pipeline, "answer_documents", answer_and_explain)
        old, version = world.run().manifest("glossaries"), 2
        run = world.run()
        record(run, RUN)
        artifacts = list_run_artifacts(run.place, run.record)
        entry = Release(name="prod", number=0, action="release", recipe="small", run=RUN, who="t",
                        when="2026-01-03T00:00:01+00:00", artifacts=artifacts)  # fmt: skip
        add_release(run.place, entry)
        yield Everything(run, old)


def names(manifests: list[Manifest]) -> set[str]:
    return {manifest.stage_folder for manifest in manifests}


def planned_of_nothing(given: Everything, folder: Path) -> set[str]:
    recipe, lock = world_of(given.run).resolved()
    return {stage.stage for stage in plan_run(Place(str(folder / "empty")), recipe, lock)}


def planned_of_everything(given: Everything, folder: Path) -> set[str]:
    recipe, lock = world_of(given.run).resolved()
    stages = plan_run(given.run.place, recipe, lock)
    assert {stage.state for stage in stages} == {"reuse"}
    return {stage.stage for stage in stages}


def estimated(given: Everything, folder: Path) -> set[str]:
    recipe, lock = world_of(given.run).resolved()
    place = Place(str(folder / "empty"))
    stages = estimate_run(place, recipe, lock, plan_run(place, recipe, lock), 1).stages
    return {stage.stage for stage in stages if stage.disk_bytes and stage.cpu_seconds and stage.memory_bytes}


def looked_at_by_gc(given: Everything, folder: Path) -> set[str]:
    seen = scan_store(given.run.place, Retention(keep=1))
    assert list_unneeded(seen) == [given.old.folder]
    return {manifest.stage_folder for folder, manifest in seen.manifests.items() if folder in seen.needed.folders}


def verified(given: Everything, folder: Path) -> set[str]:
    place, found = given.run.place, set()
    for manifest in given.made:
        file = manifest.parts[0].files[0]
        path = Path(place.to_full_path(f"{manifest.stage_folder}/{file.path}"))
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        [fault] = find_faults(read_inventory(place, manifest.folder))
        assert fault.path.endswith(file.path)
        found.add("/".join(fault.path.split("/")[:2]))
        path.write_bytes(whole)
    return found


def reported(given: Everything, folder: Path) -> set[str]:
    shown = text_of(build_page(given.run.place, replace(given.run.record, run_id=RUN), "text"))
    assert "Explain hard words" in shown
    return {name for name in names(given.made) if name in shown}


def listed(given: Everything, folder: Path) -> set[str]:
    [run] = list_runs(given.run.place, limit=1)
    assert run.record is not None
    parts = run.to_json()["new_parts"]
    return {f"{stage.kind}/{stage.name}" for stage in run.record.stages if parts[stage.kind]}


def told(given: Everything, folder: Path) -> set[str]:
    """The lines of a run as it goes on."""
    records = {stage.folder: stage for stage in given.run.record.stages}
    lines = [describe_stage(records[manifest.folder], manifest) for manifest in given.made]
    assert "hard words" in lines[-1] and describe_rows(given.made[-1])["words"].endswith(" hard words")
    return {text.split()[0] for text in lines}


def addressed(given: Everything, folder: Path) -> set[str]:
    return {artifact.manifest.stage_folder for artifact in find_artifacts(given.run.place.address)}


WALKERS: dict[str, Callable[[Everything, Path], Set[str]]] = {
    "a plan of an empty store": planned_of_nothing,
    "a plan of a whole store": planned_of_everything,
    "estimates": estimated,
    "gc": looked_at_by_gc,
    "verify": verified,
    "the report": reported,
    "the list of runs": listed,
    "the lines of a run": told,
    "addresses": addressed,
}


@pytest.mark.parametrize("walker", WALKERS)
def test_every_stage_is_found(everything: Everything, walker: str, tmp_path: Path) -> None:
    """Fails if a walker passes over a stage, be it the made-up one or one of those that there are."""
    made = names(everything.made)
    assert {name.split("/")[0] for name in made} == {k for k, kind in STAGES.items() if not kind.has_many} - ABSENT
    assert made - WALKERS[walker](everything, tmp_path) == set()


def test_a_release_and_its_export_have_what_the_table_says(everything: Everything, tmp_path: Path) -> None:
    """Fails if a kind of stage that can be released is not in a release, or not in its folder."""
    folders = export_release(f"{everything.run.place.address}@prod", tmp_path / "out")
    asked = {manifest.folder for manifest in everything.made if STAGES[manifest.kind].folder}
    assert set(folders.values()) == asked and len(asked) == 5
    assert (tmp_path / "out" / "glossary" / "hard-words" / "glossary.parquet").is_file()
    released = {artifact.folder for artifact in list_run_artifacts(everything.run.place, everything.run.record)}
    assert released == {manifest.folder for manifest in everything.made if STAGES[manifest.kind].is_released}


def test_a_trace_shows_what_every_kind_of_answers_says(everything: Everything) -> None:
    """Fails if `cloze trace` looks into the answers of one kind only."""
    run = everything.run
    document = next(iter(run.corpus.iter_documents()))
    kinds = {folder.split("/")[0] for folder in find_answers(run.place, document)}
    assert kinds == {kind for kind, described in STAGES.items() if described.has_answers} and len(kinds) == 2


def test_ancestors_are_in_the_order_of_stages(everything: Everything) -> None:
    """Fails if what an export was made from lacks a stage, or the order is another one than that of a run."""
    run = everything.run
    chain = read_provenance(Artifact(place=run.place, manifest=run.manifest("answers"))).chain
    kinds = [manifest.kind for manifest in chain]
    assert kinds == sorted(kinds, key=[*STAGES].index) and len({*kinds}) > 8


def test_titles_of_steps_have_the_units_of_their_accounts(everything: Everything) -> None:
    """Fails if the ledger of a stage has an account under which no pattern of the table falls."""
    for manifest in everything.made:
        patterns, units = STAGES[manifest.kind].steps, [account.unit for account in manifest.ledger.accounts]
        assert not patterns or any(re.fullmatch(pattern, unit) for pattern in patterns for unit in units)
