"""Fine-tuning: it learns, it counts, it ends with the same bytes, and transformers opens what comes out."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_batches import opened
from small_models import bert_words, write_model
from small_tasks import encoded_for, exported_model, judged_as, kept_of, new_job, run, sentences, write_rows
from small_training import on_ranks

from corpora.errors import InputError
from corpora.store.checked_folder import COMPLETE_FILE
from trainer.huggingface.checkpoints import load_model, load_pretrained
from trainer.tasks.finetuning.finetune import RECORD, main, with_first_weights
from trainer.tasks.heads.task_model import batch_items, build_task_model
from trainer.tasks.kinds.texts import ClassesTask, compute_correlations
from trainer.tasks.settings import FinetuneJob, FinetuneSettings
from trainer.tasks.text_encoder import CUT_FIRST, CUT_LONGEST, TextEncoder, open_tokenizer, to_ids

# It learns.


def test_a_word_that_decides_is_learnt(tmp_path: Path) -> None:
    """Fails if labels, order, gradients or scores are wrong: a model that learns nothing is right half the time."""
    [restart] = run(new_job(tmp_path, epochs=8))["restarts"]
    accuracy = [epoch["accuracy"] for epoch in restart["epochs"]]
    assert max(accuracy) > 0.9 and accuracy[0] < 0.9
    best = max(restart["epochs"], key=lambda epoch: (epoch["accuracy"], -epoch["loss"]))
    assert restart["kept"] == best["epoch"]
    unlearnt = run(new_job(tmp_path, "unlearnt", learning_rate=0.0))
    assert kept_of(unlearnt)["accuracy"] < 0.7


def numbered(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each text with the share of good and bad among its words, as a number with a fraction."""
    return [(text, f"{(1.5 if label == 'good' else -0.5) + 0.01 * len(text.split()):.2f}") for text, label in rows]


def scored_job(folder: Path, output: str = "out", **settings: Any) -> FinetuneJob:
    """The same texts with numbers for labels."""
    job = new_job(folder, output, **settings)
    write_rows(Path(job.training.path), numbered(sentences(160, 1)))
    write_rows(Path(job.evaluation.path), numbered(sentences(60, 2)))
    return job


def test_a_number_is_learnt_and_transformers_says_it(tmp_path: Path, transformers: ModuleType) -> None:
    """Fails if numbers are taken for classes, the error is not that of the number, or scores are of other rows."""
    job = scored_job(tmp_path, task={"kind": "number"}, epochs=8)
    record = run(job)
    kept = kept_of(record)
    assert kept["pearson"] == max(epoch["pearson"] for epoch in record["restarts"][0]["epochs"]) > 0.8
    reference = transformers.AutoModelForSequenceClassification.from_pretrained(job.output)
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.output)
    assert (reference.config.problem_type, reference.config.num_labels) == ("regression", 1)
    rows = numbered(sentences(60, 2))
    with torch.no_grad():
        inputs = tokenizer([text for text, _ in rows], padding=True, return_tensors="pt")
        answers = reference.eval()(**inputs).logits[:, 0].double().numpy()
    wanted = np.array([float(label) for _, label in rows])
    assert compute_correlations(wanted, answers) == {
        name: pytest.approx(kept[name]) for name in ("pearson", "spearman")
    }
    assert kept["loss"] == pytest.approx(((wanted - answers) ** 2).mean(), rel=1e-4)


def test_numbers_are_not_taken_for_classes_without_a_word(tmp_path: Path) -> None:
    """Fails if scores of many values become as many classes; whole ratings are classes, as before."""
    with pytest.raises(InputError, match=r"are \d+ different numbers from .* task `number` .*numbers_are_classes=true"):
        run(scored_job(tmp_path))
    job = scored_job(tmp_path, "asked", task={"numbers_are_classes": True})
    asked = run(replace(job, evaluation=replace(job.evaluation, max_unusable=0.9)))
    assert len(asked["task"]["labels"]) > 5
    many = new_job(tmp_path, "many")
    rows = sentences(100, 1)
    write_rows(Path(many.training.path), [(text, str(number % 50)) for number, (text, _) in enumerate(rows)])
    with pytest.raises(InputError, match="are 50 different numbers from 0 to 49"):
        run(many)
    few = new_job(tmp_path, "few")
    for table in (few.training, few.evaluation):
        write_rows(Path(table.path), [(text, str(1 + number % 5)) for number, (text, _) in enumerate(rows)])
    assert run(few)["task"]["labels"] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("said", [b"", b"{}", b'{"model_max_length": 1000000000000000019884624838656}'])
def test_a_long_text_is_cut_to_what_the_classifier_reads(tmp_path: Path, transformers: ModuleType, said: bytes) -> None:
    """Fails if the exported tokenizer does not know the model's length, so that the model crashes."""
    job = new_job(tmp_path, rows=16)
    if said:
        (Path(job.model) / "tokenizer_config.json").write_bytes(said)
    run(job)
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.output)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(job.output)
    inputs = tokenizer("good " * 3_000, truncation=True, return_tensors="pt")
    assert inputs["input_ids"].shape[1] == tokenizer.model_max_length == model.config.max_position_embeddings
    with torch.no_grad():
        model(**inputs)


def test_the_kept_epoch_has_its_own_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first epoch is the best, and what is learnt later is not in it."""
    settings = {"epochs": 3, "learning_rate": 1e-6, "rows": 40}
    judged_as(monkeypatch, [(0.9, 1.0), (0.8, 1.0), (0.7, 1.0)] * 2)
    assert kept_of(run(new_job(tmp_path, "best", **settings)))["epoch"] == 1
    assert kept_of(run(new_job(tmp_path, "last", keep="last", **settings)))["epoch"] == 3
    best, last, begun = (load_file(tmp_path / name / "model.safetensors") for name in ("best", "last", "model"))
    name = "bert.encoder.layer.1.intermediate.dense.weight"
    moved, further = ((weights[name] - begun[name]).abs().max() for weights in (best, last))
    assert 0 < moved < 0.8 * further


def test_the_same_job_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """With dropout; the times of the log are left aside."""
    outputs = []
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        run(new_job(tmp_path, name, rows=40, seed=seed))
        outputs.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
        logged = outputs[-1].pop("metrics.jsonl").decode().splitlines()
        events = [json.loads(line)["event"] for line in logged]
        assert events == ["start", "step", "step", "step", "evaluation", "checkpoint"]
    one, again, other = outputs
    assert one == again
    assert one.keys() == {*bert_words().to_files(), "config.json", "model.safetensors", RECORD, COMPLETE_FILE}
    assert one["model.safetensors"] != other["model.safetensors"]


def test_labels_may_be_given_in_their_order(tmp_path: Path) -> None:
    labels = ["good", "bad", "neither"]
    with pytest.raises(InputError, match="no row with the label 'neither': a class that is never seen"):
        run(new_job(tmp_path, rows=20, task={"labels": labels}))
    run(new_job(tmp_path, rows=20, task={"labels": labels, "empty_classes": True}))
    config = json.loads((tmp_path / "out" / "config.json").read_bytes())
    assert config["id2label"] == {"0": "good", "1": "bad", "2": "neither"}
    assert load_file(tmp_path / "out" / "model.safetensors")["classifier.weight"].shape == (3, 32)


def test_rows_and_tokens_are_accounted_for(tmp_path: Path) -> None:
    job = new_job(tmp_path, rows=40, max_length=6)
    evaluation = [*sentences(60, 2), ("", "good"), ("a film", "neither")]
    job = replace(job, evaluation=replace(write_rows(tmp_path / "dev.tsv", evaluation), max_unusable=0.1))
    tables = run(job)["files"]
    rows = tables["evaluation"]["ledger"]["accounts"]["rows"]
    assert rows == {"total": 62, "outcomes": {"given": 61, "dropped: empty text": 1}}
    assert tables["evaluation"]["ledger"]["figures"]["unknown"] == 1
    words = [len(text.split()) for text, _ in sentences(40, 1)]
    assert tables["training"]["ledger"]["figures"] == {
        "tokens": sum(min(length, 4) + 2 for length in words),
        "texts_cut": sum(length > 4 for length in words),
        "tokens_cut": sum(max(0, length - 4) for length in words),
    }
    assert sum(length > 4 for length in words) > 5


# The classifier.


THREE = ClassesTask(labels=("a", "b", "c"))


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_transformers_opens_an_export_with_equal_logits(tmp_path: Path, transformers: ModuleType, family: str) -> None:
    """Fails if logits of single texts or of pairs differ."""
    write_model(tmp_path / "model", family)
    model = exported_model(THREE, tmp_path / "model", tmp_path / "out").double()
    reference = opened(transformers.AutoModelForSequenceClassification, tmp_path / "out")
    assert type(reference).__name__ == f"{'Bert' if family == 'bert' else 'Roberta'}ForSequenceClassification"
    assert reference.config.id2label == {0: "a", 1: "b", 2: "c"}
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    texts = [text[:14] for text, _ in sentences(7, 3)]
    for seconds in (None, texts[::-1]):
        rows = [{"text": text, "second": second} for text, second in zip(texts, seconds or [None] * 7, strict=True)]
        items = encoded_for(THREE, tmp_path / "model", rows, labelled=False).items
        with torch.no_grad():
            wanted = reference(**tokenizer(texts, seconds, padding=True, return_tensors="pt")).logits
            found = model(batch_items(items), answering=True)
        assert found.std() > 0.05, "the test compares nothing"
        torch.testing.assert_close(found.double(), wanted, atol=1e-6, rtol=1e-6)  # logits are float32


def test_bert_begins_with_the_pooler_that_pairs_have_learnt(tmp_path: Path) -> None:
    _, _, state = load_model(write_model(tmp_path / "pairs"))
    taken = build_task_model(THREE, load_pretrained(tmp_path / "pairs")).state_dict()
    assert torch.equal(taken["class_head.pooler.dense.weight"], state["pair_head.pooler.dense.weight"])
    assert torch.equal(taken["encoder.layers.1.widen.weight"], state["encoder.layers.1.widen.weight"])
    write_model(tmp_path / "plain", pairs=False)
    drawn = build_task_model(THREE, load_pretrained(tmp_path / "plain")).state_dict()["class_head.pooler.dense.weight"]
    assert 0.01 < float(drawn.std()) < 0.03


# Texts.


def test_a_text_that_is_cut_keeps_its_end_token(tmp_path: Path) -> None:
    encoder = TextEncoder.from_folder(tmp_path, load_pretrained(write_model(tmp_path)).inputs, 5)

    def tokens(*texts: list[str], cut: str = CUT_LONGEST) -> list[list[str]]:
        found = [to_ids(encoding).tolist() for encoding in encoder.join(*map(encoder.tokenize, texts), cut=cut)]
        return [[encoder.tokenizer.id_to_token(number) for number in ids] for ids in found]

    assert tokens(["good film", "the plot was very long", "", "a"]) == [
        ["[CLS]", "good", "film", "[SEP]"],
        ["[CLS]", "the", "plot", "was", "[SEP]"],
        ["[CLS]", "[SEP]"],
        ["[CLS]", "a", "[SEP]"],
    ]
    assert (encoder.num_cut, encoder.tokens_cut) == (1, 2)
    assert tokens(["the plot was"], ["long"], cut=CUT_FIRST) == [["[CLS]", "the", "[SEP]", "long", "[SEP]"]]
    assert (encoder.num_cut, encoder.tokens_cut) == (2, 4)


# What is refused.


def test_what_the_user_can_mend_is_told(tmp_path: Path) -> None:
    job = new_job(tmp_path, rows=20)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")
    one_label = write_rows(tmp_path / "one.tsv", [("a film", "good")] * 5)
    many = write_rows(tmp_path / "many.tsv", [("a film", f"label {number}") for number in range(1001)])
    wrong: list[tuple[FinetuneJob, str]] = [
        (replace(job, output=str(tmp_path / "full")), "output folder .* is not empty"),
        (replace(job, model=str(tmp_path / "none")), r"has no config\.json"),
        (replace(job, training=one_label), "has 1 different labels, and a classifier knows 2 to 1000"),
        (replace(job, training=many), "has 1001 different labels"),
        (
            replace(job, evaluation=many),
            r"no answer to its 1,001 rows is one that the model knows: 1001 unknown label \(first in line 2, 'label 0'",
        ),
        (replace(job, settings=FinetuneSettings(max_length=41)), "max_length = 41, and .* reads 40 tokens"),
    ]
    for wrong_job, message in wrong:
        with pytest.raises(InputError, match=message):
            run(wrong_job)
    assert not (tmp_path / "out").exists() and (tmp_path / "full" / "note.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content["model"]["vocab"].update({"extra": 500}), "a token with id 500, and the model knows"),
        (lambda content: content.update(post_processor=None), r"makes \[\] of an empty text"),
        (lambda content: content.update(model={"type": "Other"}), "is not a tokenizer"),
    ],
)
def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    _, inputs, _ = load_model(write_model(tmp_path))
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    change(content)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        open_tokenizer(tmp_path, inputs)


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    _, inputs, _ = load_model(write_model(tmp_path))
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"has no tokenizer\.json"):
        open_tokenizer(tmp_path, inputs)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs = 0"),
        ({"warmup": 1.5}, "warmup = 1.5"),
        ({"batch": 0}, "batch = 0"),
        ({"precision": "float8"}, "precision = 'float8'"),
        ({"freeze": ("embedding",)}, "freeze: 'embedding' is not one of"),
        ({"freeze": ("5-2",)}, "freeze: '5-2' is not one of"),
        ({"restarts": 3, "keep": "last"}, "restarts are compared by their best epochs"),
    ],
)
def test_settings_are_checked(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FinetuneSettings(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels": ("a", "a")}, "names a class twice"),
        ({"metric": "f2"}, "metric = 'f2' is not known"),
        ({"metric": "pearson"}, "metric = 'pearson' is not known"),
        ({"numeric": ("age",), "categorical": ("age",)}, "'age' is named for two things"),
    ],
)
def test_settings_of_a_task_are_checked(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ClassesTask(**wrong)


def test_what_diverges_ends_with_a_paragraph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a process says it: a line of JSON, and exit code 2."""
    job = new_job(tmp_path, rows=20)
    weights = load_file(tmp_path / "model" / "model.safetensors")
    weights["bert.embeddings.LayerNorm.weight"][:] = 3e38  # finite, and what is computed with it is not
    save_file(weights, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "job.json").write_text(json.dumps(asdict(job)))
    assert main([str(tmp_path / "job.json")]) == 2
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["start", "failure"]
    assert "training has diverged. Lower learning_rate" in events[-1]["message"]
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="Name one JSON file"):
        main([])


# Several processes.


@pytest.mark.long
def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    """Without dropout the weights differ by rounding alone."""
    settings = {"rows": 41, "epochs": 2, "dropout": 0.0, "learning_rate": 1e-4}
    write_model(tmp_path / "model", attention_dropout=0.0)
    alone = run(new_job(tmp_path, "alone", **settings))  # type: ignore[arg-type]
    on_ranks(run, new_job(tmp_path, "together", **settings), 2)  # type: ignore[arg-type]
    lines = (tmp_path / "together" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    events = list(map(json.loads, lines))
    assert events[0]["processes"] == 2 and len([event for event in events if event["event"] == "step"]) == 6
    together = json.loads((tmp_path / "together" / RECORD).read_bytes())
    assert together["files"] == alone["files"]
    for one, other in zip(alone["restarts"][0]["epochs"], together["restarts"][0]["epochs"], strict=True):
        assert other == pytest.approx(one, rel=1e-4)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("alone", "together"))
    begun = load_file(tmp_path / "model" / "model.safetensors")
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, atol=1e-5, rtol=1e-4)
    learnt = [name for name in first.keys() & begun.keys() if not torch.equal(begun[name], first[name])]
    assert len(learnt) > 30, learnt


def test_dropout_is_where_the_family_has_it(tmp_path: Path) -> None:
    """RoBERTa drops before the dense layer too: with everything dropped its pooled vector is tanh of the bias."""
    for family, drops_first in (("bert", False), ("roberta", True)):
        model: Any = exported_model(THREE, write_model(tmp_path / family, family), tmp_path / f"{family}-out")
        head, pooled = model.class_head.train(), list[torch.Tensor]()
        head.dropout.p = 1.0
        head.pooler.register_forward_hook(lambda module, given, out, kept=pooled: kept.append(out))
        assert torch.equal(head(torch.ones(2, 32)), head.decision.bias.expand(2, -1))
        assert torch.equal(pooled[0][0], head.pooler.dense.bias.tanh()) == drops_first


@pytest.mark.parametrize("unit", ["good film ", "a", "a-", ".", "  ", "映"])
def test_a_text_without_end_is_cut_as_its_beginning_is(tmp_path: Path, unit: str) -> None:
    """Fails if a long text is read otherwise, or its tokens are not all counted: part by part, as of the whole."""
    encoder = TextEncoder.from_folder(tmp_path, load_pretrained(write_model(tmp_path)).inputs, 9)
    text = f"the plot {unit * (30_000 // len(unit))} was long"
    [found] = encoder.encode([text])
    whole = encoder.tokenize([text])
    assert to_ids(found).tolist() == to_ids(encoder.join(whole)[0]).tolist()
    assert encoder.num_cut == 2 * (len(whole[0]) > 7) and encoder.tokens_cut == 2 * max(0, len(whole[0]) - 7)


def test_a_control_begins_with_first_weights(tmp_path: Path) -> None:
    """Fails if a control keeps what was learnt, lacks a part of the model, or is another one each time."""
    job = new_job(tmp_path, rows=48)
    learnt = load_pretrained(Path(job.model))
    first, again, other = (with_first_weights(learnt, seed).state for seed in (1, 1, 2))
    assert {name for name in learnt.state if name.startswith("encoder.")} <= {*first}
    matrices = [name for name in first if first[name].ndim > 1]
    assert matrices and all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], old[name]) for name in matrices for old in (learnt.state, other))
    assert run(replace(job, first_weights=True)) != run(replace(job, output=str(tmp_path / "own")))
