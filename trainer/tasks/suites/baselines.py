"""Baselines that a model must beat for its scores to mean anything, and a message if it does not.

    majority      the same prediction for everything: the most frequent class, tag or position of a choice; the mean of
                  numbers; no answer; random vectors
    bag of words  a linear model of words; for tags, the most frequent tag of each word; for vectors and choices, the
                  cosine of their words

Both are fitted to the training rows and scored like the model.

    texts ─► words, word pairs ─► hashed, weighted by idf, rows scaled to length 1 ─► ridge regression ─► predictions

The linear model is least squares with a penalty (Hoerl, Kennard 1970), solved by conjugate gradients. Each class has an
output. On texts this is about as good as logistic regression, and there is nothing to tune. A row of two texts has
features of each text, features of their common words, and their cosine. No torch, and no other package.

Cost: at most MAX_ROWS evenly spaced training rows are used. SST-2 (6,920 training rows, 1,821 rows to predict) takes
1.4 CPU seconds (one x86-64 core, 2026-11-27).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import xxhash

from corpora.kernels.arrays import Float32s, Float64s, Int64s
from corpora.store.randomness import compute_keys, draw_uniform
from corpora.text.words import split_words
from trainer.tasks.kinds.answers import FoundSpans, SpanTask
from trainer.tasks.kinds.choices import ChoiceTask
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.texts import ClassesTask, NumberTask
from trainer.tasks.kinds.vectors import RetrievalTask, SimilarityTask, VectorExample
from trainer.tasks.task import Example, Prediction, Task

WIDTH = 1 << 18  # features; those that share one are rare
COSINE = WIDTH  # the feature that follows them
COSINE_WEIGHT = 3.0  # of rows at length 1
PENALTY = 1.0
ROUNDS = 30  # of conjugate gradients
MAX_ROWS = 20_000
MAX_PRODUCTS = 100_000_000  # features of all rows times outputs

Texts = Sequence[str]  # of a row: one, or two

# Shapes: N rows, C outputs, D = WIDTH + 1 features.


class Bags(NamedTuple):
    """Rows of weighted features, stored one after another: a sparse matrix [N, D].

    starts:   int64 [N + 1], the index in `features` at which each row begins
    features: int64, the feature indices of all rows
    weights:  float64, the weight of each feature in its row
    """

    starts: Int64s
    features: Int64s
    weights: Float64s

    def apply(self, vector: Float64s) -> Float64s:
        """Multiply the matrix by a vector [D]: float64 [N]."""
        sums = np.cumsum(np.append(0.0, self.weights * vector[self.features]))
        products: Float64s = sums[self.starts[1:]] - sums[self.starts[:-1]]
        return products

    def apply_transposed(self, rows: Float64s) -> Float64s:
        """Multiply the transposed matrix by a vector [N]: float64 [D]."""
        spread = np.repeat(rows, np.diff(self.starts))
        return np.asarray(np.bincount(self.features, self.weights * spread, WIDTH + 1), np.float64)


def predict_linear(training: Sequence[Texts], targets: Float64s, rows: Sequence[Texts]) -> Float64s:
    """Fit a linear bag-of-words model to training texts, and compute its outputs for other texts: float64 [N, C].

    Args:
        training: The texts of each training row, one or two.
        targets: The desired outputs, float64 [training rows, C].
        rows: The texts of each row to predict, one or two.
    """
    taken = range(0, len(training), -(-len(training) // MAX_ROWS))
    features = [extract_features(training[place]) for place in taken]
    idf = compute_idf(features)
    learnt, asked = build_bags(features, idf), build_bags([extract_features(texts) for texts in rows], idf)
    wanted = targets[taken.start : taken.stop : taken.step]
    means = wanted.mean(0)
    columns = [asked.apply(fit_ridge(learnt, wanted[:, place] - means[place])) for place in range(wanted.shape[1])]
    answers: Float64s = np.stack(columns, 1) + means
    return answers


def is_feasible(training: Sequence[Texts], outputs: int) -> bool:
    """Return True if a linear model with the given number of outputs can be fitted in a limited time.

    `training` has the texts of each training row.
    """
    some = training[:: max(1, len(training) // 100)]
    mean = sum(2 * len(text.split()) for texts in some for text in texts) / max(1, len(some))
    return mean * min(len(training), MAX_ROWS) * outputs <= MAX_PRODUCTS


def extract_features(texts: Texts) -> dict[int, float]:
    """Extract the bag-of-words features of a row, as values keyed by feature index.

    There is a feature with the value 1.0 for each hashed word and word pair of each text. A row of two texts also has
    features for common words, and COSINE with the cosine of the two texts.
    """
    sides = [[*own, *(f"{one} {other}" for one, other in pairwise(own))] for own in map(split_words, texts)]
    names = [f"{place} {name}" for place, side in enumerate(sides) for name in {*side}]
    if len(sides) == 2:
        names += [f"& {name}" for name in {*sides[0]} & {*sides[1]}]
    features = dict.fromkeys((xxhash.xxh3_64_intdigest(name.encode()) % WIDTH for name in names), 1.0)
    return features | ({COSINE: compute_cosine(*texts)} if len(texts) == 2 else {})


def compute_cosine(one: str, other: str) -> float:
    """Compute the cosine of two texts as sets of words; 0 if one of them has no words.

    >>> round(compute_cosine("a man plays", "A man sings"), 3)
    0.667
    """
    ours, theirs = {*split_words(one)}, {*split_words(other)}
    return len(ours & theirs) / (len(ours) * len(theirs)) ** 0.5 if ours and theirs else 0.0


def compute_idf(rows: Sequence[dict[int, float]]) -> Float64s:
    """Compute the inverse document frequency of each feature from the features of all rows: float64 [D]."""
    met = np.bincount(np.fromiter((name for row in rows for name in row), np.int64), minlength=WIDTH + 1)
    return np.asarray(np.log((1 + len(rows)) / (1 + met)) + 1, np.float64)


def build_bags(rows: Sequence[dict[int, float]], idf: Float64s) -> Bags:
    """Build the sparse matrix of rows: features are weighted by `idf`, and each row is scaled to length 1.

    `rows` has the features of each row by index. The cosine feature is weighted separately.
    """
    starts = np.cumsum([0, *map(len, rows)])
    features = np.fromiter((name for row in rows for name in row), np.int64, starts[-1])
    given = np.fromiter((value for row in rows for value in row.values()), np.float64, starts[-1])
    weights = np.where(features == COSINE, 0.0, given * idf[features])
    owner = np.repeat(np.arange(len(rows)), np.diff(starts))
    lengths = np.sqrt(np.bincount(owner, weights * weights, len(rows)))
    weights = weights / np.maximum(lengths[owner], 1e-12)
    return Bags(starts, features, np.where(features == COSINE, COSINE_WEIGHT * given, weights))


def fit_ridge(rows: Bags, targets: Float64s) -> Float64s:
    """Fit the weights of a ridge regression by conjugate gradients (Hestenes, Stiefel 1952): float64 [D].

    `targets` is float64 [N], the number to predict for each row.
    """
    weights = np.zeros(WIDTH + 1)
    rest = rows.apply_transposed(targets)
    direction, size = rest, float(rest @ rest)
    first = size
    for _ in range(ROUNDS):
        if size <= 1e-8 * first:
            break
        image = rows.apply_transposed(rows.apply(direction)) + PENALTY * direction
        step = size / float(direction @ image)
        weights, rest = weights + step * direction, rest - step * image
        size, before = float(rest @ rest), size
        direction = rest + size / before * direction
    return weights


MAJORITY, WORDS = "majority", "bag of words"
SIGNIFICANCE = 0.05  # below which a difference is told apart
VECTOR_WIDTH = 1 << 10  # of a text's words as a vector
RANDOM_WIDTH = 64
NO_ANSWER_ODDS = 1e6  # odds for no answer

Scores = Mapping[str, float]


def compute_baseline_scores(
    task: Task, training: Sequence[Example], examples: Sequence[Example]
) -> dict[str, dict[str, float]]:
    """Compute the scores of each baseline that exists for the kind of task, as {baseline: {metric: score}}.

    Args:
        task: The task, fitted to the training examples.
        training: The training examples.
        examples: The labeled examples to predict and score.
    """
    return {
        name: task.compute_scores(examples, predictions)
        for name, predictions in compute_baseline_answers(task, training, examples).items()
    }


def compute_baseline_answers(
    task: Task, training: Sequence[Example], examples: Sequence[Example]
) -> dict[str, Sequence[Prediction]]:
    """Compute the predictions of each baseline that exists for the kind of task, by the name of the baseline.

    Args:
        task: The task, fitted to the training examples.
        training: The training examples.
        examples: The examples to predict.
    """
    answers = {MAJORITY: predict_majority(task, training, examples), WORDS: predict_by_words(task, training, examples)}
    return {name: each for name, each in answers.items() if each is not None}


def format_short(score: float) -> str:
    """Format a score with four significant digits."""
    return f"{score:.4g}"


def describe_weakness(
    metric: str,
    score: float,
    majority: float | None,
    words: float | None,
    p: float | None = None,
    format: Callable[[float], str] = format_short,
) -> str:
    """Describe how a model fails to beat a baseline, as a clause for messages; "" if it is better than the baselines.

    Args:
        metric: The name of the score.
        score: The score of the model.
        majority: The score of the same prediction for everything, or None if it is unknown.
        words: The score of a bag of words, or None if it is unknown.
        p: The p-value of the difference between the model and the majority baseline, or None if it was not tested.
        format: Function that formats a score.

    >>> describe_weakness("accuracy", 0.6, 0.6, None)
    'learnt nothing: accuracy 0.6 is not above the 0.6 of one answer to everything'
    >>> describe_weakness("accuracy", 0.7, 0.6, 0.8)
    'a bag of words does better: accuracy 0.8, and the model 0.7'
    """
    named = f"{metric} {format(score)}"
    if majority is not None and score <= majority:
        return f"learnt nothing: {named} is not above the {format(majority)} of one answer to everything"
    if majority is not None and p is not None and p >= SIGNIFICANCE:
        return (
            f"hardly learnt anything: {named} is above the {format(majority)} of one answer to everything by no more "
            f"than chance makes (p {p:.2g})"
        )
    if words is not None and score <= words:
        does = "does better" if score < words else "does as well"
        return f"a bag of words {does}: {metric} {format(words)}, and the model {format(score)}"
    return ""


def iter_baseline_lines(metric: str, score: float, baselines: Mapping[str, Scores]) -> Iterator[str]:
    """Yield a line with the scores of the baselines, and a warning if the model is no better than one of them.

    Args:
        metric: The metric to compare.
        score: The score of the model.
        baselines: The scores of each baseline, as returned by `compute_baseline_scores`.
    """
    compared = {name: each[metric] for name, each in baselines.items() if metric in each}
    if compared:
        beside = ", ".join(f"{name} {format_short(value)}" for name, value in compared.items())
        yield f"to compare with {metric} {format_short(score)}: {beside}"
    if concluded := describe_weakness(metric, score, compared.get(MAJORITY), compared.get(WORDS)):
        yield f"warning: {concluded}"


# One answer to everything.


def predict_majority(
    task: Task, training: Sequence[Example], examples: Sequence[Example]
) -> Sequence[Prediction] | None:
    """Compute the predictions of the majority baseline, or return None if the kind of task has none.

    The prediction is the most frequent class, tag or choice, or the mean of numbers. It is the same for all examples,
    except that texts get random vectors if they are ranked.

    Args:
        task: The task, fitted to the training examples.
        training: The training examples.
        examples: The examples to predict.
    """
    if isinstance(task, NumberTask):
        return [np.array([np.mean([example.label for example in training])], np.float32)] * len(examples)
    if isinstance(task, TagsTask):
        tags = Counter(tag for example in training for tag in task.convert_tags(example))
        [(usual, _)] = tags.most_common(1)
        return [[usual] * len(task.convert_tags(example)) for example in examples]
    if isinstance(task, ClassesTask):
        return [_predict_usual_classes(task, training)] * len(examples)
    if isinstance(task, ChoiceTask):
        places = Counter(example.right for example in training)
        return [np.array([places[n] for n in range(len(each.choices))], np.float32) for each in examples]
    if isinstance(task, SpanTask):
        return [FoundSpans([], NO_ANSWER_ODDS)] * len(examples)
    if isinstance(task, SimilarityTask | RetrievalTask):
        return _predict_usual_vectors(task, training, examples)
    return None


def _predict_usual_classes(task: ClassesTask, training: Sequence[Example]) -> Float32s:
    """Build outputs that predict the most frequent class, or with `multi_label` the most frequent set: float32 [C]."""
    [(usual, _)] = Counter(example.label for example in training).most_common(1)
    if task.multi_label:
        return np.array([1.0 if label in usual else -1.0 for label in task.labels], np.float32)
    counts = Counter(example.label for example in training)
    most = max(task.labels, key=lambda label: counts[label])
    return np.array([float(label == most) for label in task.labels], np.float32)


def _predict_usual_vectors(
    task: SimilarityTask | RetrievalTask, training: Sequence[VectorExample], examples: Sequence[VectorExample]
) -> list[Float32s]:
    """Build vectors for each example's texts: random ones if texts are ranked, otherwise equal ones.

    If there are classes, logits that predict the most frequent class are appended.
    """
    logits = np.zeros(task.num_outputs, np.float32)
    if task.num_outputs and isinstance(task, SimilarityTask):
        counts = Counter(example.label for example in training)
        logits[max(range(len(logits)), key=lambda place: counts[task.labels[place]])] = 1
    ranked = isinstance(task, RetrievalTask) or task.loss == "in-batch"
    vector = _draw_vector if ranked else lambda _: np.ones(RANDOM_WIDTH, np.float32)
    return [np.stack([np.append(vector(text), logits) for text in example.texts]) for example in examples]


def _draw_vector(text: str) -> Float32s:
    """Draw a random vector that depends only on the text: float32 [RANDOM_WIDTH]."""
    key = compute_keys(1, "chance", 0, xxhash.xxh3_64_intdigest(text.encode()) >> 1)
    return np.asarray(draw_uniform(key, np.arange(RANDOM_WIDTH)) - 0.5, np.float32)


# Words alone.


def predict_by_words(
    task: Task, training: Sequence[Example], examples: Sequence[Example]
) -> Sequence[Prediction] | None:
    """Compute the predictions of the bag-of-words baseline.

    Classes and numbers are predicted by a linear bag-of-words model, and tags as each word's most frequent tag. A
    choice is scored by its cosine similarity to the question, and the vector of a text contains hashed word counts.
    Return None if the kind of task has no such baseline, or too many classes to fit it in a limited time.

    Args:
        task: The task, fitted to the training examples.
        training: The training examples.
        examples: The examples to predict.
    """
    if isinstance(task, TagsTask):
        return _predict_usual_tags(task, training, examples)
    if isinstance(task, ChoiceTask):
        asked = [f"{each.context} {each.question}" for each in examples]
        return [
            np.array([compute_cosine(text, choice) for choice in each.choices], np.float32)
            for text, each in zip(asked, examples, strict=True)
        ]
    if isinstance(task, RetrievalTask) or (isinstance(task, SimilarityTask) and task.loss != "softmax"):
        return [np.stack([compute_word_vector(text) for text in example.texts]) for example in examples]
    if not isinstance(task, ClassesTask | NumberTask | SimilarityTask):
        return None
    texts, asked_texts = ([_list_texts(example) for example in some] for some in (training, examples))
    if not is_feasible(texts, max(1, task.num_outputs)):
        return None
    outputs = predict_linear(texts, _make_targets(task, training), asked_texts).astype(np.float32)
    if isinstance(task, SimilarityTask):
        return [np.tile(np.append(np.ones(1, np.float32), row), (2, 1)) for row in outputs]
    return list(outputs)


def _list_texts(example: Any) -> tuple[str, ...]:
    return (example.text,) if example.second is None else (example.text, example.second)


def _make_targets(task: ClassesTask | NumberTask | SimilarityTask, training: Sequence[Example]) -> Any:
    """Build the targets of the linear model, [N, C]: an example's number, or 1 for its class and -1 for others."""
    labels = [example.label for example in training]
    if isinstance(task, NumberTask):
        return np.array(labels, np.float64)[:, None]
    named = [label if isinstance(label, tuple) else (label,) for label in labels]
    return np.array([[1.0 if name in own else -1.0 for name in task.labels] for own in named], np.float64)


def compute_word_vector(text: str) -> Float32s:
    """Hash the words of a text into a vector of log counts: float32 [VECTOR_WIDTH]."""
    places = [xxhash.xxh3_64_intdigest(word.encode()) % VECTOR_WIDTH for word in split_words(text)]
    return np.asarray(np.log1p(np.bincount(places or [0], minlength=VECTOR_WIDTH)), np.float32)


def _predict_usual_tags(task: TagsTask, training: Sequence[Example], examples: Sequence[Example]) -> list[list[str]]:
    """Predict the most frequent training tag of each word. Unknown words get the task's default tag, `usual`."""
    tags = defaultdict[str, Counter[str]](Counter)
    for example in training:
        for word, tag in zip(example.words, task.convert_tags(example), strict=True):
            tags[word][tag] += 1
    usual = {word: counts.most_common(1)[0][0] for word, counts in tags.items()}
    return [[usual.get(word, task.usual) for word in example.words] for example in examples]
