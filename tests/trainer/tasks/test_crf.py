"""The conditional random field: equal to the sum over all paths, to pytorch-crf, and what a tagger makes of it."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from small_models import write_model
from small_tags import tags_job
from small_tasks import encoded_for, kept_of, run
from tiers import examples
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from corpora.errors import InputError
from trainer.tasks.folders import EXTRA_WEIGHTS, load_task
from trainer.tasks.heads.tags import FORBIDDEN_SCORE, Chains, LinearChain, find_forbidden_tags
from trainer.tasks.kinds.tags import INNER, TagsTask, may_follow
from trainer.tasks.settings import FinetuneJob

BIO2 = TagsTask(units="spans", crf=True, constrained=True, labels=("O", "B-X", "I-X"), usual="O")
BIOES = TagsTask(
    units="spans", scheme="bioes", crf=True, constrained=True, labels=("O", "B-X", "I-X", "E-X", "S-X"), usual="O"
)


def drawn(lengths: list[int], num_tags: int, seed: int) -> tuple[LinearChain, Tensor, Tensor]:
    """A chain with weights far from zero, emissions, and tags."""
    torch.manual_seed(seed)
    chain = LinearChain(num_tags)
    with torch.no_grad():
        for parameter in chain.parameters():
            parameter.normal_()
    return chain.double(), torch.randn(sum(lengths), num_tags).double(), torch.randint(num_tags, (sum(lengths),))


def whole(lengths: list[int]) -> tuple[Chains, Tensor]:
    """Sentences that go on at no end."""
    return Chains.from_lengths(torch.tensor(lengths)), torch.zeros(len(lengths), 2, dtype=torch.bool)


def score(chain: LinearChain, emissions: Tensor, tags: tuple[int, ...], inner: tuple[bool, bool]) -> float:
    """Return the score of one sentence by its definition."""
    found = sum(float(emissions[place, tag]) for place, tag in enumerate(tags))
    found += sum(chain.transitions[a, b].item() for a, b in itertools.pairwise(tags))
    found += 0.0 if inner[0] else chain.start[tags[0]].item()
    return found + (0.0 if inner[1] else chain.end[tags[-1]].item())


@examples(40)
@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    num_tags=st.integers(1, 3),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_all_paths_are_added_up_and_the_best_is_found(
    lengths: list[int], num_tags: int, seed: int, data: st.DataObject
) -> None:
    """Brute force over every path of every sentence, also of those that go on at an end."""
    inner = [data.draw(st.tuples(st.booleans(), st.booleans())) for _ in lengths]
    chain, emissions, tags = drawn(lengths, num_tags, seed)
    chains, inner_S2 = Chains.from_lengths(torch.tensor(lengths)), torch.tensor(inner)
    wanted, best = 0.0, list[int]()
    for part, right, ends in zip(emissions.split(lengths), tags.split(lengths), inner, strict=True):
        scores = {path: score(chain, part, path, ends) for path in itertools.product(range(num_tags), repeat=len(part))}
        wanted += (
            float(torch.tensor([*scores.values()], dtype=torch.float64).logsumexp(0)) - scores[tuple(right.tolist())]
        )
        best += max(scores, key=lambda path: scores[path])
    assert chain.compute_loss(emissions, tags, chains, inner_S2).item() == pytest.approx(wanted, abs=1e-9)
    assert chain.find_best(emissions, chains, inner_S2).tolist() == best


@examples(30)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3), seed=st.integers(0, 1000))
@pytest.mark.parametrize("task", [BIO2, BIOES], ids=["bio2", "bioes"])
def test_what_is_forbidden_has_no_share_and_is_no_answer(task: TagsTask, lengths: list[int], seed: int) -> None:
    """The partition is the sum over well-formed paths alone, and the answer the best of these."""
    free, emissions, _ = drawn(lengths, len(task.labels), seed)
    chain = LinearChain(len(task.labels), find_forbidden_tags(task)).double()
    chain.load_state_dict(free.state_dict())
    chains, inner_S2 = whole(lengths)
    wanted, best, tags = 0.0, list[int](), list[int]()
    for part in emissions.split(lengths):
        paths = [p for p in itertools.product(range(len(task.labels)), repeat=len(part)) if well_formed(p, task)]
        scores = {path: score(chain, part, path, (False, False)) for path in paths}
        wanted += float(torch.tensor([*scores.values()], dtype=torch.float64).logsumexp(0)) - scores[paths[-1]]
        best += max(scores, key=lambda path: scores[path])
        tags += paths[-1]
    assert chain.compute_loss(emissions, torch.tensor(tags), chains, inner_S2).item() == pytest.approx(wanted, abs=1e-9)
    assert chain.find_best(emissions, chains, inner_S2).tolist() == best


def well_formed(path: tuple[int, ...], task: TagsTask) -> bool:
    names = [None, *(task.labels[number] for number in path), None]
    return all(may_follow(before, after, task.scheme) for before, after in itertools.pairwise(names))


def test_pytorch_crf_says_the_same() -> None:
    """Loss, gradients and best tags, of sentences of all lengths at once; its mask is a prefix, as it must be."""
    torchcrf = pytest.importorskip("torchcrf", reason="pytorch-crf is not installed")
    lengths = [3, 1, 12, 7, 7, 30, 2]
    chain, emissions, tags = drawn(lengths, 9, 5)
    reference = torchcrf.CRF(9, batch_first=True).double()
    pairs = {"start_transitions": "start", "end_transitions": "end", "transitions": "transitions"}
    reference.load_state_dict({theirs: getattr(chain, ours) for theirs, ours in pairs.items()})
    padded, padded_tags = (pad_sequence([*each.split(lengths)], batch_first=True) for each in (emissions, tags))
    mask = torch.arange(30) < torch.tensor(lengths)[:, None]
    wanted = -reference(padded, padded_tags, mask=mask, reduction="sum")
    chains, inner_S2 = whole(lengths)
    found = chain.compute_loss(emissions, tags, chains, inner_S2)
    torch.testing.assert_close(found, wanted, atol=1e-9, rtol=1e-12)
    wanted.backward()
    found.backward()
    for theirs, ours in pairs.items():
        torch.testing.assert_close(getattr(chain, ours).grad, getattr(reference, theirs).grad, atol=1e-9, rtol=1e-9)
    best = chain.find_best(emissions, chains, inner_S2).split(lengths)
    assert [each.tolist() for each in best] == reference.decode(padded, mask)


def test_first_weights_are_small() -> None:
    """U(-0.1, 0.1), as pytorch-crf's."""
    chain = LinearChain(60)
    assert chain.transitions.abs().max() <= 0.1 and 0.05 < chain.transitions.std().item() < 0.065


def test_a_long_sentence_has_a_finite_loss() -> None:
    """5,000 words in float32, with a tag that may begin nothing: no minus infinity anywhere, and a gradient."""
    emissions = torch.randn(5_000, 3, requires_grad=True)
    tags = torch.zeros(5_000, dtype=torch.int64)
    loss = LinearChain(3, find_forbidden_tags(BIO2)).compute_loss(emissions, tags, *whole([5_000]))
    loss.backward()
    assert 0 < loss.item() < -FORBIDDEN_SCORE and emissions.grad is not None and emissions.grad.isfinite().all()


def test_scores_are_added_up_in_float32() -> None:
    """Fails where, with matrices in bfloat16, the loss of 200 words differs from that of float32 weights."""
    chain, emissions, tags = drawn([200], 5, 1)
    found = chain.bfloat16().compute_loss(emissions.float(), tags, *whole([200]))
    assert found.dtype == torch.float32
    assert torch.equal(found, chain.float().compute_loss(emissions.float(), tags, *whole([200])))


# The tagger.


def crf_job(folder: Path, output: str = "out", **asked: Any) -> FinetuneJob:
    task = {"crf": True, "constrained": True, "scheme": "bioes"}
    return tags_job(folder, output, task, **{"epochs": 5, **asked})


def test_spans_are_learnt_together(tmp_path: Path) -> None:
    """The folder has the encoder for others, and in a file beside it the head and the chain."""
    record = run(crf_job(tmp_path))
    assert kept_of(record)["f1"] > 0.95
    more = load_file(tmp_path / "out" / EXTRA_WEIGHTS)
    assert {"chain.start", "chain.end", "chain.transitions", "token_head.decision.weight"} <= more.keys()
    loaded = load_task(tmp_path / "out")
    assert torch.equal(loaded.model.state_dict()["chain.transitions"], more["chain.transitions"])
    assert more["chain.transitions"].abs().max() > 0.1, "nothing was learnt"


def test_sentences_that_are_read_in_parts_go_on(tmp_path: Path) -> None:
    """Neither the begin nor the end of a part has a score where its sentence goes on."""
    write_model(tmp_path / "model")
    [*items] = encoded_for(
        BIO2, tmp_path / "model", [{"words": ["film"] * 500}, {"words": ["a"]}], labelled=False
    ).items
    assert [item.targets[INNER].tolist() for item in items] == [
        [[False, True]], *[[[True, True]]] * (len(items) - 3), [[True, False]], [[False, False]]
    ]  # fmt: skip


@pytest.mark.parametrize("task", [{"constrained": True}, {"crf": True, "constrained": True, "units": "words"}])
def test_a_constraint_needs_a_chain_of_spans(task: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="set crf = true with it, and not units"):
        TagsTask(**task)
