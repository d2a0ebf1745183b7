"""A record that ends its worker in whatever step is named, and passed over it changes nothing of the others.

The faults are put into the steps on the worker; what they are put into is the stages as they are.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from tiers import LONG

from corpora.judging import batches, statistics_build
from corpora.judging.documents import plan_documents
from corpora.judging.inputs import NO_INPUTS
from corpora.judging.settings import DocumentsSettings
from corpora.judging.source_statistics import RepeatedLineSettings
from corpora.judging.statistics_build import plan_statistics
from corpora.judging.steps.added import Applied, StepEntry
from corpora.judging.steps.rules import GopherRules, RulesSettings
from corpora.schema import dropped_rows
from corpora.sources.contract import Record, StatCache, hash_files
from corpora.sources.files.source import FilesSource
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_parts, build_stage, publish, survey_stage
from corpora.store.tables import read_table
from corpora.store.workers.pool import Limits, WorkerDied, WorkerPool

LIMITS = Limits(record_cpu_seconds=3.0, memory_bytes=1_000_000_000, stall_seconds=2.0)
GOOD = "The keeper of the lighthouse and his cat watch over the bay. It is a quiet life. They have a boat with oars."
RULES = RulesSettings(gopher=GopherRules(min_words=8))


@dataclass(frozen=True, slots=True, kw_only=True)
class FragileStep:
    """A step of a package of someone's own; a text with ABORT in it ends the process."""

    kind: ClassVar[str] = "fragile"
    version: ClassVar[int] = 1

    def apply(self, texts: pa.Array, records: Sequence[Record]) -> Applied:
        if any("ABORT" in text for text in texts.to_pylist()):
            os.abort()
        return Applied(texts, [None] * len(texts))


SETTINGS = DocumentsSettings(
    rules=RULES, steps=(StepEntry(step=FragileStep(), after="rules", sources=(), package="fragile 1.0"),)
)


def hoard() -> None:
    held = [bytearray(b"x" * 20_000_000) for _ in range(100)]
    time.sleep(600)
    del held


def spin() -> None:
    end = time.process_time() + 600
    while time.process_time() < end:
        pass


def harmed_by(word: str, harm: Callable[[], object], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of texts that does harm over those with a word in them."""

    def harmed(texts: pa.Array, *more: Any) -> Any:
        if any(word in text for text in texts.to_pylist()):
            harm()
        return function(texts, *more)

    return harmed


def build_harmed(sign: Path, place: Place, stage: Stage) -> None:
    """Build a stage on this worker with faults in its steps. sign: is there once a process was stopped"""

    def stop_once() -> None:
        if not sign.exists():
            sign.touch()
            os.kill(os.getpid(), signal.SIGSTOP)

    cleaning = harmed_by("STOP", stop_once, harmed_by("HOARD", hoard, batches.clean_and_count))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "clean_and_count", cleaning)
        patch.setattr(batches, "language_reasons", harmed_by("SPIN", spin, batches.language_reasons))
        patch.setattr(statistics_build, "line_hashes", harmed_by("LINES", os.abort, statistics_build.line_hashes))
        build_parts(place, stage, survey_stage(place, stage).missing)


def source_of(folder: Path, texts: Sequence[str]) -> FilesSource:
    folder.mkdir()
    lines = [json.dumps({"text": text, "id": str(number)}) for number, text in enumerate(texts)]
    (folder / "lines.jsonl").write_text("\n".join(lines) + "\n")
    return FilesSource(name="own", path=str(folder), fields={"text": "text"})


def run_without(
    plan: Callable[[Sequence[str]], Stage], place: Place, sign: Path, told: list[str]
) -> tuple[Manifest, dict[str, str]]:
    """A stage built on a worker, and the places of the records that it had to go without, with why."""
    deaths: dict[str, str] = {}
    with WorkerPool(1, LIMITS, told.append) as pool:
        while True:
            stage = plan([*deaths])
            survey = survey_stage(place, stage)
            try:
                pool.run(build_harmed, sign, place, stage)
                return publish(place, stage, survey), deaths
            except WorkerDied as death:
                assert death.reading and death.reading not in deaths, str(death)
                deaths[death.reading] = str(death)


def files_of(place: Place, manifest: Manifest) -> dict[str, bytes]:
    paths = [f"{manifest.stage_folder}/{path}" for part in manifest.parts for path in part.paths]
    return {path: place.read(path) for path in paths}


def rows_of(place: Place, manifest: Manifest, *columns: str) -> list[dict[str, Any]]:
    return [row for batch in read_table(place, manifest, "documents", columns) for row in batch.to_pylist()]


def test_a_record_that_ends_its_worker_in_a_step_is_named_and_changes_nothing_of_the_others(tmp_path: Path) -> None:
    """Fails where a step's fault names no record or another, or what is left differs from a run without these."""
    good = [f"{GOOD} Day {day}." for day in range(30)] + ["Too short.", "Der Leuchtturm und die See. " * 5]
    words = {3: "HOARD", 9: "SPIN", 17: "ABORT", 20: "STOP"} if LONG else {17: "ABORT"}
    texts = [f"{text} {words.get(number, '')}" for number, text in enumerate(good)]
    source = source_of(tmp_path / "raw", texts)
    files = hash_files(source.files(), StatCache())
    stage = plan_documents(source, files, SETTINGS)
    told: list[str] = []
    place = Place(str(tmp_path / "store"))
    # The kernels are compiled here, not on a worker that has three seconds.
    stopped = source_of(
        tmp_path / "others", [text for number, text in enumerate(texts) if number not in words or number == 20]
    )
    others = Place(str(tmp_path / "others-store"))
    without = build_stage(others, plan_documents(stopped, hash_files(stopped.files(), StatCache()), SETTINGS))

    manifest, deaths = run_without(
        lambda barred: plan_documents(source, files, SETTINGS, quarantine=barred), place, tmp_path / "sign", told
    )

    dropped = list(dropped_rows(read_table(place, manifest, "dropped")))
    gone = [f"{row.locator.sha256} -1 {row.locator.offset}" for row in dropped if row.reason == "quarantined"]
    assert gone == [*deaths] and [row.step for row in dropped if row.reason == "quarantined"] == ["parse"] * len(gone)
    reasons = [("step clean", "bytes of memory"), ("step language", "processor time")] if LONG else []
    reasons += [("step fragile", "SIGABRT")]
    for said, (step, why) in zip(deaths.values(), reasons, strict=True):
        assert "documents/own: part 00000" in said and step in said and why in said
    assert any("stood still" in line for line in told) == LONG
    assert rows_of(place, manifest, "text", "quality", "language") == rows_of(
        others, without, "text", "quality", "language"
    )
    assert manifest.rows("documents") == 30 - len(gone) and stage.fingerprint != manifest.fingerprint

    here = Place(str(tmp_path / "here"))
    at_once = build_stage(here, plan_documents(source, files, SETTINGS, quarantine=[*deaths]))
    assert files_of(here, at_once) == files_of(place, manifest)


@pytest.mark.long
def test_a_record_that_ends_its_worker_as_statistics_are_taken_is_named(tmp_path: Path) -> None:
    """Fails where the sample of a source is read without quarantine, or its statistics depend on batches."""
    shared = "\nSent from the bridge of my ship"
    texts = [f"{GOOD} Day {day}.{shared.upper() if day % 3 else shared}{' LINES' * (day == 11)}" for day in range(40)]
    source = source_of(tmp_path / "raw", texts)
    files = hash_files(source.files(), StatCache())
    settings = DocumentsSettings(rules=RULES, repeated_lines=RepeatedLineSettings(enabled=True, min_documents=5))

    def plan(barred: Sequence[str]) -> Stage:
        return plan_statistics(source, files, settings, NO_INPUTS, quarantine=barred)

    build_stage(Place(str(tmp_path / "kernels")), plan([]))
    place, here = Place(str(tmp_path / "store")), Place(str(tmp_path / "here"))
    manifest, deaths = run_without(plan, place, tmp_path / "sign", [])
    [(record, said)] = deaths.items()
    assert "fits/own: part fit" in said and "SIGABRT" in said
    assert int(record.split(" ")[2]) == sum(
        len(json.dumps({"text": t, "id": str(n)})) + 1 for n, t in enumerate(texts[:11])
    )
    assert manifest.ledger.account("records").outcomes == {"documents": 39, "dropped": 1}
    at_once = build_stage(here, plan([record]))
    assert files_of(here, at_once) == files_of(place, manifest) and manifest.rows("lines") >= 1
    assert plan(["00 -1 5"]).fingerprint == plan([]).fingerprint != manifest.fingerprint
