"""`fill`: predicts the most probable tokens at every mask of a text with a pre-trained model.

Both spellings of the mask, `[MASK]` and `<mask>`, are accepted for any model. Nothing is sampled, so the same model and
text always give the same result.
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from corpora.errors import InputError
from corpora.kernels.arrays import Int32s
from corpora.store.settings import COUNT
from trainer.families.contract import ModelInputs
from trainer.huggingface.checkpoints import load_model
from trainer.model.objective import build_model
from trainer.settings.model import ModelSettings
from trainer.tasks.folders import check_model
from trainer.tasks.heads.task_model import batch_items
from trainer.tasks.task import TaskItem, Tokens, check_finite
from trainer.tasks.text_encoder import TextEncoder, to_ids

MASKS = ("[MASK]", "<mask>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A candidate token for a mask.

    id:          the token id
    token:       the token as spelled in the vocabulary
    text:        the token as plain text
    probability: the probability of the token among all tokens, in [0, 1]
    """

    id: int
    token: str
    text: str
    probability: float


def main(arguments: list[str]) -> int:
    """Run `fill MODEL TEXT ... [--top N] [--json | --brief]`: print the candidates for each text, and return 0.

    Raises:
        InputError: If a text has no mask or is too long, or the model has no masked-token head.
    """
    parser = argparse.ArgumentParser(prog="fill", description="Words for every [MASK] of a text.")
    parser.add_argument("model", type=Path, help="folder of a model")
    parser.add_argument("texts", metavar="text", nargs="+")
    parser.add_argument("--top", type=int, default=5, help="tokens shown for each mask")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    parser.add_argument("--brief", action="store_true", help="print a line for each text")
    asked = parser.parse_args(arguments)
    shown = as_json if asked.json else as_line if asked.brief else as_table
    for text in asked.texts:
        check_request(text, asked.top)
    guesser = Guesser(asked.model)
    for text in asked.texts:
        print(shown(text, guesser.guess_masks(text, asked.top)))
    return 0


def fill_masks(folder: Path, text: str, top: int) -> list[list[Guess]]:
    """Load a model, and predict the tokens at the masks of a text.

    Args:
        folder: The folder of a model with a masked-token head.
        text: A text with `[MASK]` or `<mask>`.
        top: The number of candidates for each mask.

    Returns:
        A list of candidates for each mask, in the order of the text. The most probable candidate comes first.

    Raises:
        InputError: If the text has no mask or is too long, `top` is below 1, or the model has no masked-token head.
    """
    check_request(text, top)
    return Guesser(folder).guess_masks(text, top)


def check_request(text: str, top: int) -> None:
    """Raise InputError if a text has no mask, or `top` is below 1."""
    COUNT.check("--top", top)
    if not any(mask in text for mask in MASKS):
        raise InputError(f"The text has no mask: write {MASKS[0]} where a word is to be guessed.")


class Guesser:
    """A loaded pre-trained model that predicts masked tokens."""

    def __init__(self, folder: Path) -> None:
        """Load the model of a folder. Raises InputError if it is damaged or has no masked-token head."""
        check_model(folder)
        settings, self._inputs, state = load_model(folder)
        _check_has_masked_head(folder, settings, self._inputs)
        self._folder, self._encoder = folder, TextEncoder.from_folder(folder, self._inputs, settings.positions)
        self._model = build_model(settings, self._inputs)
        self._model.load_state_dict(state)

    def guess_masks(self, text: str, top: int) -> list[list[Guess]]:
        """Predict the tokens at the masks of a text with the loaded model.

        Returns:
            For each mask, in the order of the text, a list of the `top` most probable candidates, the best one first.

        Raises:
            InputError: If the text has no mask, exceeds the model's maximum length, or `top` is below 1.
        """
        check_request(text, top)
        ids = _encode(self._encoder, text, self._folder)
        with torch.inference_mode():
            masked = np.flatnonzero(ids == self._inputs.special_ids.mask)
            item = TaskItem(sequences=(Tokens(ids, np.zeros_like(ids)),), example=0, points=masked)
            logits_MV = self._model.eval()(batch_items([item]), answering=True)
            check_finite(logits_MV.float().numpy())
            best = logits_MV.float().softmax(-1).topk(min(top, self._inputs.vocab_size))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [[_make_guess(self._encoder.tokenizer, *pair) for pair in zip(*row, strict=True)] for row in pairs]


def _check_has_masked_head(folder: Path, settings: ModelSettings, inputs: ModelInputs) -> None:
    """Raise InputError if the model of a folder has no masked-token head."""
    here, *others = settings.objective_settings.list_parts(settings.family_row, inputs)
    if "masked_head" in here.heads.values():
        return
    guessing = [folder / part.folder for part in others if "masked_head" in part.heads.values()]
    raise InputError(
        f"The model in {folder} guesses no words: by its training ({settings.objective_settings.kind!r}) it has no "
        "head for masked tokens. "
        + (f"Use the one that was trained with it: {guessing[0]}." if guessing else "Give the folder of one that does.")
    )


def _encode(encoder: TextEncoder, text: str, folder: Path) -> Int32s:
    """Return the token ids of a text that may spell its masks as `[MASK]` or `<mask>`.

    Raises InputError if the text is too long, or the tokenizer does not know the mask as one token.
    """
    masking = encoder.inputs.special_ids.mask
    mask = str(encoder.tokenizer.id_to_token(masking))
    for spelling in MASKS:
        text = text.replace(spelling, mask)
    before = encoder.tokens_cut
    ids = to_ids(encoder.encode([text])[0])
    if encoder.tokens_cut > before:
        raise InputError(
            f"The text has {len(ids) + encoder.tokens_cut - before} tokens, and the model reads {len(ids)}: shorten it."
        )
    if masking not in ids:
        raise InputError(f"The tokenizer of {folder} does not know {mask} as one token: save the model's own there.")
    return ids


def _make_guess(tokenizer: Tokenizer, number: int, probability: float) -> Guess:
    token = tokenizer.id_to_token(number)
    text = tokenizer.decode([number], skip_special_tokens=False)
    return Guess(id=number, token=token or "", text=text if token else "", probability=probability)


def as_json(text: str, masks: Sequence[Sequence[Guess]]) -> str:
    """Format a text and the candidates for its masks as a JSON document with the keys `text` and `masks`."""
    guesses = [[dataclasses.asdict(guess) for guess in mask] for mask in masks]
    return json.dumps({"text": text, "masks": guesses}, indent=1, ensure_ascii=False)


def as_line(text: str, masks: Sequence[Sequence[Guess]]) -> str:
    """Format a text and its candidates on one line, one mask after another.

    >>> as_line("a [MASK]", [[Guess(id=7, token="dog", text="dog", probability=0.5)]])
    'a [MASK]  ->  dog 50%'
    """
    guesses = (", ".join(f"{_format_token(guess.text)} {guess.probability:.0%}" for guess in mask) for mask in masks)
    return f"{text}  ->  {'; '.join(guesses)}"


def as_table(text: str, masks: Sequence[Sequence[Guess]]) -> str:
    """Format a text and its candidates as several lines: for each mask, a block with one line per candidate."""
    lines = [text]
    for number, mask in enumerate(masks, 1):
        lines += ["", f"mask {number} of {len(masks)}"]
        lines += [f"  {guess.probability:7.2%}  {_format_token(guess.text)}" for guess in mask]
    return "\n".join(lines)


def _format_token(text: str) -> str:
    """Format the text of a token on one line, quoted if it would be invisible."""
    return text.strip() if text.strip().isprintable() and text.strip() else repr(text)
