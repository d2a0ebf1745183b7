"""Generator and discriminator: exact sizes, what is drawn, what each learns from, sums that fill changes nothing of."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from small_batches import BERT_IDS, VOCAB_SIZE, far_from_zero, small_batch, small_inputs, small_settings
from tiers import examples
from torch import Tensor

from corpora.errors import InputError
from shards.reading.budgets import BatchShape
from shards.reading.loader import GatheredExamples
from trainer.families.contract import ModelInputs
from trainer.model import objective
from trainer.model.batches import Batch, fill_batch, to_batch
from trainer.model.objective import build_model, count_parameters
from trainer.model.replaced import ReplacedModel, compute_area, count_ranks, draw_tokens
from trainer.objectives.replaced import ReplacedObjective, draw_noise
from trainer.settings.model import ModelSettings

LENGTHS = (7, 12, 12, 3, 20)


def replaced_model(seed: int = 0, embedding_size: int = 16, **objective: Any) -> ReplacedModel:
    """A small model whose weights are far enough from zero to be told apart."""
    asked = small_settings(family="electra", embedding_size=embedding_size, objective={"kind": "replaced", **objective})
    model: ReplacedModel = far_from_zero(build_model(asked, small_inputs("electra")), seed).eval()
    return model


def replaced_batch(lengths: Sequence[int] = LENGTHS, seed: int = 0, num_masked: int | None = None) -> Batch:
    """Random tokens, of which a third is [MASK], with numbers that decide what is drawn."""
    batch = small_batch(lengths, pairs=False, seed=seed, num_masked=num_masked)
    numbers = torch.rand(len(batch.points), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    more = {"noise": numbers, "present": torch.ones(len(batch.ids), dtype=torch.bool)}
    ids = batch.ids.index_fill(0, batch.points, BERT_IDS.mask)
    return replace(batch, ids=ids, targets={**batch.targets, **more})


# Of the published models: discriminator and generator, each alone and with its head; the released small generator.
@pytest.mark.parametrize(
    ("size", "width", "encoder", "discriminator", "narrow", "generator"),
    [
        ("small", None, 13_483_008, 13_549_057, 4_580_928, 4_620_026),
        ("small", 1.0, 13_483_008, 13_549_057, 13_483_008, 13_546_682),
        ("base", None, 108_891_648, 109_483_009, 33_511_168, 33_740_602),
        ("large", None, 334_092_288, 335_142_913, 50_999_552, 51_295_290),
    ],
)
def test_electras_sizes(
    size: str, width: float | None, encoder: int, discriminator: int, narrow: int, generator: int
) -> None:
    inputs = ModelInputs(vocab_size=30522, special_ids=BERT_IDS, pair_labels=True)
    objective = {"kind": "replaced", "generator_size": width} if width else None
    with torch.device("meta"):
        model = build_model(ModelSettings(family="electra", size=size, objective=objective), inputs)
    assert isinstance(model, ReplacedModel)
    embeddings, head = count_parameters(model.encoder.embeddings), count_parameters(model.masked_head)
    assert count_parameters(model.encoder) == encoder
    assert count_parameters(model.encoder) + count_parameters(model.replaced_head) == discriminator
    assert count_parameters(model.generator) + embeddings == narrow
    assert count_parameters(model.generator) + embeddings + head == generator
    assert count_parameters(model) == discriminator + generator - embeddings, "shared embeddings are counted once"


# What is drawn.


@examples(60)
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any),
    st.floats(0, 1, exclude_max=True, allow_subnormal=False),
)
def test_the_inverse_of_the_distribution(weights: list[int], number: float) -> None:
    """Fails if a token without probability is drawn, or one that the number does not fall on."""
    shares = np.array(weights) / sum(weights)
    drawn = int(draw_tokens(torch.from_numpy(shares)[None].float(), torch.tensor([number], dtype=torch.float64)))
    ends = np.cumsum(shares)
    assert shares[drawn] > 0
    assert ends[drawn] - shares[drawn] - 1e-6 <= number <= ends[drawn] + 1e-6


def test_tokens_are_drawn_as_often_as_they_are_probable() -> None:
    """Fails if the distribution is another than the generator's at its temperature."""
    model = replaced_model(temperature=2.0)
    logits_V = torch.randn(VOCAB_SIZE, generator=torch.Generator().manual_seed(1))
    number = 200_000
    numbers = torch.rand(number, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    drawn = model.draw(logits_V.expand(number, -1), numbers)
    wanted = (logits_V / 2).softmax(-1).double()
    found = drawn.bincount(minlength=VOCAB_SIZE) / number
    assert ((found - wanted).abs() < 5 * (wanted * (1 - wanted) / number).sqrt()).all()


def test_no_number_is_drawn_outside_the_vocabulary() -> None:
    """Fails if a generator that has diverged ends the run by an index out of range."""
    drawn = draw_tokens(torch.full((3, 5), float("nan")), torch.tensor([0.0, 0.5, 0.999]))
    assert ((drawn >= 0) & (drawn < 5)).all()


def gathered(lengths: Sequence[int], example_ids: Sequence[int], epochs: Sequence[int]) -> GatheredExamples:
    """Examples that are masked at every third place from 1 on."""
    offsets = np.cumsum([0, *lengths]).astype(np.int32)
    places = [first + place for first, length in zip(offsets, lengths, strict=False) for place in range(1, length, 3)]
    return GatheredExamples(
        ids=np.full(offsets[-1], 7, np.uint16), offsets=offsets, boundary=np.array(lengths, np.int64), labels=None,
        masked=np.array(places, np.int64), targets=np.full(len(places), 7, np.uint16),
        example_ids=np.array(example_ids, np.uint64), epochs=np.array(epochs, np.int64), deleted=0,
    )  # fmt: skip


def test_noise_belongs_to_seed_epoch_example_and_place() -> None:
    """Fails if the number of a masked token depends on what else is in its batch, or on too little."""
    together = draw_noise(gathered((7, 5, 7), (3, 9, 4), (0, 0, 1)), 42)
    alone = [
        draw_noise(gathered((length,), (name,), (epoch,)), 42)
        for length, name, epoch in ((7, 3, 0), (5, 9, 0), (7, 4, 1))
    ]
    assert np.array_equal(together, np.concatenate(alone))
    others = [draw_noise(gathered((7,), (3,), (1,)), 42), draw_noise(gathered((7,), (3,), (0,)), 43)]
    every = np.concatenate([together, *others])
    assert len(set(every.tolist())) == len(every) and ((every >= 0) & (every < 1)).all()


def test_filling_a_batch_changes_nothing() -> None:
    """Fails if a dummy token counts, or where dummy points, all at the last place, replace the token there."""
    asked, settings_of = gathered((7, 5, 7), (3, 9, 4), (0, 0, 1)), ReplacedObjective()
    reads = settings_of.read(asked, (), 42)
    plain, model = to_batch(asked, reads), replaced_model()
    last = replace(plain, points=torch.cat([plain.points[:-1], torch.tensor([len(plain.ids) - 1])]))
    for batch in (plain, last):
        wanted = model(batch)
        for shape in (BatchShape(24, 5, 9, 8), BatchShape(19, 3, 12, 7)):
            torch.testing.assert_close(model(fill_batch(batch, shape, 0, reads.targets)), wanted, rtol=1e-5, atol=1e-6)
    assert settings_of.count_targets(asked, ()) == (len(asked.masked), 19) == (6, 19)


# What is learnt from what.


def test_sums_are_those_of_the_definition() -> None:
    """Fails if a label, a loss or a right answer is another than the paper's."""
    model, batch = replaced_model().double(), replaced_batch()
    said, sums = model.answer_jointly(batch), model(batch)
    drawn = model.draw(model.guess(batch), batch.targets["noise"]).tolist()
    wanted_ids, labels = batch.ids.clone(), torch.zeros(len(batch.ids), dtype=torch.float64)
    for place, token, target in zip(batch.points.tolist(), drawn, batch.targets["masked"].tolist(), strict=True):
        wanted_ids[place], labels[place] = token, float(token != target)
    assert 5 < labels.sum() <= len(batch.points)
    logits = model.answer(replace(batch, ids=wanted_ids)).double()
    torch.testing.assert_close(said.logits.double(), logits)
    losses = -(labels * logits.sigmoid().log() + (1 - labels) * (1 - logits.sigmoid()).log())
    torch.testing.assert_close(sums[1, 0].double(), losses.sum(), rtol=1e-5, atol=0.0)
    assert sums[1, 1] == ((logits > 0) == labels.bool()).sum()
    masked = F.cross_entropy(model.guess(batch), batch.targets["masked"], reduction="sum")
    torch.testing.assert_close(sums[0, 0].double(), masked, rtol=1e-5, atol=0.0)


def gradients(model: ReplacedModel, batch: Batch, term: int) -> dict[str, Tensor]:
    model.zero_grad()
    model(batch)[term, 0].backward()
    return {name: p.grad if p.grad is not None else torch.zeros_like(p) for name, p in model.named_parameters()}


def test_a_generator_that_guesses_in_stretches_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if other tokens are drawn, or losses and gradients differ by more than the order of a sum; and where
    tokens are drawn once more in the backward pass."""
    model, batch, found, drawn = replaced_model().double(), replaced_batch(), [], []
    draw = model.draw
    monkeypatch.setattr(model, "draw", lambda *asked: drawn.append(len(asked[0])) or draw(*asked))
    for at_once in (8192, 5):
        monkeypatch.setattr(objective, "POINTS_AT_ONCE", {"cpu": at_once})
        said = model.answer_jointly(batch)
        found.append((said, gradients(model, batch, 0), model.judge(batch).guesses))
    (one, of_one, guesses), (other, of_other, others) = found
    assert torch.equal(one.replaced, other.replaced) and torch.equal(guesses, others)
    torch.testing.assert_close(one.masked, other.masked, rtol=1e-6, atol=0)
    for name, gradient in of_one.items():
        torch.testing.assert_close(gradient, of_other[name], rtol=1e-6, atol=1e-9)
    points = len(batch.points)
    assert points > 5 and max(drawn[3:]) == 5 and sum(drawn) == 6 * points


def test_what_each_term_teaches() -> None:
    """Fails if the generator learns from the discriminator, or the embeddings, which both share, from one alone."""
    model, batch = replaced_model(), replaced_batch()
    of_generator, of_discriminator = (gradients(model, batch, term) for term in (0, 1))
    for name in of_generator:
        root, rest = name.split(".", 1)
        shared = root == "encoder" and rest.startswith("embeddings.")
        assert bool(of_generator[name].any()) == (shared or root in ("generator", "masked_head")), name
        assert bool(of_discriminator[name].any()) == (root in ("encoder", "replaced_head")), name


@pytest.mark.parametrize("lengths", [(6, 4), ()])
def test_without_masked_tokens_no_gradient_is_none(lengths: tuple[int, ...]) -> None:
    """Fails if a process without a share of a step has no gradients to add up."""
    model = replaced_model()
    sums = model(replaced_batch(lengths, num_masked=0))
    assert sums[0].tolist() == [0, 0] and bool(sums[1, 0] > 0) == bool(lengths)
    sums[:, 0].sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_settings_that_fit_no_model_are_refused() -> None:
    with pytest.raises(InputError, match=r'set model\.family = "electra"'):
        ModelSettings(family="bert", objective={"kind": "replaced"})
    with pytest.raises(InputError, match="generator_size"):
        ModelSettings(family="electra", objective={"kind": "replaced", "generator_size": 2.0})
    assert ModelSettings(family="electra", size="base").objective_settings.list_terms(None, None)[1].weight == 50  # type: ignore[arg-type]


def test_the_area_adds_up_over_batches() -> None:
    """Fails if a token that fills a batch is ranked, or the area is another than that of all pairs."""
    generator = torch.Generator().manual_seed(0)
    replaced = torch.rand(3000, generator=generator) < 0.1
    logits = torch.randn(3000, generator=generator) + replaced * 0.7
    present = torch.rand(3000, generator=generator) < 0.9
    cut = [
        count_ranks(logits[at : at + 999], replaced[at : at + 999], present[at : at + 999])
        for at in range(0, 3000, 999)
    ]
    counts = torch.stack(cut).sum(0)
    high, low = logits[replaced & present].double(), logits[~replaced & present].double()
    exact = float((high[:, None] > low).double().mean())
    found = compute_area(counts.numpy())
    shared = float((counts.reshape(2, -1).prod(0)).sum() / len(high) / len(low))
    assert found is not None and counts.sum() == present.sum() and 0.6 < exact < 0.8
    assert abs(found - exact) <= shared / 2 < 1e-3
    assert compute_area(np.zeros(8)) is None
    model, batch = replaced_model(), replaced_batch()
    judged, sums = model(batch, judging=True), model(batch)
    assert torch.equal(judged.sums, sums) and judged.measures.sum() == len(batch.ids)
    assert 0 < model.compute_figures(judged.measures.numpy())["replaced_auc"] < 1
