"""One of several texts: equal to transformers', any number of choices, COPA, RACE and SWAG from file to file."""

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from small_batches import LENGTHS, padded_inputs, small_batch, small_inputs
from small_models import write_model
from small_tasks import both_models, encoded_for, kept_of, new_job, run, said_of, scattered, write_json_rows

from corpora.errors import InputError
from trainer.huggingface.checkpoints import load_pretrained
from trainer.settings.model import FAMILIES
from trainer.tasks.data import describe_file, read_file
from trainer.tasks.formats.records import FileSettings, Unusable
from trainer.tasks.heads.task_model import EXAMPLES, batch_items, build_task_model
from trainer.tasks.kinds.choices import ChoiceTask


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_opens_an_export_with_equal_scores_and_loss(
    tmp_path: Path, transformers: ModuleType, family: str
) -> None:
    """Fails if scores or loss of one question with five choices differ from transformers'."""
    if family == "modernbert" and not hasattr(transformers, "ModernBertForMultipleChoice"):
        pytest.skip("this transformers has no ModernBertForMultipleChoice")
    model, reference = both_models(ChoiceTask(), family, tmp_path, transformers.AutoModelForMultipleChoice)
    segments = FAMILIES[family].segment_types > 1
    batch = small_batch(pairs=False)
    if not segments:
        batch = replace(batch, segment_ids=torch.zeros_like(batch.segment_ids))
    targets = {"choice": torch.tensor([2]), EXAMPLES: torch.tensor([len(LENGTHS)])}
    rows = padded_inputs(batch, small_inputs(family).special_ids.pad, segments)
    with torch.no_grad():
        said = reference(**{name: row[None] for name, row in rows.items()}, labels=targets["choice"])
        found = model(batch, answering=True).double()
        sums = model(replace(batch, targets=targets))
    assert found.std() > 0.05, "the test compares nothing"
    torch.testing.assert_close(found[:, 0], said.logits[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(sums[0, 0].double(), said.loss, atol=1e-5, rtol=1e-5)


def question(choices: int, right: int, **more: Any) -> dict[str, Any]:
    return {"context": "the film", "choices": [f"was {number}" for number in range(choices)], "label": right} | more


def test_questions_with_2_to_200_choices_are_one_batch(tmp_path: Path) -> None:
    """Each loses what it does alone; so a question's shares are its own choices' alone."""
    write_model(tmp_path)
    task = ChoiceTask()
    model = scattered(build_task_model(task, load_pretrained(tmp_path))).eval()
    items = encoded_for(task, tmp_path, [question(2, 1), question(200, 117), question(3, 0)]).items
    assert [len(item.sequences) for item in items] == [2, 200, 3]
    with torch.no_grad():
        alone = [model(batch_items([item])) for item in items]
        torch.testing.assert_close(model(batch_items(items)), torch.stack(alone).sum(0))
        [scores] = [model(batch_items([items[1]]), answering=True)[:, 0]]
    wanted = torch.nn.functional.cross_entropy(scores[None], torch.tensor([117]))
    torch.testing.assert_close(alone[1][0, 0], wanted)


def test_the_context_is_cut_and_the_choice_is_kept(tmp_path: Path) -> None:
    """A choice has `max_choice` tokens, and half of a sequence; what is cut off is counted."""
    write_model(tmp_path)
    choices = ["good", "bad " * 50]
    rows = [{"context": "plot " * 100, "question": "was it _ ?", "choices": choices, "label": 1}]
    for most, kept in ((128, 18), (7, 7)):
        encoded = encoded_for(ChoiceTask(max_choice=most), tmp_path, rows)
        short, long = encoded.items[0].sequences
        assert [len(tokens.ids) for tokens in (short, long)] == [40, 40]
        assert int(long.segment_ids.sum()) == kept + 1 and short.segment_ids.tolist() == [0] * 34 + [1] * 6
        assert encoded.ledger.to_json()["figures"]["texts_cut"] == 3  # both contexts, one choice


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"choices": ["a"]}, "fewer than two choices"),
        ({"choices": "a"}, "fewer than two choices"),
        ({"choices": ["a", " "]}, "an empty choice"),
        ({"choices": ["a", 1]}, "a choice is no text"),
        ({"label": 3}, "none of the choices"),
        ({"label": -1}, "none of the choices"),
        ({"label": "D"}, "none of the choices"),
        ({"label": True}, "none of the choices"),
        ({"label": None}, "none of the choices"),
    ],
)
def test_what_cannot_be_used_is_said(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(Unusable, match=message):
        ChoiceTask().make_example({**question(3, 0), **wrong}, labelled=True)


def test_a_label_is_a_place_or_a_letter() -> None:
    for label in (1, "1", "B"):
        assert ChoiceTask().make_example(question(3, label), labelled=True).right == 1  # type: ignore[arg-type]
    assert ChoiceTask().make_example(question(3, "B"), labelled=False).right is None  # type: ignore[arg-type]
    columns = ChoiceTask(endings=("one", "other"))
    made = columns.make_example({"context": "a", "one": "good", "other": "bad", "label": 0}, labelled=True)
    assert made.choices == ("good", "bad") and {"one", "other"} <= {*columns.roles} and "choices" not in columns.roles
    with pytest.raises(InputError, match="name two columns or more"):
        ChoiceTask(endings=("one",))


def write_race(folder: Path) -> Path:
    """Two passages as RACE has them."""
    for level, number, answers in (("high", 1, ["B", "A"]), ("middle", 2, ["C"])):
        place = folder / "race" / level / f"{number}.txt"
        place.parent.mkdir(parents=True)
        asked = ["The film was _ .", "Why was it long?"][: len(answers)]
        options = [["good", "bad", "long", "short"]] * len(answers)
        page = {"article": "a film", "questions": asked, "options": options, "answers": answers, "id": f"{level}1.txt"}
        place.write_text(json.dumps(page))
    return folder / "race"


def test_the_levels_of_race_are_scored_each(tmp_path: Path) -> None:
    """Fails if a level is scored with another, or a folder has the digest of another."""
    task = ChoiceTask()
    race = read_file(task, FileSettings(path=str(write_race(tmp_path)), format="race"))
    assert [(each.level, each.right) for each in race.examples] == [("high", 1), ("high", 0), ("middle", 2)]
    scores = [
        np.array([0, 1, 0, 0], np.float32),
        np.array([0, 1, 0, 0], np.float32),
        np.array([0, 0, 1, 0], np.float32),
    ]
    assert task.compute_scores(race.examples, scores) == {
        "accuracy": pytest.approx(2 / 3), "accuracy_high": 0.5, "accuracy_middle": 1.0
    }  # fmt: skip
    named = describe_file(FileSettings(path=str(tmp_path / "race")))
    (tmp_path / "race" / "high" / "1.txt").rename(tmp_path / "race" / "high" / "3.txt")
    other = describe_file(FileSettings(path=str(tmp_path / "race")))
    assert len(named["sha256"]) == 64 and named["sha256"] != other["sha256"] and named["path"] == "race"


def test_choices_are_learnt(tmp_path: Path) -> None:
    """The choice with the word of the context is right, at any place among two to five."""
    drawn = np.random.default_rng(0)
    files = []
    for name, number in (("train", 160), ("dev", 50)):
        rows = []
        for _ in range(number):
            count = int(drawn.integers(2, 6))
            rows.append({"context": "a film", "choices": ["was bad"] * count, "label": int(drawn.integers(count))})
            rows[-1]["choices"][rows[-1]["label"]] = "was good"
        files.append(write_json_rows(tmp_path / f"{name}.jsonl", rows))
    job = new_job(tmp_path, epochs=3, max_length=12)
    record = run(replace(job, training=files[0], evaluation=files[1], task={"kind": "choice"}))
    assert kept_of(record)["accuracy"] == 1.0 and record["metric"] == "accuracy"
    first = record["restarts"][0]["epochs"][0]
    assert first["loss"] > kept_of(record)["loss"] or first["accuracy"] == 1.0
    told, lines = said_of(tmp_path / "out", files[1], tmp_path / "said.jsonl", True)
    assert told["scores"] == {"accuracy": 1.0}
    assert all(line["text"] == "was good" and abs(sum(line["probabilities"]) - 1) < 1e-4 for line in lines)
