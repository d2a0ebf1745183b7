"""`generate`: a text goes on, token by token, each drawn from what a model of next words says.

Only a model that sees the left side has learnt to go on: one that was fine-tuned for `next`, or pre-trained so. The
same model, text, settings and seed give the same answer on the same machine.

Cost: every token is a forward pass over all that is there (no keys and values are kept): the time grows with the square
of the text.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from corpora.errors import InputError
from corpora.store.settings import check_range
from trainer.tasks.batching import batch_of
from trainer.tasks.encoding import TextEncoder, ids_of
from trainer.tasks.heads.next_word import NextModel
from trainer.tasks.rows.next_word import NextTask
from trainer.tasks.saving import Loaded, load_task

MOST = 1 << 20


def main(arguments: list[str]) -> int:
    """`generate MODEL TEXT [--tokens N] ... [--json]`: print the text as it goes on; 0. Raises InputError."""
    parser = argparse.ArgumentParser(prog="generate", description="A text goes on.")
    parser.add_argument("model", type=Path, help="folder of a model of next words")
    parser.add_argument("text")
    parser.add_argument("--tokens", type=int, default=40, help="most tokens to add")
    parser.add_argument("--temperature", type=float, default=1.0, help="0: always the most probable token")
    parser.add_argument("--top-k", type=int, default=0, help="draw from so many tokens; 0: all")
    parser.add_argument("--top-p", type=float, default=1.0, help="draw from the fewest that have this share together")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    asked = parser.parse_args(arguments)
    more = generate(asked.model, asked.text, asked.tokens, asked.temperature, asked.top_k, asked.top_p, asked.seed)
    print(json.dumps({"text": asked.text, "more": more}, ensure_ascii=False) if asked.json else f"{asked.text} {more}")
    return 0


def generate(
    folder: Path, text: str, tokens: int, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, seed: int = 42
) -> str:
    """What comes after a text: up to so many tokens, the end of a text, or the end of what the model reads.

    Raises InputError for a model that has not learnt to go on, and for a text as long as it reads.
    """
    check_range("tokens", tokens, 1, MOST)
    loaded = _next_model(folder)
    encoder = TextEncoder.of(folder, loaded.inputs, loaded.settings.positions)
    begun = [loaded.inputs.special_ids.cls, *ids_of(encoder.pieces([text])[0]).tolist()]
    positions = loaded.settings.positions
    if len(begun) >= positions:
        raise InputError(f"The text has {len(begun)} tokens, and the model reads {positions}: shorten it.")
    drawn = torch.Generator().manual_seed(seed)
    ids = list(begun)
    while len(ids) < min(len(begun) + tokens, positions):
        shares_V = narrowed(_logits(loaded, ids), temperature, top_k, top_p)
        ids.append(int(torch.multinomial(shares_V, 1, generator=drawn)))
        if ids[-1] == loaded.inputs.special_ids.sep:
            break
    return str(encoder.tokenizer.decode(ids[len(begun) :]))


def _next_model(folder: Path) -> Loaded:
    """The model of a folder. Raises InputError for one that does not go on from left to right."""
    loaded = load_task(folder)
    task = loaded.task
    if not isinstance(task, NextTask) or task.side != "left":
        what = f"was fine-tuned for {task.kind!r}"
        if isinstance(task, NextTask):
            what = "sees the token that it guesses (leaky)" if task.leaky else "guesses from right to left"
        raise InputError(
            f"The model in {folder} {what}, so it cannot go on with a text: give one that was fine-tuned for the task "
            "'next' from the left (`cloze finetune next MODEL ...`)."
        )
    loaded.model.eval()
    return loaded


@torch.inference_mode()
def _logits(loaded: Loaded, ids: Sequence[int]) -> Tensor:
    """Of the token after these: float32 [V]; of padding, mask and beginning there is none."""
    assert isinstance(loaded.model, NextModel), "seen before"
    batch = batch_of([np.array(ids, np.int32)], [len(ids) - 1])
    logits_V = loaded.model.logits(loaded.model.outputs(batch))[0]
    special = loaded.inputs.special_ids
    logits_V[[special.pad, special.cls, special.mask]] = float("-inf")
    return logits_V


def narrowed(logits_V: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """The shares of which a token is drawn: [V].

    temperature: by which logits are divided; with 0 all is the most probable one's
    top_k:       so many of the most probable have any; 0: all
    top_p:       of these the fewest that have this share together (Holtzman et al. 2020, section 3.1)
    """
    check_range("temperature", temperature, 0.0, 100.0)
    check_range("top_k", top_k, 0, MOST)
    check_range("top_p", top_p, 0.0, 1.0)
    if temperature == 0:
        return torch.zeros_like(logits_V).index_fill(0, logits_V.argmax(), 1.0)
    order_V = logits_V.argsort(descending=True, stable=True)
    sorted_V = (logits_V[order_V] / temperature).softmax(-1)
    sorted_V[top_k or len(sorted_V) :] = 0.0
    sorted_V /= sorted_V.sum()
    before_V = sorted_V.cumsum(-1) - sorted_V
    kept_V = before_V < top_p
    kept_V[0] = True
    found = torch.zeros_like(sorted_V).index_copy(0, order_V, sorted_V * kept_V)
    return found / found.sum()
