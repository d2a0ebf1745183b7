"""Tasks on whole texts: several classes at once, further columns, restarts, frozen layers, going on, and prediction."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import write_model
from small_tasks import (
    encoded_for,
    exported_model,
    judged_as,
    kept_of,
    new_job,
    run,
    said_of,
    sentences,
    write_json_rows,
    write_rows,
)

from corpora.errors import InputError
from trainer.huggingface.checkpoints import load_pretrained
from trainer.ranks import join_process_group
from trainer.settings.model import FAMILIES, ModelSettings
from trainer.tasks.folders import HEADS, RECORD, load_task
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.task_model import compute_answers
from trainer.tasks.kinds.texts import ClassesTask, NumberTask
from trainer.tasks.registry import TASKS, read_task
from trainer.tasks.settings import FinetuneSettings, with_published


def test_several_classes_at_once(tmp_path: Path, transformers: ModuleType) -> None:
    """Fails if lists of labels are read, learnt, judged or exported otherwise than class by class."""
    job = new_job(tmp_path, task={"multi_label": True}, epochs=8)
    both = [
        [(text, ",".join(sorted({*text.split()} & {"good", "bad", "film"}))) for text, _ in sentences(number, seed)]
        for number, seed in ((160, 1), (60, 2))
    ]
    assert {len(label.split(",")) for _, label in both[0]} >= {1, 2}, "the test needs texts of several classes"
    files = [
        write_json_rows(tmp_path / f"{seed}.jsonl", [{"text": text, "label": label.split(",")} for text, label in rows])
        for seed, rows in enumerate(both)
    ]
    record = run(replace(job, training=files[0], evaluation=files[1]))
    assert kept_of(record)["micro_f1"] > 0.75 and record["metric"] == "micro_f1"
    told, lines = said_of(tmp_path / "out", files[1], tmp_path / "said.jsonl", labelled=True)
    assert told["scores"] == {name: pytest.approx(kept_of(record)[name]) for name in told["scores"]}
    reference = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert reference.config.problem_type == "multi_label_classification"
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    with torch.no_grad():
        logits = reference.eval()(**tokenizer([text for text, _ in both[1]], padding=True, return_tensors="pt")).logits
    names = [[reference.config.id2label[n] for n in range(3) if row[n] > 0] for row in logits.tolist()]
    assert names == [line["labels"] for line in lines]


def test_columns_stand_beside_the_text(tmp_path: Path) -> None:
    """Texts that say nothing: only the columns tell the label. Fails where they are lost on any way."""
    rows = [["a film", "good" if number % 3 else "bad", str(number % 3), "x"] for number in range(96)]
    learning: dict[str, Any] = {"epochs": 6, "learning_rate": 0.1, "freeze": ("encoder",)}
    job = new_job(tmp_path, task={"numeric": ["age"], "categorical": ["colour"]}, **learning)
    files = [write_rows(tmp_path / name, rows, ("text", "label", "age", "colour")) for name in ("one.tsv", "other.tsv")]
    record = run(replace(job, training=files[0], evaluation=files[1]))
    assert kept_of(record)["accuracy"] == 1.0 and record["task"]["categories"] == [["x"]]
    assert record["task"]["means"] == [pytest.approx(1.0)]
    told, lines = said_of(tmp_path / "out", files[1], tmp_path / "said.jsonl")
    assert [line["label"] for line in lines] == [row[1] for row in rows] and told["scores"] == {}
    wrong = write_rows(tmp_path / "wrong.tsv", [["a film", "good", "old", "x"]], ("text", "label", "age", "colour"))
    with pytest.raises(InputError, match=r"1 of 1 rows cannot be used: 1 age is no number \(first in line 2, 'old'\)"):
        said_of(tmp_path / "out", wrong, tmp_path / "no.jsonl")
    plain = new_job(tmp_path, "plain", **learning)
    assert kept_of(run(replace(plain, training=files[0], evaluation=files[1])))["accuracy"] < 0.7


def test_restarts_keep_the_best_and_tell_all(tmp_path: Path) -> None:
    """Fails if the exported weights are of another restart than the one that is said to be kept."""
    record = run(new_job(tmp_path, rows=48, restarts=3, epochs=2))
    judged = [each["epochs"][each["kept"] - 1]["accuracy"] for each in record["restarts"]]
    assert [each["seed"] for each in record["restarts"]] == [42, 43, 44] and len({*judged}) > 1
    assert judged[record["best"]] == max(judged) and record["median"] == np.median(judged)
    assert record["spread"] == [min(judged), max(judged)]
    told, _ = said_of(tmp_path / "out", FileSettings(path=str(tmp_path / "dev.tsv")), tmp_path / "s.jsonl", True)
    assert told["scores"]["accuracy"] == max(judged)
    alone = run(new_job(tmp_path, "alone", rows=48, seed=42 + record["best"], epochs=2))
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("out", "alone"))
    assert all(torch.equal(one[name], other[name]) for name in one), "a restart is the run of its seed"
    assert kept_of(alone) == kept_of(record)


def test_what_is_frozen_stays(tmp_path: Path) -> None:
    run(new_job(tmp_path, rows=40, freeze=("embeddings", "0")))
    begun, learnt = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "out"))
    same = {name for name in begun.keys() & learnt.keys() if torch.equal(begun[name], learnt[name])}
    frozen = ("bert.embeddings.", "bert.encoder.layer.0.")
    assert same == {name for name in begun.keys() & learnt.keys() if name.startswith(frozen)}
    with pytest.raises(InputError, match="freeze names the layer 7, and the model has 2"):
        run(new_job(tmp_path, "far", rows=40, freeze=("1-7",)))


def test_a_full_disk_is_told_and_what_is_done_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a run without room for its output ends with a trace, or starts over when there is some."""
    whole = run(new_job(tmp_path, "whole", rows=24))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=1_000))
    with pytest.raises(InputError, match=r"There is no room in .*: .* GB are needed, and 1e-06 GB are free"):
        run(new_job(tmp_path, "full", rows=24))
    monkeypatch.undo()
    assert not (tmp_path / "full").exists()
    assert run(new_job(tmp_path, "full", rows=24)) == whole
    logged = (tmp_path / "full" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["resumed"] for line in logged if '"start"' in line] == [False, True]


@pytest.mark.parametrize(
    ("epochs", "kept", "last"),
    [
        ([(0, 3), (0, 2), (0, 1), (0, 1), (0, 2), (1, 0)], 3, 5),  # of equals the lower loss, then the earlier one
        ([(0, 1), (1, 2), (0, 0), (1, 1), (1, 3), (0, 0)], 4, 6),  # the loss has no say where the metric differs
    ],
)
def test_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: list[tuple[float, float]], kept: int, last: int
) -> None:
    """Two epochs without a better one end the run: fails where equals are no better for a lower loss."""
    judged_as(monkeypatch, epochs)
    [restart] = run(new_job(tmp_path, rows=16, epochs=6, patience=2))["restarts"]
    assert (restart["kept"], restart["epochs"][-1]["epoch"]) == (kept, last)


# Folders.


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize(
    "task", [ClassesTask(labels=("a", "b")), NumberTask(), ClassesTask(labels=("a",), multi_label=True)]
)
def test_a_folder_is_read_back_with_and_without_our_record(tmp_path: Path, family: str, task: Any) -> None:
    """Fails if another model comes back, or where one of the hub's folders of the same class is not taken."""
    write_model(tmp_path / "model", family)
    model = exported_model(task, tmp_path / "model", tmp_path / "out")
    found = load_task(tmp_path / "out")
    assert type(found.task) is type(task) and not (tmp_path / "out" / RECORD).exists()
    assert all(torch.equal(tensor, found.model.state_dict()[name]) for name, tensor in model.state_dict().items())
    with pytest.raises(InputError, match=r"has no task: its config\.json names"):
        load_task(tmp_path / "model")


def test_an_encoder_that_was_saved_by_itself_begins_a_task(tmp_path: Path, transformers: ModuleType) -> None:
    """As transformers' `AutoModel` saves it: its tensors lack the name of the family."""
    write_model(tmp_path / "model")
    wanted = exported_model(ClassesTask(labels=("a", "b")), tmp_path / "model", tmp_path / "one").encoder.state_dict()
    transformers.AutoModel.from_pretrained(tmp_path / "one", add_pooling_layer=False).save_pretrained(tmp_path / "bare")
    assert "embeddings.word_embeddings.weight" in load_file(tmp_path / "bare" / "model.safetensors")
    (tmp_path / "bare" / "tokenizer.json").write_bytes((tmp_path / "model" / "tokenizer.json").read_bytes())
    found = load_pretrained(tmp_path / "bare").state
    assert all(torch.equal(found[f"encoder.{name}"], tensor) for name, tensor in wanted.items())
    torn = load_file(tmp_path / "bare" / "model.safetensors")
    del torn["encoder.layer.1.output.dense.weight"]
    save_file(torn, tmp_path / "bare" / "model.safetensors")
    with pytest.raises(InputError, match=r"lacks bert\.encoder\.layer\.1\.output\.dense\.weight of the encoder"):
        load_pretrained(tmp_path / "bare")


# Rows.


def test_every_task_is_whole() -> None:
    """Fails if a row lacks what the run asks of it."""
    for kind in TASKS:
        task = read_task({"kind": kind})
        assert task.metrics and {*task.label_roles} <= {*task.roles} and task.optional_roles <= {*task.roles}
        assert task.export_architecture in HEADS and all(
            "encoder" in row.names.architectures for row in FAMILIES.values()
        )
    with pytest.raises(InputError, match=r"task = .clases. is not known"):
        read_task({"kind": "clases"})


def test_published_values_stand_where_none_are_named() -> None:
    """Table 7 of ELECTRA's authors, table 10 of RoBERTa's; what is named stays."""
    electra = with_published(FinetuneSettings(), ModelSettings(family="electra", size="small"))
    assert (electra.learning_rate, electra.layer_decay, electra.weight_decay, electra.epochs) == (3e-4, 0.8, 0.0, 3)
    roberta = with_published(FinetuneSettings(learning_rate=1e-5), ModelSettings(family="roberta"))
    assert (roberta.learning_rate, roberta.epochs, roberta.warmup, roberta.weight_decay) == (1e-5, 10, 0.06, 0.1)
    spans = with_published(FinetuneSettings(), ModelSettings(family="roberta"), "span")
    assert (spans.learning_rate, spans.epochs, spans.batch, spans.weight_decay) == (1.5e-5, 2, 48, 0.01)


def test_answers_that_are_no_numbers_are_told(tmp_path: Path) -> None:
    """Fails if a model that diverged has scores, for one of its answers is the highest all the same."""
    model = exported_model(ClassesTask(labels=("a", "b")), write_model(tmp_path / "model"), tmp_path / "out")
    items = encoded_for(ClassesTask(labels=("a", "b")), tmp_path / "model", [{"text": "the dog", "label": "a"}]).items
    with torch.no_grad():
        model.class_head.decision.bias[1] = float("nan")  # type: ignore[union-attr, index, operator]
    with (
        join_process_group("cpu") as ranks,
        torch.inference_mode(),
        pytest.raises(InputError, match="1 of 2 answers of the model are not finite numbers"),
    ):
        compute_answers(model, ClassesTask(labels=("a", "b")), items, ranks, judging=False)


def test_of_equal_restarts_the_one_with_the_lower_loss_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged_as(monkeypatch, [(0, 3), (0, 2), (0, 2)])
    assert run(new_job(tmp_path, rows=16, restarts=3))["best"] == 1


def test_a_classifier_begins_another_task(tmp_path: Path) -> None:
    """As RTE begins with what was learnt of MNLI: the encoder is taken, the head is not."""
    first = exported_model(ClassesTask(labels=("x", "y", "z")), write_model(tmp_path / "one"), tmp_path / "model")
    run(new_job(tmp_path, rows=24, learning_rate=0.0))
    learnt = load_task(tmp_path / "out").model.state_dict()
    assert all(torch.equal(tensor, learnt[f"encoder.{name}"]) for name, tensor in first.encoder.state_dict().items())
    assert learnt["class_head.decision.weight"].shape[0] == 2
