"""A task of an installed package: the worked example, learnt, exported, asked; and packages that are broken."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from installed_source import installed_at
from small_tasks import kept_of, new_job, run, said_of, sentences, write_rows

from corpora.errors import InputError
from trainer.tasks.registry import read_task

EXAMPLE = Path(__file__).parents[3] / "examples" / "ordered_classes"
POINTS = """
[cloze.tasks]
ordered = ordered_classes:OrderedTask
gone = ordered_classes:Gone
plain = ordered_classes:GRADE
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example as pip would put it: its modules, and what its `pyproject.toml` says of entry points."""
    site = installed_at(Path(shutil.copytree(EXAMPLE, tmp_path / "site")), monkeypatch)
    site.register("ordered-classes-example", "1.0", POINTS)


def graded(number: int, seed: int) -> list[tuple[str, str]]:
    """Texts with a grade: how often two words are among theirs, at most three times."""
    rows = [(text, text.split()) for text, _ in sentences(number, seed)]
    return [(text, str(min(3, words.count("good") + words.count("film")))) for text, words in rows]


def test_the_example_names_its_entry_point() -> None:
    """Fails if the test installs what the example's own file does not."""
    assert 'ordered = "ordered_classes:OrderedTask"' in (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.usefixtures("installed")
def test_a_task_of_a_package_is_learnt(tmp_path: Path) -> None:
    """Fails if it is not found by name, its head is lost on the way, or its package is not on record."""
    torch.set_num_threads(1)
    job = new_job(tmp_path, epochs=6, task={"kind": "ordered"})
    files = [write_rows(tmp_path / f"{seed}.tsv", graded(number, seed)) for number, seed in ((160, 1), (60, 2))]
    record = run(replace(job, training=files[0], evaluation=files[1]))
    assert record["task"]["package"] == "ordered-classes-example 1.0"
    assert record["task"]["labels"] == ["0", "1", "2", "3"]
    assert kept_of(record)["spearman"] > 0.5 and record["metric"] == "spearman"
    told, _ = said_of(tmp_path / "out", files[1], tmp_path / "said.jsonl", True)
    assert told["scores"] == {name: pytest.approx(kept_of(record)[name]) for name in told["scores"]}
    words = write_rows(tmp_path / "words.tsv", [("a film", "much"), ("no film", "little")])
    with pytest.raises(InputError, match="the labels are no numbers, so their order is not known"):
        run(replace(new_job(tmp_path, "no", task={"kind": "ordered"}), training=words))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"kind": "gone"}, "gone = ordered_classes:Gone .* cannot be loaded"),
        ({"kind": "plain"}, "The task 'plain', .* of ordered-classes-example 1.0, is not a dataclass"),
        ({"kind": "ordered", "label": []}, "task has no key 'label': did you mean 'labels'"),
        ({"kind": "order"}, "task = 'order' is not known"),
    ],
)
def test_a_broken_task_is_told(table: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_task(table)
