"""Fine-tuning: it learns, it counts, it ends with the same bytes, and transformers opens what comes out."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import WORDS, bert_words, write_model
from torch import Tensor

from corpora.errors import InputError
from trainer.huggingface.checkpoints import load
from trainer.model.batches import Batch
from trainer.tasks.classification import Classifier, build_classifier, export_classifier
from trainer.tasks.encoding import batch_of, concatenated, encode_texts, open_tokenizer
from trainer.tasks.finetune import RECORD, finetune, main
from trainer.tasks.scores.classes import confusion, scores
from trainer.tasks.scores.numbers import correlations
from trainer.tasks.settings import FinetuneJob, FinetuneSettings, TableSettings
from trainer.training.parallel import joined

LABELS = ("bad", "good")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Steps this small are slower with more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    module: ModuleType = pytest.importorskip("transformers")
    return module


def sentences(number: int, seed: int) -> list[tuple[str, str]]:
    """Texts of words drawn at random, somewhere in each the one that is its label."""
    drawn = random.Random(seed)
    found = []
    for _ in range(number):
        words = drawn.choices(WORDS[2:], k=drawn.randint(3, 9))
        label = drawn.choice(LABELS)
        words.insert(drawn.randrange(len(words) + 1), label)
        found.append((" ".join(words), label))
    return found


def write_table(path: Path, rows: list[tuple[str, str]]) -> TableSettings:
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    return TableSettings(path=str(path))


def new_job(folder: Path, output: str = "out", rows: int = 160, **settings: Any) -> FinetuneJob:
    """A job on small tables, for the model in `folder/model`, which is written where it is missing."""
    if not (folder / "model").exists():
        write_model(folder / "model")
    return FinetuneJob(
        model=str(folder / "model"),
        output=str(folder / output),
        training=write_table(folder / "train.tsv", sentences(rows, 1)),
        evaluation=write_table(folder / "dev.tsv", sentences(60, 2)),
        settings=FinetuneSettings(**{"epochs": 1, "batch": 16, "learning_rate": 3e-3, **settings}),
    )


def run(job: FinetuneJob) -> dict[str, Any]:
    """Fine-tune in this process; the record next to the classifier."""
    with joined() as ranks:
        finetune(job, ranks)
    record: dict[str, Any] = json.loads((Path(job.output) / RECORD).read_text(encoding="utf-8"))
    return record


# It learns.


def test_a_word_that_decides_is_learnt(tmp_path: Path) -> None:
    """Fails where labels, order, gradients or scores are wrong: a model that learns nothing is right half the time."""
    record = run(new_job(tmp_path, epochs=8))
    accuracy = [epoch["accuracy"] for epoch in record["epochs"]]
    assert max(accuracy) > 0.9 and accuracy[0] < 0.9
    assert record["kept"] == 1 + accuracy.index(max(accuracy))
    unlearnt = run(new_job(tmp_path, "unlearnt", learning_rate=0.0))
    assert unlearnt["epochs"][0]["accuracy"] < 0.7


def test_the_exported_classifier_has_the_scores_of_the_kept_epoch(tmp_path: Path, transformers: ModuleType) -> None:
    """Through transformers alone: their tokenizer, their model, our table."""
    job = new_job(tmp_path, epochs=8)
    record = run(job)
    reference = transformers.AutoModelForSequenceClassification.from_pretrained(job.output)
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.output)
    rows = sentences(60, 2)
    with torch.no_grad():
        logits = reference.eval()(**tokenizer([text for text, _ in rows], padding=True, return_tensors="pt")).logits
    answers = [reference.config.id2label[number] for number in logits.argmax(-1).tolist()]
    numbers = [np.array([LABELS.index(label) for label in side]) for side in ([label for _, label in rows], answers)]
    found = asdict(scores(confusion(*numbers, 2)))
    kept = record["epochs"][record["kept"] - 1]
    assert found == {name: pytest.approx(kept[name]) for name in found}
    assert found["matthews"] > 0.5, "the test compares nothing"


def numbered(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each text with the share of good and bad among its words, as a number with a fraction."""
    return [(text, f"{(1.5 if label == 'good' else -0.5) + 0.01 * len(text.split()):.2f}") for text, label in rows]


def scored_job(folder: Path, output: str = "out", **settings: Any) -> FinetuneJob:
    """The same texts with numbers for labels."""
    job = new_job(folder, output, **settings)
    write_table(Path(job.training.path), numbered(sentences(160, 1)))
    write_table(Path(job.evaluation.path), numbered(sentences(60, 2)))
    return job


def test_a_number_is_learnt_and_transformers_says_it(tmp_path: Path, transformers: ModuleType) -> None:
    """Fails where numbers are taken for classes, the error is not that of the number, or scores are of other rows."""
    job = scored_job(tmp_path, predict="number", epochs=8)
    record = run(job)
    kept = record["epochs"][record["kept"] - 1]
    assert kept["pearson"] == max(epoch["pearson"] for epoch in record["epochs"]) > 0.8
    reference = transformers.AutoModelForSequenceClassification.from_pretrained(job.output)
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.output)
    assert (reference.config.problem_type, reference.config.num_labels) == ("regression", 1)
    rows = numbered(sentences(60, 2))
    with torch.no_grad():
        inputs = tokenizer([text for text, _ in rows], padding=True, return_tensors="pt")
        answers = reference.eval()(**inputs).logits[:, 0].double().numpy()
    wanted = np.array([float(label) for _, label in rows])
    assert correlations(wanted, answers) == {name: pytest.approx(kept[name]) for name in ("pearson", "spearman")}
    assert kept["loss"] == pytest.approx(((wanted - answers) ** 2).mean(), rel=1e-4)


def test_numbers_are_not_taken_for_classes_without_a_word(tmp_path: Path) -> None:
    """Fails where scores of many values become as many classes; whole ratings are classes, as before."""
    with pytest.raises(
        InputError, match=r"are \d+ different numbers from .* predict = 'number' .* predict = 'classes'"
    ):
        run(scored_job(tmp_path))
    assert len(run(scored_job(tmp_path, "asked", predict="classes", metric="accuracy"))["labels"]) > 5
    many = new_job(tmp_path, "many")
    rows = sentences(100, 1)
    write_table(Path(many.training.path), [(text, str(number % 50)) for number, (text, _) in enumerate(rows)])
    with pytest.raises(InputError, match="are 50 different numbers from 0 to 49"):
        run(many)
    few = new_job(tmp_path, "few")
    for table in (few.training, few.evaluation):
        write_table(Path(table.path), [(text, str(1 + number % 5)) for number, (text, _) in enumerate(rows)])
    assert run(few)["labels"] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("said", [b"", b"{}", b'{"model_max_length": 1000000000000000019884624838656}'])
def test_a_long_text_is_cut_to_what_the_classifier_reads(tmp_path: Path, transformers: ModuleType, said: bytes) -> None:
    """Fails where the exported tokenizer does not know the model's length, so that the model crashes."""
    job = new_job(tmp_path, rows=40)
    if said:
        (Path(job.model) / "tokenizer_config.json").write_bytes(said)
    run(job)
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.output)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(job.output)
    inputs = tokenizer("good " * 3_000, truncation=True, return_tensors="pt")
    assert inputs["input_ids"].shape[1] == tokenizer.model_max_length == model.config.max_position_embeddings
    with torch.no_grad():
        model(**inputs)


def test_the_kept_epoch_has_its_own_weights(tmp_path: Path) -> None:
    """Steps too small to change an answer: the best epoch is the first, and what is learnt later is not in it."""
    settings = {"epochs": 3, "learning_rate": 1e-6, "rows": 40}
    assert run(new_job(tmp_path, "best", **settings))["kept"] == 1
    assert run(new_job(tmp_path, "last", keep="last", **settings))["kept"] == 3
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
        assert [json.loads(line)["event"] for line in logged] == ["start", "step", "step", "step", "evaluation"]
    one, again, other = outputs
    assert one == again
    assert one.keys() == {*bert_words().files(), "config.json", "model.safetensors", RECORD}
    assert one["model.safetensors"] != other["model.safetensors"]


def test_labels_may_be_given_in_their_order(tmp_path: Path) -> None:
    run(new_job(tmp_path, rows=20, labels=("good", "bad", "neither")))
    config = json.loads((tmp_path / "out" / "config.json").read_bytes())
    assert config["id2label"] == {"0": "good", "1": "bad", "2": "neither"}
    assert load_file(tmp_path / "out" / "model.safetensors")["classifier.weight"].shape == (3, 32)


def test_rows_and_tokens_are_accounted_for(tmp_path: Path) -> None:
    job = new_job(tmp_path, rows=40, max_length=6)
    evaluation = [*sentences(60, 2), ("", "good"), ("a film", "neither")]
    job = replace(job, evaluation=replace(write_table(tmp_path / "dev.tsv", evaluation), max_unusable=0.1))
    tables = run(job)["tables"]
    rows = tables["evaluation"]["ledger"]["accounts"]["rows"]
    assert rows == {"total": 62, "outcomes": {"given": 60, "dropped: empty text": 1, "dropped: unknown label": 1}}
    words = [len(text.split()) for text, _ in sentences(40, 1)]
    assert tables["training"]["ledger"]["figures"] == {
        "tokens": sum(min(length, 4) + 2 for length in words),
        "texts_cut": sum(length > 4 for length in words),
        "tokens_cut": sum(max(0, length - 4) for length in words),
    }
    assert sum(length > 4 for length in words) > 5


def test_sst2(tmp_path: Path, shared: Path) -> None:
    """200 real rows, columns by number, without a header."""
    lines = (shared / "data" / "tasks" / "sst2" / "train.tsv").read_text(encoding="utf-8").splitlines()
    job = new_job(tmp_path)
    tables = []
    for name, some in (("sst2-train.tsv", lines[:200]), ("sst2-dev.tsv", lines[200:260])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in some), encoding="utf-8")
        tables.append(TableSettings(path=str(tmp_path / name), text="2", label="1", header=False))
    record = run(replace(job, training=tables[0], evaluation=tables[1]))
    assert record["labels"] == ["0", "1"]
    assert record["tables"]["training"]["ledger"]["accounts"]["rows"]["outcomes"] == {"given": 200}
    assert record["tables"]["training"]["ledger"]["figures"]["texts_cut"] > 10  # letter by letter they are long


# The classifier.


def small_classifier(folder: Path, family: str, num_classes: int = 3) -> tuple[Classifier, Any, Any]:
    """A classifier on a small model, whose logits are far enough from zero to be told apart."""
    settings, inputs, state = load(write_model(folder, family))
    model = build_classifier(settings, inputs, num_classes, state)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return model.eval(), settings, inputs


def texts_of(folder: Path, family: str) -> tuple[Batch, list[str]]:
    settings, inputs, _ = load(folder)
    texts = [text[:20] for text, _ in sentences(7, 3)]
    encoded = encode_texts(open_tokenizer(folder, inputs, settings.positions), texts)
    assert encoded.num_cut == 0
    return batch_of([encoded[number] for number in range(len(encoded))]), texts


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_transformers_opens_an_export_with_equal_logits(tmp_path: Path, transformers: ModuleType, family: str) -> None:
    model, settings, inputs = small_classifier(tmp_path / "model", family)
    export_classifier(tmp_path / "out", model.state_dict(), settings, inputs, ("a", "b", "c"))
    reference, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not any(info.values()), info
    assert type(reference).__name__ == f"{'Bert' if family == 'bert' else 'Roberta'}ForSequenceClassification"
    assert reference.config.id2label == {0: "a", 1: "b", 2: "c"}
    batch, texts = texts_of(tmp_path / "model", family)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    with torch.no_grad():
        wanted = reference.eval().double()(**tokenizer(texts, padding=True, return_tensors="pt")).logits
        found = model.double()(batch, answering=True)
    assert found.std() > 0.05, "the test compares nothing"
    torch.testing.assert_close(found.double(), wanted, atol=1e-6, rtol=1e-6)  # a classifier's logits are float32


def test_bert_begins_with_the_pooler_that_pairs_have_learnt(tmp_path: Path) -> None:
    settings, inputs, state = load(write_model(tmp_path / "pairs"))
    taken = build_classifier(settings, inputs, 2, state).state_dict()
    assert torch.equal(taken["class_head.pooler.dense.weight"], state["pair_head.pooler.dense.weight"])
    assert torch.equal(taken["encoder.layers.1.widen.weight"], state["encoder.layers.1.widen.weight"])
    settings, inputs, state = load(write_model(tmp_path / "plain", pairs=False))
    drawn = build_classifier(settings, inputs, 2, state).state_dict()["class_head.pooler.dense.weight"]
    assert 0.01 < float(drawn.std()) < 0.03


def test_dropout_is_where_the_family_has_it(tmp_path: Path) -> None:
    """RoBERTa drops before the dense layer too: with everything dropped its pooled vector is tanh of the bias."""
    for family, drops_first in (("bert", False), ("roberta", True)):
        model, _, _ = small_classifier(tmp_path / family, family)
        head = model.class_head.train()
        head.dropout.p = 1.0
        pooled: list[Tensor] = []
        head.pooler.register_forward_hook(lambda module, given, out, kept=pooled: kept.append(out))
        logits = head(torch.ones(2, 32))
        assert torch.equal(logits, head.decision.bias.expand(2, -1))
        assert torch.equal(pooled[0][0], head.pooler.dense.bias.tanh()) == drops_first


def test_a_batch_without_texts_has_gradients_of_zero(tmp_path: Path) -> None:
    model, _, _ = small_classifier(tmp_path, "bert")
    logits = model(batch_of([]), answering=True)
    assert logits.shape == (0, 3)
    torch.nn.functional.cross_entropy(logits, torch.empty(0, dtype=torch.int64), reduction="sum").backward()
    missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert missing == []
    assert all(not parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


# Texts.


def test_a_text_that_is_cut_keeps_its_end_token(tmp_path: Path) -> None:
    _, inputs, _ = load(write_model(tmp_path))
    tokenizer = open_tokenizer(tmp_path, inputs, 5)
    encoded = encode_texts(tokenizer, ["good film", "the plot was very long", "", "a"])
    tokens = [[tokenizer.id_to_token(number) for number in encoded[row].tolist()] for row in range(len(encoded))]
    assert tokens == [
        ["[CLS]", "good", "film", "[SEP]"],
        ["[CLS]", "the", "plot", "was", "[SEP]"],
        ["[CLS]", "[SEP]"],
        ["[CLS]", "a", "[SEP]"],
    ]
    assert (encoded.num_cut, encoded.tokens_cut) == (1, 2)


def test_pieces_are_put_end_to_end(tmp_path: Path) -> None:
    _, inputs, _ = load(write_model(tmp_path))
    tokenizer = open_tokenizer(tmp_path, inputs, 5)
    texts = [text for text, _ in sentences(9, 4)]
    whole = encode_texts(tokenizer, texts)
    parts = concatenated(
        [encode_texts(tokenizer, texts[:4]), encode_texts(tokenizer, []), encode_texts(tokenizer, texts[4:])]
    )
    assert [part.tolist() for part in parts] == [row.tolist() for row in whole] and len(parts) == 9
    assert (parts.num_cut, parts.tokens_cut) == (whole.num_cut, whole.tokens_cut) != (0, 0)
    assert len(concatenated([])) == 0


# What is refused.


def test_what_the_user_can_mend_is_told(tmp_path: Path) -> None:
    job = new_job(tmp_path, rows=20)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")
    one_label = write_table(tmp_path / "one.tsv", [("a film", "good")] * 5)
    many = write_table(tmp_path / "many.tsv", [("a film", f"label {number}") for number in range(1001)])
    wrong: list[tuple[FinetuneJob, str]] = [
        (replace(job, output=str(tmp_path / "full")), "output folder .* is not empty"),
        (replace(job, model=str(tmp_path / "none")), r"has no config\.json"),
        (replace(job, training=one_label), "has one label alone, good"),
        (replace(job, training=many), "has 1001 different labels"),
        (replace(job, evaluation=many), r"1001 of 1001 rows cannot be used: 1001 unknown label"),
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
    _, inputs, _ = load(write_model(tmp_path))
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    change(content)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        open_tokenizer(tmp_path, inputs, 40)


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    _, inputs, _ = load(write_model(tmp_path))
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"has no tokenizer\.json"):
        open_tokenizer(tmp_path, inputs, 40)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels": ("a", "a")}, "names a class twice"),
        ({"metric": "f2"}, "metric = 'f2' is not known"),
        ({"metric": "pearson"}, 'say predict = "number"'),
        ({"metric": "pearson", "predict": "classes"}, "metric = 'pearson' is not known"),
        ({"epochs": 0}, "epochs = 0"),
        ({"warmup": 1.5}, "warmup = 1.5"),
        ({"batch": 0}, "batch = 0"),
        ({"precision": "float16"}, "precision = 'float16'"),
    ],
)
def test_settings_are_checked(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FinetuneSettings(**wrong)


def test_a_job_travels_as_json(tmp_path: Path) -> None:
    job = new_job(tmp_path, labels=("good", "bad"), dropout=0.2)
    assert FinetuneJob.from_json(job.to_json()) == job


def test_what_diverges_ends_with_a_paragraph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a process says it: a line of JSON, and exit code 2."""
    job = new_job(tmp_path, rows=20)
    weights = load_file(tmp_path / "model" / "model.safetensors")
    weights["bert.pooler.dense.bias"][0] = torch.nan
    save_file(weights, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "job.json").write_text(job.to_json())
    assert main([str(tmp_path / "job.json")]) == 2
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["start", "step", "failure"]
    assert "it has diverged. Lower learning_rate" in events[-1]["message"]
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="takes the path of a job"):
        main([])


# Several processes.


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    """Without dropout the weights differ by rounding alone."""
    settings = {"rows": 41, "epochs": 2, "dropout": 0.0, "learning_rate": 1e-4}
    write_model(tmp_path / "model", attention_dropout=0.0)
    alone = run(new_job(tmp_path, "alone", **settings))  # type: ignore[arg-type]
    job = new_job(tmp_path, "together", **settings)  # type: ignore[arg-type]
    (tmp_path / "job.json").write_text(job.to_json())
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *torchrun, "-m", "trainer", "finetune", str(tmp_path / "job.json")],
        capture_output=True, text=True, timeout=900, check=False,
        cwd=Path(__file__).resolve().parents[3],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert events[0]["processes"] == 2 and len([event for event in events if event["event"] == "step"]) == 6
    together = json.loads((tmp_path / "together" / RECORD).read_bytes())
    assert together["tables"] == alone["tables"]
    for one, other in zip(alone["epochs"], together["epochs"], strict=True):
        assert other == pytest.approx(one, rel=1e-4)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("alone", "together"))
    begun = load_file(tmp_path / "model" / "model.safetensors")
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, atol=1e-5, rtol=1e-4)
    learnt = [name for name in first.keys() & begun.keys() if not torch.equal(begun[name], first[name])]
    assert len(learnt) > 30, learnt
