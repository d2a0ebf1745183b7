"""ONNX: padded rows say what rows without padding say, so does the file, and the table tells what each takes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import write_model
from small_tasks import exported_model, new_job, run, scattered

from corpora.errors import InputError
from trainer.families.registry import FAMILIES
from trainer.huggingface.pretrained import load_pretrained
from trainer.tasks.batching import batch_of_items
from trainer.tasks.building import build_task_model
from trainer.tasks.contract import TaskItem, Tokens
from trainer.tasks.portable.exporting import export_onnx, made_items, onnx_outputs, write_onnx
from trainer.tasks.portable.padded import PaddedModel
from trainer.tasks.portable.running import OnnxModel
from trainer.tasks.portable.source import read_source
from trainer.tasks.rows.tags import TagsTask
from trainer.tasks.rows.texts import ClassesTask

THREE = ClassesTask(labels=("a", "b", "c"))
LENGTHS = (1, 3, 17, 40, 2)
WRITTEN = [  # torch takes some 4 s for each
    pytest.param(family, marks=pytest.mark.slow if family == "modernbert" else pytest.mark.huge) for family in FAMILIES
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Models this small are slower with more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def drawn_items(number: int = 0, lengths: tuple[int, ...] = LENGTHS) -> list[TaskItem]:
    """Texts of drawn ids, the second half of each of segment 1."""
    drawn = np.random.default_rng(number)
    sequences = [
        Tokens(drawn.integers(5, 40, length).astype(np.int32), (np.arange(length) > length // 2).astype(np.int32))
        for length in lengths
    ]
    return [TaskItem(sequences=(each,), example=0, points=np.arange(len(each.ids))) for each in sequences]


def padded_inputs(items: list[TaskItem], pad: int) -> tuple[torch.Tensor, ...]:
    """Ids, mask and segments of their sequences."""
    longest = max(item.num_tokens for item in items)
    ids, mask, segments = np.full((len(items), longest), pad), *np.zeros((2, len(items), longest), np.int64)
    for row, item in enumerate(items):
        [sequence] = item.sequences
        ids[row, : len(sequence.ids)], mask[row, : len(sequence.ids)] = sequence.ids, 1
        segments[row, : len(sequence.ids)] = sequence.segment_ids
    return tuple(map(torch.from_numpy, (ids, mask, segments)))


@pytest.mark.parametrize("family", list(FAMILIES))
def test_padded_rows_say_what_rows_without_padding_say(tmp_path: Path, family: str) -> None:
    """Of all lengths, whole texts and tokens; fails where padding, windows, places or segments are told otherwise."""
    longer = {"max_length": 200} if FAMILIES[family].window else {}
    write_model(tmp_path, family, **longer)
    settings, inputs, state = load_pretrained(tmp_path)
    items = drawn_items(lengths=(*LENGTHS, 190) if longer else LENGTHS)
    for task in (THREE, TagsTask(labels=("B-a", "I-a", "O"), usual="O", written="bio2", units="spans")):
        model = scattered(build_task_model(task, settings, inputs, state)).eval()
        with torch.inference_mode():
            ours = [model.outputs(batch_of_items([item])) for item in items]
            padded = PaddedModel(model, task.unit)(*padded_inputs(items, inputs.special_ids.pad))
        for item, mine, row in zip(items, ours, padded, strict=True):
            theirs = row[None] if task.unit == "sequence" else row[: item.num_tokens]
            assert torch.allclose(mine, theirs, atol=1e-5, rtol=1e-5), (mine - theirs).abs().max()


@pytest.mark.slow
def test_a_fine_tuned_folder_becomes_a_folder_for_onnxruntime(tmp_path: Path) -> None:
    """From the folder to the table: equal answers at every length, equal scores, int8 smaller and nearly as good."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    job = new_job(tmp_path, epochs=8)
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
    source = read_source(Path(job.output))
    onnx = OnnxModel(tmp_path / "onnx" / "model.onnx", source.inputs.special_ids.pad)
    items = drawn_items()
    with torch.inference_mode():
        wanted = [source.model.eval().outputs(batch_of_items([item])).numpy() for item in items]
    for mine, theirs in zip(wanted, onnx_outputs(onnx, source, items), strict=True):
        np.testing.assert_allclose(theirs, mine, atol=1e-5)
    with pytest.raises(InputError, match="is not empty"):
        export_onnx(Path(job.output), tmp_path / "onnx", False, None)
    names = {path.name for path in (tmp_path / "onnx").iterdir()}
    assert names >= {"tokenizer.json", "config.json", "finetune.json", "model.onnx", "model.int8.onnx"}


@pytest.mark.parametrize("family", WRITTEN)
def test_an_encoder_of_every_family_is_written(tmp_path: Path, family: str) -> None:
    """Every batch and length with one file, also beyond the window."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    longer = {"max_length": 200} if FAMILIES[family].window else {}
    source = read_source(write_model(tmp_path / "model", family, **longer))
    source = replace(source, model=scattered(source.model).eval())
    write_onnx(source, tmp_path / "model.onnx")
    onnx = OnnxModel(tmp_path / "model.onnx", source.inputs.special_ids.pad)
    items = [*drawn_items(), *made_items(source)]
    with torch.inference_mode():
        wanted = [source.model.outputs(batch_of_items([item])).numpy() for item in items]
    for some in (slice(0, 1), slice(0, None)):
        for mine, theirs in zip(wanted[some], onnx_outputs(onnx, source, items[some]), strict=True):
            np.testing.assert_allclose(theirs, mine, atol=1e-4, rtol=1e-4)


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    """Fails where further columns are left out in silence, or examples are scored by no task."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = write_model(tmp_path / "model")
    columns = replace(THREE, numeric=("age",), means=(0.0,), deviations=(1.0,))
    exported_model(columns, model, tmp_path / "columns")
    (tmp_path / "columns" / "finetune.json").write_text(
        json.dumps(
            {
                "task": {
                    "kind": "classes",
                    "labels": ["a", "b", "c"],
                    "numeric": ["age"],
                    "means": [0.0],
                    "deviations": [1.0],
                }
            }
        )
    )
    with pytest.raises(InputError, match=r"reads further columns beside the text \(age\)"):
        export_onnx(tmp_path / "columns", tmp_path / "out", False, None)
    with pytest.raises(InputError, match="an encoder without a task"):
        export_onnx(model, tmp_path / "out", False, new_job(tmp_path).evaluation)
    assert not (tmp_path / "out").exists()
