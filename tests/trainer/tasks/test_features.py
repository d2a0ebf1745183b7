"""Features of encoders that learn nothing, two encoders, and a BiLSTM: what is read, learnt, saved and read back."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_models import write_model
from small_tags import tags_job
from small_tasks import encoded_for, exported_model, kept_of, run, said_of

from corpora.errors import InputError
from trainer.huggingface.checkpoints import load_pretrained
from trainer.model.batches import Batch
from trainer.tasks.heads.tag_chains import Chains
from trainer.tasks.heads.tags import LAYERS, LayerFeatures, SentenceLSTM
from trainer.tasks.heads.task_model import batch_of_items, build_task_model
from trainer.tasks.kinds.tags import FEATURES, TagsTask
from trainer.tasks.saving import load_task

ROWS: list[dict[str, Any]] = [
    {"words": ["good", "-film", "xy"], "tags": ["B-X", "I-X", "O"]},
    {"words": ["the"], "tags": ["O"]},
    {"words": ["plot", "was", "long"], "tags": ["O", "O", "B-X"]},
]
SMALL = TagsTask(units="spans", labels=("O", "B-X", "I-X"), usual="O", lstm_size=8)


def batch_for(task: TagsTask, folder: Path) -> Batch:
    return batch_of_items(encoded_for(task, folder, ROWS).items)


@pytest.mark.parametrize("family", ["bert", "albert", "electra", "modernbert"])
def test_hidden_states_are_those_of_transformers(tmp_path: Path, transformers: ModuleType, family: str) -> None:
    """Fails where the input of the first layer, the output of each layer, or the last one as it leaves differs."""
    sizes = {"embedding_size": 16} if family in ("albert", "electra") else {}
    write_model(tmp_path / "model", family, layers=3, **sizes)
    model = exported_model(SMALL, tmp_path / "model", tmp_path / "out").double()
    [item, *_] = encoded_for(SMALL, tmp_path / "model", ROWS).items
    reference = transformers.AutoModel.from_pretrained(tmp_path / "out").eval().double()
    with torch.no_grad():
        batch = batch_of_items([item])
        found = model.encoder.hidden_states(batch)
        wanted = reference(batch.ids[None], output_hidden_states=True).hidden_states
        assert torch.equal(found[-1], model.encoder(batch))
    assert len(found) == len(wanted) == 4
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs[0], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("kind", FEATURES)
def test_features_are_of_the_layers_that_their_name_says(kind: str) -> None:
    states = [torch.full((2, 3), float(10**number)) for number in range(6)]  # of five layers
    features = LayerFeatures(kind, 5, 3)
    sums = {"embeddings": 1, "last": 1e5, "second-to-last": 1e4, "sum-last-four": 111_100, "weighted": 111_110 / 5}
    said = features(states)
    assert said.shape == (2, features.width)
    if kind == "concat-last-four":
        assert said[0].tolist() == [100.0] * 3 + [1e3] * 3 + [1e4] * 3 + [1e5] * 3
    else:
        assert said[1].tolist() == pytest.approx([sums.get(kind, 111_100 / 4)] * 3)
    assert ({name for name, _ in features.named_parameters()} == {"weights", "factor"}) == kind.startswith("weighted")
    assert set(LAYERS) == set(FEATURES)
    if kind.endswith("four"):
        with pytest.raises(InputError, match="reads 4 layers, and the model has 3"):
            LayerFeatures(kind, 3, 3)


def test_a_sentence_is_read_alone_and_from_both_sides() -> None:
    """Each sentence as torch's LSTM reads it by itself, whatever else is in the batch."""
    torch.manual_seed(0)
    lengths, lstm = [3, 1, 5, 3], SentenceLSTM(4, 6, 2, 0.0)
    words = torch.randn(sum(lengths), 4)
    found = lstm(words, Chains.of(torch.tensor(lengths)))
    wanted = torch.cat([lstm.lstm(part)[0] for part in words.split(lengths)])
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    "asked",
    [
        {"features": "weighted", "crf": True},
        {"features": "concat-last-four", "lstm_layers": 0},
        {"features": "second-to-last", "lstm_layers": 1},
        {"lstm_layers": 1},
    ],
)
def test_what_has_features_is_read_back(tmp_path: Path, asked: dict[str, Any]) -> None:
    """The same answers, by a folder that opens as the encoder; encoders of features have no dropout and no gradient."""
    write_model(tmp_path / "model", layers=4)
    task = replace(SMALL, **asked)
    model = exported_model(task, tmp_path / "model", tmp_path / "out", {})
    loaded, batch = load_task(tmp_path / "out"), batch_for(task, tmp_path / "model")
    with torch.no_grad():
        assert torch.equal(loaded.model.eval()(batch, answering=True), model(batch, answering=True))
    model.train()
    learns = task.features == ""
    assert model.encoder.training == learns and model.token_head.training
    model(batch).sum().backward()
    missing = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert missing == (set() if learns else {f"encoder.{name}" for name, _ in model.encoder.named_parameters()})


def test_features_are_learnt_from(tmp_path: Path) -> None:
    """The encoder in the folder is the one that it began with, to the bit."""
    task = {"features": "embeddings", "lstm_size": 24, "lstm_layers": 1}
    job = tags_job(tmp_path, task=task, epochs=8, learning_rate=3e-2)
    record = run(job)
    assert kept_of(record)["f1"] > 0.9
    begun, learnt = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "out"))
    assert len(learnt) > 30 and all(torch.equal(learnt[name], begun[name]) for name in learnt)


# Two encoders.


def write_sides(folder: Path) -> tuple[Path, Path]:
    """A model that sees the left side, and one that sees the right."""
    return tuple(  # type: ignore[return-value]
        write_model(folder / side, pairs=False, objective={"kind": "next", "direction": side}, dropout=0.0)
        for side in ("left", "right")
    )


def test_two_sides_are_learnt_from_and_read_back(tmp_path: Path) -> None:
    """Each side is in a folder that tells which it sees; both come back, and say the same."""
    left, right = write_sides(tmp_path)
    task = {"features": "last", "second_encoder": str(right), "lstm_layers": 0}
    job = replace(tags_job(tmp_path, task=task, epochs=4, learning_rate=3e-2), model=str(left))
    record = run(job)
    assert record["task"]["encoders"] == 2 and str(tmp_path) not in str(record)
    right.rename(tmp_path / "gone")
    loaded = load_task(tmp_path / "out")
    shapes = [encoder.shape.causal for encoder in loaded.model.encoders()]
    assert shapes == ["left", "right"]
    told, _ = said_of(tmp_path / "out", job.evaluation, tmp_path / "said", True)
    assert told["scores"] == {name: pytest.approx(kept_of(record)[name]) for name in told["scores"]}
    begun = load_file(tmp_path / "gone" / "model.safetensors")
    second = load_file(tmp_path / "out" / "second" / "model.safetensors")
    assert len(second) > 30 and all(torch.equal(tensor, begun[name]) for name, tensor in second.items())
    (tmp_path / "out" / "second").rename(tmp_path / "lost")
    with pytest.raises(InputError, match="has two encoders, and its folder has one"):
        load_task(tmp_path / "out")


def test_each_side_sees_what_it_sees(tmp_path: Path) -> None:
    """Fails unless a changed word leaves vectors before it in one encoder, and after it in the other, as they are."""
    left, right = write_sides(tmp_path)
    task = replace(SMALL, second_encoder=str(right), encoders=2)
    model = build_task_model(task, load_pretrained(left)).eval()
    batches = [
        batch_of_items(encoded_for(task, left, [{"words": ["the", word, "film"]}], labelled=False).items)
        for word in ("good", "bad")
    ]
    for encoder, same in zip(model.encoders(), ([0], [2]), strict=True):
        with torch.no_grad():
            one, other = (encoder(batch)[batch.points] for batch in batches)
        assert [place for place in range(3) if torch.equal(one[place], other[place])] == same


def test_a_second_encoder_has_the_same_vocabulary(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    write_model(tmp_path / "other", "roberta")
    task = replace(SMALL, second_encoder=str(tmp_path / "other"), encoders=2)
    with pytest.raises(InputError, match="has another vocabulary than the model"):
        build_task_model(task, load_pretrained(tmp_path / "model"))
