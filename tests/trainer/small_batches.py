"""Small models and batches of random tokens, and the same batches in padded rows, as the reference takes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainer.families.contract import ModelInputs, SpecialIds
from trainer.huggingface.checkpoints import map_names
from trainer.model.batches import Batch
from trainer.model.masked import MaskedModel
from trainer.model.objective import build_model
from trainer.objectives.contract import Target
from trainer.settings.model import ModelSettings

VOCAB_SIZE = 99
BERT_IDS = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)
ROBERTA_IDS = SpecialIds(cls=0, pad=1, sep=2, unk=3, mask=VOCAB_SIZE - 1)
LENGTHS = (7, 12, 12, 3, 20)


def small_settings(**settings: Any) -> ModelSettings:
    """Two layers of 32, 4 heads, 40 positions, without dropout unless it is asked for."""
    small = {"layers": 2, "hidden_size": 32, "heads": 4, "feed_forward_size": 64, "max_length": 40}
    return ModelSettings(**{**small, "dropout": 0.0, "attention_dropout": 0.0, **settings})


def small_inputs(family: str, pair_labels: bool = False) -> ModelInputs:
    """Return the inputs that the model must be built for to take the batches below."""
    ids = ROBERTA_IDS if family == "roberta" else BERT_IDS
    return ModelInputs(vocab_size=VOCAB_SIZE, special_ids=ids, pair_labels=pair_labels)


def far_from_zero(model: Any, seed: int = 0, std: float = 0.2) -> Any:
    """A model of ours or of theirs with weights, biases and norms that are far enough from zero to be told apart."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(std=std, generator=generator)
            if name.endswith(("norm.weight", "Norm.weight")):
                parameter.add_(1)
    return model


def small_model(settings: ModelSettings, inputs: ModelInputs, seed: int = 0) -> MaskedModel:
    """A model whose weights are far from zero."""
    model = far_from_zero(build_model(settings, inputs), seed)
    assert isinstance(model, MaskedModel)
    return model


TARGETS = {"masked": Target(np.empty(0, np.int64), "point"), "pair": Target(np.empty(0, np.int64), "sequence")}


def small_batch(
    lengths: Sequence[int] = LENGTHS, *, pairs: bool = True, num_masked: int | None = None, seed: int = 0
) -> Batch:
    """Sequences of random ordinary tokens, the second half of each of segment 1; a third of the tokens masked."""
    generator = torch.Generator().manual_seed(seed)
    boundaries = torch.tensor([0, *torch.tensor(lengths, dtype=torch.int64).cumsum(0).tolist()], dtype=torch.int32)
    num_tokens = sum(lengths)
    ids = torch.randint(5, VOCAB_SIZE - 1, (num_tokens,), generator=generator)
    halves = [torch.tensor([0] * (length - length // 2) + [1] * (length // 2)) for length in lengths]
    num_masked = num_tokens // 3 if num_masked is None else num_masked
    return Batch(
        ids=ids,
        segment_ids=torch.cat([torch.empty(0, dtype=torch.int64), *halves]),
        boundaries=boundaries,
        longest=max(lengths, default=0),
        points=torch.randperm(num_tokens, generator=generator)[:num_masked].sort().values,
        targets={
            "masked": torch.randint(5, VOCAB_SIZE - 1, (num_masked,), generator=generator),
            **({"pair": torch.randint(0, 2, (len(lengths),), generator=generator)} if pairs else {}),
        },
    )


def padded_rows(flat: Tensor, batch: Batch, fill: int) -> Tensor:
    """One value a token as rows [B, longest], the rest filled."""
    return torch.nn.utils.rnn.pad_sequence(
        list(flat.split(batch.boundaries.diff().tolist())), batch_first=True, padding_value=fill
    )


def padded_inputs(batch: Batch, pad: int, segments: bool) -> dict[str, Tensor]:
    """Return a batch as the inputs of a transformers model."""
    present = padded_rows(torch.ones_like(batch.ids), batch, 0)
    rows = {"input_ids": padded_rows(batch.ids, batch, pad), "attention_mask": present}
    return rows | ({"token_type_ids": padded_rows(batch.segment_ids, batch, 0)} if segments else {})


def padded_labels(batch: Batch) -> Tensor:
    """Targets in rows, -100 where nothing is masked."""
    flat = torch.full_like(batch.ids, -100)
    flat[batch.points] = batch.targets["masked"]
    return padded_rows(flat, batch, -100)


def opened(automatic: Any, folder: Path, **options: Any) -> Any:
    """A folder as a class of transformers opens it, with no tensor missing or left over; in float64."""
    reference, info = automatic.from_pretrained(folder, output_loading_info=True, **options)
    assert not any(info.values()), info
    return reference.eval().double()


def assert_gradients_are_theirs(
    model: MaskedModel, reference: Any, settings: ModelSettings, inputs: ModelInputs
) -> None:
    """Each parameter's, after both have gone backward; and every parameter of theirs is one of ours."""
    wanted = dict(reference.named_parameters())
    [part] = settings.objective_settings.list_parts(settings.family_row, inputs)
    names = map_names(model.state_dict(), model.family, part)
    assert {theirs for parts in names.values() for theirs in parts} == wanted.keys()
    for name, parameter in model.named_parameters():
        gradient = torch.cat([wanted[theirs].grad for theirs in names[name]])
        assert parameter.grad is not None and gradient.abs().max() > 1e-7, name
        if name == "encoder.embeddings.word.weight":
            gradient[inputs.special_ids.pad] = parameter.grad[inputs.special_ids.pad]  # theirs learns none as an input
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-5, msg=name)


def present_tokens(rows: Tensor, batch: Batch) -> Tensor:
    """Return what is in rows [B, longest, ...] at real tokens, end to end."""
    return torch.cat([row[:length] for row, length in zip(rows, batch.boundaries.diff().tolist(), strict=True)])
