"""Evaluation during pre-training: losses on held-out text, compared with those of guessing by token frequency."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from corpora.kernels.arrays import Bools, Float64s, Int64s
from trainer.feed import Feed
from trainer.learn import STEP_COUNTS, MicroBatch
from trainer.model.objective import JudgedBatch, Objective
from trainer.ranks import Ranks, StopSignal
from trainer.step_log import compute_losses, describe_counts


class EvaluationSums(NamedTuple):
    """The sums of an evaluation, over all batches and processes.

    Attributes:
        sums: float64 [terms, 2], the summed loss and the number of correct predictions of each loss term.
        counts: int64 [STEP_COUNTS + terms], the same counts as for a training step.
        guessed: int64 [vocabulary], the number of times that each token was to be predicted.
        words: int64 [2]: among the masked tokens that begin a rarer word, the number of correct predictions, and the
            number of all of them.
        measures: float64, the other sums of the objective.
    """

    sums: Float64s
    counts: Int64s
    guessed: Int64s
    words: Int64s
    measures: Float64s


def evaluate_held_out(model: Objective, feed: Feed, ranks: Ranks, stop: StopSignal) -> dict[str, Any] | None:
    """Compute losses and accuracies on the held-out examples of a phase. All processes must call it.

    Args:
        model: The model.
        feed: Reads the shards of the phase.
        ranks: This process among all processes.
        stop: Checked before each batch, to stop if the process received a signal.

    Returns:
        The scores of `describe_sums`; `unigram_entropy` and `unigram_loss`, which are the losses of guessing by token
        frequency (in the held-out tokens and in the training tokens, respectively); and, for a mixture, `components`,
        which maps each shard set's name to its scores. None on all processes but the first, if a signal stopped the
        evaluation, or if there are no examples.
    """
    names = [shards.name for shards in feed.reading.inputs]
    parts = []
    for component in range(len(names)):
        wanted = itertools.takewhile(lambda _: not stop.ask_all(), feed.iter_held_out(component))
        parts.append(sum_batches(model, wanted, ranks))
    whole = EvaluationSums(*(np.sum(of_parts, axis=0) for of_parts in zip(*parts, strict=True)))
    if stop.is_requested or ranks.rank != 0 or not whole.guessed.any():
        return None
    scores = {
        **describe_sums(model, whole),
        "unigram_entropy": compute_cross_entropy(whole.guessed, whole.guessed),
        "unigram_loss": compute_cross_entropy(whole.guessed, feed.token_counts + 1),  # no token is impossible
    }
    if len(parts) > 1:
        scores["components"] = {name: describe_sums(model, part) for name, part in zip(names, parts, strict=True)}
    return scores


@torch.no_grad()
def sum_batches(model: Objective, micro_batches: Iterable[MicroBatch], ranks: Ranks) -> EvaluationSums:
    """Run a model on batches, and sum losses, counts and correct predictions over batches and processes.

    The model is in evaluation mode while this runs. All processes must call it.

    Args:
        model: The model with its heads.
        micro_batches: The batches of this process.
        ranks: This process among all processes.
    """
    device, num_terms = ranks.device, len(model.terms)
    vocab_size = next(iter(model.list_encoders())).shape.vocab_size
    sums_T2 = torch.zeros(num_terms, 2, dtype=torch.float64, device=device)
    measures = torch.zeros(model.num_measures, dtype=torch.float64, device=device)
    counts = np.zeros(len(STEP_COUNTS) + num_terms, np.int64)
    guessed, words = np.zeros(vocab_size, np.int64), np.zeros(2, np.int64)
    model.eval()
    for micro_batch in micro_batches:
        judged: JudgedBatch = model(micro_batch.batch.to(device), judging=True)
        sums_T2 += judged.sums
        if judged.guesses is not None and micro_batch.rarer is not None:
            guesses = judged.guesses[: len(micro_batch.rarer)].cpu().numpy()  # what fills a batch is at its end
            words += count_right(micro_batch.rarer, micro_batch.guessed, guesses)
        if judged.measures is not None:
            measures += judged.measures
        counts += micro_batch.counts
        guessed += np.bincount(micro_batch.guessed, minlength=vocab_size)
    model.train()
    own = (sums_T2, *(torch.from_numpy(each).to(device) for each in (counts, guessed, words)), measures)
    return EvaluationSums(*((ranks.sum(each) if len(each) else each).cpu().numpy() for each in own))


def describe_sums(model: Objective, judged: EvaluationSums) -> Mapping[str, Any]:
    """Compute the scores of an evaluation from its sums, as a dictionary with the names used in the log.

    It contains the loss and accuracy of each term, such as `masked_loss`, the objective's other scores,
    `rare_word_accuracy`, and the counts.
    """
    right, num_words = judged.words.tolist()
    losses, rights = judged.sums.T.tolist()
    return {
        **compute_losses(losses, rights, judged.counts, model.terms),
        **model.compute_figures(judged.measures),
        **({"rare_word_accuracy": right / num_words, "rare_words": num_words} if num_words else {}),
        **describe_counts(judged.counts),
    }


def count_right(counted: Bools, targets: npt.NDArray[np.integer], guesses: Int64s) -> Int64s:
    """Count the correct predictions among the masked tokens that are selected by `counted`.

    Args:
        counted: bool [M], True for the tokens to count.
        targets: [M], the ids of the masked tokens.
        guesses: [M], the predicted ids.

    Returns:
        int64 [2], the number of correct predictions and the number of selected tokens.
    """
    return np.array([np.count_nonzero(counted & (targets == guesses)), np.count_nonzero(counted)], np.int64)


def compute_cross_entropy(targets: Int64s, weights: Int64s) -> float:
    """Compute the mean loss (in nats) of predicting tokens with fixed probabilities.

    Args:
        targets: int64 [vocabulary], the number of times that each token is to be predicted; not all zero.
        weights: int64 [vocabulary], proportional to the probability of each token. It must be positive for each token
            that is to be predicted.
    """
    present = targets > 0
    shares = targets[present] / targets.sum()
    return float(-(shares * np.log(weights[present] / weights.sum())).sum())
