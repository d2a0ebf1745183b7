"""ELECTRA's folders: both open in transformers, and those of transformers load, alone or together."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_batches import (
    far_from_zero,
    opened,
    padded_inputs,
    padded_labels,
    padded_rows,
    present_tokens,
    small_batch,
    small_inputs,
    small_settings,
)
from torch import Tensor, nn

from corpora.errors import InputError
from trainer.huggingface.checkpoints import Pretrained, export, load_model
from trainer.model.batches import Batch
from trainer.model.masked import MaskedModel
from trainer.model.objective import Objective, build_model, select_state
from trainer.model.replaced import ReplacedModel
from trainer.settings.model import FAMILIES, ModelSettings
from trainer.tasks.fill import fill_masks
from trainer.tasks.folders import write_task
from trainer.tasks.heads.task_model import build_task_model
from trainer.tasks.kinds.texts import ClassesTask

THREE = ClassesTask(labels=("a", "b", "c"))

INPUTS = small_inputs("electra")


def electra(embedding_size: int = 16, **settings: Any) -> ModelSettings:
    return small_settings(family="electra", embedding_size=embedding_size, **settings)


def built(settings: ModelSettings, seed: int = 0) -> Any:
    """A small model whose weights are far from zero."""
    return far_from_zero(build_model(settings, INPUTS), seed).eval()


def loaded(folder: Path) -> Any:
    settings, inputs, state = load_model(folder)
    model = build_model(settings, inputs)
    model.load_state_dict(state)
    return model.eval()


def said_there(reference: Any, batch: Batch, **labels: Tensor) -> Any:
    return reference.eval()(**padded_inputs(batch, 0, segments=True), **labels)


def assert_equal_learning(model: Any, reference: Any, logits: Tensor, theirs: Tensor, loss: Tensor, there: Any) -> None:
    """Logits, and the gradient of the loss as far as the word embeddings, in float64 (the loss of ours is float32)."""
    assert logits.std() > 0.1
    torch.testing.assert_close(logits, theirs, atol=1e-9, rtol=1e-9)
    model.zero_grad()
    loss.backward()
    there.loss.backward()
    mine, given = model.encoder.embeddings.word.weight, reference.electra.embeddings.word_embeddings.weight
    assert mine.grad is not None and mine.grad.abs().max() > 1e-3
    torch.testing.assert_close(mine.grad, given.grad, atol=1e-9, rtol=1e-9)


def assert_equal_discriminators(model: ReplacedModel, reference: Any) -> None:
    model, reference, batch = model.double(), reference.double(), small_batch(pairs=False)
    labels = torch.randint(0, 2, (len(batch.ids),), generator=torch.Generator().manual_seed(3))
    logits = model.replaced_head(model.encoder(batch))
    there = said_there(reference, batch, labels=padded_rows(labels, batch, 0))
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels.double())
    assert_equal_learning(model, reference, logits, present_tokens(there.logits, batch), loss, there)


def assert_equal_generators(model: Objective, guess: Any, reference: Any) -> None:
    model, reference, batch = model.double(), reference.double(), small_batch(pairs=False)
    logits, there = guess(batch), said_there(reference, batch, labels=padded_labels(batch))
    loss = nn.functional.cross_entropy(logits, batch.targets["masked"])
    assert_equal_learning(model, reference, logits, present_tokens(there.logits, batch)[batch.points], loss, there)


@pytest.mark.parametrize("embedding_size", [16, 32])
def test_transformers_opens_both_folders(tmp_path: Path, transformers: ModuleType, embedding_size: int) -> None:
    model = built(settings := electra(embedding_size))
    export(tmp_path, model.state_dict(), settings, INPUTS)
    discriminator = opened(transformers.AutoModelForPreTraining, tmp_path)
    generator = opened(transformers.AutoModelForMaskedLM, tmp_path / "generator")
    assert generator.config.hidden_size < discriminator.config.hidden_size == 32
    assert_equal_discriminators(model, discriminator)
    assert_equal_generators(model, model.guess, generator)


def test_a_masked_model_of_the_family(tmp_path: Path, transformers: ModuleType) -> None:
    """Fails if ELECTRA cannot be trained to guess masked tokens alone."""
    model = built(settings := electra(objective={"kind": "masked"}))
    assert isinstance(model, MaskedModel)
    export(tmp_path, model.state_dict(), settings, INPUTS)
    assert not (tmp_path / "generator").exists()
    reference = opened(transformers.AutoModelForMaskedLM, tmp_path)
    assert_equal_generators(model, model.answer, reference)
    assert load_model(tmp_path)[0] == settings
    assert isinstance(loaded(tmp_path), MaskedModel)


def test_folders_of_transformers_load(tmp_path: Path, transformers: ModuleType) -> None:
    """Fails if a name, or what is usual where a key is left out, is another one."""
    config = {"vocab_size": INPUTS.vocab_size, "embedding_size": 16, "hidden_size": 32, "num_hidden_layers": 2,
              "max_position_embeddings": 40, "mask_token_id": 4, "unk_token_id": 1, "cls_token_id": 2,
              "sep_token_id": 3}  # fmt: skip
    discriminator = far_from_zero(transformers.ElectraForPreTraining(transformers.ElectraConfig(**config)))
    discriminator.save_pretrained(tmp_path)
    narrow = {"num_attention_heads": 1, "hidden_size": 16, "intermediate_size": 64}
    generator = far_from_zero(transformers.ElectraForMaskedLM(transformers.ElectraConfig(**(config | narrow))), 1)
    generator.electra.embeddings.load_state_dict(discriminator.electra.embeddings.state_dict())
    generator.save_pretrained(tmp_path / "generator")
    alone = loaded(tmp_path / "generator")
    assert_equal_generators(alone, alone.answer, generator)
    model = loaded(tmp_path)
    assert_equal_discriminators(model, discriminator)
    generator.zero_grad()
    assert_equal_generators(model, model.guess, generator)


def test_a_discriminator_alone_is_fine_tuned(tmp_path: Path, transformers: ModuleType) -> None:
    """Fails if a classifier needs the generator, or is another than ElectraForSequenceClassification."""
    model = built(settings := electra())
    export(tmp_path / "model", model.state_dict(), settings, INPUTS)
    for path in sorted((tmp_path / "model" / "generator").iterdir()):
        path.unlink()
    found, inputs, state = load_model(tmp_path / "model")
    assert found == settings and not any(name.startswith(("generator.", "masked_head.")) for name in state)
    classifier = build_task_model(THREE, Pretrained(found, inputs, state)).eval()
    encoder = select_state("encoder.", model.state_dict())
    assert all(torch.equal(encoder[name], tensor) for name, tensor in classifier.encoder.state_dict().items())
    write_task(tmp_path / "classes", far_from_zero(classifier).state_dict(), THREE, found, inputs)
    reference = opened(transformers.AutoModelForSequenceClassification, tmp_path / "classes")
    assert type(reference).__name__ == "ElectraForSequenceClassification"
    batch = small_batch(pairs=False)
    logits = classifier.double().class_head(classifier.encoder(batch).index_select(0, batch.locate_first_tokens()))
    torch.testing.assert_close(logits, said_there(reference, batch).logits, atol=1e-9, rtol=1e-9)
    logits.square().sum().backward()
    said_there(reference, batch).logits.square().sum().backward()
    mine = classifier.encoder.embeddings.word.weight.grad
    assert mine is not None and mine.abs().max() > 1e-3
    torch.testing.assert_close(mine, reference.electra.embeddings.word_embeddings.weight.grad, atol=1e-9, rtol=1e-9)


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    model = built(settings := electra())
    export(tmp_path, model.state_dict(), settings, INPUTS)
    weights, config = (tmp_path / "generator" / name for name in ("model.safetensors", "config.json"))
    tensors, said = load_file(weights), config.read_text()
    other = {**tensors, "electra.embeddings.LayerNorm.bias": tensors["electra.embeddings.LayerNorm.bias"] + 1}
    save_file(other, weights)
    with pytest.raises(InputError, match=r"has another embeddings\.norm\.bias than the model in the folder above"):
        load_model(tmp_path)
    config.write_text(json.dumps(json.loads(said) | {"num_hidden_layers": 3}))
    with pytest.raises(InputError, match=r"does not fit the model in .*"):
        load_model(tmp_path)


def test_words_are_asked_of_the_generator(tmp_path: Path) -> None:
    """Fails if a discriminator's answers are taken for words, or nobody is told whom to ask."""
    settings = electra()
    export(tmp_path, built(settings).state_dict(), settings, INPUTS)
    with pytest.raises(InputError, match=r"guesses no words.* Use the one that was trained with it: .*/generator\."):
        fill_masks(tmp_path, "a [MASK]", 5)


def test_every_size_has_a_generator_in_its_row() -> None:
    family = FAMILIES["electra"]
    assert family.generators.keys() == family.sizes.keys()
