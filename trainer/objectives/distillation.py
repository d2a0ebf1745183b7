"""Distillation from a teacher (Hinton et al. 2015), as for DistilBERT (Sanh et al. 2019, section 3).

The teacher is already trained, is frozen, and reads the same tokens as the student. The terms of the loss are, in
order:

    masked  cross-entropy of the masked tokens, as without a teacher
    soft    KL(teacher || student) of the distributions over the vocabulary, from logits / temperature, times the square
            of the temperature; for every token
    cosine  1 - cosine similarity of the last hidden states of both; for every token

The student starts with layers of its teacher, and with the teacher's embeddings (segment embeddings only if the student
has them) and head. The default weights of the terms are those in the authors' README for one GPU; in their example for
several GPUs, each is a third.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from corpora.errors import InputError
from corpora.store.settings import check_range, limit_field
from shards.reading.loader import GatheredExamples
from trainer.families.contract import EncoderShape, Family, ModelInputs
from trainer.objectives.contract import HeadInputs, ModelPart, Target, Term
from trainer.objectives.masked import MASKED, MaskedObjective

SOFT, COSINE = "soft", "cosine"
PRESENT = "present"  # the target that says which tokens are of examples

# What a layer of the teacher and one of the student must have in common, and their tables.
SHARED_FIELDS = (
    "hidden_size",
    "embedding_size",
    "heads",
    "feed_forward_size",
    "feed_forward",
    "norm_place",
    "position_kind",
    "biases",
    "projects",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillationObjective(MaskedObjective):
    """The `[model.objective]` table of kind "distillation".

    teacher:     the model to learn from, with the vocabulary of the shards: a Hugging Face folder, a model of this
                 store ("models/NAME" or "models/NAME/FINGERPRINT") or a release (STORE@NAME). It is not recorded in the
                 finished model
    temperature: number by which the logits of both models are divided before they are compared
    soft, masked, cosine: weights of the loss terms; a term of weight 0 is omitted, except the one for masked tokens
    layers:      zero-based indices of the teacher's layers that initialize the student's; None: spread evenly (for 6 of
                 12: 0, 2, 4, 7, 9, 11); an empty list: the student starts with random weights
    """

    kind: ClassVar[str] = "distillation"
    version: ClassVar[int] = 1
    builder: ClassVar[str] = "trainer.model.distillation:DistilledModel"

    teacher: str = limit_field("")  # a name; what decides the weights is the content, which the model's stage adds
    temperature: float = 2.0
    soft: float = 5.0
    masked: float = 2.0
    cosine: float = 1.0
    layers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_range("model.objective.temperature", self.temperature, 1e-3, 1e3)
        for name in (SOFT, MASKED.name, COSINE):
            check_range(f"model.objective.{name}", getattr(self, name), 0, 1e6)
        if not self.soft + self.cosine:
            raise InputError(
                "model.objective: soft and cosine are both 0, so nothing is learnt from the teacher: raise one of "
                'them, or set kind = "masked".'
            )

    def check(self, family: Family) -> None:
        """Raise InputError if the family has no masked-token head, which both student and teacher need."""
        if "masked" not in family.names.architectures:
            raise InputError(f'A {family.name} has no head of words, which objective "distillation" compares.')

    def list_terms(self, family: Family, inputs: ModelInputs) -> tuple[Term, ...]:
        """Return the terms of the loss: masked tokens, which are always reported, then "soft" and "cosine".

        The last two are omitted if their weight is 0. `family` and `inputs` are not used.
        """
        learnt = [Term(name, getattr(self, name), has_rights=False) for name in (SOFT, COSINE) if getattr(self, name)]
        return (Term(MASKED.name, self.masked), *learnt)

    def read(self, gathered: GatheredExamples, terms: tuple[Term, ...], seed: int) -> HeadInputs:
        """Collect the positions and ids of masked tokens, and a target of 1 for each token of an example.

        Padding has a target of 0 and does not contribute to the sums. `terms` and `seed` are not used.
        """
        targets = {
            MASKED.name: Target(gathered.targets, "point"),
            PRESENT: Target(np.ones(len(gathered.ids), np.float32), "token", 0.0),
        }
        return HeadInputs(gathered.masked, targets, gathered.targets)

    def count_targets(self, gathered: GatheredExamples, terms: tuple[Term, ...]) -> tuple[int, ...]:
        """Count the masked tokens for the masked-token term, and all tokens for the other terms."""
        masked, every = len(gathered.masked), len(gathered.ids)
        return tuple(masked if term.name == MASKED.name else every for term in terms)

    def list_parts(self, family: Family, inputs: ModelInputs) -> tuple[ModelPart, ...]:
        """Return a single part: the student with its masked-token head. The teacher is not exported."""
        return (ModelPart("", "encoder", {"masked_head": "masked_head"}, "masked"),)

    def choose_layers(self, student: EncoderShape, teacher: EncoderShape) -> tuple[int, ...]:
        """Choose the teacher's layers that initialize the student, one for each set of weights of the student.

        Args:
            student: The shape of the student's encoder.
            teacher: The shape of the teacher's encoder.

        Returns:
            Zero-based indices of teacher layers; empty if the student starts with random weights.

        Raises:
            InputError: If the teacher lacks one of the layers, or if the shapes differ.
        """
        if self.layers == ():
            return ()
        chosen = spread_layers(teacher.layers, student.layer_groups) if self.layers is None else self.layers
        if len(chosen) != student.layer_groups:
            raise InputError(
                f"model.objective.layers names {len(chosen)} layers of the teacher, but the student has "
                f"{student.layer_groups} to start from them: name one for each, or leave it out."
            )
        if outside := [layer for layer in chosen if not 0 <= layer < teacher.layers]:
            raise InputError(
                f"model.objective.layers names layer {outside[0]} of the teacher, which has {teacher.layers}: they are "
                f"counted from 0 to {teacher.layers - 1}."
            )
        differing = next((name for name in SHARED_FIELDS if getattr(student, name) != getattr(teacher, name)), None)
        if differing is not None:
            raise InputError(
                f"The student cannot start from layers of its teacher: its {differing} is "
                f"{getattr(student, differing)!r}, and the teacher's is {getattr(teacher, differing)!r}. Give it the "
                "teacher's sizes; or set model.objective.layers = [], and it starts with first weights."
            )
        return chosen

    def check_vectors(self, student: EncoderShape, teacher: EncoderShape) -> None:
        """Raise InputError if hidden states are to be compared ("cosine" has a weight) but differ in size."""
        if self.cosine and student.hidden_size != teacher.hidden_size:
            raise InputError(
                f"The student's hidden_size is {student.hidden_size} and its teacher's {teacher.hidden_size}, so their "
                "last vectors have no cosine: set model.objective.cosine = 0, or give the student that size."
            )


def spread_layers(num_layers: int, num_chosen: int) -> tuple[int, ...]:
    """Choose the given number of layers, spread evenly from the first to the last, and return their zero-based indices.

    >>> spread_layers(12, 6), spread_layers(24, 4), spread_layers(6, 1)
    ((0, 2, 4, 7, 9, 11), (0, 8, 15, 23), (0,))
    """
    gaps = max(1, num_chosen - 1)
    return tuple((2 * number * (num_layers - 1) + gaps) // (2 * gaps) for number in range(num_chosen))


def find_different_token(ours: Sequence[str], theirs: Sequence[str]) -> int | None:
    """Return the first id at which two vocabularies differ, or None if they are equal.

    A vocabulary is a list of tokens, ordered by id. If one is a prefix of the other, its length is returned.
    """
    if len(ours) != len(theirs):
        return min(len(ours), len(theirs))
    return next((number for number, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other), None)
