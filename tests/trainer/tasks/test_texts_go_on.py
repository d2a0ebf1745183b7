"""Texts that go on: kept keys and values say what a pass over all says, and what is drawn is what was asked."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from small_models import write_model
from small_tasks import scattered
from torch import Tensor

from trainer.huggingface.pretrained import load_pretrained
from trainer.settings.model import FAMILIES
from trainer.tasks.building import build_task_model
from trainer.tasks.encoding.batching import batch_of
from trainer.tasks.heads.continuing import Remembering
from trainer.tasks.heads.next_word import NextModel
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.prediction.generate import Drawing, continued, repeated_less

BEGUN = ([2, 7], [2, 9, 11, 30, 8, 21, 6, 6, 12, 17], [2], [2, 5, 6])


class Rereading:
    """Every token by a pass over its whole text: what `Remembering` is held to."""

    def __init__(self, model: NextModel) -> None:
        self.model = model.eval()
        self.texts = list[list[int]]()

    def begin(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """[B, V]."""
        self.texts = [list(text) for text in texts]
        return self._said()

    def go_on(self, kept: Sequence[int], ids: Sequence[int]) -> Tensor:
        """[B, V]."""
        self.texts = [[*self.texts[number], token] for number, token in zip(kept, ids, strict=True)]
        return self._said()

    @torch.inference_mode()
    def _said(self) -> Tensor:
        ends = np.cumsum([len(text) for text in self.texts]) - 1
        batch = batch_of([np.array(text, np.int32) for text in self.texts], ends.tolist())
        return self.model.logits(self.model.outputs(batch))


def next_model(folder: Path, family: str, **settings: int) -> NextModel:
    """One that sees the left side, its weights far from zero."""
    settings_, inputs, state = load_pretrained(write_model(folder, family, **settings))
    model = scattered(build_task_model(NextTask(), settings_, inputs, state))
    assert isinstance(model, NextModel)
    return model


@pytest.mark.parametrize("family", list(FAMILIES))
def test_what_is_kept_says_what_a_pass_over_all_says(tmp_path: Path, family: str) -> None:
    """With layers that share weights, windows shorter than a text, places by rotation, texts that end before others.

    Fails where a key is put to another text, place or layer, a token is seen that is out of the window, or a text that
    has ended is taken for one that goes on.
    """
    longer = {"max_length": 200} if FAMILIES[family].window else {}
    model = next_model(tmp_path, family, **longer)
    begun = [*BEGUN, [2, *range(5, 35)] * 5] if longer else BEGUN
    plain, kept = Rereading(model), Remembering(model, 200 if longer else 40)
    torch.testing.assert_close(kept.begin(begun), plain.begin(begun), atol=1e-5, rtol=1e-5)
    for going, ids in [([0, 1, 2, 3], [5, 6, 7, 8]), ([0, 1, 3], [9, 9, 9]), ([2, 0], [4, 30]), ([1], [11])]:
        torch.testing.assert_close(kept.go_on(going, ids), plain.go_on(going, ids), atol=1e-5, rtol=1e-5)
    again = [[2, 8, 8]]
    torch.testing.assert_close(kept.begin(again), plain.begin(again), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "drawing",
    [Drawing(tokens=25, temperature=0), Drawing(tokens=25, top_k=8, repetition_penalty=1.5),
     Drawing(tokens=25, temperature=0.7, top_p=0.8, no_repeat=2)],
)  # fmt: skip
def test_texts_go_on_the_same_together_and_alone(tmp_path: Path, drawing: Drawing) -> None:
    """By either way of reading; fails where a text's numbers depend on those beside it."""
    model = next_model(tmp_path, "bert")
    asked = (drawing, 30, {3, 9}, [0, 2, 4])
    together = continued(Remembering(model, 30), BEGUN, *asked)
    assert together == continued(Rereading(model), BEGUN, *asked)
    assert together == [continued(Rereading(model), [text], *asked)[0] for text in BEGUN]
    for begun, more in zip(BEGUN, together, strict=True):
        assert not {0, 2, 4} & {*more} and not {3, 9} & {*more[:-1]}
        assert len(more) == min(25, 30 - len(begun)) or more[-1] in {3, 9}
        runs = list(zip([*begun, *more], [*begun, *more][1:], strict=False))
        assert drawing.no_repeat != 2 or len({*runs}) == len(runs)


@pytest.mark.parametrize(("penalty", "no_repeat"), [(1.3, 0), (1.0, 1), (1.0, 2), (2.0, 3)])
def test_what_is_there_is_made_less_as_transformers_does(
    transformers: ModuleType, penalty: float, no_repeat: int
) -> None:
    """Their two processors, one after the other."""
    logits, text = torch.randn(12, generator=torch.Generator().manual_seed(1)), [3, 4, 5, 3, 4, 9, 3, 4]
    wanted, ids = logits[None], torch.tensor([text])
    wanted = transformers.RepetitionPenaltyLogitsProcessor(penalty)(ids, wanted)
    if no_repeat:
        wanted = transformers.NoRepeatNGramLogitsProcessor(no_repeat)(ids, wanted)
    torch.testing.assert_close(repeated_less(logits, text, penalty, no_repeat), wanted[0])
