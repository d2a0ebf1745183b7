"""A run of which the store holds everything: followed to its end without workers, a server or Prefect.

The run's own page is followed with a performer that only looks, as `cloze plan` does. Where every stage is whole, that
was the run: its lines, stages and pages are those of a run under Prefect, and they are kept in the journal until a
server of this home takes them. Where anything is to be built, mended, left out or refused, nothing has been said, and
the run is carried out in full.

Cost: the manifests and records of the store, and what plans are made from; some tenths of a second, and the report.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpora.errors import InputError, UnreadableFile
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.stage import Stage
from flows.orchestration.journal import Page, RunEntry, TaskEntry, moment, new_id, writing_pages
from flows.orchestration.reports import keep_store, report_path
from flows.orchestration.shown import (
    conclusion,
    leave_artifacts,
    line,
    progress_bar,
    report_command,
    run_called,
    run_tags,
    show_lineage,
    show_report,
    whole_in_store,
)
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.run.mending import Mending
from flows.run.pipeline import Outcome, run_recipe
from flows.run.reasons import explain
from flows.run.records import StageHistory, StageRecord

SERVERLESS = "Nothing is to be built, so no server is started; the UI will show this run as well."


class _Incomplete(Exception):
    """Something of a run is missing, or damaged."""


@dataclass(kw_only=True)
class Reuse:
    """What a run finds in its store. said: its lines"""

    place: Place
    recipe: Recipe
    began: str = field(default_factory=moment)
    flow_run_id: str = field(default_factory=new_id)
    records: list[StageRecord] = field(default_factory=list)
    said: list[tuple[str, str]] = field(default_factory=list)
    tasks: list[TaskEntry] = field(default_factory=list)
    manifests: dict[str, Manifest] = field(default_factory=dict)  # by their folders

    def perform(self, stages: Sequence[Stage]) -> list[Manifest]:
        """The manifests of these stages. Raises _Incomplete where one is not whole."""
        return [self._look(stage) for stage in stages]

    def _look(self, stage: Stage) -> Manifest:
        if stage.folder in self.manifests:
            return self.manifests[stage.folder]
        began, clock = moment(), time.monotonic()
        survey = Mending(tell=lambda line: None).survey(self.place, stage)
        if survey.manifest is None or survey.faults:
            raise _Incomplete
        history = StageHistory()
        history.begin(survey, explain(stage, survey), damaged=False)
        with writing_pages() as pages:
            leave_artifacts(self.place, survey.manifest, self.recipe.privacy.samples)
        record = history.end(survey.manifest, time.monotonic() - clock)
        self._note(record, survey.manifest, began, pages)
        return survey.manifest

    def _note(self, record: StageRecord, manifest: Manifest, began: str, pages: Sequence[Page]) -> None:
        self.manifests[manifest.folder] = manifest
        self.records.append(record)
        self.said.append((moment(), line(record, manifest)))
        if notice := manifest.facts.get("notice"):
            self.said.append((moment(), f"{manifest.stage_folder}: {notice}"))
        entry = TaskEntry(
            name=manifest.stage_folder,
            began=began,
            ended=moment(),
            message=whole_in_store(manifest),
            pages=tuple(pages),
        )
        self.tasks.append(entry)

    def entry(self, outcome: Outcome, run_id: str, prefect_home: Path) -> RunEntry:
        """The run as the journal keeps it, were it to end now. Raises InputError where the disk refuses it."""
        name = self.recipe.name
        try:
            keep_store(prefect_home, self.flow_run_id, self.place)
        except OSError as error:
            raise InputError(f"The record of this run cannot be kept in {prefect_home}: {error}.") from error
        with writing_pages() as pages:
            progress_bar(name).show(100.0, f"{name}: {conclusion(outcome)}")
            show_lineage(name, list(self.manifests.values()), report_command(self.place, run_id))
            show_report(name, self.place, run_id, report_path(self.flow_run_id, run_id))
        return RunEntry(
            id=self.flow_run_id,
            name=run_called(name),
            parameters={"recipe_name": name, "recipe_toml": self.recipe.text},
            began=self.began,
            ended=moment(),
            message=conclusion(outcome),
            tasks=tuple(self.tasks),
            pages=tuple(pages),
            tags=tuple(run_tags(self.recipe, "nothing new")),
            lines=tuple((when, " ".join(said.split())) for when, said in self.said),
        )


def reuse_everything(place: Place, recipe: Recipe, lock: Lock) -> tuple[Outcome, Reuse] | None:
    """A run that finds everything in its store, and what it finds; None where it does not. Writes nothing."""
    found = Reuse(place=place, recipe=recipe)
    try:
        return run_recipe(place, recipe, lock, found.perform), found
    except (_Incomplete, Damaged, UnreadableFile, InputError):
        return None  # a run in full meets the same, and says it
