"""Texts that are continued: kept keys and values say what a pass over all says, and what is drawn is what was asked."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from small_models import write_model
from small_tasks import scattered
from torch import Tensor

from trainer.huggingface.checkpoints import Pretrained, load_pretrained
from trainer.settings.model import FAMILIES
from trainer.tasks.heads.next_word import NextModel, Remembering
from trainer.tasks.heads.task_model import batch_of, build_task_model
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.prediction.generate import Drawing, continued, repeated_less

BEGUN = ([2, 7], [2, 9, 11, 30, 8, 21, 6, 6, 12, 17], [2], [2, 5, 6])


def next_model(folder: Path, family: str, **settings: int) -> NextModel:
    """One that sees the left side, its weights far from zero."""
    settings_, inputs, state, _ = load_pretrained(write_model(folder, family, **settings))
    model = scattered(build_task_model(NextTask(), Pretrained(settings_, inputs, state)))
    assert isinstance(model, NextModel)
    return model.eval()


@torch.inference_mode()
def reread(model: NextModel, texts: Sequence[Sequence[int]]) -> Tensor:
    """The logits of the token after each text, by a pass over the whole text: [B, V]."""
    ends = np.cumsum([len(text) for text in texts]) - 1
    return model.logits(model.outputs(batch_of([np.array(text, np.int32) for text in texts], ends.tolist())))


@pytest.mark.parametrize("family", list(FAMILIES))
def test_what_is_kept_says_what_a_pass_over_all_says(tmp_path: Path, family: str) -> None:
    """With layers that share weights, windows shorter than a text, places by rotation, texts that end before others.

    Fails where a key is put to another text, place or layer, a token is seen that is out of the window, or a text that
    has ended is taken for one that continues.
    """
    longer = {"max_length": 200} if FAMILIES[family].window else {}
    model = next_model(tmp_path, family, **longer)
    texts = [list(text) for text in (*BEGUN, *([[2, *range(5, 35)] * 5] if longer else ()))]
    kept = Remembering(model, len(texts), 200 if longer else 40)
    for going, ids in [(range(len(texts)), [5, 6, 7, 8, 9]), ([0, 1, 3], [9, 9, 9]), ([3, 0], [4, 30]), ([0], [11])]:
        some = [texts[number] for number in going]
        torch.testing.assert_close(kept.logits(going, some), reread(model, some), atol=1e-5, rtol=1e-5)
        for text, token in zip(some, ids, strict=False):
            text.append(token)


@pytest.mark.parametrize(
    "drawing",
    [Drawing(tokens=25, temperature=0), Drawing(tokens=25, top_k=8, repetition_penalty=1.5),
     Drawing(tokens=25, temperature=0.7, top_p=0.8, no_repeat=2)],
)  # fmt: skip
def test_texts_go_on_the_same_together_and_alone(tmp_path: Path, drawing: Drawing) -> None:
    """Fails where a text's numbers depend on those beside it."""
    model = next_model(tmp_path, "bert")
    asked = (drawing, 30, {3, 9}, [0, 2, 4])
    together = continued(model, BEGUN, *asked)
    assert together == [continued(model, [text], *asked)[0] for text in BEGUN]
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
