"""Heads for whole texts, for spans and for choices.

**Texts**: one class of several, several classes at once, or a number. BERT's head consists of its pooler, dropout and a
matrix (Devlin et al. 2018, section 4.1). It starts with the pooler from pre-training on pairs, if there is one. Other
families have the heads that their `Family` describes, with random weights.

**Spans**: the start and end of an answer in a window of text (Devlin et al. 2018, section 4.2). There are two vectors,
for starts and for ends. Their products with each token are the logits, and the softmax is over all tokens of the
window.

**Choices**: a score for each of several texts, computed by the head for whole texts, and a softmax over the texts of a
question (Devlin et al. 2018, section 4.4).
"""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.huggingface.checkpoints import Pretrained
from trainer.model.batches import Batch
from trainer.model.objective import sum_loss
from trainer.tasks.heads.task_model import (
    EXAMPLES,
    ClassHead,
    TaskModel,
    TokenHead,
    compute_log_softmax,
    mark_highest,
    pool_texts,
    to_group_numbers,
)
from trainer.tasks.kinds.answers import END, START, SpanTask
from trainer.tasks.kinds.choices import CHOICE, ChoiceTask
from trainer.tasks.kinds.texts import COLUMNS, LABEL, LABELS, NUMBER, TEACHER, StudentTask, TextTask

# Shapes in the names of tensors: S texts, C classes, N numbers with a text.


class TextModel(TaskModel):
    """An encoder with a head on the first token, or the mean, of every text.

    A batch has one of these targets: `label` (int64 [S]), `labels` (float32 [S, C]) or `number` (float32 [S]). It also
    has `columns` (float32 [S, N]) if texts have additional columns, and `teacher` (float32 [S, C]) if there is a
    teacher.
    """

    def __init__(self, task: TextTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained)
        shape = self.family.class_head
        self.class_head = ClassHead(self.encoder.shape, shape, task.num_outputs, task.num_columns)
        self.init_head(self.class_head, shape, pretrained.state)
        self.pooling = pretrained.settings.pooling or self.family.pooling
        self.temperature = task.temperature if isinstance(task, StudentTask) else 1.0

    def compute_outputs(self, batch: Batch) -> Tensor:
        """Compute the logits of the classes of each text, or its number: float32 [S, C]."""
        texts_SH = pool_texts(self.encoder(batch), batch, self.pooling)
        logits_SC: Tensor = self.class_head(texts_SH, batch.targets.get(COLUMNS)).float()
        return logits_SC

    def compute_losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the summed loss (cross-entropy or squared error) and the number of correct predictions: [1, 2].

        Classes are scored by cross-entropy, and numbers by squared error. If there is a teacher, a second row holds the
        same for the comparison with the teacher's outputs.
        """
        term, *taught = self.terms
        losses = [LOSSES[term.name](outputs, batch.targets[term.name])]
        if taught:
            losses.append(TEACHER_LOSSES[term.name](outputs, batch.targets[TEACHER], self.temperature))
        return torch.stack(losses)  # no view: sharding watches what is returned


def _sum_class_losses(logits_SC: Tensor, labels_SC: Tensor) -> Tensor:
    """Sum the binary cross-entropy of texts that may have several classes, averaged over classes: [2].

    With the average, the loss does not grow with the number of classes. The second value is 0.
    """
    loss = F.binary_cross_entropy_with_logits(logits_SC, labels_SC, reduction="none").mean(-1).sum()
    return torch.stack([loss, torch.zeros_like(loss)])


def _sum_squared_errors(answers_S1: Tensor, numbers_S: Tensor) -> Tensor:
    """Sum the squared errors of predicted numbers: [2]. The second value is 0, because numbers are not counted."""
    error = F.mse_loss(answers_S1[:, 0], numbers_S, reduction="sum")
    return torch.stack([error, torch.zeros_like(error)])


def _distill_classes(logits_SC: Tensor, theirs_SC: Tensor, temperature: float) -> Tensor:
    """Compute the KL divergence from the teacher times the squared temperature, and the number of agreements: [2].

    The square makes the size of the gradient independent of the temperature (Hinton et al. 2015, section 2).

    Args:
        logits_SC: The logits of the student.
        theirs_SC: The logits of the teacher.
        temperature: The number by which logits are divided.
    """
    ours, theirs = ((logits / temperature).log_softmax(-1) for logits in (logits_SC, theirs_SC))
    divergence = temperature**2 * F.kl_div(ours, theirs, reduction="sum", log_target=True)
    return torch.stack([divergence, (logits_SC.detach().argmax(-1) == theirs_SC.argmax(-1)).sum().float()])


def _distill_each_class(logits_SC: Tensor, theirs_SC: Tensor, temperature: float) -> Tensor:
    """Compute the divergence from the teacher for each class separately, averaged over classes: [2].

    The second value is 0.

    Args:
        logits_SC: The logits of the student.
        theirs_SC: The logits of the teacher.
        temperature: The number by which logits are divided.
    """
    shares_SC = (theirs_SC / temperature).sigmoid()
    crossed = F.binary_cross_entropy_with_logits(logits_SC / temperature, shares_SC, reduction="none")
    own = F.binary_cross_entropy_with_logits(theirs_SC / temperature, shares_SC, reduction="none")
    divergence = temperature**2 * (crossed - own).mean(-1).sum()
    return torch.stack([divergence, torch.zeros_like(divergence)])


LOSSES = {LABEL.name: sum_loss, LABELS.name: _sum_class_losses, NUMBER.name: _sum_squared_errors}
TEACHER_LOSSES: Mapping[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    **{LABEL.name: _distill_classes, LABELS.name: _distill_each_class},
    NUMBER.name: lambda answers_S1, theirs_S1, _: _sum_squared_errors(answers_S1, theirs_S1[:, 0]),
}


# Shapes in the names of tensors: T tokens, S windows.


class SpanModel(TaskModel):
    """An encoder with a head on every token.

    A batch has the targets `start` and `end`: int64 [S], token positions relative to the start of each window.
    """

    def __init__(self, task: SpanTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained)
        self.span_head = TokenHead(self.encoder.shape, self.family.span_head, 2)
        self.init_head(self.span_head, self.family.span_head.pooler, pretrained.state)

    def compute_outputs(self, batch: Batch) -> Tensor:
        """Compute the logits of each token as the start and as the end of an answer: float32 [T, 2]."""
        logits_T2: Tensor = self.span_head(self.encoder(batch)).float()
        return logits_T2

    def compute_losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Sum the mean cross-entropy of start and end over windows, and count windows with both correct: [1, 2]."""
        places_S2 = torch.stack([batch.targets[START], batch.targets[END]], 1)
        places_S2 = places_S2 + batch.boundaries[: len(places_S2), None]
        windows_T = to_group_numbers(batch.boundaries.diff(), len(outputs))
        logs_T2 = compute_log_softmax(outputs, windows_T, batch.num_sequences)
        best_T2 = mark_highest(outputs.detach(), windows_T, batch.num_sequences)
        right = best_T2.gather(0, places_S2).all(1).sum()
        return torch.stack([torch.stack([-logs_T2.gather(0, places_S2).sum() / 2, right.float()])])


# Shapes in the names of tensors: S sequences, Q questions.


class ChoiceModel(TaskModel):
    """An encoder with a head on the first token, or the mean, of every sequence.

    A batch has the target `choice`: int64 [Q], the index of the correct choice within its question.
    """

    def __init__(self, task: ChoiceTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained)
        shape = self.family.choice_head or self.family.class_head
        self.choice_head = ClassHead(self.encoder.shape, shape, 1)
        self.init_head(self.choice_head, shape, pretrained.state)
        self.pooling = pretrained.settings.pooling or self.family.pooling

    def compute_outputs(self, batch: Batch) -> Tensor:
        """Compute a score for each sequence, which is one choice of a question: float32 [S, 1]."""
        texts_SH = pool_texts(self.encoder(batch), batch, self.pooling)
        scores_S1: Tensor = self.choice_head(texts_SH).float()
        return scores_S1

    def compute_losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Sum the cross-entropy of choices over questions, and count the correctly answered questions: [1, 2]."""
        right_Q = batch.targets[CHOICE.name]
        sizes_Q = batch.targets[EXAMPLES][: len(right_Q)]  # an item without a sequence has no target
        groups_S = to_group_numbers(sizes_Q, len(outputs))
        places_Q = sizes_Q.cumsum(0) - sizes_Q + right_Q
        logs_Q = compute_log_softmax(outputs, groups_S, len(right_Q)).index_select(0, places_Q)
        best_Q = mark_highest(outputs.detach(), groups_S, len(right_Q)).index_select(0, places_Q)
        return torch.stack([torch.stack([-logs_Q.sum(), best_Q.sum().float()])])
