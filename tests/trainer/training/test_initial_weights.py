"""Training from a model's folder: its weights to the bit, rows for new tokens, heads it lacks, and what is refused."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_starts import edit, planned_from, write_start
from small_training import SmallStore, exported_bytes, flip, of, train_here

from corpora.errors import InputError
from tokenizers_train.adapting import Choice, with_added_tokens
from tokenizers_train.build import read_vocabulary
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_bert_vocabulary
from trainer.huggingface.checkpoints import load_model
from trainer.huggingface.start_model import adapt_start, read_settings
from trainer.huggingface.vocabulary_rows import adapt_checkpoint
from trainer.initial_weights import build_initial_model, draw_first_model, read_start_weights
from trainer.job import TrainingJob
from trainer.ranks import Ranks
from trainer.start_weights import read_start

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it


@pytest.fixture(scope="module")
def words(store: SmallStore) -> Vocabulary:
    """The vocabulary of the shards."""
    return read_vocabulary(store.place, store.vocabulary)


def job_from(store: SmallStore, folder: Path, work: Path | None = None, **more: Any) -> TrainingJob:
    job: TrainingJob = planned_from(store, folder, work, **more).parts[0].job
    return job


def same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    return found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_a_training_begins_with_the_very_weights(store: SmallStore, words: Vocabulary, tmp_path: Path) -> None:
    """Fails if a tensor is another one after it was read, for rows of padding or in half precision too."""
    state = write_start(tmp_path / "start", words)
    assert same(build_initial_model(job_from(store, tmp_path / "start"))[0].state_dict(), state)
    padded = write_start(tmp_path / "padded", words, rows=words.size + -words.size % 8 + 8)
    cut = {name: t[: words.size] if "word" in name or name.endswith("head.bias") else t for name, t in padded.items()}
    assert same(build_initial_model(job_from(store, tmp_path / "padded"))[0].state_dict(), cut)
    edit(tmp_path / "start", lambda tensors: {name: t.bfloat16() for name, t in tensors.items()})
    halves = build_initial_model(job_from(store, tmp_path / "start"))[0].state_dict()
    assert same(halves, {name: t.bfloat16().float() for name, t in state.items()})


def test_the_content_of_a_start_names_the_model_and_its_place_does_not(
    store: SmallStore, words: Vocabulary, tmp_path: Path
) -> None:
    """Fails if a folder that was moved trains another model, or one with another bit the same."""
    write_start(tmp_path / "start", words)
    shutil.copytree(tmp_path / "start", tmp_path / "moved")
    first, moved = planned_from(store, tmp_path / "start"), planned_from(store, tmp_path / "moved")
    assert first.fingerprint == moved.fingerprint
    assert first.parts[0].job.identity == moved.parts[0].job.identity
    assert TrainingJob.from_json(first.parts[0].job.to_json()) == first.parts[0].job
    flip(tmp_path / "moved" / "model.safetensors")
    other = planned_from(store, tmp_path / "moved")
    assert other.fingerprint != first.fingerprint and other.parts[0].job.identity != first.parts[0].job.identity


def test_new_tokens_begin_as_vocabulary_adapt_makes_them(words: Vocabulary, tmp_path: Path) -> None:
    """Fails if a row of a model that begins differs from that of an adapted checkpoint, in a slot or after the last
    token, or padding of the old one is taken for a row."""
    slots = build_bert_vocabulary([*words.tokens[:5], "[unused0]", "[unused1]", *words.tokens[5:]])
    choices = [Choice(token=token, count=1, pieces=(), saved_tokens=1) for token in ("thea", "ofa", "anda")]
    new = with_added_tokens(slots, choices)
    assert new.size == slots.size + 1 and new.tokens[5:7] == ("thea", "ofa")
    write_start(tmp_path / "start", slots, rows=slots.size + -slots.size % 8 + 8)
    adapt_checkpoint(tmp_path / "start", slots, new, tmp_path / "adapted")
    _, inputs, wanted = load_model(tmp_path / "adapted")
    start = adapt_start(read_start(tmp_path / "start"), new, "The vocabulary")
    assert {row for row, _ in start.rows} == {5, 6, new.size - 1}
    state, _ = read_start_weights(start, read_settings(start, {}), replace(inputs, vocab_size=new.size))
    assert same(state, {n: t[: new.size] if t.shape[0] == inputs.vocab_size else t for n, t in wanted.items()})
    assert not torch.equal(state["encoder.embeddings.word.weight"][5], torch.zeros(32))


@pytest.mark.parametrize("what", ["masked", "pooler", "encoder", "classifier"])
def test_heads_that_are_missing_begin_with_first_weights(
    store: SmallStore, words: Vocabulary, tmp_path: Path, what: str
) -> None:
    """Fails if a start without a head is refused, or its head or encoder begins with other weights, or nobody says
    so."""
    state = write_start(tmp_path / "start", words, pairs=what != "masked")
    lacking = ["pair_head"] if what in ("masked", "pooler") else ["masked_head", "pair_head"]
    gone = {"masked": (), "pooler": ("cls.seq_relationship",), "encoder": ("cls.",), "classifier": ("cls.",)}[what]
    edit(tmp_path / "start", lambda tensors: {n: t for n, t in tensors.items() if not n.startswith(gone)})
    if what == "encoder":  # as a model without heads saves itself
        edit(tmp_path / "start", lambda tensors: {n.removeprefix("bert."): t for n, t in tensors.items()})
    if what == "classifier":
        edit(
            tmp_path / "start",
            lambda t: {**t, "classifier.weight": torch.zeros(3, 32), "classifier.bias": torch.zeros(3)},
        )
    stage = planned_from(store, tmp_path / "start")
    job: TrainingJob = stage.parts[0].job
    assert stage.facts["start"] == {"content": job.start.content, "new_tokens": 0, "first_heads": lacking}
    (begun, message), first = build_initial_model(job), draw_first_model(job).state_dict()
    kept = {name: state[name] for name in state if not name.startswith(tuple(lacking))}
    assert same(begun.state_dict(), {**first, **kept})
    assert f"Its {' and '.join(lacking)} begins with first weights." in message


def test_a_start_of_other_tensors_is_refused_by_name(store: SmallStore, words: Vocabulary, tmp_path: Path) -> None:
    """Fails if a tensor of the encoder, or a part of a head, may be missing or more, or of another shape."""
    write_start(tmp_path / "start", words)
    norm = "bert.encoder.layer.1.attention.output.LayerNorm.weight"
    for change, told in (
        (lambda t: {n: x for n, x in t.items() if n != norm}, f"lacks {norm}: "),
        (
            lambda t: {n: x for n, x in t.items() if "transform.LayerNorm" not in n},
            "lacks cls.predictions.transform.Lay",
        ),
        (lambda t: {**t, "bert.adapter.weight": torch.zeros(2)}, "holds bert.adapter.weight that its model does not"),
        (lambda t: {**t, norm: torch.zeros(31)}, f"{norm} is 31, but the model has 32"),
    ):
        shutil.copytree(tmp_path / "start", tmp_path / "other")
        edit(tmp_path / "other", change)
        with pytest.raises(InputError, match=told):
            build_initial_model(job_from(store, tmp_path / "other"))
        shutil.rmtree(tmp_path / "other")


@pytest.mark.parametrize("family", ["roberta", "electra", "albert", "distilbert", "modernbert"])
def test_a_model_of_any_family_begins_a_training(
    store: SmallStore, words: Vocabulary, tmp_path: Path, family: str
) -> None:
    """Fails if a part (ELECTRA has two) is left out, is not in the content, or another shape is taken for it."""
    state = write_start(tmp_path / "start", words, family=family, pairs=family == "albert")
    job = job_from(store, tmp_path / "start")
    assert job.model.family == family and same(build_initial_model(job)[0].state_dict(), state)
    if family != "electra":
        return
    content = read_start(tmp_path / "start").content
    flip(tmp_path / "start" / "generator" / "model.safetensors")
    assert read_start(tmp_path / "start").content != content
    config = tmp_path / "start" / "generator" / "config.json"
    wider = {**json.loads(config.read_bytes()), "hidden_size": 16, "num_attention_heads": 1, "intermediate_size": 64}
    config.write_text(json.dumps(wider))
    with pytest.raises(InputError, match=r"describes a generator of .* set model\.objective\.generator_size to 0\.5"):
        planned_from(store, tmp_path / "start")
    shutil.rmtree(tmp_path / "start" / "generator")
    alone = planned_from(store, tmp_path / "start")
    assert "generator" in alone.facts["start"]["first_heads"]
    begun = build_initial_model(alone.parts[0].job)[0].state_dict()
    first = draw_first_model(alone.parts[0].job).state_dict()
    assert all(
        torch.equal(t, (first if n.startswith(("generator.", "masked_")) else state)[n]) for n, t in begun.items()
    )


def test_a_start_that_is_none_is_refused_when_it_is_planned(
    store: SmallStore, words: Vocabulary, tmp_path: Path
) -> None:
    """Fails if a torn folder, another family or other sizes than said, or another vocabulary are planned."""
    start = tmp_path / "start"
    write_start(start, words)

    def refused(told: str, **more: Any) -> None:
        with pytest.raises(InputError, match=told) as caught:
            planned_from(store, start, **more)
        assert "\n" not in str(caught.value)

    for said, told in (
        ({"family": "roberta"}, r"model\.family = 'roberta', but the model in .* has 'bert': leave it out"),
        ({"size": "base"}, r"model\.size = 'base', but the model in .* has 'layers = 2, hidden_size = 32, heads = 2"),
        ({"layers": 3}, r"model\.layers = 3, but .* has 2"),
        ({"max_length": 512}, r"model\.max_length = 512, but .* has 32"),
    ):
        refused(told, said=said)
    assert planned_from(store, start, said={"layers": 2, "dropout": 0.3}).parts[0].job.model.dropout == 0.3
    whole = (start / "model.safetensors").read_bytes()
    (start / "model.safetensors").write_bytes(whole[:-10])
    refused("is incomplete: .* bytes of numbers do not match its header")
    (start / "model.safetensors").unlink()
    refused("has no model.safetensors, but a training starts from a model as")
    (start / "model.safetensors").write_bytes(whole)
    config = json.loads((start / "config.json").read_text())
    for key, value, told in (
        ("model_type", "t5", "model_type is 't5'; it must be one of"),
        ("vocab_size", words.size + 1, "vocab_size is .*: the model was trained with another one"),
        ("mask_token_id", 9, "The special tokens of the model in .* and those of the examples"),
    ):
        (start / "config.json").write_text(json.dumps({**config, key: value}))
        refused(told)
    (start / "config.json").write_text(json.dumps(config))
    tokens = [*words.tokens]
    tokens[40], tokens[41] = tokens[41], tokens[40]
    swapped = build_bert_vocabulary(tokens)
    shutil.rmtree(start)
    write_start(start, swapped)
    refused(rf"nor adapted from it\. The token {tokens[40]!r} has the id 40 in the old vocabulary and not in the new")


def test_a_start_that_changes_after_it_was_planned_is_refused(
    store: SmallStore, words: Vocabulary, tmp_path: Path
) -> None:
    """Fails if a training begins with other weights than those that name its model."""
    write_start(tmp_path / "start", words)
    job = job_from(store, tmp_path / "start")
    flip(tmp_path / "start" / "model.safetensors")
    with pytest.raises(InputError, match=r"model\.safetensors has changed since the training was planned: restore"):
        build_initial_model(job)
    shutil.rmtree(tmp_path / "start")
    with pytest.raises(InputError, match=r"config\.json is gone, but the training was to start from it"):
        build_initial_model(job)


class _KilledError(Exception):
    """In place of a signal."""


def test_a_start_is_needed_until_there_is_a_checkpoint_and_judged_before(
    store: SmallStore, words: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a run that goes on reads its start again or ends with other weights, or step 0 is not judged."""
    write_start(tmp_path / "start", words)
    whole = job_from(store, tmp_path / "start", tmp_path / "whole")
    events = train_here(whole)
    judged = of(events, "evaluation")
    assert [event["step"] for event in judged] == [0, 4] and "begins with the model in" in of(events, "start")[0][
        "message"
    ]
    job = job_from(store, tmp_path / "start", tmp_path / "work")
    record = Ranks.record_position

    def die(ranks: Ranks, place: str) -> None:
        if place == "after step 3":
            raise _KilledError
        record(ranks, place)

    with monkeypatch.context() as patched:
        patched.setattr(Ranks, "record_position", die)
        with pytest.raises(_KilledError):
            train_here(job)
    shutil.rmtree(tmp_path / "start")
    again = train_here(job)
    assert of(again, "resume")[0]["step"] == 2 and of(again, "evaluation") == judged
    assert exported_bytes(job) == exported_bytes(whole)
    assert same(load_file(job.export / "model.safetensors"), load_file(whole.export / "model.safetensors"))


def test_a_run_that_is_stopped_while_it_judges_its_start_does_so_when_it_resumes(
    store: SmallStore, words: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a stop before the first step loses the evaluation that later ones are compared with."""
    write_start(tmp_path / "start", words)
    whole, job = (job_from(store, tmp_path / "start", tmp_path / name) for name in ("whole", "work"))
    events, record = train_here(whole), Ranks.record_position

    def stop(ranks: Ranks, place: str) -> None:
        record(ranks, place)
        if place == "in the evaluation after step 0":
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(Ranks, "record_position", stop)
        assert [event["event"] for event in train_here(job)] == ["start"]
    assert train_here(job) == events and exported_bytes(job) == exported_bytes(whole)
