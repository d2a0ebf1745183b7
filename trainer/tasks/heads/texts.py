"""A text or two as a whole: one class of several, several classes at once, or a number.

BERT's head is its pooler, dropout and a matrix (Devlin et al. 2018, section 4.1), and begins with the pooler that
pre-training of pairs has learnt, where it has; what other families have is in their rows, and begins with random
weights.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.huggingface.checkpoints import Pretrained
from trainer.model.batches import Batch
from trainer.model.objective import sum_loss
from trainer.tasks.heads.task_model import ClassHead, TaskModel, text_vectors
from trainer.tasks.kinds.texts import COLUMNS, LABEL, LABELS, NUMBER, TEACHER, TaughtTask, TextTask

# Shapes in the names of tensors: S texts, C classes, N numbers with a text.


class TextModel(TaskModel):
    """An encoder with a head on the first token, or the mean, of every text.

    A batch has the target of the labels: `label` (int64 [S]), `labels` (float32 [S, C]) or `number` (float32 [S]);
    `columns` (float32 [S, N]) where texts have numbers, and `teacher` (float32 [S, C]) where there is one.
    """

    def __init__(self, task: TextTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained)
        shape = self.family.class_head
        self.class_head = ClassHead(self.encoder.shape, shape, task.num_outputs, task.num_columns)
        self.begin(self.class_head, shape, pretrained.state)
        self.pooling = pretrained.settings.pooling or self.family.pooling
        self.temperature = task.temperature if isinstance(task, TaughtTask) else 1.0

    def outputs(self, batch: Batch) -> Tensor:
        """Logits [S, C] in float32; of numbers [S, 1]."""
        texts_SH = text_vectors(self.encoder(batch), batch, self.pooling)
        logits_SC: Tensor = self.class_head(texts_SH, batch.targets.get(COLUMNS)).float()
        return logits_SC

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the summed cross-entropy of classes or of each class, or the squared error of numbers: [1, 2].

        With a teacher [2, 2]: how far the answers are from its own as well.
        """
        term, *taught = self.terms
        losses = [LOSSES[term.name](outputs, batch.targets[term.name])]
        if taught:
            losses.append(TAUGHT[term.name](outputs, batch.targets[TEACHER], self.temperature))
        return torch.stack(losses)  # no view: sharding watches what is returned


def _of_each_class(logits_SC: Tensor, labels_SC: Tensor) -> Tensor:
    """[2]: the mean over the classes of a text, summed over texts, so that a rate does for any number of classes."""
    loss = F.binary_cross_entropy_with_logits(logits_SC, labels_SC, reduction="none").mean(-1).sum()
    return torch.stack([loss, torch.zeros_like(loss)])


def _of_numbers(answers_S1: Tensor, numbers_S: Tensor) -> Tensor:
    """[2]."""
    error = F.mse_loss(answers_S1[:, 0], numbers_S, reduction="sum")
    return torch.stack([error, torch.zeros_like(error)])


def _from_classes(logits_SC: Tensor, theirs_SC: Tensor, temperature: float) -> Tensor:
    """Return [2]: divergence from the teacher's shares at a temperature, times its square, and how often both agree.

    With the square the gradient does not depend on the temperature where that is high (Hinton et al. 2015, section 2).
    """
    ours, theirs = ((logits / temperature).log_softmax(-1) for logits in (logits_SC, theirs_SC))
    divergence = temperature**2 * F.kl_div(ours, theirs, reduction="sum", log_target=True)
    return torch.stack([divergence, (logits_SC.detach().argmax(-1) == theirs_SC.argmax(-1)).sum().float()])


def _from_each_class(logits_SC: Tensor, theirs_SC: Tensor, temperature: float) -> Tensor:
    """[2]: the same of each class by itself, the mean over the classes."""
    shares_SC = (theirs_SC / temperature).sigmoid()
    crossed = F.binary_cross_entropy_with_logits(logits_SC / temperature, shares_SC, reduction="none")
    own = F.binary_cross_entropy_with_logits(theirs_SC / temperature, shares_SC, reduction="none")
    divergence = temperature**2 * (crossed - own).mean(-1).sum()
    return torch.stack([divergence, torch.zeros_like(divergence)])


def _from_numbers(answers_S1: Tensor, theirs_S1: Tensor, temperature: float) -> Tensor:
    """[2]: the squared error to the teacher's number."""
    return _of_numbers(answers_S1, theirs_S1[:, 0])


LOSSES = {LABEL.name: sum_loss, LABELS.name: _of_each_class, NUMBER.name: _of_numbers}
TAUGHT = {LABEL.name: _from_classes, LABELS.name: _from_each_class, NUMBER.name: _from_numbers}
