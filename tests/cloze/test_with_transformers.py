"""Vocabularies, shards and models in the tools of others: data collators, `Trainer`, sentence-transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_recipe import prose

import cloze

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
import transformers
from small_models import write_model

TEXTS = ["The young keeper.", "A long film, and a short one.", "[MASK] is written out."]


@pytest.fixture(scope="module")
def vocab() -> cloze.Vocabulary:
    return cloze.train_vocabulary([prose(n) for n in range(8)], size=200, progress=False)


def test_special_tokens_are_those_of_transformers(vocab: cloze.Vocabulary) -> None:
    """Fails if a token or an id of a role, or what is special, is another one."""
    theirs = vocab.to_hf()
    for role in ("pad", "unk", "cls", "sep", "mask"):
        names = f"{role}_token", f"{role}_token_id"
        assert [getattr(vocab, name) for name in names] == [getattr(theirs, name) for name in names]
    assert sorted(vocab.all_special_ids) == sorted(theirs.all_special_ids)
    assert vocab.bos_token is None and vocab.padding_side == theirs.padding_side
    ids = vocab(TEXTS[2]).input_ids
    expected = theirs.get_special_tokens_mask(ids, already_has_special_tokens=True)
    assert vocab.get_special_tokens_mask(ids, already_has_special_tokens=True) == expected
    assert vocab[4] == vocab.mask_token and vocab[:5] == [*vocab][:5]
    with pytest.raises(AttributeError, match="mask_tokens"):
        _ = vocab.mask_tokens


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": False},
        {"padding": "max_length", "max_length": 40},
        {"pad_to_multiple_of": 16, "return_tensors": "np"},
        {"padding_side": "left", "return_tensors": "pt"},
        {"return_attention_mask": False},
    ],
)
def test_padding_is_that_of_transformers(vocab: cloze.Vocabulary, options: dict[str, Any]) -> None:
    """Fails if encoded texts are filled otherwise, in any form in which they are given."""
    theirs, more = vocab.to_hf(), {"return_special_tokens_mask": True}
    batch, rows = dict(vocab(TEXTS, **more)), [dict(vocab(text, **more)) for text in TEXTS]
    for given in (batch, rows, rows[0], [{"input_ids": row["input_ids"]} for row in rows]):
        if options.get("return_tensors") and given is rows[0]:
            continue
        ours, other = vocab.pad(given, **options), theirs.pad(given, **options)
        assert {**ours} == {**other} if not options.get("return_tensors") else [*ours] == [*other]
        assert all(np.array_equal(ours[name], other[name]) for name in other if options.get("return_tensors"))
    with pytest.raises(cloze.InputError, match="input_ids"):
        vocab.pad([{"ids": [1]}])
    with pytest.raises(cloze.InputError, match="different lengths"):
        vocab.pad([{**row, "labels": row["input_ids"]} for row in rows], return_tensors="np")


def test_collators_take_a_vocabulary_for_a_tokenizer(vocab: cloze.Vocabulary) -> None:
    """Fails if a data collator makes another batch with our vocabulary than with transformers' tokenizer."""
    theirs, rows = vocab.to_hf(), [{**vocab(text)} for text in TEXTS]
    makers = [
        lambda tokenizer: transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.5),
        lambda tokenizer: transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False),
        transformers.DataCollatorWithPadding,
    ]
    for make in makers:
        batches = []
        for tokenizer in (vocab, theirs):
            torch.manual_seed(1)
            batches.append(make(tokenizer)([dict(row) for row in rows]))
        ours, other = batches
        assert [*ours] == [*other] and all(torch.equal(ours[name], other[name]) for name in other)
    labelled = [{**row, "labels": [1] * len(row["input_ids"])} for row in rows]
    batch = transformers.DataCollatorForTokenClassification(vocab)(labelled)
    assert batch["labels"].shape == batch["input_ids"].shape and int(batch["labels"][0, -1]) == -100


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_trainer_trains_on_shards(vocab: cloze.Vocabulary, tmp_path: Path) -> None:
    """Fails if `Trainer` cannot batch shards, or does not save the vocabulary that it was given."""
    pytest.importorskip("datasets")
    pytest.importorskip("accelerate")
    shards = cloze.build_shards([prose(n) for n in range(8)], vocab, 64, progress=False)
    config = transformers.BertConfig(
        vocab_size=len(vocab), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    asked = {"max_steps": 2, "per_device_train_batch_size": 4, "report_to": [], "use_cpu": True, "disable_tqdm": True}
    trainer = transformers.Trainer(
        model=transformers.BertForPreTraining(config),
        args=transformers.TrainingArguments(output_dir=str(tmp_path / "work"), **asked),
        train_dataset=shards.to_hf(),
        processing_class=vocab,
    )
    assert 0 < trainer.train().training_loss < 20
    trainer.save_model(str(tmp_path / "out"))
    assert [*cloze.load_vocabulary(tmp_path / "out")] == [*vocab]
    assert len(cloze.Model(tmp_path / "out").fill("The [MASK] was there.", top=3)[0]) == 3


@pytest.mark.slow
def test_sentence_transformers_opens_a_model(tmp_path: Path) -> None:
    """Fails if the folder of a model does not open there, or its vectors are others."""
    library = pytest.importorskip("sentence_transformers")
    model = cloze.load_model(write_model(tmp_path / "model"))
    theirs = library.SentenceTransformer(str(model.folder), device="cpu")
    assert np.allclose(theirs.encode(TEXTS), model.encode(TEXTS, progress=False), atol=1e-5)
    model.save(tmp_path / "copy")
    assert np.array_equal(
        cloze.load_model(tmp_path / "copy").encode(TEXTS, progress=False), model.encode(TEXTS, progress=False)
    )
