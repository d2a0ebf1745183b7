"""Distillation: a masked language model (the student) that learns from the predictions of another one (the teacher).

The teacher is not a submodule of the student. It does not appear in the student's state, parameters or counts, is
neither sharded nor exported with it, and is not affected by `train()`. Every process holds the whole teacher on its
device, in the precision of the matrices. A teacher like BERT-large takes 0.7 GB in bfloat16, and is never gathered.

Vocabulary logits are never held for all tokens. For CHUNK tokens at a time, the logits of both models are computed,
compared and differentiated. The gradient of the divergence is p - q, so the forward pass computes it from the
probabilities that it has, and no product is computed twice.

Cost of a step, in addition to that of a masked model: the teacher's forward pass; the product of every token with the
vocabulary for both models, and twice more in the student's backward pass; memory for six CHUNK x vocabulary tensors and
for the gradient of the word embeddings.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpora.kernels.arrays import Int64s
from trainer.families.contract import ModelInputs
from trainer.model.attention import to_float32_or_more
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.model.masked import MaskedModel, compute_logits
from trainer.model.objective import JudgedBatch, Macs, sum_loss, sum_loss_of_words
from trainer.objectives.distillation import COSINE, PRESENT, SOFT, DistillationObjective
from trainer.settings.model import ModelSettings

# Shapes in the names of tensors: T tokens, M masked tokens, N tokens that are compared, C of a chunk, H hidden size,
# E embedding size, V vocabulary.

CHUNK = 1024


class DistilledModel(MaskedModel):
    """A student encoder with a masked-token head. Its teacher must be set with `set_teacher` before training.

    Attributes:
        teacher: The teacher, which is not a submodule; None until it is set.
    """

    def __init__(self, settings: ModelSettings, inputs: ModelInputs) -> None:
        super().__init__(settings, inputs)
        assert isinstance(settings.objective_settings, DistillationObjective)
        self.objective = settings.objective_settings
        self.teacher: MaskedModel | None = None

    def set_teacher(self, teacher: MaskedModel) -> None:
        """Set the teacher, put it into evaluation mode and freeze its parameters.

        Raises:
            InputError: If the objective compares hidden states, and student and teacher have hidden states of different
                size.
        """
        self.objective.check_vectors(self.encoder.shape, teacher.encoder.shape)
        object.__setattr__(self, "teacher", teacher.eval().requires_grad_(False))  # and so it is no module of this one

    def place(self, device: torch.device, dtype: torch.dtype | None, compiled: bool) -> None:
        """Move the teacher to a device, and convert it to the precision in which the student is trained.

        Args:
            device: The device.
            dtype: The precision of the teacher's weights; None to leave it unchanged.
            compiled: True if the teacher's layers are to be compiled.
        """
        assert self.teacher is not None, "a student learns from a teacher"
        self.teacher.to(device, dtype)
        if compiled:
            for layer in self.teacher.encoder.layers:
                layer.compile()

    def count_macs(self, lengths: Int64s, places: int) -> Macs:
        """Count the multiply-accumulates of the student with its head, and those of the teacher as frozen ones.

        Args:
            lengths: int64 [B], the lengths of the sequences.
            places: The number of masked tokens, to which the masked-token head is applied.
        """
        shape = self.encoder.shape
        compared = 0 if SOFT not in {term.name for term in self.terms} else int(lengths.sum())
        ours = shape.count_macs(lengths) + shape.count_vocabulary_head_macs(places + compared)
        if self.teacher is None:
            return Macs(ours)
        theirs = self.teacher.encoder.shape
        return Macs(ours, theirs.count_macs(lengths) + theirs.count_vocabulary_head_macs(compared))

    def sum_losses(self, batch: Batch) -> Tensor:
        """Sum the masked-token loss and the two distillation losses over a batch: float32 [terms, 2].

        The distillation losses compare the token distributions and the hidden states of student and teacher. Each row
        has a summed loss and the number of correct predictions, which is 0 for distillation losses.
        """
        ours_TH = self.encoder(batch)
        masked_MH, words_VE = ours_TH.index_select(0, batch.points), self.encoder.embeddings.word.weight
        masked = sum_loss_of_words(self.masked_head, masked_MH, words_VE, batch.targets["masked"])
        return self._with_teacher(masked, ours_TH, batch)

    def judge(self, batch: Batch) -> JudgedBatch:
        """Compute the loss sums of a batch, and the student's most probable token at each masked position."""
        ours_TH = self.encoder(batch)
        masked_MV = self.masked_head(ours_TH.index_select(0, batch.points), self.encoder.embeddings.word.weight)
        masked = sum_loss(masked_MV, batch.targets["masked"])
        return JudgedBatch(self._with_teacher(masked, ours_TH, batch), masked_MV.argmax(-1))

    def _with_teacher(self, masked: Tensor, ours_TH: Tensor, batch: Batch) -> Tensor:
        """Append the sums of the distillation losses to the sums of the masked-token loss: [terms, 2].

        Args:
            masked: [2], the sums of the masked-token term.
            ours_TH: The student's hidden states.
            batch: The batch.
        """
        assert self.teacher is not None, "a student learns from a teacher"
        with torch.no_grad():
            theirs_TH = self.teacher.encoder(batch)
        sums = [masked]
        for term in self.terms[1:]:
            compare = {SOFT: self._compute_divergence, COSINE: _sum_angles}[term.name]
            summed = compare(ours_TH, theirs_TH, batch).float()
            sums.append(torch.stack([summed, torch.zeros_like(summed)]))
        return torch.stack(sums)

    def _compute_divergence(self, ours_TH: Tensor, theirs_TH: Tensor, batch: Batch) -> Tensor:
        """Sum the divergence between the token distributions of student and teacher over all tokens except padding.

        `ours_TH` and `theirs_TH` are the hidden states of student and teacher. The result is a scalar tensor.
        """
        assert self.teacher is not None
        teacher = self.teacher
        with torch.no_grad():
            theirs_TE = teacher.masked_head.transform(theirs_TH)
        return compute_divergence(
            (self.masked_head.transform(ours_TH), self.encoder.embeddings.word.weight, self.masked_head.bias),
            (theirs_TE, teacher.encoder.embeddings.word.weight, teacher.masked_head.bias),
            batch.targets[PRESENT],
            self.objective.temperature,
        )


def _sum_angles(ours_TH: Tensor, theirs_TH: Tensor, batch: Batch) -> Tensor:
    """Sum the cosine distance between the hidden states of student and teacher over all tokens except padding.

    `ours_TH` and `theirs_TH` are the hidden states of student and teacher. The result is a scalar tensor.
    """
    cosines_T = F.cosine_similarity(to_float32_or_more(ours_TH), to_float32_or_more(theirs_TH), dim=-1)
    return ((1 - cosines_T) * batch.targets[PRESENT]).sum()


# Of two that guess words: vectors [N, E] before the decoder, its rows [V, E] and its bias [V].
Guesses = tuple[Tensor, Tensor, Tensor]


def compute_divergence(
    ours: Guesses, theirs: Guesses, counted_N: Tensor, temperature: float, chunk: int = CHUNK
) -> Tensor:
    """Sum temperature^2 * KL(teacher || student) over tokens, after dividing the logits of both by the temperature.

    Args:
        ours: The student's tensors: vectors [N, E] before the decoder, decoder weights [V, E] and decoder bias [V].
        theirs: The teacher's tensors, in the same order.
        counted_N: 1 for each token that counts, 0 for the others.
        temperature: The number by which logits are divided.
        chunk: The number of tokens for which logits are held in memory at a time.
    """
    learns = torch.is_grad_enabled()
    summed = _Divergence.apply(*ours, *theirs, counted_N, temperature, chunk, learns)  # type: ignore[no-untyped-call]
    return cast(Tensor, summed)


class _Divergence(torch.autograd.Function):
    """Autograd function for the divergence in chunks. The forward pass already computes the gradients."""

    @staticmethod
    def forward(
        context: Any,
        ours_NE: Tensor,
        words_VE: Tensor,
        bias_V: Tensor,
        theirs_NE: Tensor,
        their_words_VE: Tensor,
        their_bias_V: Tensor,
        counted_N: Tensor,
        temperature: float,
        chunk: int,
        learns: bool,
    ) -> Tensor:
        """Compute the summed divergence as a scalar tensor, and save the student's gradients for `backward`.

        Args:
            context: Torch's object that stores what `backward` needs.
            ours_NE, words_VE, bias_V: The student's vectors before the decoder, decoder weights and decoder bias.
            theirs_NE, their_words_VE, their_bias_V: The same tensors of the teacher.
            counted_N: 1 for each token that counts, 0 for the others.
            temperature: The number by which logits are divided.
            chunk: The number of tokens for which logits are held in memory at a time.
            learns: True if gradients are needed.
        """
        summed = torch.zeros((), dtype=to_float32_or_more(ours_NE).dtype, device=ours_NE.device)
        gradients = [torch.zeros_like(to_float32_or_more(each)) for each in (ours_NE, words_VE, bias_V) if learns]
        for part in (slice(first, first + chunk) for first in range(0, len(ours_NE), chunk)):
            theirs_CV = _compute_log_shares(theirs_NE[part], their_words_VE, their_bias_V, temperature)
            ours_CV = _compute_log_shares(ours_NE[part], words_VE, bias_V, temperature)
            shares_CV = theirs_CV.exp()
            summed += (shares_CV * theirs_CV.sub_(ours_CV)).sum(-1) @ counted_N[part].to(summed.dtype)
            if learns:
                errors_CV = ours_CV.exp_().sub_(shares_CV).mul_(counted_N[part, None]).to(ours_NE.dtype)
                gradients[0][part] = errors_CV @ words_VE
                gradients[1] += errors_CV.T @ ours_NE[part]
                gradients[2] += errors_CV.sum(0)
        context.temperature = temperature
        context.save_for_backward(*gradients)
        return summed * temperature**2

    @staticmethod
    def backward(context: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the student's three tensors, and None for the other arguments."""
        factor = outer[0] * context.temperature  # of its square one is the logits' own
        return (*(gradient * factor for gradient in context.saved_tensors), *[None] * 7)


def _compute_log_shares(vectors_CE: Tensor, words_VE: Tensor, bias_V: Tensor, temperature: float) -> Tensor:
    """Compute the log-probabilities of the whole vocabulary for a chunk of C vectors: [C, V], in at least float32.

    `words_VE` and `bias_V` are the weights and the bias of the decoder. The logits are divided by the temperature.
    """
    return F.log_softmax(to_float32_or_more(compute_logits(vectors_CE, words_VE, bias_V)) / temperature, -1)


@torch.no_grad()
def copy_teacher(student: DistilledModel, teacher: MaskedModel) -> tuple[int, ...]:
    """Copy a teacher's embeddings, head and selected layers into a student, which is changed in place.

    Returns:
        The zero-based indices of the copied layers. If the objective selects no layers, this is empty and nothing is
        copied.

    Raises:
        InputError: If the teacher lacks a selected layer, or if the shapes of student and teacher differ.
    """
    ours, theirs = student.encoder, teacher.encoder
    chosen = student.objective.choose_layers(ours.shape, theirs.shape)
    if not chosen:
        return ()
    for layer, number in zip(ours.layers, chosen, strict=True):
        _copy_module(layer, theirs.layers[number * theirs.shape.layer_groups // theirs.shape.layers])
    for name in ("projection", "final_norm"):
        _copy_module(getattr(ours, name), getattr(theirs, name))
    _copy_embeddings(ours, theirs)
    _copy_module(student.masked_head, teacher.masked_head)
    return chosen


def _copy_embeddings(ours: TransformerEncoder, theirs: TransformerEncoder) -> None:
    """Copy the embeddings of the teacher (`theirs`) to the student (`ours`).

    The word embeddings and the norm are copied completely. Of the position and segment tables, only the rows that both
    models have are copied.
    """
    mine, given = ours.embeddings, theirs.embeddings
    _copy_module(mine.word, given.word)
    _copy_module(mine.norm, given.norm)
    if mine.position is not None and given.position is not None:
        rows = mine.position.weight[mine.first_position :]
        others = given.position.weight[given.first_position :][: len(rows)]
        rows[: len(others)] = others
    if mine.segment is not None and given.segment is not None:
        rows = mine.segment.weight
        others = given.segment.weight[: len(rows)]
        rows[: len(others)] = others


def _copy_module(ours: nn.Module | None, theirs: nn.Module | None) -> None:
    """Copy parameters by name from `theirs` to `ours`. Parameters that only one of the two has are left unchanged.

    If one of the modules is None, nothing happens.
    """
    if ours is not None and theirs is not None:
        ours.load_state_dict(theirs.state_dict(), strict=False)
