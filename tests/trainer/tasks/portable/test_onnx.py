"""ONNX: padded rows say what rows without padding say, so do files, what comes after them, folders without torch."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import write_model
from small_tasks import encoded_for, new_job, run, scattered, write_rows

from corpora.errors import InputError
from trainer.huggingface.pretrained import load_pretrained
from trainer.settings.model import FAMILIES
from trainer.tasks.building import build_task_model
from trainer.tasks.contract import TaskItem, Tokens
from trainer.tasks.encoding.batching import batch_of_items
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.tagging.chains import Chains
from trainer.tasks.heads.tagging.crf import LinearChain
from trainer.tasks.heads.tagging.tags import forbidden_tags
from trainer.tasks.kinds.answers import SpanTask
from trainer.tasks.kinds.choices import ChoiceTask
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.kinds.retrieval import RetrievalTask
from trainer.tasks.kinds.similarity import SimilarityTask
from trainer.tasks.kinds.summary import SummaryTask
from trainer.tasks.kinds.tags import CHAINS, INNER, TagsTask
from trainer.tasks.kinds.texts import ClassesTask
from trainer.tasks.portable.answering import answer_of, rows_of
from trainer.tasks.portable.exporting import export_onnx, made_items, weights_after, write_files, write_graph
from trainer.tasks.portable.folder import read_folder
from trainer.tasks.portable.graphs import PortableModel, item_of, plain_rows, read_source
from trainer.tasks.portable.padded import PaddedModel
from trainer.tasks.portable.predicting import answered
from trainer.tasks.portable.running import OnnxFiles, OnnxText

THREE = ClassesTask(labels=("a", "b", "c"))
BESIDE = replace(THREE, numeric=("age",), means=(40.0,), deviations=(5.0,), categorical=("kind",),
                 categories=(("x", "y"),))  # fmt: skip
TAGS = TagsTask(labels=("O", "B-a", "I-a"), usual="O", written="bio2", units="spans")
LSTM = replace(TAGS, features="concat-last-four", lstm_layers=2, lstm_size=8)
CHAIN = replace(TAGS, crf=True, constrained=True)
SOFTMAX = SimilarityTask(loss="softmax", labels=("no", "yes"), pooling="max")
DUAL = RetrievalTask(shared=False, pooling="cls")
KINDS: dict[str, Any] = {
    "columns": BESIDE,
    "tags": TAGS,
    "chain": CHAIN,
    "lstm": LSTM,
    "spans": SpanTask(),
    "choices": ChoiceTask(),
    "summary": SummaryTask(),
    "cosine": SimilarityTask(lowest=0.0, highest=5.0),
    "softmax": SOFTMAX,
    "dual": DUAL,
    "dot": RetrievalTask(similarity="dot"),
    "next": NextTask(),
    "previous": NextTask(direction="right"),
}
LENGTHS = (1, 3, 17, 40, 2)


def drawn_items(number: int = 0, lengths: tuple[int, ...] = LENGTHS) -> list[TaskItem]:
    """Texts of drawn ids, the second half of each of segment 1."""
    drawn = np.random.default_rng(number)
    sequences = [
        Tokens(drawn.integers(5, 40, length).astype(np.int32), (np.arange(length) > length // 2).astype(np.int32))
        for length in lengths
    ]
    return [item_of(OnnxText([each])) for each in sequences]


def padded_inputs(sequences: list[Any], pad: int) -> tuple[torch.Tensor, ...]:
    """Ids, mask and segments."""
    longest = max(len(sequence.ids) for sequence in sequences)
    ids, mask, segments = np.full((len(sequences), longest), pad), *np.zeros((2, len(sequences), longest), np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence.ids)], mask[row, : len(sequence.ids)] = sequence.ids, 1
        segments[row, : len(sequence.ids)] = sequence.segments
    return tuple(map(torch.from_numpy, (ids, mask, segments)))


def source_of(task: Any, folder: Path) -> PortableModel:
    """A task's model on the one in a folder, its weights far from zero."""
    settings, inputs, state = load_pretrained(folder)
    model = scattered(build_task_model(task, settings, inputs, state)).eval()
    return PortableModel(task=task, settings=settings, inputs=inputs, model=model, max_length=40)


class PaddedFiles(OnnxFiles):
    """The modules that are written in place of the files, all sequences of a file as one batch."""

    def __init__(self, source: PortableModel) -> None:
        self.models = [PaddedFile(source, number) for number in range(len(source.graphs))]


class PaddedFile:
    """An ONNX file's contents, called in the same way."""

    def __init__(self, source: PortableModel, number: int) -> None:
        self.source, self.per_token = source, source.unit != "sequence"
        self.padded = PaddedModel(source.graphs[number].module, self.per_token)

    def rows(self, sequences: Any, per_token: bool) -> list[Any]:
        """As `OnnxModel`'s."""
        columns = [torch.from_numpy(each.columns) for each in sequences if each.columns is not None]
        given = padded_inputs(sequences, self.source.inputs.special_ids.pad)
        with torch.inference_mode():
            rows = self.padded(*given, torch.cat(columns) if columns else None)[0].numpy()
        return [row[: len(each.ids)] if per_token else row[None] for row, each in zip(rows, sequences, strict=True)]


@pytest.mark.parametrize("family", list(FAMILIES))
def test_padded_rows_say_what_rows_without_padding_say(tmp_path: Path, family: str) -> None:
    """Covers all lengths, whole texts and tokens; fails where padding, windows, places or segments differ."""
    longer = {"max_length": 200} if FAMILIES[family].window else {}
    write_model(tmp_path, family, **longer)
    items = drawn_items(lengths=(*LENGTHS, 190) if longer else LENGTHS)
    for task in (THREE, TAGS):
        check_rows(source_of(task, tmp_path), items)


def check_rows(source: PortableModel, items: list[TaskItem], files: Any = None) -> None:
    """Padded rows, or files, say what our modules say."""
    found = rows_of(files or PaddedFiles(source), source.unit, items)
    for mine, theirs in zip(plain_rows(source, items), found, strict=True):
        np.testing.assert_allclose(theirs, mine, atol=1e-4 if files else 1e-5, rtol=1e-4 if files else 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_of_every_task_says_what_its_model_says(tmp_path: Path, kind: str) -> None:
    """Fails where columns, a pooling, a second encoder or the side that is seen go another way on padded rows."""
    source = source_of(KINDS[kind], write_model(tmp_path, layers=4))
    items = made_items(source)
    assert len({item.num_tokens for item in items}) > 2, "nothing is padded"
    check_rows(source, items)


@pytest.mark.parametrize("crf", [False, True], ids=["softmax", "chain"])
def test_tags_after_an_lstm_are_those_of_the_model(tmp_path: Path, crf: bool) -> None:
    """Covers sentences of several lengths, and windows that cut one; fails where the LSTM or Viterbi differs."""
    task = replace(LSTM, crf=crf, constrained=crf)
    values = [{"words": text.split()} for text in ("the dog", "a", "the dog and the cat and a dog " * 4)]
    check_answers(task, write_model(tmp_path, layers=4), values)


def test_the_tags_of_a_chain_are_those_of_the_model() -> None:
    """Drawn emissions of sentences that go on, or not; fails where a forbidden pair is taken, or another path."""
    chain = LinearChain(len(CHAIN.labels), forbidden_tags(CHAIN))
    torch.manual_seed(0)
    for parameter in chain.parameters():
        torch.nn.init.normal_(parameter)
    lengths = np.array([1, 2, 30, 7, 60])
    inner = np.array([[False, False], [True, False], [False, True], [True, True], [False, False]])
    emissions = torch.randn(lengths.sum(), len(CHAIN.labels))
    with torch.inference_mode():
        wanted = chain.best(emissions, Chains.of(torch.from_numpy(lengths)), torch.from_numpy(inner)).numpy()
    weights = {f"chain.{name}": parameter.detach().numpy() for name, parameter in chain.named_parameters()}
    item = TaskItem(sequences=(), example=0, targets={CHAINS: lengths, INNER: inner})
    assert len({*wanted.tolist()}) == 3 and not forbidden_tags(CHAIN).first[wanted[0]]
    assert answer_of(CHAIN, emissions.numpy(), item, weights).tolist() == wanted.tolist()


def test_classes_of_a_pair_and_costs_of_next_words_are_those_of_the_model(tmp_path: Path) -> None:
    """Fails where numpy's additions to vectors and to logits differ from the model's."""
    folder = write_model(tmp_path)
    check_answers(SOFTMAX, folder, [{"text": "the dog", "second": "a cat"}, {"text": "a", "second": "the dog and a"}])
    check_answers(KINDS["next"], folder, [{"text": "the dog and a cat"}, {"text": "a"}])


def check_answers(task: Any, folder: Path, values: list[dict[str, Any]]) -> None:
    """Check that what numpy makes of padded rows is what the model answers."""
    source = source_of(task, folder)
    items = encoded_for(task, folder, values, length=16, labelled=False).items
    weights = weights_after(source)
    for item, rows in zip(items, rows_of(PaddedFiles(source), source.unit, items), strict=True):
        with torch.inference_mode():
            wanted = source.model.answers(batch_of_items([item])).numpy()
        np.testing.assert_allclose(answer_of(task, rows, item, weights), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.long
def test_a_fine_tuned_folder_becomes_a_folder_for_onnxruntime(tmp_path: Path) -> None:
    """From the folder to the table and to answers without torch, with a column beside the text.

    Equal answers at every length, equal scores, int8 smaller and nearly as good; damaged files are refused.
    """
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    write_model(tmp_path / "model", "modernbert")
    job = new_job(tmp_path, epochs=4, task={"numeric": ["age"]})
    for file in (job.training, job.evaluation):
        rows = [line.split("\t") for line in Path(file.path).read_text(encoding="utf-8").splitlines()[1:]]
        write_rows(Path(file.path), [(*row, str(len(row[0]))) for row in rows], ("text", "label", "age"))
    kept = run(job)["restarts"][0]
    told = export_onnx(Path(job.output), tmp_path / "onnx", True, job.evaluation)
    assert told == json.loads((tmp_path / "onnx" / "onnx.json").read_text(encoding="utf-8"))
    ours, float32, int8 = told["models"]
    assert (
        ours["scores"] == float32["scores"] == {name: kept["epochs"][kept["kept"] - 1][name] for name in ours["scores"]}
    )
    assert ours["scores"]["accuracy"] > 0.8, "the test compares nothing"
    assert int8["scores"]["accuracy"] > 0.7 and 0 < int8["difference"] < 0.2
    assert float32["difference"] < 1e-5 and int8["file_bytes"] < float32["file_bytes"] > ours["parameters"] * 4
    assert all(each["milliseconds"] > 0 and each["memory_bytes"] > 1 << 20 for each in told["models"])
    assert float32["memory_bytes"] < ours["memory_bytes"] / 2, "torch or the trainer is in the process of the file"
    names = {path.name for path in (tmp_path / "onnx").iterdir()}
    assert names >= {"tokenizer.json", "config.json", "finetune.json", "model.onnx", "model.int8.onnx"}
    with pytest.raises(InputError, match="is not empty"):
        export_onnx(Path(job.output), tmp_path / "onnx", False, None)
    check_rows(read_source(Path(job.output)), made_items(read_source(Path(job.output))),
               read_folder(tmp_path / "onnx", False).opened())  # fmt: skip
    check_predicting(tmp_path / "onnx", job.evaluation.path, told)
    check_damaged(tmp_path / "onnx")


def check_predicting(folder: Path, file: str, told: dict[str, Any]) -> None:
    """By a process that cannot import torch, and by eight bits."""
    (folder.parent / "file.json").write_text(json.dumps({"path": file}))
    asked = [str(folder), str(folder.parent / "file.json"), str(folder.parent / "said.jsonl"), "--labelled"]
    program = (
        f"import sys; sys.modules['torch'] = None; from trainer.tasks.portable.predicting import main; main({asked})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"] == told["models"][1]["scores"]
    rows = [json.loads(line) for line in (folder.parent / "said.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 60 and {row["label"] for row in rows} == {"bad", "good"}
    task, smaller = answered(folder, FileSettings(path=file), labelled=True, int8=True)
    assert task.scores(smaller.file.examples, smaller.predictions) == told["models"][2]["scores"]


def check_damaged(folder: Path) -> None:
    """A file that lacks bytes, one of another model, one that is gone, and a table without what is needed."""
    model, table = folder / "model.onnx", folder / "onnx.json"
    whole, told = model.read_bytes(), json.loads(table.read_text(encoding="utf-8"))
    for content in (whole[:-7], (folder / "model.int8.onnx").read_bytes()):
        model.write_bytes(content)
        with pytest.raises(InputError, match="damaged, or of another model"):
            read_folder(folder, int8=False)
    with pytest.raises(InputError, match="cannot be read as ONNX"):
        model.write_bytes(whole[: len(whole) // 2])
        OnnxFiles([model], 0)
    model.unlink()
    with pytest.raises(InputError, match="is missing"):
        read_folder(folder, int8=False)
    for changed, message in [
        ({"files": {"float32": ["model.onnx"], "int8": []}}, "no eight-bit weights"),
        ({"special_ids": {}}, "special_ids"),
        ({"sha256": None}, "lacks what an answer needs"),
        ({"task": None}, "an encoder without a task"),
    ]:
        table.write_text(json.dumps(told | changed), encoding="utf-8")
        with pytest.raises(InputError, match=message):
            read_folder(folder, int8=True)


@pytest.mark.parametrize(
    "family", [name if name == "bert" else pytest.param(name, marks=pytest.mark.long) for name in FAMILIES]
)
def test_an_encoder_of_every_family_is_written(tmp_path: Path, family: str) -> None:
    """Every batch and length with one file, also beyond the window; torch takes some 4 s for each."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    longer = {"max_length": 200} if FAMILIES[family].window else {}
    source = read_source(write_model(tmp_path / "model", family, **longer))
    source = replace(source, model=scattered(source.model).eval())
    write_graph(source, source.graphs[0], tmp_path / "model.onnx")
    files = OnnxFiles([tmp_path / "model.onnx"], source.inputs.special_ids.pad)
    items = [*drawn_items(), *made_items(source)]
    for some in (items[:1], items):
        check_rows(source, some, files)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_model_of_every_task_is_written(tmp_path: Path, kind: str) -> None:
    """One file, or two of a dual encoder; torch takes some 5 s for each."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    folder = write_model(tmp_path, layers=4)
    source = source_of(KINDS[kind], folder)
    (tmp_path / "onnx").mkdir()
    written = write_files(source, folder, tmp_path / "onnx", int8=False)["float32"]
    assert len(written) == (2 if kind == "dual" else 1)
    check_rows(source, made_items(source), OnnxFiles(written, source.inputs.special_ids.pad))


def test_what_wants_weights_of_a_folder_of_onnx_says_who_reads_it(tmp_path: Path) -> None:
    """Fails where it is told to import the folder."""
    folder = write_model(tmp_path)
    (folder / "model.safetensors").rename(folder / "model.onnx")
    with pytest.raises(InputError, match=r"holds ONNX files and no model\.safetensors: `cloze predict` reads it"):
        read_source(folder)


def test_examples_of_an_encoder_are_refused(tmp_path: Path) -> None:
    """Fails where examples are scored by no task."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = write_model(tmp_path / "model")
    with pytest.raises(InputError, match="an encoder without a task"):
        export_onnx(model, tmp_path / "out", False, new_job(tmp_path).evaluation)
    assert not (tmp_path / "out").exists()
