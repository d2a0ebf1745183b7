"""Distillation: terms as torch computes them on whole logits, chunk by chunk; a student that begins as its teacher."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_batches import small_batch, small_inputs, small_model, small_settings
from torch import Tensor
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from corpora.errors import InputError
from shards.reading.budgets import BatchShape
from trainer.model.batches import Batch, fill_batch
from trainer.model.distillation import DistilledModel, compute_divergence, copy_teacher
from trainer.model.masked import MaskedModel
from trainer.model.objective import build_model, count_parameters
from trainer.objectives.contract import Target
from trainer.objectives.distillation import DistillationObjective
from trainer.settings.model import FAMILIES, ModelSettings, to_model_json

TARGETS = {"masked": Target(np.empty(0, np.int64), "point"), "present": Target(np.empty(0, np.float32), "token", 0.0)}


def student_of(
    teacher: MaskedModel | None, family: str = "distilbert", settings: dict[str, Any] | None = None, **objective: Any
) -> DistilledModel:
    """A small student of 2 layers in float64, with weights of its own, and a teacher where there is one."""
    table = {"kind": "distillation", "teacher": "folder", **objective}
    model = build_model(small_settings(family=family, objective=table, **(settings or {})), small_inputs(family))
    assert isinstance(model, DistilledModel)
    torch.manual_seed(3)
    model.init_weights()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    if teacher is not None:
        model.set_teacher(teacher)
    return model.double()


def teacher_of(family: str = "bert", **settings: Any) -> MaskedModel:
    """A small teacher of 4 layers in float64, with dropout, were it to learn."""
    asked = small_settings(family=family, **{"layers": 4, "dropout": 0.5, "attention_dropout": 0.5, **settings})
    return small_model(asked, small_inputs(family), seed=7).double()


def batch_of_tokens(lengths: tuple[int, ...] = (7, 12, 3, 20), **options: Any) -> Batch:
    batch = small_batch(lengths, pairs=False, **options)
    return replace(batch, targets={**batch.targets, "present": torch.ones(len(batch.ids))})


def guesses(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    vectors, words, bias = (torch.randn(*size, generator=generator).double() for size in ((count, 6), (31, 6), (31,)))
    return vectors, words, bias


@pytest.mark.parametrize(("count", "chunk"), [(23, 7), (23, 23), (23, 1000), (8, 4), (1, 1)])
@pytest.mark.parametrize("temperature", [1.0, 2.0, 0.5])
def test_divergence_is_that_of_torch(count: int, chunk: int, temperature: float) -> None:
    """Value and gradients, in float64, with tokens that do not count. Fails where a chunk is left out or twice."""
    ours, theirs, wanted = guesses(count), guesses(count, 1), guesses(count)
    counted = (torch.arange(count) % 3 != 1).double()
    for tensor in (*ours, *wanted):
        tensor.requires_grad_(True)
    found = compute_divergence(ours, theirs, counted, temperature, chunk)
    logits, taught = (F.linear(*three) / temperature for three in (wanted, theirs))
    rows = F.kl_div(logits.log_softmax(-1), taught.softmax(-1), reduction="none").sum(-1)
    expected = temperature**2 * (rows * counted).sum()
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    (found * 3).backward()
    (expected * 3).backward()
    for one, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-11, rtol=1e-11)


class Largest(TorchDispatchMode):
    """The most numbers that a tensor had."""

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at what an operation gives."""
        found = func(*args, **(kwargs or {}))
        if isinstance(found, Tensor):
            self.most = max(self.most, found.numel())
        return found


def test_logits_are_never_held_for_all_tokens() -> None:
    """Forward and backward. Fails where [tokens, vocabulary] is made for more than a chunk."""
    ours, theirs = guesses(200), guesses(200, 1)
    for tensor in ours:
        tensor.requires_grad_(True)
    with Largest() as largest:
        compute_divergence(ours, theirs, torch.ones(200), 2.0, chunk=20).backward()
    assert largest.most == max(200 * 6, 20 * 31)
    with Largest() as judged, torch.no_grad():
        compute_divergence(ours, theirs, torch.ones(200), 2.0, chunk=20)
    assert judged.most == 20 * 31


@pytest.mark.parametrize(("family", "teaching"), [("distilbert", "bert"), ("roberta", "roberta"), ("bert", "albert")])
def test_terms_are_those_of_whole_logits(family: str, teaching: str) -> None:
    """Sums of cross entropy, of KL at T = 2 and of 1 - cosine, and their gradients, next to torch's own functions."""
    teacher, batch = teacher_of(teaching), batch_of_tokens()
    student, plain = student_of(teacher, family), student_of(None, family)
    sums = student(batch)
    assert [(term.name, term.weight, term.has_rights) for term in student.terms] == [
        ("masked", 2.0, True), ("soft", 5.0, False), ("cosine", 1.0, False)
    ]  # fmt: skip
    with torch.no_grad():
        theirs = teacher.eval().encoder(batch)
        taught = teacher.masked_head(theirs, teacher.encoder.embeddings.word.weight)
    ours = plain.encoder(batch)
    logits = plain.masked_head(ours, plain.encoder.embeddings.word.weight)
    wanted = [
        F.cross_entropy(logits[batch.points], batch.targets["masked"], reduction="sum"),
        4 * F.kl_div((logits / 2).log_softmax(-1), (taught / 2).softmax(-1), reduction="sum"),
        F.cosine_embedding_loss(ours, theirs, torch.ones(len(ours)), reduction="sum"),
    ]
    torch.testing.assert_close(sums[:, 0].double(), torch.stack(wanted), atol=1e-4, rtol=1e-6)
    assert sums[0, 1] == (logits[batch.points].argmax(-1) == batch.targets["masked"]).sum()
    weights = torch.tensor([2.0, 5.0, 1.0])
    (sums[:, 0] * weights).sum().backward()
    (torch.stack(wanted) * weights).sum().backward()
    for (name, one), other in zip(student.named_parameters(), plain.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None and other.grad.abs().max() > 1e-4, name
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-5, msg=name)


@pytest.mark.parametrize("objective", [{}, {"soft": 0.0}])
def test_the_formula_of_flops_is_what_torch_counts(objective: dict[str, Any]) -> None:
    """Fails if a product of the student or its teacher is made twice, or is not counted."""
    student, batch = student_of(teacher_of(), **objective), batch_of_tokens()
    macs = student.count_macs(batch.boundaries.diff().numpy().astype(np.int64), len(batch.points))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        student(batch)[:, 0].sum().backward()
    assert counter.get_total_flops() == macs.flops and macs.frozen > 0


def test_dummies_are_outside_all_sums() -> None:
    """Fails if a token that fills a batch is compared with the teacher's, or moves a weight."""
    teacher, batch = teacher_of(), batch_of_tokens()
    more = fill_batch(batch, BatchShape(num_tokens=80, num_sequences=9, num_masked=20, max_length=24), 1, TARGETS)
    found = []
    for each in (batch, more):
        student = student_of(teacher)
        sums = student(each)
        sums[:, 0].sum().backward()
        found.append((sums, [parameter.grad for parameter in student.parameters()]))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-6, atol=1e-6)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_a_share_without_an_example_has_gradients_of_zeros() -> None:
    student = student_of(teacher_of())
    sums = student(batch_of_tokens((), num_masked=0))
    assert sums.eq(0).all()
    sums[:, 0].sum().backward()
    assert all(parameter.grad is not None and parameter.grad.eq(0).all() for parameter in student.parameters())


def test_the_teacher_is_no_part_of_its_student() -> None:
    """Fails if it is learnt, stored, counted, or drops something out while the student learns."""
    teacher = teacher_of()
    student, alone = student_of(teacher), student_of(None)
    assert student.state_dict().keys() == alone.state_dict().keys()
    assert get_model_state_dict(student).keys() == alone.state_dict().keys()
    assert count_parameters(student) == count_parameters(alone)
    student.train()
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    batch = batch_of_tokens()
    one, again = student(batch), student(batch)
    assert torch.equal(one, again) and not teacher.training
    one[:, 0].sum().backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())
    student.place(torch.device("cpu"), torch.float32, compiled=False)
    assert {tensor.dtype for tensor in teacher.state_dict().values()} == {torch.float32}


@pytest.mark.parametrize(
    ("layers", "of", "chosen"),
    [(6, 12, (0, 2, 4, 7, 9, 11)), (2, 4, (0, 3)), (3, 4, (0, 2, 3)), (1, 4, (0,)), (4, 4, (0, 1, 2, 3))],
)
def test_the_student_begins_as_layers_of_its_teacher(layers: int, of: int, chosen: tuple[int, ...]) -> None:
    """Layers, tables, norm and head, to the bit; the rows that its teacher has no positions for stay as they were."""
    teacher = teacher_of(layers=of, max_length=30)
    student = student_of(teacher, settings={"layers": layers})
    drawn = student.encoder.embeddings.position.weight[30:].clone()
    assert copy_teacher(student, teacher) == chosen
    for layer, number in zip(student.encoder.layers, chosen, strict=True):
        theirs = teacher.encoder.layers[number].state_dict()
        assert theirs.keys() == layer.state_dict().keys()
        assert all(torch.equal(tensor, theirs[name]) for name, tensor in layer.state_dict().items())
    mine, given = student.encoder.embeddings, teacher.encoder.embeddings
    assert torch.equal(mine.word.weight, given.word.weight) and torch.equal(mine.norm.bias, given.norm.bias)
    assert torch.equal(mine.position.weight[:30], given.position.weight)
    assert torch.equal(mine.position.weight[30:], drawn) and len(drawn) == 10
    theirs = teacher.masked_head.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in student.masked_head.state_dict().items())


def test_a_student_of_all_layers_answers_as_its_teacher() -> None:
    """Fails if a student of its own family, with segments, has anything left to learn from the teacher."""
    teacher = teacher_of()
    student = student_of(teacher, "bert", settings={"layers": 4}, layers=[0, 1, 2, 3])
    copy_teacher(student, teacher)
    sums = student.eval()(batch_of_tokens())
    assert sums[1:, 0].abs().max() < 1e-5 < sums[0, 0]


def test_layers_that_a_teacher_shares_are_begun_with() -> None:
    teacher = teacher_of("albert", embedding_size=16)
    student = student_of(teacher, "albert", settings={"layers": 2, "embedding_size": 16})
    assert copy_teacher(student, teacher) == (0,)
    assert torch.equal(student.encoder.projection.weight, teacher.encoder.projection.weight)
    own = student_of(teacher, "albert", settings={"layers": 2, "embedding_size": 16, "layer_groups": 2})
    assert copy_teacher(own, teacher) == (0, 3)
    widen = teacher.encoder.layers[0].widen.weight
    assert all(torch.equal(layer.widen.weight, widen) for layer in own.encoder.layers)


# Settings.


def objective(**settings: Any) -> ModelSettings:
    return small_settings(family="distilbert", objective={"kind": "distillation", "teacher": "folder", **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0}, r"model\.objective\.temperature = 0"),
        ({"soft": -1}, r"model\.objective\.soft = -1"),
        ({"soft": 0, "cosine": 0}, "nothing is learnt from the teacher"),
        ({"layer": [1]}, "layer"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        objective(**settings)


@pytest.mark.parametrize(
    ("settings", "student", "message"),
    [
        ({"layers": [0, 4]}, {}, "names layer 4 of the teacher, which has 4"),
        ({"layers": [-1, 2]}, {}, "names layer -1 of the teacher"),
        ({"layers": [0, 1, 2]}, {}, "names 3 layers of the teacher, but the student has 2"),
        ({}, {"feed_forward_size": 128}, "its feed_forward_size is 128, and the teacher's is 64"),
    ],
)
def test_layers_that_do_not_fit_are_refused(settings: dict[str, Any], student: dict[str, Any], message: str) -> None:
    teacher = teacher_of()
    with pytest.raises(InputError, match=message):
        copy_teacher(student_of(teacher, settings=student, **settings), teacher)


def test_vectors_of_another_size_have_no_cosine() -> None:
    """A narrower student learns from distributions alone, from first weights."""
    teacher, narrow = teacher_of(), {"hidden_size": 16}
    with pytest.raises(InputError, match=r"hidden_size is 16 and its teacher's 32.*model\.objective\.cosine = 0"):
        student_of(teacher, settings=narrow)
    student = student_of(teacher, settings=narrow, cosine=0.0, layers=[])
    assert copy_teacher(student, teacher) == () and student(batch_of_tokens()).isfinite().all()


def test_where_the_teacher_lies_is_in_no_fingerprint() -> None:
    here, there, other = objective(), objective(teacher="elsewhere"), objective(temperature=3.0)
    assert to_model_json(here) == to_model_json(there) != to_model_json(other)


def test_a_family_that_guesses_no_words_is_refused() -> None:
    family = replace(FAMILIES["bert"], names=replace(FAMILIES["bert"].names, architectures={"classes": "x"}))
    with pytest.raises(InputError, match="has no head of words"):
        DistillationObjective(teacher="folder").check(family)
