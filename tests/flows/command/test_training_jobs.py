"""`cloze train` and `cloze export --step`: a job trained with the trainer's packages alone, and its steps."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from checkout import PACKAGES, ROOT
from small_training import put_store, small_job

from corpora.errors import InputError
from flows.command.export import export_step, find_training_folders, is_model_address
from flows.command.train import iter_event_lines, read_job, run_train_command, with_places
from trainer.settings.phases import PhaseSettings
from trainer.start_weights import StartModel

TRAINERS = ("torch", "numpy", "numba", "pyarrow", "tokenizers", "safetensors", "xxhash")
ONLY_THESE = """
import importlib.machinery, json, pathlib, sys

class OnlyThese(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else super().find_spec(name, path, target)

MISSING = frozenset(json.loads(pathlib.Path(__file__).with_name("missing.json").read_text()))
sys.meta_path[:] = [OnlyThese if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
"""


def wanted_by(names: tuple[str, ...]) -> set[str]:
    """Distributions with all that they want themselves, but for their extras."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        try:
            wants = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            left += [re.split(r"[^\w.-]", want, maxsplit=1)[0] for want in wants if "extra ==" not in want]
    return found


def missing_modules() -> list[str]:
    """The modules here that a machine lacks which has the trainer's packages alone."""
    known = wanted_by(TRAINERS)
    return [
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if module not in PACKAGES and not {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} & known
    ]


def test_a_job_is_trained_where_only_the_trainers_packages_are_installed(tmp_path: Path) -> None:
    """Fails if the command, or the trainer, imports what a machine with the trainer's packages alone lacks; where
    the job's store cannot be named anew, or a step of the run is not found by its store."""
    store = put_store(tmp_path)
    job = small_job(store, tmp_path / "store" / "models" / "m" / "f" / "work", (PhaseSettings(steps=2, batch=4),))
    (tmp_path / "job.json").write_text(replace(job, store="/nowhere").to_json())
    missing = missing_modules()
    assert {"prefect", "cyclopts", "rich", "datasketch", "ftfy", "transformers"} <= {*missing}
    (tmp_path / "missing.json").write_text(json.dumps(missing))
    (tmp_path / "sitecustomize.py").write_text(ONLY_THESE)
    told = subprocess.run(
        [sys.executable, "-m", "flows.main", "train", "job.json", "--store", "store"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert "step 2: loss" in told.stdout and told.stdout.splitlines()[-1] == f"small: {job.export}"
    facts = job.read_export()
    assert facts is not None and facts["steps"] == 2
    for address in (job.work, str(tmp_path / "store" / "models" / "m"), str(tmp_path / "store")):
        assert [(str(one.folder), one.store) for one in find_training_folders(address)] == [
            (job.work, str(tmp_path / "store"))
        ]
    assert is_model_address(job.work) and not is_model_address(str(tmp_path / "store"))
    assert "checkpoint of step 2 is in" in export_step(str(tmp_path / "store"), tmp_path / "two", 2)
    assert (tmp_path / "two" / "model.safetensors").read_bytes() == (job.export / "model.safetensors").read_bytes()


def test_jobs_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """Fails if a file that holds no job ends as a traceback, or without a remedy."""
    path = tmp_path / "job.json"
    with pytest.raises(InputError, match=r"Cannot read the job .*No such file.*the job\.json in the `work` folder"):
        read_job(path)
    for text in ("", "[]", "3", '{"name": 1}', "{}"):
        path.write_text(text)
        with pytest.raises(InputError, match=r"job\.json"):
            read_job(path)


def test_machines_of_a_job_are_read() -> None:
    """Fails if a number of a machine is taken for another, or the address for none."""
    with pytest.raises(InputError, match=r"--node-rank 2 is not the number of one of 2 machines"):
        run_train_command(["train", "a", "--nodes", "2", "--node-rank", "2", "--rendezvous", "first:29500"])
    with pytest.raises(InputError, match=r"Cannot read the job nowhere"):
        run_train_command(["train", "nowhere", "--nodes", "2", "--node-rank", "1", "--rendezvous", "first:29500"])


def test_a_job_may_have_what_it_needs_at_other_places(tmp_path: Path) -> None:
    """Fails if a job on another machine looks for its start where it was planned, or a start is given to none."""
    plain = small_job(put_store(tmp_path), tmp_path / "work")
    begun = replace(plain, start=StartModel(folder="/elsewhere", files={"config.json": "0"}))
    here = with_places(begun, {"store": None, "work": "w", "start": "here"})
    assert here.start is not None and (here.start.folder, here.store) == ("here", plain.store)
    assert here.identity == begun.identity and Path(here.work) == Path("w").resolve()
    with pytest.raises(InputError, match="the job begins with random weights, not with a model"):
        with_places(plain, {"start": "here"})


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no model with checkpoints on this machine: name the folder of one"):
        export_step(str(tmp_path), tmp_path / "out", None)
    for name in ("a", "b"):
        work = tmp_path / "models" / name / "f" / "work"
        work.mkdir(parents=True)
        (work / "job.json").write_text("{}")
    with pytest.raises(InputError, match=r"several models .*: name one of .*/a/f/work, .*/b/f/work"):
        export_step(str(tmp_path), tmp_path / "out", 3)


def test_a_mixture_is_told_by_its_components() -> None:
    event = {"event": "evaluation", "step": 1200, "loss": 2.5, "components": {"wiki": {"loss": 2.0}}, "phase": 0}
    assert [*iter_event_lines(event)] == ["evaluation 1200: loss 2.5", "  wiki: loss 2"]
