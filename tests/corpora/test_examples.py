"""The worked examples of a source and a step: installed as packages, found by name, run in a process of their own."""

import doctest
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PLAN = """
import json, pickle, sys
from dataclasses import replace
from pathlib import Path
from corpora.judging.documents import plan_documents
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.rules import GopherRules, RulesSettings
from corpora.schema import iter_documents, iter_dropped
from corpora.sources.registry import find_distribution, list_kinds, make_source
from corpora.sources.contract import StatCache, hash_files
from corpora.judging.steps.added import make_step
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from corpora.store.tables import read_table

sample, *others = sys.argv[1:]

def plan():
    source = make_source({"kind": "mbox", "name": "list", "path": sample})
    files = hash_files(source.files(), StatCache())
    rules = RulesSettings(gopher=GopherRules(min_words=5))
    step = make_step({"kind": "shouting", "after": "clean", "most_capitals": 0.5})
    plain = plan_documents(source, files, DocumentsSettings(rules=rules))
    return source, files, plain, plan_documents(source, files, DocumentsSettings(rules=rules, steps=(step,)))
"""
FINGERPRINTS = """
found = []
for site in others:
    sys.path.insert(0, site)
    found.append([stage.fingerprint for stage in plan()[2:]])
    sys.path.remove(site)
    del sys.modules["mbox_source"], sys.modules["shouting_step"]
print(json.dumps(found))
"""
BUILD = """
source, files, _, stage = plan()
place = Place(*others)
manifest = build_stage(place, stage)
kept = list(iter_documents(read_table(place, manifest, "documents")))
gone = list(iter_dropped(read_table(place, manifest, "dropped")))
raw = [source.raw_record(Path(files[0].path), row.locator).decode() for row in (*kept, *gone)]
outcomes = manifest.ledger.find_account("records").outcomes
print(json.dumps({
    "texts": [document.text for document in kept],
    "titles": [[document.title, document.date, document.group] for document in kept],
    "gone": [[row.title, row.step, row.reason] for row in gone],
    "records": manifest.ledger.find_account("records").total,
    "outcomes": {reason: count for reason, count in sorted(outcomes.items()) if count},
    "raw": raw,
    "origin": find_distribution("mbox"),
    "kinds": list_kinds(),
    "imported": pickle.loads(pickle.dumps(replace(source, quotes=True))).quotes,
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both packages, built and installed into a folder of their own without a network."""
    folder = tmp_path_factory.mktemp("examples")
    copies = [shutil.copytree(EXAMPLES / name, folder / name) for name in ("mbox_source", "shouting_step")]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    target = ["--target", str(folder / "site"), *map(str, copies)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *offline, *target], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def run(program: str, *arguments: Path, path: str = str(ROOT)) -> Any:
    """Return what a separate process makes, or plans to make, of the sample."""
    done = subprocess.run(
        [sys.executable, "-c", PLAN + program, str(EXAMPLES / "mbox_source" / "sample"), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_the_examples_run_as_installed_packages(installed: Path, tmp_path: Path) -> None:
    """Fails if an entry point is not found, a record is lost, or the step is not applied."""
    found = run(BUILD, tmp_path / "store", path=f"{installed}:{ROOT}")
    assert found["records"] == 5
    assert found["outcomes"] == {
        "documents": 3,
        "dropped: parse: no plain text": 1,
        "dropped: shouting: capitals": 1,
    }
    assert found["titles"] == [
        ["The lower sluice", "2024-01-08", "ada@mill.example"],
        ["Re: The lower sluice", "2024-01-08", "ben@mill.example"],
        ["The sluice is mended", "2024-01-12", "ada@mill.example"],
    ]
    assert "\n\nFrom what I saw, two people" in found["texts"][0]
    assert found["texts"][1].startswith("I can come on Thursday") and found["texts"][1].endswith("buy there.")
    assert "café" in found["texts"][1]
    assert found["gone"] == [
        ["PLEASE READ", "shouting", "capitals"],
        ["A photograph of the weir", "parse", "no plain text"],
    ]
    whole = (EXAMPLES / "mbox_source" / "sample" / "list.mbox").read_text(encoding="utf-8")
    assert all(raw.startswith("From ") and raw in whole for raw in found["raw"])
    assert found["origin"] == {"distribution": "mbox-source-example", "version": "1.0"}
    assert "mbox" in found["kinds"] and "wikipedia" in found["kinds"] and found["imported"]


@pytest.mark.slow
def test_versions_enter_the_fingerprint(installed: Path, tmp_path: Path) -> None:
    """Fails if a new version of the class, or of its package, would reuse what the old one built."""
    changes = (
        ("mbox_source.py", "version: ClassVar[int] = 1", "version: ClassVar[int] = 2", [True, True]),
        ("shouting_step.py", "version: ClassVar[int] = 1", "version: ClassVar[int] = 2", [False, True]),
        ("mbox_source_example-1.0.dist-info/METADATA", "Version: 1.0", "Version: 1.1", [True, True]),
        ("shouting_step_example-1.0.dist-info/METADATA", "Version: 1.0", "Version: 1.1", [False, True]),
    )
    for number, (name, old, new, _) in enumerate(changes):
        site = tmp_path / f"site-{number}"
        shutil.copytree(installed, site)
        text = (site / name).read_text(encoding="utf-8")
        assert old in text
        (site / name).write_text(text.replace(old, new), encoding="utf-8")
    before, *after = run(FINGERPRINTS, installed, *(tmp_path / f"site-{number}" for number in range(len(changes))))
    for fingerprints, (name, _, _, changed) in zip(after, changes, strict=True):
        assert [a != b for a, b in zip(fingerprints, before, strict=True)] == changed, name
    assert before[0] != before[1]


def test_the_step_says_what_it_does() -> None:
    """Fails if an example in its docstrings gives something else."""
    spec = importlib.util.spec_from_file_location("shouting_step", EXAMPLES / "shouting_step" / "shouting_step.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    failed, tried = doctest.testmod(module)
    assert (failed, tried) == (0, 2)
