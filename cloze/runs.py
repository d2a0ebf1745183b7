"""A whole recipe, run as the command runs it, and what it left in its store.

    run = cloze.run("my.toml", settings={"shards.length": 256})
    run.shards, run.vocabulary, run.model

A run is a process of its own: it takes over signals, which a notebook keeps, and may start the orchestrator's server.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cloze.models import Model
from cloze.shards import Shards, open_shards
from cloze.vocabulary import Vocabulary
from cloze.workspace import to_toml_value
from corpora.errors import InputError
from corpora.lean_process import OWN_CODE
from corpora.store.places.place import Place
from corpora.store.settings import PROCESSES
from corpora.store.stage import read_manifest
from flows.command.arguments import find_recipe
from flows.recipes.tables import to_toml
from flows.run.record.run_record import RunRecord, list_run_ids, read_run
from trainer.build import read_events

FIXABLE_EXIT_CODE, ERROR_PREFIX = 2, "cloze: "  # the exit code of what the user can fix, and how its paragraph begins
MAX_OUTPUT_LINES = 30


class RunFailed(Exception):
    """Raised if a run fails for a reason that the user cannot fix. The message has the end of the run's output."""


class Run:
    """A completed run and its results."""

    def __init__(self, store: str, record: RunRecord) -> None:
        """Create a run. This is only for `cloze.run`."""
        self._place, self._record = Place(store), record

    @property
    def store(self) -> str:
        """Path or URL of the store that contains the results of this run."""
        return self._place.to_address("")

    @property
    def artifacts(self) -> dict[str, str]:
        """Path or URL of each artifact that this run built or reused, by KIND/NAME, in the order of the stages."""
        return {f"{stage.kind}/{stage.name}": self._place.to_address(stage.folder) for stage in self._record.stages}

    @property
    def built(self) -> list[str]:
        """Artifacts that this run built because they were not in the store, as KIND/NAME."""
        return [f"{stage.kind}/{stage.name}" for stage in self._record.stages if stage.state == "built"]

    @property
    def crossed(self) -> list[str]:
        """Descriptions of the limits in the recipe's `[bounds]` that this run exceeded. Empty if it exceeded none."""
        return [*self._record.all_crossed]

    @property
    def report(self) -> str:
        """Path or URL of the HTML report about this run."""
        return self._place.to_address(f"runs/{self._record.run_id}/report.html")

    @property
    def shards(self) -> Shards:
        """Training examples (shards) of this run, ready to read. If a run has several shard sets, the last one.

        Raises:
            InputError: If the run has no shards, or they are no longer in the store.
        """
        return open_shards(self._place.to_address(self._find_folder("shards")))

    @property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary used to tokenize the shards of this run.

        Raises:
            InputError: If the run has no shards, or the shards or their vocabulary are no longer in the store.
        """
        return self.shards.vocabulary

    @property
    def model(self) -> Model:
        """Model that this run trained or reused, with its history.

        Raises:
            InputError: If the recipe does not train a model.
        """
        manifest = read_manifest(self._place, self._find_folder("models"))
        return Model(
            self._place.to_address(self._find_folder("models")), read_events(self._place, manifest) if manifest else ()
        )

    def _find_folder(self, kind: str) -> str:
        """Return the folder, in the store, of the last artifact of a kind that this run built or reused.

        Args:
            kind: The kind, such as "shards" or "models".

        Raises:
            InputError: If the run has no artifact of this kind.
        """
        folders = [stage.folder for stage in self._record.stages if stage.kind == kind]
        if not folders:
            raise InputError(f"{self!r} has no {kind}: its recipe asks for none.")
        return folders[-1]

    def __repr__(self) -> str:
        return f"Run({self._record.run_id!r}, {len(self.built)} of {len(self.artifacts)} built)"


def run(
    recipe: str | Path,
    *,
    store: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    workers: int | None = None,
    progress: bool = True,
    watch: bool | None = None,
) -> Run:
    """Run a recipe in a separate process, which builds everything that is missing from its store.

    Args:
        recipe: The file of a recipe, the name of one that comes with Cloze ("demo"), or a folder of text.
        store: A folder or `s3://bucket/prefix` to use instead of the recipe's store.
        settings: Values that override the recipe, by dotted key: `{"shards.length": 256, "source.tickets.weight":
            2.0}`.
        workers: Number of processes (default: one per core).
        progress: Whether to print the output of the run.
        watch: Whether to run as a Prefect flow. If None, this is the case if a Prefect server answers, if a model is
            trained, or if the run is expected to take minutes.

    Raises:
        InputError: If something is wrong with the recipe, the files or the store.
        RunFailed: If the run fails for another reason.
    """
    if workers is not None:
        PROCESSES.check("workers", workers)
    folder = Path(recipe) if Path(recipe).is_dir() else None
    pairs = [f"{key}={to_toml(to_toml_value(value))}" for key, value in (settings or {}).items()]
    address = None if store is None else str(store)
    loaded = find_recipe(None if folder else str(recipe), folder, address, pairs)  # its mistakes are raised here
    place = Place(loaded.store)
    before = {*list_run_ids(place)}
    asked = ["--source", str(folder)] if folder else [str(recipe)]
    asked += ["--store", address] if address else []
    asked += ["--workers", str(workers)] if workers is not None else []
    asked += [] if watch is None else ["--watch" if watch else "--no-watch"]
    code, output, error = _run_command(
        "run", *asked, *(part for pair in pairs for part in ("--set", pair)), shown=progress
    )
    new = [run_id for run_id in list_run_ids(place) if run_id not in before and run_id.endswith(f"-{loaded.name}")]
    if code == FIXABLE_EXIT_CODE and ERROR_PREFIX in error:
        raise InputError(error[error.rindex(ERROR_PREFIX) + len(ERROR_PREFIX) :].strip())
    record = read_run(place, new[-1]) if new else None
    if record is None or record.state != "completed":
        raise RunFailed(
            "\n".join([f"The run ended with exit code {code}:", *(output + error).splitlines()[-MAX_OUTPUT_LINES:]])
        )
    return Run(loaded.store, record)


def _run_command(*arguments: str, shown: bool) -> tuple[int, str, str]:
    """Run a command of Cloze in a new process, and wait for it. Ctrl-C is passed on to it.

    Args:
        arguments: Arguments of the command line, such as "run" and "my.toml".
        shown: Whether to print the lines of standard output as they come.

    Returns:
        The exit code, the standard output and the standard error.
    """
    variables = {**os.environ, **OWN_CODE, "TTY_COMPATIBLE": "0"}  # Jupyter sets FORCE_COLOR, which draws bars
    called = [sys.executable, "-m", "flows.main", *arguments]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            called, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=variables
        )
        assert process.stdout is not None
        lines = []
        try:
            for line in process.stdout:
                lines.append(line.decode(errors="replace"))
                if shown:
                    print(lines[-1], end="", flush=True)
            code = process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
        finally:
            process.stdout.close()
        errors.seek(0)
        return code, "".join(lines), errors.read().decode(errors="replace")
