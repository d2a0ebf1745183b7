"""Where the functions of this package work: a store that the caller names, or a temporary one.

    workspace = Workspace(store)             raw texts of the caller ─► files ─► recipe ─► stages ─► the store
    workspace.perform(stages)                what a run does for them: look, build what is missing, publish

Promise: the artifacts are those of a run of the same recipe: what the store holds is reused, damaged files are built
again, and what is built here a run reuses. A temporary store is removed with the last object that works in it. Nothing
is shared between workspaces, so threads may have one each.
Cost: parts are built in this process, one after another; with `workers` above one, on so many processes.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import finalize

from cloze.messages import to_python_words
from cloze.progress import Bars
from corpora.generic_types import Result
from corpora.sources.contract import StatCache
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.settings import PROCESSES
from corpora.store.stage import PartPlan, Stage, build_parts, publish_stage
from corpora.store.worker_pool import WorkerPool
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import Recipe, build_recipe
from flows.run.faults.damage import DamageTracker, run_past_damage
from flows.run.policies import group_parts
from trainer.job import TrainingJob
from trainer.launch import train

Tables = Mapping[str, Any]


class Workspace:
    """A store, and the means to build stages in it, in this process or in worker processes.

    Attributes:
        folder: A local folder for files that are not artifacts. It is deleted with the workspace.
        place: The store.

    Args:
        store: A folder or `s3://bucket/prefix`. If None, a temporary folder.
        workers: Number of processes. With more than one, the program must use it below `if __name__ == "__main__":`.
        progress: Whether to show progress bars.
    """

    def __init__(self, store: str | Path | None = None, workers: int = 1, progress: bool = True) -> None:
        PROCESSES.check("workers", workers)
        self.folder = Path(tempfile.mkdtemp(prefix="cloze-"))
        finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.place = Place(str(store if store is not None else self.folder / "store"))
        self.bars = Bars(progress)
        self._origin: Workspace | None = None
        self._workers = workers
        self._damage = DamageTracker(place=self.place, tell=self.tell)

    def with_progress(self, progress: bool | None) -> "Workspace":
        """Return a copy of this workspace with progress bars switched on or off. None returns the workspace itself."""
        if progress is None:
            return self
        other = copy(self)
        other.bars, other._origin = Bars(progress), self  # whose folder goes with the last of them
        other._damage = replace(self._damage, tell=other.tell)
        return other

    def tell(self, line: str) -> None:
        """Print a line to standard error if progress bars are on.

        Command-line options that the line mentions are rewritten as the matching Python arguments.
        """
        self.bars.tell(to_python_words(line, self.folder))

    @property
    def recipes(self) -> Path:
        """Folder for lock files, which record the raw files that were read: the store if it is local, otherwise
        `folder`.
        """
        return Path(self.place.address) if self.place.is_local else self.folder

    def build_recipe(self, tables: Tables) -> Recipe:
        """Build a recipe that uses the store of this workspace.

        Args:
            tables: The tables and keys of the recipe, by name, as in its TOML file.

        Raises:
            InputError: If a table or key is not valid.
        """
        recipe = build_recipe({**to_toml_value(tables), "store": self.place.address}, Path.cwd() / "recipe.toml")
        return replace(recipe, path=None)

    def resolve_lock(self, recipe: Recipe, lock: Lock) -> Lock:
        """Find the raw files of a recipe and compute their digests.

        Args:
            recipe: The recipe.
            lock: A lock (a record of raw files) with the files that are already known.

        Returns:
            A lock with all raw files of the recipe.

        Raises:
            InputError: If there are no raw files.
        """
        return resolve_raw_files(replace(recipe, store=self.place.address), lock, StatCache()).lock

    def repair_and_retry(self, work: Callable[[], Result]) -> Result:
        """Call `work` and return its result. If it meets a damaged file in the store (Damaged), call it again.

        Files that were found to be damaged are marked as missing, so that the next call rebuilds them. Other exceptions
        from `work` are passed on.

        Raises:
            InputError: If a rebuilt file is damaged again.
            Damaged: If no stage of this workspace rebuilds the file.
        """
        return run_past_damage(work, self._damage)

    def distrust(self, fault: Damaged) -> None:
        """Mark a stored file as damaged, so that it is rebuilt the next time its stage runs.

        Args:
            fault: The error that names the file.

        Raises:
            InputError: If the file was rebuilt earlier and is damaged again.
            Damaged: `fault`, if the file was marked before and has not been rebuilt.
        """
        self._damage.mark_damaged(fault)

    def perform(self, stages: Sequence[Stage]) -> list[Manifest]:
        """Build the missing parts (sets of files) of stages in the store, and write the manifest of each stage.

        Returns:
            The manifests (stored descriptions) of the stages, in the same order.

        Raises:
            InputError: If a stage cannot be built.
            Damaged: If an input of a stage is damaged.
        """
        return [self._perform(stage) for stage in stages]

    def _perform(self, stage: Stage) -> Manifest:
        """Build the missing parts of one stage in the store. Write its manifest (stored description) and return it."""
        survey = self._damage.survey(stage)
        self._damage.refuse_changed_inputs(stage, survey)
        if survey.missing:
            self._build(stage, survey.missing)
        manifest = publish_stage(self.place, stage, survey)
        self._damage.mark_rebuilt(survey, manifest)
        return manifest

    def _build(self, stage: Stage, plans: Sequence[PartPlan]) -> None:
        """Build parts (sets of files) of a stage, in this process or on worker processes, and show the progress.

        Args:
            stage: The stage.
            plans: The parts to build, at least one.
        """
        distrusted = frozenset(self._damage.damaged)
        if isinstance(plans[0].job, TrainingJob):
            with self.bars.show_bar(f"{stage.stage_folder} steps", plans[0].job.training.steps) as advance:
                train(plans[0].job, lambda event: advance(int(event.get("step", 0))))
        with self.bars.show_bar(stage.stage_folder, len(plans)) as advance:
            if self._workers == 1 or len(plans) == 1:
                for number, plan in enumerate(plans):
                    advance(number)
                    build_parts(self.place, stage, [plan], distrusted)
            else:
                self._build_on_workers(stage, plans, distrusted, advance)

    def _build_on_workers(
        self, stage: Stage, plans: Sequence[PartPlan], distrusted: frozenset[str], advance: Callable[[int], None]
    ) -> None:
        """Build parts (sets of files) of a stage on worker processes.

        Args:
            stage: The stage.
            plans: The parts to build.
            distrusted: Paths of files known to be damaged. A part with such a file is rebuilt.
            advance: Called with the number of parts that are done so far.
        """
        bare = stage.without_parts  # a worker gets no more than it needs
        from flows.command.compile_kernels import compile_meanwhile  # which imports numba

        groups, done = group_parts(plans, self._workers), 0
        with (
            ThreadPoolExecutor(self._workers) as threads,
            WorkerPool(self._workers) as pool,
            compile_meanwhile(self.tell),
        ):
            built = [threads.submit(pool.run, build_parts, self.place, bare, [*group], distrusted) for group in groups]
            try:
                for future in as_completed(built):
                    done += len(future.result())
                    advance(done)
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise


def to_toml_value(value: Any) -> Any:
    """Convert a Python value to TOML types: tuples and sets (sorted) become lists, and paths become strings.

    >>> to_toml_value({"keep": ("en", "de"), "path": Path("raw")})
    {'keep': ['en', 'de'], 'path': 'raw'}
    """
    if isinstance(value, Mapping):
        return {str(key): to_toml_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_toml_value(each) for each in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return str(value) if isinstance(value, Path) else value
