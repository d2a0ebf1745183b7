"""The raw files of a recipe before its first stage: downloaded, found, hashed, described.

    fetch_inputs(recipe, home, tell)     downloads what sources fetch from servers, if it is missing
    resolve_inputs(recipe, home)         finds every raw file, and the other files in their folders
    describe_inputs(recipe, resolved)    describes both in lines for a person

Cost: files that were hashed before are hashed again only if their size or time changed (`open_stat_cache`).

`check_labelled_files` checks the labelled files of a recipe's tasks, because hours of training come before they are
needed. What would make a score meaningless stops the run, unless the task accepts it by its name (`accept`); what is
doubtful becomes a line. Files from which the store has a model already, and which have not changed since, were checked
then. Cost: the files are read whole, as by `cloze check`; of those checked earlier only the digests are computed.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.errors import InputError
from corpora.generic_types import Json, Tell
from corpora.sources.contract import StatCache
from corpora.sources.passed_over import FileCounts
from corpora.store.damage import Damaged
from corpora.store.places.files import explain_disk_error, replace_file
from corpora.store.places.place import Place
from corpora.store.stage import list_manifests
from flows.recipes.guessed_fields import describe_chosen, describe_fitted
from flows.recipes.lock import ResolvedLock, read_lock, resolve_raw_files, write_lock
from flows.recipes.model_and_tasks import TaskEntry
from flows.recipes.recipe import Recipe
from flows.run.faults.locks import hold_recipe
from flows.run.faults.skipped_files import describe_left_out
from flows.run.inputs.start_model import find_baseline, find_start, find_teacher
from flows.run.inputs.unread_files import describe_guesses, describe_unread
from flows.run.record.counts_text import format_count
from flows.signals import call_on_stop
from trainer.tasks.build import describe_task

if TYPE_CHECKING:
    from corpora.acquire.download import ProgressCallback
    from flows.run.inputs.fetch import FetchOptions


HASHED_FIELDS = 5  # of a file in `open_stat_cache`


def fetch_inputs(
    recipe: Recipe,
    home: Path,
    tell: Tell,
    options: "FetchOptions | None" = None,
    progress: "ProgressCallback | None" = None,
) -> tuple[str, ...]:
    """Download the missing raw files of sources with a `fetch` table, and return a line about each of them.

    The version that `latest` stands for is written to the lock file as soon as it is known.

    Args:
        recipe: The recipe. It must have a path if a source has a `fetch` table.
        home: The folder CLOZE_HOME, which contains the cache of raw file digests.
        tell: Called with a line to print while another run of the recipe holds the lock file.
        options: Options of the command `cloze fetch`; None if a run downloads the files that it needs.
        progress: Called during each download with the file's name, the bytes received, and the file's size (None if
            unknown); None to ignore it.

    Raises:
        InputError: If files cannot be downloaded, or `options` are given but no source has a `fetch` table.
    """
    tables = {entry.source.name: entry.fetch for entry in recipe.sources if entry.fetch is not None}
    if not tables and options is None:
        return ()
    from corpora.acquire.download import ignore_progress  # httpx: only if something is fetched
    from flows.run.inputs.fetch import fetch_recipe

    path = recipe.lock_path
    assert path is not None

    def record(fetched: Mapping[str, Json]) -> None:
        with hold_recipe(path, tell):
            write_lock(path, replace(read_lock(path), fetched=fetched))

    with open_stat_cache(home) as cache:
        fetched_before = read_lock(path).fetched
        return fetch_recipe(
            tables,
            path.parent,
            fetched_before,
            record,
            options,
            cache,
            progress or ignore_progress,
            given_folders=recipe.given_folders,
        ).lines


@contextmanager
def open_stat_cache(home: Path) -> Iterator[StatCache]:
    """Load the cache of raw file digests, and save it at the end of the block, even after an error.

    Args:
        home: The folder CLOZE_HOME, which contains the caches of this installation.

    Raises:
        InputError: At the end of the block, if the cache cannot be written.
    """
    path = _find_stat_cache(home)
    cache = read_stat_cache(home)

    def keep() -> None:
        try:
            with replace_file(path) as new:
                new.write_text(json.dumps(dict(cache.entries)))
        except OSError as error:
            remedy = explain_disk_error(error, "set CLOZE_HOME to another folder") or "set CLOZE_HOME to another folder"
            raise InputError(f"Cannot write {path}: {remedy} ({error.strerror}).") from error

    with call_on_stop(keep):
        try:
            yield cache
        finally:
            keep()


def read_stat_cache(home: Path) -> StatCache:
    """Load the cache of raw file digests from the folder CLOZE_HOME. It is empty if the folder has no valid one."""
    try:
        entries = json.loads(_find_stat_cache(home).read_text())
    except (OSError, ValueError, RecursionError):
        return StatCache()
    whole = isinstance(entries, dict) and all(isinstance(e, list) and len(e) == HASHED_FIELDS for e in entries.values())
    return StatCache(entries if whole else {})


def _find_stat_cache(home: Path) -> Path:
    """Return the path of the cache of raw file digests."""
    return home / "raw-files.json"


def resolve_inputs(recipe: Recipe, home: Path) -> ResolvedLock:
    """Find all raw files of a recipe, the model that training starts from, and the teacher model.

    The lock file, which records the raw files of all runs and the models, is only read.

    Args:
        recipe: The recipe.
        home: The folder CLOZE_HOME, which contains the cache of raw file digests.

    Returns:
        The new content of the lock file with the current paths of all files, the new files, and the files that are not
        read.

    Raises:
        InputError: If raw files or a model cannot be found or read.
    """
    with open_stat_cache(home) as cache:
        resolved = resolve_raw_files(recipe, read_lock(recipe.lock_path), cache)
        start, teacher = find_start(recipe, cache), find_teacher(recipe, cache)
        return replace(resolved, lock=replace(resolved.lock, start=start, teacher=teacher))


def describe_inputs(
    recipe: Recipe,
    resolved: ResolvedLock,
    describe: Callable[[Mapping[str, FileCounts], str], list[str]] = describe_unread,
) -> list[str]:
    """Describe a run's inputs in lines: the raw files, the files that are not read, and the models.

    Args:
        recipe: The recipe.
        resolved: The result of `resolve_inputs`.
        describe: Function that returns the lines about files that are not read. It is called with the file counts by
            source name, and the recipe's setting `privacy.samples`.
    """
    generations = resolved.lock.generations
    total = sum(len(files) for generation in generations for files in generation.values())
    new = ", ".join(f"{len(files):,} of {name}" for name, files in sorted(resolved.added.items()))
    files = format_count(total, "raw file")
    since = f"{files}; new, as generation {len(generations)}: {new}." if new else f"{files}; none is new."
    first = f"{files}: {new}." if new and len(generations) == 1 else since
    looked = describe(resolved.unread, recipe.privacy.samples)
    number = format_count(len(resolved.gone_names), "raw file is gone that", "raw files are gone that")
    gone = f"{number} no run has finished with: the lock forgets about them." if resolved.gone_names else ""
    fitted = describe_fitted(recipe.name, recipe.fitted) if recipe.fitted is not None and resolved.added else ""
    chosen = describe_chosen(recipe.name, recipe.chosen or {})
    lines = [
        *describe_guesses(recipe, resolved),
        *looked,
        *describe_left_out(recipe, resolved.lock),
        gone,
        fitted,
        chosen,
    ]
    start, teacher = resolved.lock.start, resolved.lock.teacher
    begins = f"Training begins with the model in {start.folder} ({start.content})." if start is not None else ""
    learns = f"Training learns from the model in {teacher.folder} ({teacher.content})." if teacher is not None else ""
    return [first, *filter(None, [*lines, begins, learns])]


def check_labelled_files(place: Place, recipe: Recipe) -> Iterator[str]:
    """Check the labeled files of a recipe's fine-tuning tasks, and yield a warning for each problem found.

    Tasks for which the store already contains a fine-tuned model are not checked again.

    Args:
        place: The store.
        recipe: The recipe.

    Raises:
        InputError: During iteration, if a file or baseline model is missing, a file does not have the format that its
            task requires, or a problem would make the scores meaningless.
    """
    for entry in recipe.tasks:
        find_baseline(recipe, entry)  # one that is not there is missed before hours of training, too
        if not was_learnt(place, recipe.name_artifact(entry.name), entry):
            yield from check_task_files(entry)


def was_learnt(place: Place, name: str, entry: TaskEntry) -> bool:
    """Return True if the store contains models with this name that were fine-tuned on the same tasks and files.

    Returns False if the description of a stored model is damaged, because the run reports the damage later.

    Args:
        place: The store.
        name: Name of the models in the store.
        entry: The `[[task]]` table.

    Raises:
        InputError: If a labeled file is missing.
    """
    tasks = {task.name: describe_task(task) for task in entry.load_suite().tasks}
    try:
        return any(manifest.settings["tasks"] == tasks for manifest in list_manifests(place, "tasks", name))
    except Damaged:
        return False  # the run meets the damage itself, and says so


def check_task_files(entry: TaskEntry) -> Iterator[str]:
    """Check the labeled files of one `[[task]]` table, and yield a warning for each problem that does not stop the run.

    Raises:
        InputError: During iteration, if a file is missing, does not have the format that its task requires, or has a
            problem that would make the scores meaningless and that the table does not accept.
    """
    from trainer.tasks.checking.check import check_task  # its kernels are not loaded where nothing is judged

    for task in entry.load_suite().tasks:
        unlabelled = [split.file.path for split in task.splits if not split.labelled]
        files = [task.training, *(split.file for split in task.splits)]
        report = check_task(task.task, files, unlabelled=unlabelled, max_length=task.settings.max_length)
        accepted = report.accept(entry.settings.accept)
        accepted.check(entry.table_key)
        yield from (f"{entry.table_key}: {finding.line}" for finding in accepted.findings)
