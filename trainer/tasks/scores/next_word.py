"""Scores of a model of texts, from the sum of what its tokens cost it (natural logarithms, as losses are)."""

from math import exp, log

from corpora.kernels.arrays import Float64s

LARGEST = log(1.7e308)
LIKELIHOOD = "log_likelihood"


def perplexity(nats: float, num_tokens: int) -> float:
    """e to the mean cost of a token: as unsure as among so many equally probable ones. Infinite beyond float64.

    It depends on the vocabulary: of models with different ones compare `bits_per_byte`.

    >>> round(perplexity(10 * log(8), 10), 9)
    8.0
    """
    mean = nats / num_tokens
    return exp(mean) if mean < LARGEST else float("inf")


def bits_per_byte(nats: float, num_bytes: int) -> float:
    """Return the cost of a byte of the text, in bits: the same scale for all vocabularies.

    >>> bits_per_byte(log(2) * 30, 10)
    3.0
    """
    return nats / num_bytes / log(2)


def next_scores(costs: Float64s) -> dict[str, float]:
    """Return the scores of all texts together. costs: [N, 4], each text's nats, tokens, right ones, and bytes."""
    nats, tokens, right, size = costs.sum(0).tolist()
    return {
        LIKELIHOOD: -nats / tokens,
        "perplexity": perplexity(nats, int(tokens)),
        "bits_per_byte": bits_per_byte(nats, int(size)),
        "accuracy": right / tokens,
    }
