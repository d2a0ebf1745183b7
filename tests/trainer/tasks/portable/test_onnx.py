"""ONNX: padded rows say what rows without padding say, so do files, and folders without torch."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_models import write_model
from small_tasks import new_job, run, scattered, write_rows

from corpora.errors import InputError
from trainer.huggingface.checkpoints import load_pretrained
from trainer.huggingface.sentences import MODES
from trainer.settings.model import FAMILIES
from trainer.tasks.contract import TaskItem, Tokens
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.task_model import build_task_model
from trainer.tasks.kinds.answers import SpanTask
from trainer.tasks.kinds.choices import ChoiceTask
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.kinds.summary import SummaryTask
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.texts import ClassesTask
from trainer.tasks.kinds.vectors import RetrievalTask, SimilarityTask
from trainer.tasks.portable.exporting import export_onnx, made_items, write_files, write_graph
from trainer.tasks.portable.folder import answered, read_folder
from trainer.tasks.portable.graphs import graphs_of, plain_rows
from trainer.tasks.portable.padded import PaddedModel
from trainer.tasks.portable.running import OnnxFiles
from trainer.tasks.saving import Loaded, read_source

THREE = ClassesTask(labels=("a", "b", "c"))
BESIDE = replace(THREE, numeric=("age",), means=(40.0,), deviations=(5.0,), categorical=("kind",),
                 categories=(("x", "y"),))  # fmt: skip
TAGS = TagsTask(labels=("O", "B-a", "I-a"), usual="O", written="bio2", units="spans")
KINDS: dict[str, Any] = {
    "columns": BESIDE,
    "tags": TAGS,
    "features": replace(TAGS, features="concat-last-four", lstm_layers=0),
    "spans": SpanTask(),
    "choices": ChoiceTask(),
    "summary": SummaryTask(),
    "cosine": SimilarityTask(lowest=0.0, highest=5.0, pooling="+".join(MODES)),
    "dual": RetrievalTask(shared=False, pooling="cls"),
    "dot": RetrievalTask(similarity="dot"),
}
LENGTHS = (1, 3, 17, 40, 2)


def drawn_items(lengths: tuple[int, ...] = LENGTHS) -> list[TaskItem]:
    """Texts of drawn ids, the second half of each of segment 1."""
    drawn = np.random.default_rng(0)
    return [
        TaskItem(
            sequences=(Tokens(drawn.integers(5, 40, length).astype(np.int32),
                              (np.arange(length) > length // 2).astype(np.int32)),),
            example=0,
            points=np.arange(length),
        )
        for length in lengths
    ]  # fmt: skip


def loaded_with(task: Any, folder: Path) -> Loaded:
    """A task's model on the one in a folder, its weights far from zero."""
    settings, inputs, *_ = pretrained = load_pretrained(folder)
    model = scattered(build_task_model(task, pretrained)).eval()
    return Loaded(task=task, settings=settings, inputs=inputs, model=model, max_length=40)


class PaddedSession:
    """The module that is written, called as onnxruntime's session of its file."""

    def __init__(self, loaded: Loaded, number: int) -> None:
        self.padded = PaddedModel(graphs_of(loaded)[number].module, loaded.task.unit != "sequence")
        names = ["input_ids", "attention_mask", "token_type_ids", *(["columns"] if loaded.task is BESIDE else [])]
        self.inputs = [SimpleNamespace(name=name) for name in names]

    def get_inputs(self) -> list[Any]:
        return self.inputs

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name="first")]

    def run(self, names: list[str], given: dict[str, Any]) -> list[Any]:
        with torch.inference_mode():
            return [self.padded(**{name: torch.from_numpy(values) for name, values in given.items()})[0].numpy()]


def padded_files(loaded: Loaded) -> OnnxFiles:
    files = OnnxFiles([], loaded.inputs.special_ids.pad)
    files.sessions = [PaddedSession(loaded, number) for number in range(len(graphs_of(loaded)))]
    return files


def check_rows(source: Loaded, items: list[TaskItem], files: OnnxFiles | None = None) -> None:
    """Padded rows, or files, say what our modules say."""
    found = (files or padded_files(source)).rows(items, source.task.unit)
    for mine, theirs in zip(plain_rows(source, items), found, strict=True):
        np.testing.assert_allclose(theirs, mine, atol=1e-4 if files else 1e-5, rtol=1e-4 if files else 1e-5)


@pytest.mark.parametrize("family", list(FAMILIES))
def test_padded_rows_say_what_rows_without_padding_say(tmp_path: Path, family: str) -> None:
    """Covers all lengths, whole texts and tokens; fails where padding, windows, places or segments differ."""
    longer = {"max_length": 200} if FAMILIES[family].window else {}
    write_model(tmp_path, family, **longer)
    items = drawn_items((*LENGTHS, 190) if longer else LENGTHS)
    for task in (THREE, TAGS):
        check_rows(loaded_with(task, tmp_path), items)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_of_every_task_says_what_its_model_says(tmp_path: Path, kind: str) -> None:
    """Fails where columns, a pooling, a second encoder or the side that is seen go another way on padded rows."""
    source = loaded_with(KINDS[kind], write_model(tmp_path, layers=4))
    items = made_items(source)
    assert len({item.num_tokens for item in items}) > 2, "nothing is padded"
    check_rows(source, items)


@pytest.mark.parametrize(
    "task",
    [replace(TAGS, crf=True), replace(TAGS, features="last", lstm_layers=1, lstm_size=8), NextTask(),
     SimilarityTask(loss="softmax", labels=("no", "yes"))],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(tmp_path: Path, task: Any) -> None:
    """Fails where a file is written whose outputs are not the answers."""
    with pytest.raises(InputError, match="cannot be written as ONNX: its answers are more than a file's outputs"):
        graphs_of(loaded_with(task, write_model(tmp_path)))


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
    check_predicting(tmp_path / "onnx", job.evaluation.path, told)
    check_damaged(tmp_path / "onnx")


def check_predicting(folder: Path, file: str, told: dict[str, Any]) -> None:
    """By a process that cannot import torch, and by eight bits."""
    (folder.parent / "file.json").write_text(json.dumps({"path": file}))
    asked = [str(folder), str(folder.parent / "file.json"), str(folder.parent / "said.jsonl"), "--labelled"]
    program = f"import sys; sys.modules['torch'] = None; from trainer.tasks.portable.folder import main; main({asked})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"] == told["models"][1]["scores"]
    rows = [json.loads(line) for line in (folder.parent / "said.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 60 and {row["label"] for row in rows} == {"bad", "good"}
    task, smaller = answered(folder, FileSettings(path=file), labelled=True, int8=True)
    assert task.scores(smaller.file.examples, smaller.predictions) == told["models"][2]["scores"]


def check_damaged(folder: Path) -> None:
    """A file of another model, one that is gone, one that is no ONNX, and a table without what is needed."""
    model, table = folder / "model.onnx", folder / "onnx.json"
    whole, told = model.read_bytes(), json.loads(table.read_text(encoding="utf-8"))
    model.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged, or of another model"):
        read_folder(folder, int8=False)
    with pytest.raises(InputError, match="cannot be read as ONNX"):
        OnnxFiles([model], 0)
    model.unlink()
    with pytest.raises(InputError, match="is missing"):
        read_folder(folder, int8=False)
    for changed, message in [
        ({"files": {"float32": ["model.onnx"], "int8": []}}, "no eight-bit weights"),
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
    write_graph(source, graphs_of(source)[0], tmp_path / "model.onnx")
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
    source = loaded_with(KINDS[kind], folder)
    (tmp_path / "onnx").mkdir()
    written = write_files(source, folder, tmp_path / "onnx", int8=False)["float32"]
    assert len(written) == (2 if kind == "dual" else 1)
    check_rows(source, made_items(source), OnnxFiles(written, source.inputs.special_ids.pad))


def test_examples_of_an_encoder_are_refused(tmp_path: Path) -> None:
    """Fails where examples are scored by no task."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = write_model(tmp_path / "model")
    with pytest.raises(InputError, match="an encoder without a task"):
        export_onnx(model, tmp_path / "out", False, new_job(tmp_path).evaluation)
    assert not (tmp_path / "out").exists()


def test_what_wants_weights_of_a_folder_of_onnx_says_who_reads_it(tmp_path: Path) -> None:
    """Fails where it is told to import the folder."""
    (write_model(tmp_path) / "model.safetensors").rename(tmp_path / "model.onnx")
    with pytest.raises(InputError, match=r"holds ONNX files and no model\.safetensors: `cloze predict` reads it"):
        load_pretrained(tmp_path)
