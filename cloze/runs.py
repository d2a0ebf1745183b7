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

INPUT_ERROR_CODE, ERROR_PREFIX = 2, "cloze: "  # the exit code of what the user can fix, and how its paragraph begins
LAST_LINES = 30


class RunFailed(Exception):
    """A run ended for a reason that the user cannot fix; the message has the end of its output."""


class Run:
    """A run that ended, and its results."""

    def __init__(self, store: str, record: RunRecord) -> None:
        """Make a run; for `cloze.run`."""
        self._place, self._record = Place(store), record

    @property
    def store(self) -> str:
        """The address of its store."""
        return self._place.to_address("")

    @property
    def artifacts(self) -> dict[str, str]:
        """What it built or reused, in the order of its stages: KIND/NAME -> address."""
        return {f"{stage.kind}/{stage.name}": self._place.to_address(stage.folder) for stage in self._record.stages}

    @property
    def built(self) -> list[str]:
        """What it built, and did not find in its store: KIND/NAME."""
        return [f"{stage.kind}/{stage.name}" for stage in self._record.stages if stage.state == "built"]

    @property
    def crossed(self) -> list[str]:
        """The bounds of the recipe that its figures cross, in words."""
        return [*self._record.all_crossed]

    @property
    def report(self) -> str:
        """The address of its HTML report."""
        return self._place.to_address(f"runs/{self._record.run_id}/report.html")

    @property
    def shards(self) -> Shards:
        """Its shards; of several sets the last. Raises InputError if they are gone."""
        return open_shards(self._place.to_address(self._find_folder("shards")))

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of its shards. Raises InputError if it is gone."""
        return self.shards.vocabulary

    @property
    def model(self) -> Model:
        """Its model. Raises InputError if the recipe trains none, or it is gone."""
        manifest = read_manifest(self._place, self._find_folder("models"))
        return Model(
            self._place.to_address(self._find_folder("models")), read_events(self._place, manifest) if manifest else ()
        )

    def _find_folder(self, kind: str) -> str:
        """Return the folder of the last artifact of a kind. Raises InputError if the run has none."""
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
    """Run a recipe: build everything that its store lacks.

    recipe:   a recipe's file, the name of one that comes with Cloze ("demo"), or a folder of text, which needs none
    store:    in place of the recipe's: a folder or `s3://bucket/prefix`
    settings: over the recipe, by dotted key: `{"shards.length": 256, "source.tickets.weight": 2.0}`
    workers:  processes; default: one a core
    progress: whether its lines are printed
    watch:    whether it is a Prefect flow from its beginning; None: if a server answers, it trains, or it takes minutes

    Raises InputError: what is wrong with the recipe, the files or the store; RunFailed if it ends otherwise.
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
    if code == INPUT_ERROR_CODE and ERROR_PREFIX in error:
        raise InputError(error[error.rindex(ERROR_PREFIX) + len(ERROR_PREFIX) :].strip())
    record = read_run(place, new[-1]) if new else None
    if record is None or record.state != "completed":
        raise RunFailed(
            "\n".join([f"The run ended with exit code {code}:", *(output + error).splitlines()[-LAST_LINES:]])
        )
    return Run(loaded.store, record)


def _run_command(*arguments: str, shown: bool) -> tuple[int, str, str]:
    """Run a command of Cloze in a process; return its exit code, standard output and standard error.

    An interrupt is passed on to the process. shown: True to print its lines
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
