"""`transformers.Trainer` over our examples: it trains on the loader's masks, not on those of a collator."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_shards import put_shards
from small_training import small_bert

from corpora.store.places.place import Place
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.settings import ShardSettings
from trainer.datasets import ExampleDataset, PaddedBatches


@pytest.mark.parametrize("kind", ["BertForPreTraining", "BertForMaskedLM"])
def test_it_trains_on_the_masks_of_the_loader(kind: str, transformers: Any, tmp_path: Path) -> None:
    """Two epochs: every example once in each, labels and replaced tokens those of the epoch."""
    pytest.importorskip("accelerate")
    given: list[dict[str, torch.Tensor]] = []
    place = Place(str(tmp_path / "store"))
    shard_set = ShardSet(place, put_shards(place, ShardSettings(length=32), documents=24).shards)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"), num_train_epochs=2, per_device_train_batch_size=4, learning_rate=1e-2,
        report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    model = small_bert(transformers, kind, shard_set.manifest.facts["vocab_size"])
    model.register_forward_pre_hook(lambda _, __, inputs: given.append(dict(inputs)), with_kwargs=True)
    trainer = transformers.Trainer(
        model, arguments, train_dataset=ExampleDataset(shard_set), data_collator=PaddedBatches.from_shard_set(shard_set)
    )
    before = [weights.detach().clone() for weights in trainer.model.parameters()]
    result = trainer.train()
    assert np.isfinite(result.training_loss)
    assert all(not torch.equal(old, new) for old, new in zip(before, trainer.model.parameters(), strict=True))
    assert ("next_sentence_label" in given[0]) == (kind == "BertForPreTraining")
    per_epoch, size = len(given) // 2, len(shard_set)
    seen = []
    for epoch in range(2):
        expected = Loader(shard_set, 42).gather(range(epoch * size, (epoch + 1) * size))
        examples = np.split(expected.ids, expected.offsets[1:-1])
        rows = np.searchsorted(expected.offsets, expected.masked, side="right") - 1
        wanted = [
            (examples[row].tolist(), place, token)
            for row, place, token in zip(
                rows.tolist(),
                (expected.masked - expected.offsets[rows]).tolist(),
                expected.targets.tolist(),
                strict=True,
            )
        ]
        batches = given[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sorted(guess for batch in batches for guess in guesses(batch)) == sorted(wanted)
        seen.append(sorted(wanted))
    assert seen[0] != seen[1]


def guesses(batch: dict[str, torch.Tensor]) -> list[tuple[list[int], int, int]]:
    """Return a batch's guesses: the tokens of the example as the model sees them, the place, the token there."""
    rows = [ids[mask == 1].tolist() for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]
    places = (batch["labels"] != -100).nonzero().tolist()
    return [(rows[row], place, int(batch["labels"][row, place])) for row, place in places]
