"""The next token: nothing tells the answer, and transformers says the same from the left."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_batches import padded_inputs, present_tokens, small_batch, small_inputs, small_settings
from small_training import of, put_store, small_job, small_model, train_here
from tiers import examples

from corpora.errors import InputError
from shards.masks.masking import MaskSettings
from shards.reading.loader import GatheredExamples
from trainer.huggingface.checkpoints import export, load
from trainer.model import objective
from trainer.model.masked import NextTokenModel
from trainer.model.objective import sum_loss
from trainer.objectives.next_token import NextTokenObjective

Direction = Literal["left", "right"]
EMPTY = np.empty(0, np.int64)


def next_model(direction: Direction, family: str = "bert") -> NextTokenModel:
    asked = small_settings(family=family, objective={"kind": "next", "direction": direction})
    torch.manual_seed(0)
    model = NextTokenModel(asked, small_inputs(family))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def gathered(ids: np.ndarray, lengths: list[int]) -> GatheredExamples:
    offsets = np.cumsum([0, *lengths], dtype=np.int32)
    number = len(lengths)
    return GatheredExamples(
        ids=ids.astype(np.uint16),
        offsets=offsets,
        boundary=np.array(lengths, np.int64),
        labels=None,
        masked=EMPTY,
        targets=EMPTY.astype(np.uint16),
        example_ids=np.arange(number, dtype=np.uint64),
        epochs=np.zeros(number, np.int64),
        deleted=0,
    )


@given(st.lists(st.integers(0, 6), max_size=8), st.sampled_from(["left", "right"]))
@examples(60)
def test_each_token_is_guessed_from_its_neighbour(lengths: list[int], direction: Direction) -> None:
    """Fails where a token is guessed from another example, from itself, twice, or not at all."""
    asked, ids = NextTokenObjective(direction=direction), np.arange(sum(lengths))
    examples = gathered(ids, lengths)
    reads = asked.read(examples, asked.terms(small_settings().of_family, small_inputs("bert")), 0)
    wanted = []
    for first, length in zip(np.cumsum([0, *lengths]), lengths, strict=False):
        places = range(first, first + length)
        pairs = itertools.pairwise(places)
        wanted += [(a, b) if direction == "left" else (b, a) for a, b in pairs]
    assert list(zip(reads.points.tolist(), reads.targets["next"].values.tolist(), strict=True)) == wanted
    assert asked.counts(examples, ()) == (len(wanted),)


@given(st.data())
@examples(25)
@pytest.mark.parametrize("direction", ["left", "right"])
def test_no_answer_is_told(direction: Direction, data: st.DataObject) -> None:
    """Fails where what is said of a token changes with it, or with any that must not be seen."""
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    model, batch = next_model(direction).double(), small_batch(lengths, pairs=False, num_masked=0)
    place = data.draw(st.integers(0, sum(lengths) - 1))
    changed = batch.ids.clone()
    changed[place] = (changed[place] + 1) % 99
    with torch.no_grad():
        one, other = model.encoder(batch), model.encoder(replace(batch, ids=changed))
    same = (one == other).all(-1)
    ends = batch.boundaries.tolist()
    first, end = next((a, b) for a, b in itertools.pairwise(ends) if a <= place < b)
    sees = range(place, end) if direction == "left" else range(first, place + 1)
    assert same[[at for at in range(sum(lengths)) if at not in sees]].all() and not same[place]


@pytest.mark.parametrize(("family", "name"), [("bert", "BertLMHeadModel"), ("roberta", "RobertaForCausalLM")])
def test_transformers_opens_it_as_a_decoder(tmp_path: Path, transformers: ModuleType, family: str, name: str) -> None:
    """Fails where the export sees both sides there, or other tokens."""
    asked, inputs = small_settings(family=family, objective={"kind": "next"}), small_inputs(family)
    model = next_model("left", family)
    export(tmp_path, model.state_dict(), asked, inputs)
    reference, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert type(reference).__name__ == name and not any(info.values()), info
    batch = replace(small_batch(pairs=False), segment_ids=torch.zeros(54, dtype=torch.int64), points=torch.arange(54))
    with torch.no_grad():
        rows = reference.eval()(**padded_inputs(batch, inputs.special_ids.pad, segments=False)).logits
        torch.testing.assert_close(model.answers(batch), present_tokens(rows, batch), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("direction", ["left", "right"])
def test_an_export_loads_with_its_direction(tmp_path: Path, direction: Direction) -> None:
    """Fails where a model that sees one side is read as one that sees both."""
    asked, inputs = small_settings(objective={"kind": "next", "direction": direction}), small_inputs("bert")
    model = next_model(direction)
    export(tmp_path, model.state_dict(), asked, inputs)
    (tmp_path / "tokenizer.json").write_text("{}")
    found, _, state = load(tmp_path)
    assert found == asked and all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # the compiler's own look at it
def test_losses_are_the_same_in_stretches(monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    """Fails where a stretch of points is left out, or its gradients are, or compiled ones are others."""
    model = next_model("left").double()
    batch = small_batch(pairs=False)
    batch = replace(batch, targets={"next": batch.targets["masked"]})
    found = []
    for at_once in (8192, 5):
        monkeypatch.setattr(objective, "POINTS_AT_ONCE", {"cpu": at_once})
        if compiled and at_once == 5:
            model.next_head.compile(backend="aot_eager")
        model.zero_grad()
        sums = model(batch)
        sums[0, 0].backward()
        found.append((sums.detach(), [parameter.grad.clone() for parameter in model.parameters()]))
    (one, gradients), (other, others) = found
    torch.testing.assert_close(one, other, rtol=1e-6, atol=0)
    assert all(torch.allclose(a, b, rtol=1e-6, atol=1e-7) for a, b in zip(gradients, others, strict=True))
    assert torch.equal(one[0], sum_loss(model.answers(batch), batch.targets["next"]).detach())


def test_it_is_trained_on_examples_without_masks(tmp_path: Path) -> None:
    """Fails where shards for next-word prediction are refused, or the loss is not that of their tokens."""
    store = put_store(tmp_path, masking=MaskSettings(kind="none"))
    job = small_job(store, tmp_path / "work")
    job = replace(job, model=replace(small_model(), objective={"kind": "next"}), training=job.training)
    events = train_here(job)
    steps = of(events, "step")
    assert len(steps) == 6 and steps[-1]["next_loss"] < steps[0]["next_loss"] and "masked_loss" not in steps[0]
    [judged] = of(events, "evaluation")
    assert judged["unigram_entropy"] > 1 and judged["loss"] == judged["next_loss"]


def test_masked_examples_are_refused() -> None:
    """Fails where a model would learn to guess masks' neighbours."""
    with pytest.raises(InputError, match=r"set shards\.masking = { kind"):
        NextTokenObjective().check_shards("The shards 's'", {"masking": "dynamic"})
    with pytest.raises(InputError, match="modernbert"):
        small_settings(family="modernbert", objective={"kind": "next"})
