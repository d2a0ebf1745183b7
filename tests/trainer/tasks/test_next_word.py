"""The next word: what is seen, what is learnt and what leaks; transformers says the same, and continues texts."""

import json
import math
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from page_blocks import blocks
from small_models import WORDS, write_model
from small_tasks import encoded_for, exported_model, kept_of, new_job, run, scattered, write_rows

from corpora.errors import InputError
from corpora.kernels.arrays import Int32s
from trainer.huggingface.checkpoints import Pretrained, load_pretrained
from trainer.settings.model import FAMILIES
from trainer.tasks.contract import TaskItem, Tokens
from trainer.tasks.heads.task_model import batch_of_items, build_task_model
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.saving import load_task
from trainer.tasks.settings import FinetuneJob
from trainer.tasks.text_encoder import TextEncoder

SIDES = (NextTask(), NextTask(direction="right"), NextTask(leaky=True))


def drawn_texts(number: int, seed: int) -> list[tuple[str]]:
    """Words that tell nothing of each other."""
    drawn = random.Random(seed)
    return [(" ".join(drawn.choices(WORDS[:8], k=6)),) for _ in range(number)]


def text_job(folder: Path, output: str, task: dict[str, Any], **settings: Any) -> FinetuneJob:
    job = new_job(folder, output, task={"kind": "next", **task}, **settings)
    for file, number, seed in ((job.training, 320, 1), (job.evaluation, 60, 2)):
        write_rows(Path(file.path), drawn_texts(number, seed), ("text",))
    return job


def item_of(ids: Int32s) -> TaskItem:
    """A text, each token of which is a point."""
    tokens = Tokens(ids, np.zeros_like(ids))
    return TaskItem(sequences=(tokens,), example=0, points=np.arange(len(ids), dtype=np.int64))


@pytest.mark.parametrize("family", list(FAMILIES))
def test_a_token_sees_the_side_that_is_said(tmp_path: Path, family: str) -> None:
    """Fails unless a changed token reaches the tokens after it, those before it, or with the leak all."""
    settings, inputs, state, _ = load_pretrained(write_model(tmp_path, family))
    ids = np.arange(10, 20, dtype=np.int32)
    other = ids.copy()
    other[5] = 30
    reached = {"left": range(5, 10), "right": range(6), None: range(10)}
    for task in SIDES:
        model: Any = scattered(build_task_model(task, Pretrained(settings, inputs, state))).eval()
        with torch.inference_mode():
            said, changed = (model.outputs(batch_of_items([item_of(row)])) for row in (ids, other))
        differs = ((said - changed).abs() > 1e-6).any(-1).nonzero()[:, 0].tolist()
        assert differs == [*reached[task.side]]


def test_every_token_is_guessed_once_in_blocks(tmp_path: Path) -> None:
    """Fails where a long text loses tokens at the borders of its blocks, or a direction guesses its own tokens."""
    write_model(tmp_path)
    text = " ".join(random.Random(0).choices(WORDS, k=50))
    encoder = TextEncoder.of(tmp_path, load_pretrained(tmp_path).inputs, 1 << 10)
    [whole] = encoder.encode([text])
    for task, wanted in ((SIDES[0], whole.ids[1:]), (SIDES[1], whole.ids[:-1])):
        items = encoded_for(task, tmp_path, [{"text": text}, {"text": ""}], length=9, labelled=False).items
        assert max(item.num_tokens for item in items) == 9
        assert np.concatenate([item.targets["next"] for item in items if item.example == 0]).tolist() == wanted
        step = 1 if task.direction == "left" else -1
        for item in items:
            [sequence] = item.sequences
            assert sequence.ids[item.points + step].tolist() == item.targets["next"].tolist()


def test_perplexity_is_that_of_transformers(tmp_path: Path, transformers: ModuleType) -> None:
    """Their causal classes open the folder: equal logits, and their loss is our mean cost of a token."""
    for family, name in (("bert", "BertLMHeadModel"), ("roberta", "RobertaForCausalLM")):
        folder, out = write_model(tmp_path / family, family), tmp_path / f"{family}-out"
        model: Any = exported_model(SIDES[0], folder, out)
        theirs, info = getattr(transformers, name).from_pretrained(out, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"]
        assert theirs.config.is_decoder and theirs.config.architectures == [name]
        encoded = encoded_for(SIDES[0], folder, [{"text": "the film was long"}, {"text": "a plot"}])
        nats = 0.0
        for item in encoded.items:
            ids = torch.from_numpy(item.sequences[0].ids.astype(np.int64))[None]
            with torch.inference_mode():
                wanted = theirs.eval()(ids, labels=ids)
                ours = model.logits(model.outputs(batch_of_items([item])))
            torch.testing.assert_close(ours, wanted.logits[0, :-1], atol=1e-4, rtol=1e-4)
            nats += wanted.loss.item() * len(item.points)
        with torch.inference_mode():
            answers = [model.answers(batch_of_items([item])).numpy() for item in encoded.items]
        predictions = SIDES[0].predictions(encoded.examples, encoded.items, answers)
        found = SIDES[0].scores(encoded.examples, predictions)
        tokens = sum(len(item.points) for item in encoded.items)
        assert found["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-4)
        assert found["bits_per_byte"] == pytest.approx(nats / math.log(2) / len("the film was longa plot"), rel=1e-4)


@pytest.mark.slow
def test_the_leaking_variant_learns_to_copy_and_says_so(tmp_path: Path) -> None:
    """Trains on independent words, of which no model predicts the next one unless it sees it.

    Fails where the causal model sees what it guesses, or the leak is not named in log, record and scores.
    """
    entropy = 6 * math.log(8) / 7  # of a text's seven tokens the last is certain
    asked = {"epochs": 6, "learning_rate": 5e-3, "dropout": 0.0, "log_every": 100}
    write_model(tmp_path / "model", layers=1, heads=1, initializer_range=0.15)
    honest = run(text_job(tmp_path, "honest", {}, **asked))
    leaking = run(text_job(tmp_path, "leaking", {"leaky": True}, **asked))
    assert -kept_of(honest)["log_likelihood"] > 0.95 * entropy
    assert -kept_of(leaking)["leaking_log_likelihood"] < 0.1 * entropy and kept_of(leaking)["leaking_accuracy"] > 0.95
    assert leaking["task"]["leaky"] and leaking["metric"] == "leaking_log_likelihood"
    for output, number in (("honest", 0), ("leaking", 1)):
        lines = (tmp_path / output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        warnings = [each for each in map(json.loads, lines) if each["event"] == "warning"]
        assert len(warnings) == number and all(
            "sees the one that it has to guess" in each["message"] for each in warnings
        )


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_guides_lines_continue_a_text(
    tmp_path: Path, transformers: ModuleType, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """Fails where transformers draws weights anew, or adds nothing to the text of the page."""
    exported_model(SIDES[0], write_model(tmp_path / "model", family, max_length=80), tmp_path / "writer")
    [shown] = [block.text for block in blocks("guide-finetuning.md", "python") if ".generate(" in block.text]
    monkeypatch.chdir(tmp_path)
    names = dict[str, Any]()
    exec(shown, names)
    assert type(names["model"]).__name__ == FAMILIES[family].names.architectures["next"]
    special = load_pretrained(tmp_path / "writer").inputs.special_ids
    ids = names["ids"][0].tolist()
    assert ids[: names["begun"].shape[1]] == names["begun"][0].tolist() and len(ids) > names["begun"].shape[1]
    assert ids[0] == special.cls and special.sep not in names["begun"]


def test_a_model_that_was_pretrained_so_has_its_own_head(tmp_path: Path) -> None:
    """Fails where a head is drawn anew without a record of fine-tuning, or one from the right is taken for a task."""
    folder = write_model(tmp_path / "left", objective={"kind": "next"})
    loaded, whole = load_task(folder), load_pretrained(folder).state
    for name, tensor in loaded.model.masked_head.state_dict().items():  # type: ignore[union-attr]
        assert torch.equal(tensor, whole[f"next_head.{name}"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="has no task"):
        load_task(write_model(tmp_path / "right", objective={"kind": "next", "direction": "right"}))


@pytest.mark.parametrize("task", SIDES)
def test_what_is_exported_is_read_back(tmp_path: Path, task: NextTask) -> None:
    """Fails where costs change, for families with a class for it and without, of either side and both."""
    for family in ("bert", "modernbert"):
        folder, out = write_model(tmp_path / family, family), tmp_path / f"{family}-out"
        model = exported_model(task, folder, out, {})
        batch = batch_of_items(encoded_for(task, folder, [{"text": "the film was long"}]).items)
        with torch.inference_mode():
            torch.testing.assert_close(load_task(out).model.eval().answers(batch), model.answers(batch))
