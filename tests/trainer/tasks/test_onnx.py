"""ONNX: padded rows give the answers of rows without padding, files give them too, and the guide's lines run."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_blocks import blocks
from small_models import write_model
from small_tasks import exported_model, said_of, scattered, write_json_rows

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from flows.command.cli import run_command_line
from trainer.huggingface.checkpoints import load_pretrained
from trainer.huggingface.sentence_transformers import MODES
from trainer.settings.model import FAMILIES
from trainer.tasks import onnx
from trainer.tasks.folders import LoadedFolder, read_source
from trainer.tasks.heads.task_model import build_task_model
from trainer.tasks.kinds.answers import SpanTask
from trainer.tasks.kinds.choices import ChoiceTask
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.texts import ClassesTask
from trainer.tasks.kinds.vectors import RetrievalTask, SimilarityTask
from trainer.tasks.onnx import Graph, PaddedModel, export_onnx, list_graphs, measure_difference, open_graph, write_files

THREE = ClassesTask(labels=("a", "b", "c"))
TAGS = TagsTask(labels=("O", "B-a", "I-a"), usual="O", written="bio2", units="spans")
KINDS: dict[str, Any] = {
    "classes": THREE,
    "tags": TAGS,
    "spans": SpanTask(),
    "choices": ChoiceTask(),
    "cosine": SimilarityTask(lowest=0.0, highest=5.0, pooling="+".join(MODES)),
    "dual": RetrievalTask(shared=False, pooling="cls"),
    "dot": RetrievalTask(similarity="dot"),
}


def loaded_with(task: Any, folder: Path) -> LoadedFolder:
    """A task's model on the one in a folder, its weights far from zero."""
    settings, inputs, *_ = pretrained = load_pretrained(folder)
    model = scattered(build_task_model(task, pretrained)).eval()
    return LoadedFolder(task=task, settings=settings, inputs=inputs, model=model, max_length=settings.positions)


def padded(source: LoadedFolder, graph: Graph) -> onnx.Answer:
    """The module that is written, in place of its file."""
    model = PaddedModel(graph, source.task.unit != "sequence")
    return lambda rows: np.asarray(model(*map(torch.from_numpy, rows.values()))[0])


def with_mask(answer: onnx.Answer, rows: Mapping[str, Int64s]) -> Any:
    """The answers as they are where padding is read as text."""
    return answer({**rows, onnx.MASK: np.ones_like(rows[onnx.MASK])})


def installed() -> None:
    for package in onnx.PACKAGES:
        pytest.importorskip(package)


@pytest.mark.parametrize("family", list(FAMILIES))
def test_padded_rows_have_the_answers_of_rows_without_padding(tmp_path: Path, family: str) -> None:
    """Covers whole texts and tokens; fails if padding, windows, places or segments differ."""
    longer = {"max_length": 200} if FAMILIES[family].window else {}
    write_model(tmp_path, family, **longer)
    for task in (THREE, TAGS):
        source = loaded_with(task, tmp_path)
        [graph] = list_graphs(source)
        answer = padded(source, graph)
        assert measure_difference(source, graph, answer) < 1e-5
        flipped = partial(with_mask, answer)
        assert measure_difference(source, graph, flipped) > 1e-3, "a mask that is not heeded would not be seen"


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_of_every_task_have_its_models_answers(tmp_path: Path, kind: str) -> None:
    """Fails if a pooling, a second encoder or the side that is seen go another way on padded rows."""
    source = loaded_with(KINDS[kind], write_model(tmp_path, layers=4))
    graphs = list_graphs(source)
    assert len(graphs) == (2 if kind == "dual" else 1)
    assert max(measure_difference(source, graph, padded(source, graph)) for graph in graphs) < 1e-5


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (replace(TAGS, crf=True), "its answers are more"),
        (NextTask(), "its answers are more"),
        (SimilarityTask(loss="softmax", labels=("no", "yes")), "its answers are more"),
        (replace(THREE, numeric=("age",), means=(40.0,), deviations=(5.0,)), "a file is given ids alone"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, task: Any, why: str) -> None:
    """Fails if a file is written whose outputs are not the answers."""
    with pytest.raises(InputError, match=f"cannot be written as ONNX: {why}"):
        list_graphs(loaded_with(task, write_model(tmp_path)))


def test_the_guides_lines_answer_as_the_model_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exported folder is whole; fails if 8 bits are another model, or a file that differs is kept."""
    installed()
    exported_model(THREE, write_model(tmp_path / "model"), tmp_path / "FOLDER", {"max_length": 40})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="--int8 is of an ONNX file: add --onnx"):
        run_command_line(["export", "FOLDER", "small", "--int8"], tmp_path)
    assert run_command_line(["export", "FOLDER", "small", "--onnx", "--int8"], tmp_path) == 0
    names = {path.name for path in Path("small").iterdir()}
    assert names >= {"model.onnx", "model.int8.onnx", "tokenizer.json", "config.json", "finetune.json"}
    [shown] = [block.text for block in blocks("guide-onnx.md", "python") if "onnxruntime" in block.text]
    assert len(shown.strip().splitlines()) <= 11, "ten lines, and one without text"
    ran = dict[str, Any]()
    exec(shown, ran)
    texts = [ran["tokenizer"].decode(text.ids) for text in ran["texts"]]
    _, rows = said_of(
        Path("FOLDER"), write_json_rows(Path("texts.jsonl"), [{"text": each} for each in texts]), Path("o")
    )
    assert [THREE.labels[number] for number in ran["logits"].argmax(-1)] == [row["label"] for row in rows]
    source = read_source(Path("FOLDER"))
    [graph] = list_graphs(source)
    assert 0 < measure_difference(source, graph, open_graph(Path("small/model.int8.onnx"))) < 0.2
    assert Path("small/model.int8.onnx").stat().st_size < Path("small/model.onnx").stat().st_size
    with pytest.raises(InputError, match="is not empty"):
        export_onnx(Path("FOLDER"), Path("small"), int8=False)
    monkeypatch.setattr(onnx, "MAX_DIFFERENCE", -1.0)
    with pytest.raises(InputError, match="answers differently from the model"):
        export_onnx(Path("FOLDER"), Path("none"), int8=False)
    assert not Path("none").exists()


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_an_encoder_of_every_family_is_written(tmp_path: Path, family: str) -> None:
    """Each batch and length with one file, also beyond the window; torch takes some 4 s for each."""
    installed()
    longer = {"max_length": 200} if FAMILIES[family].window else {}
    source = read_source(write_model(tmp_path / "model", family, **longer))
    source = replace(source, model=scattered(source.model))
    write_files(source, tmp_path, int8=False)
    [graph] = list_graphs(source)
    answer = open_graph(tmp_path / "model.onnx")
    assert measure_difference(source, graph, answer) < 1e-4
    assert answer({name: np.ones((1, 3), np.int64) for name in onnx.INPUTS}).shape[:2] == (
        1,
        3,
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_model_of_every_task_is_written(tmp_path: Path, kind: str) -> None:
    """One file, or two of a dual encoder; torch takes some 5 s for each."""
    installed()
    source = loaded_with(KINDS[kind], write_model(tmp_path / "model", layers=4))
    write_files(source, tmp_path, int8=False)
    for graph in list_graphs(source):
        assert measure_difference(source, graph, open_graph(tmp_path / f"{graph.name}.onnx")) < 1e-4


def test_a_folder_of_onnx_is_no_model_to_learn_from(tmp_path: Path) -> None:
    """Fails if the user is told to import the folder."""
    (write_model(tmp_path) / "model.safetensors").rename(tmp_path / "model.onnx")
    with pytest.raises(InputError, match=r"holds ONNX files and no model\.safetensors: give the folder that it was"):
        load_pretrained(tmp_path)
