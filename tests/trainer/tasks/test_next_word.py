"""The next word: what is seen and what is learnt; transformers says the same, and continues texts."""

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
from trainer.huggingface.checkpoints import load_pretrained
from trainer.settings.model import FAMILIES
from trainer.tasks.folders import load_task
from trainer.tasks.heads.task_model import batch_items, build_task_model
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.settings import FinetuneJob
from trainer.tasks.task import TaskItem, Tokens
from trainer.tasks.text_encoder import TextEncoder


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
def test_a_token_sees_those_before_it(tmp_path: Path, family: str) -> None:
    """Fails unless a changed token reaches itself and the tokens after it, and no other."""
    ids = np.arange(10, 20, dtype=np.int32)
    other = ids.copy()
    other[5] = 30
    model: Any = scattered(build_task_model(NextTask(), load_pretrained(write_model(tmp_path, family)))).eval()
    with torch.inference_mode():
        said, changed = (model.compute_outputs(batch_items([item_of(row)])) for row in (ids, other))
    assert ((said - changed).abs() > 1e-6).any(-1).nonzero()[:, 0].tolist() == [*range(5, 10)]


def test_every_token_is_guessed_once_in_blocks(tmp_path: Path) -> None:
    """Fails if a long text loses tokens at the borders of its blocks, or a token is guessed from itself."""
    write_model(tmp_path)
    text = " ".join(random.Random(0).choices(WORDS, k=50))
    encoder = TextEncoder.from_folder(tmp_path, load_pretrained(tmp_path).inputs, 1 << 10)
    [whole] = encoder.encode([text])
    items = encoded_for(NextTask(), tmp_path, [{"text": text}, {"text": ""}], length=9, labelled=False).items
    assert max(item.num_tokens for item in items) == 9
    assert np.concatenate([item.targets["next"] for item in items if item.example == 0]).tolist() == whole.ids[1:]
    for item in items:
        [sequence] = item.sequences
        assert sequence.ids[item.points + 1].tolist() == item.targets["next"].tolist()


def test_perplexity_is_that_of_transformers(tmp_path: Path, transformers: ModuleType) -> None:
    """Their causal classes open the folder: equal logits, and their loss is our mean cost of a token."""
    for family, name in (("bert", "BertLMHeadModel"), ("roberta", "RobertaForCausalLM")):
        folder, out = write_model(tmp_path / family, family), tmp_path / f"{family}-out"
        model: Any = exported_model(NextTask(), folder, out)
        theirs, info = getattr(transformers, name).from_pretrained(out, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"]
        assert theirs.config.is_decoder and theirs.config.architectures == [name]
        encoded = encoded_for(NextTask(), folder, [{"text": "the film was long"}, {"text": "a plot"}])
        nats = 0.0
        for item in encoded.items:
            ids = torch.from_numpy(item.sequences[0].ids.astype(np.int64))[None]
            with torch.inference_mode():
                wanted = theirs.eval()(ids, labels=ids)
                ours = model.compute_logits(model.compute_outputs(batch_items([item])))
            torch.testing.assert_close(ours, wanted.logits[0, :-1], atol=1e-4, rtol=1e-4)
            nats += wanted.loss.item() * len(item.points)
        with torch.inference_mode():
            answers = [model.answer(batch_items([item])).numpy() for item in encoded.items]
        predictions = NextTask().make_predictions(encoded.examples, encoded.items, answers)
        found = NextTask().compute_scores(encoded.examples, predictions)
        tokens = sum(len(item.points) for item in encoded.items)
        assert found["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-4)
        assert found["bits_per_byte"] == pytest.approx(nats / math.log(2) / len("the film was longa plot"), rel=1e-4)


@pytest.mark.slow
def test_independent_words_are_not_predicted(tmp_path: Path) -> None:
    """Fails if a token sees what it guesses: no model predicts the next of independent words unless it sees it."""
    entropy = 6 * math.log(8) / 7  # of a text's seven tokens the last is certain
    asked = {"epochs": 6, "learning_rate": 5e-3, "dropout": 0.0, "log_every": 100}
    write_model(tmp_path / "model", layers=1, heads=1, initializer_range=0.15)
    assert -kept_of(run(text_job(tmp_path, "honest", {}, **asked)))["log_likelihood"] > 0.95 * entropy


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_guides_lines_continue_a_text(
    tmp_path: Path, transformers: ModuleType, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """Fails if transformers draws weights anew, or adds nothing to the text of the page."""
    exported_model(NextTask(), write_model(tmp_path / "model", family, max_length=80), tmp_path / "writer")
    [shown] = [block.text for block in blocks("guide-finetuning.md", "python") if ".generate(" in block.text]
    monkeypatch.chdir(tmp_path)
    names = dict[str, Any]()
    exec(shown, names)
    assert type(names["model"]).__name__ == FAMILIES[family].names.architectures["next"]
    special = load_pretrained(tmp_path / "writer", causal=True).inputs.special_ids
    ids = names["ids"][0].tolist()
    assert ids[: names["begun"].shape[1]] == names["begun"][0].tolist() and len(ids) > names["begun"].shape[1]
    assert ids[0] == special.cls and special.sep not in names["begun"]


def test_what_is_exported_is_read_back(tmp_path: Path) -> None:
    """Fails if costs change, for families with a class for it and without; or a record lacks what it once had."""
    for family in ("bert", "modernbert"):
        folder, out = write_model(tmp_path / family, family), tmp_path / f"{family}-out"
        model = exported_model(NextTask(), folder, out, {})
        assert json.loads((out / "finetune.json").read_text())["task"] == {
            "kind": "next",
            "direction": "left",
            "leaky": False,
            "metric": "",
        }
        batch = batch_items(encoded_for(NextTask(), folder, [{"text": "the film was long"}]).items)
        with torch.inference_mode():
            torch.testing.assert_close(load_task(out).model.eval().answer(batch), model.answer(batch))


def test_folders_of_what_is_gone_are_refused(tmp_path: Path) -> None:
    """Fails if a decoder is read as an encoder that sees both sides, or a leaking one as one that does not."""
    out = tmp_path / "out"
    exported_model(NextTask(), write_model(tmp_path / "model"), out, {})
    with pytest.raises(InputError, match="is_decoder is True"):
        load_pretrained(out)
    for file, before, after, message in (
        ("config.json", '"direction": "left"', '"direction": "right"', "direction is 'right'"),
        ("finetune.json", '"leaky": false', '"leaky": true', "has no key 'leaky'"),
    ):
        text = (out / file).read_text()
        (out / file).write_text(text.replace(before, after))
        with pytest.raises(InputError, match=message):
            load_task(out)
        (out / file).write_text(text)
