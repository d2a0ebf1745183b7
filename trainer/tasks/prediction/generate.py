"""`generate`: continues texts, token by token, each drawn from the predictions of a model of next words.

Only a model that sees the left side has learnt to continue texts: one fine-tuned for `next`, or pre-trained so. The
same model, text, settings and seed give the same answer on the same machine, whatever texts are next to it.

Cost: every token is a pass over that token, for keys and values of those before are kept (`heads.next_word`): 400
tokens after 20, by a BERT of 12 layers of 256, take 4 s of one x86-64 core, and by passes over the whole text 32 s.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from corpora.errors import InputError
from corpora.store.settings import check_range
from trainer.tasks.heads.next_word import NextModel, Remembering
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.saving import Loaded, load_task
from trainer.tasks.text_encoder import TextEncoder, ids_of

MOST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The settings by which tokens are drawn.

    tokens:      most that are added to a text
    temperature: by which logits are divided; with 0 the most probable token is taken
    top_k:       so many of the most probable are drawn from; 0: all
    top_p:       of these the fewest that have this share together (Holtzman et al. 2020, section 3.1)
    repetition_penalty: by which logits of tokens that are there already are made less (Keskar et al. 2019, section
                 4.1); 1: not at all
    no_repeat:   no run of so many tokens is there twice; 0: it may be
    stop:        a token after which nothing is added, besides the end of a text; "": none
    """

    tokens: int = 40
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat: int = 0
    stop: str = ""
    seed: int = 42

    def __post_init__(self) -> None:
        check_range("tokens", self.tokens, 1, MOST)
        check_range("temperature", self.temperature, 0.0, 100.0)
        check_range("top_k", self.top_k, 0, MOST)
        check_range("top_p", self.top_p, 0.0, 1.0)
        check_range("repetition_penalty", self.repetition_penalty, 1.0, 100.0)
        check_range("no_repeat", self.no_repeat, 0, MOST)


def main(arguments: list[str]) -> int:
    """Run `generate MODEL TEXT ... [--tokens N] ... [--json]`: print each continued text; return 0. Raises InputError.

    Options are the fields of `Drawing`.
    """
    parser = argparse.ArgumentParser(prog="generate", description="Continue texts.")
    parser.add_argument("model", type=Path, help="folder of a model of next words")
    parser.add_argument("texts", metavar="text", nargs="+")
    for each in fields(Drawing):
        parser.add_argument(f"--{each.name.replace('_', '-')}", type=type(each.default), default=each.default)
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    asked = vars(parser.parse_args(arguments))
    folder, texts, as_json = (asked.pop(name) for name in ("model", "texts", "json"))
    for text, more in zip(texts, generate(folder, texts, Drawing(**asked)), strict=True):
        print(json.dumps({"text": text, "more": more}, ensure_ascii=False) if as_json else f"{text}{more}")
    return 0


def generate(folder: Path, texts: Sequence[str], drawing: Drawing) -> list[str]:
    """Return what comes after each text: up to so many tokens, the end of a text, or the end of what the model reads.

    It begins with a space where a new word does.
    Raises InputError for a model that has not learnt to continue texts, and for a text as long as it reads.
    """
    loaded = _next_model(folder)
    positions = loaded.settings.positions
    encoder = TextEncoder.of(folder, loaded.inputs, positions)
    ends = {loaded.inputs.special_ids.sep, *_stop(encoder, drawing.stop)}
    begun = [[loaded.inputs.special_ids.cls, *ids_of(pieces).tolist()] for pieces in encoder.pieces(texts)]
    for ids in begun:
        if len(ids) >= positions:
            raise InputError(f"The text has {len(ids)} tokens, and the model reads {positions}: shorten it.")
    assert isinstance(loaded.model, NextModel), "seen before"
    longest = min(max(map(len, begun)) + drawing.tokens, positions)
    special = loaded.inputs.special_ids
    never = [special.pad, special.cls, special.mask]
    continuations = continued(loaded.model, begun, drawing, longest, ends, never)
    return [added_text(encoder.tokenizer, before, ids) for before, ids in zip(begun, continuations, strict=True)]


def added_text(tokenizer: Tokenizer, begun: Sequence[int], new: Sequence[int]) -> str:
    """Return what new tokens add to the text before: a piece in the middle of a word continues that word."""
    before, whole = str(tokenizer.decode([*begun])), str(tokenizer.decode([*begun, *new]))
    if whole.startswith(before):
        return whole.removeprefix(before)
    return f" {tokenizer.decode([*new])}"


def _stop(encoder: TextEncoder, text: str) -> list[int]:
    """The token after which nothing is added. Raises InputError where a text is not one."""
    ids = ids_of(encoder.pieces([text])[0]).tolist() if text else []
    if text and len(ids) != 1:
        raise InputError(f"--stop {text!r} is {len(ids)} tokens for this model: name one token, such as '.'.")
    return ids


def continued(
    model: NextModel,
    begun: Sequence[Sequence[int]],
    drawing: Drawing,
    longest: int,
    ends: set[int],
    never: Sequence[int],
) -> list[list[int]]:
    """The ids that come after each text.

    longest: tokens of a text in the end; ends: ids after which nothing comes; never: ids that are not drawn
    """
    texts = [list(ids) for ids in begun]
    draws = [torch.Generator().manual_seed(drawing.seed) for _ in texts]
    going = list(range(len(texts)))
    reading = Remembering(model, len(texts), longest)
    while going:
        logits_BV = reading.logits(going, [texts[number] for number in going])
        allowed_BV = logits_BV.index_fill(1, torch.tensor(never), float("-inf"))
        for number, logits_V in zip(going, allowed_BV, strict=True):
            texts[number].append(_drawn(logits_V, texts[number], drawing, draws[number]))
        going = [number for number in going
                 if texts[number][-1] not in ends and len(texts[number]) < longest
                 and len(texts[number]) - len(begun[number]) < drawing.tokens]  # fmt: skip
    return [text[len(ids) :] for text, ids in zip(texts, begun, strict=True)]


def _drawn(logits_V: Tensor, text: Sequence[int], drawing: Drawing, draws: torch.Generator) -> int:
    less_V = repeated_less(logits_V, text, drawing.repetition_penalty, drawing.no_repeat)
    shares_V = narrowed(less_V, drawing.temperature, drawing.top_k, drawing.top_p)
    return int(torch.multinomial(shares_V, 1, generator=draws))


def repeated_less(logits_V: Tensor, text: Sequence[int], penalty: float, no_repeat: int) -> Tensor:
    """Return logits, lower for tokens already present, and none for those that would repeat a run of tokens.

    Where no token is left, runs may repeat.
    """
    if penalty != 1:
        present = torch.tensor(sorted({*text}))
        values = logits_V[present]
        logits_V = logits_V.index_copy(0, present, torch.where(values > 0, values / penalty, values * penalty))
    ended = _ends_of_runs(text, no_repeat) if no_repeat else []
    barred_V = logits_V.index_fill(0, torch.tensor(ended, dtype=torch.int64), float("-inf"))
    return barred_V if barred_V.isfinite().any() else logits_V


def _ends_of_runs(text: Sequence[int], size: int) -> list[int]:
    """Return the tokens that followed the last `size - 1` tokens earlier in the text.

    >>> _ends_of_runs([5, 6, 7, 5, 6], 3)
    [7]
    """
    last = list(text[len(text) - size + 1 :])
    runs = (list(text[first : first + size]) for first in range(len(text) - size + 1))
    return [run[-1] for run in runs if run[:-1] == last]


def _next_model(folder: Path) -> Loaded:
    """Return the model of a folder. Raises InputError for one that does not read from left to right."""
    loaded = load_task(folder)
    task = loaded.task
    if not isinstance(task, NextTask) or task.side != "left":
        what = f"was fine-tuned for {task.kind!r}"
        if isinstance(task, NextTask):
            what = "sees the token that it guesses (leaky)" if task.leaky else "guesses from right to left"
        raise InputError(
            f"The model in {folder} {what}, so it cannot continue a text: give one that was fine-tuned for the task "
            "'next' from the left (`cloze finetune next MODEL ...`)."
        )
    loaded.model.eval()
    return loaded


def narrowed(logits_V: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """Return the shares from which a token is drawn: [V].

    temperature: by which logits are divided; with 0 all is the most probable one's
    top_k:       so many of the most probable have any; 0: all
    top_p:       of these the fewest that have this share together (Holtzman et al. 2020, section 3.1)
    """
    if temperature == 0:
        return torch.zeros_like(logits_V).index_fill(0, logits_V.argmax(), 1.0)
    order_V = logits_V.argsort(descending=True, stable=True)
    sorted_V = (logits_V[order_V] / temperature).softmax(-1)
    sorted_V[top_k or len(sorted_V) :] = 0.0
    sorted_V /= sorted_V.sum()
    before_V = sorted_V.cumsum(-1) - sorted_V
    kept_V = before_V < top_p
    kept_V[0] = True
    shares_V = torch.zeros_like(sorted_V).index_copy(0, order_V, sorted_V * kept_V)
    return shares_V / shares_V.sum()
