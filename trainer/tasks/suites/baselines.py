"""Baselines: what must be beaten before a score says anything; and the sentence where it is not.

    majority      one answer to everything: the commonest class, or tag, or place of a choice; the mean of numbers; no
                  answer; vectors by chance
    bag of words  a linear model of words (`bag_of_words`); of tags the commonest of each word; of vectors and choices
                  the cosine of their words

Both are learnt of the training rows and judged as the model is. Cost: `bag_of_words` has its own.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xxhash

from corpora.kernels.arrays import Float32s
from corpora.store.randomness import compute_keys, draw_uniform
from corpora.text.words import words
from trainer.tasks.contract import Example, Prediction, Task
from trainer.tasks.kinds.answers import FoundSpans, SpanTask
from trainer.tasks.kinds.choices import ChoiceTask
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.texts import ClassesTask, NumberTask
from trainer.tasks.kinds.vectors import RetrievalTask, SimilarityTask, VectorExample
from trainer.tasks.suites.bag_of_words import cosine_of, is_feasible, linear_answers

MAJORITY, WORDS = "majority", "bag of words"
SURELY = 0.05  # below which a difference is told apart
VECTOR_WIDTH = 1 << 10  # of a text's words as a vector
CHANCE_WIDTH = 64
NOTHING = 1e6  # odds for no answer

Scores = Mapping[str, float]


def baseline_scores(
    task: Task, training: Sequence[Example], examples: Sequence[Example]
) -> dict[str, dict[str, float]]:
    """Return the scores of each baseline, by its name; none of one that a kind of task does not have."""
    return {
        name: task.scores(examples, predictions)
        for name, predictions in baseline_answers(task, training, examples).items()
    }


def baseline_answers(
    task: Task, training: Sequence[Example], examples: Sequence[Example]
) -> dict[str, Sequence[Prediction]]:
    """Return the answers of each baseline to examples, by its name."""
    answers = {MAJORITY: majority_answers(task, training, examples), WORDS: word_answers(task, training, examples)}
    return {name: each for name, each in answers.items() if each is not None}


def short(score: float) -> str:
    """Return a score with four digits."""
    return f"{score:.4g}"


def verdict(
    metric: str,
    score: float,
    usual: float | None,
    words: float | None,
    p: float | None = None,
    shown: Callable[[float], str] = short,
) -> str:
    """Return in a sentence that a model has learnt nothing, or no more than words say; "" where it has.

    usual, words: the score of one answer to everything and of a bag of words; None where it is not known
    p:            of the test whether model and one answer differ; None where it was not made

    >>> verdict("accuracy", 0.6, 0.6, None)
    'learnt nothing: accuracy 0.6 is not above the 0.6 of one answer to everything'
    >>> verdict("accuracy", 0.7, 0.6, 0.8)
    'a bag of words does as well: accuracy 0.8, and the model 0.7'
    """
    named = f"{metric} {shown(score)}"
    if usual is not None and score <= usual:
        return f"learnt nothing: {named} is not above the {shown(usual)} of one answer to everything"
    if usual is not None and p is not None and p >= SURELY:
        return (
            f"hardly learnt anything: {named} is above the {shown(usual)} of one answer to everything by no more than "
            f"chance makes (p {p:.2g})"
        )
    if words is not None and score <= words:
        return f"a bag of words does as well: {metric} {shown(words)}, and the model {shown(score)}"
    return ""


def baseline_lines(metric: str, score: float, baselines: Mapping[str, Scores]) -> Iterator[str]:
    """Yield the baselines of a score, and what they say of it."""
    compared = {name: each[metric] for name, each in baselines.items() if metric in each}
    if compared:
        beside = ", ".join(f"{name} {short(value)}" for name, value in compared.items())
        yield f"to compare with {metric} {short(score)}: {beside}"
    if concluded := verdict(metric, score, compared.get(MAJORITY), compared.get(WORDS)):
        yield f"warning: {concluded}"


# One answer to everything.


def majority_answers(
    task: Task, training: Sequence[Example], examples: Sequence[Example]
) -> Sequence[Prediction] | None:
    """Return one answer to everything, as the module says; None for tasks that have none."""
    if isinstance(task, NumberTask):
        return [np.array([np.mean([example.label for example in training])], np.float32)] * len(examples)
    if isinstance(task, TagsTask):
        tags = Counter(tag for example in training for tag in task.learnt_tags(example))
        [(usual, _)] = tags.most_common(1)
        return [[usual] * len(task.learnt_tags(example)) for example in examples]
    if isinstance(task, ClassesTask):
        return [_usual_classes(task, training)] * len(examples)
    if isinstance(task, ChoiceTask):
        places = Counter(example.right for example in training)
        return [np.array([places[n] for n in range(len(each.choices))], np.float32) for each in examples]
    if isinstance(task, SpanTask):
        return [FoundSpans([], NOTHING)] * len(examples)
    if isinstance(task, SimilarityTask | RetrievalTask):
        return _usual_vectors(task, training, examples)
    return None


def _usual_classes(task: ClassesTask, training: Sequence[Example]) -> Float32s:
    """Return the output for the commonest label; of several classes a text, for the commonest set of them."""
    [(usual, _)] = Counter(example.label for example in training).most_common(1)
    if task.multi_label:
        return np.array([1.0 if label in usual else -1.0 for label in task.labels], np.float32)
    counts = Counter(example.label for example in training)
    most = max(task.labels, key=lambda label: counts[label])
    return np.array([float(label == most) for label in task.labels], np.float32)


def _usual_vectors(
    task: SimilarityTask | RetrievalTask, training: Sequence[VectorExample], examples: Sequence[VectorExample]
) -> list[Float32s]:
    """Return vectors by chance where texts are ranked, else one for all; with logits of the commonest class."""
    logits = np.zeros(task.num_outputs, np.float32)
    if task.num_outputs and isinstance(task, SimilarityTask):
        counts = Counter(example.label for example in training)
        logits[max(range(len(logits)), key=lambda place: counts[task.labels[place]])] = 1
    ranked = isinstance(task, RetrievalTask) or task.loss == "in-batch"
    vector = _chance if ranked else lambda _: np.ones(CHANCE_WIDTH, np.float32)
    return [np.stack([np.append(vector(text), logits) for text in example.texts]) for example in examples]


def _chance(text: str) -> Float32s:
    """Return a vector that only the hash of a text decides."""
    key = compute_keys(1, "chance", 0, xxhash.xxh3_64_intdigest(text.encode()) >> 1)
    return np.asarray(draw_uniform(key, np.arange(CHANCE_WIDTH)) - 0.5, np.float32)


# Words alone.


def word_answers(task: Task, training: Sequence[Example], examples: Sequence[Example]) -> Sequence[Prediction] | None:
    """Return the answers of a bag of words; None for tasks that have none, or too many classes for it."""
    if isinstance(task, TagsTask):
        return _tags_of_words(task, training, examples)
    if isinstance(task, ChoiceTask):
        asked = [f"{each.context} {each.question}" for each in examples]
        return [
            np.array([cosine_of(text, choice) for choice in each.choices], np.float32)
            for text, each in zip(asked, examples, strict=True)
        ]
    if isinstance(task, RetrievalTask) or (isinstance(task, SimilarityTask) and task.loss != "softmax"):
        return [np.stack([word_vector(text) for text in example.texts]) for example in examples]
    if not isinstance(task, ClassesTask | NumberTask | SimilarityTask):
        return None
    texts, asked_texts = ([_texts(example) for example in some] for some in (training, examples))
    if not is_feasible(texts, max(1, task.num_outputs)):
        return None
    outputs = linear_answers(texts, _targets(task, training), asked_texts).astype(np.float32)
    if isinstance(task, SimilarityTask):
        return [np.tile(np.append(np.ones(1, np.float32), row), (2, 1)) for row in outputs]
    return list(outputs)


def _texts(example: Any) -> tuple[str, ...]:
    return (example.text,) if example.second is None else (example.text, example.second)


def _targets(task: ClassesTask | NumberTask | SimilarityTask, training: Sequence[Example]) -> Any:
    """Return what is learnt: the number, or 1 and -1 for each class."""
    labels = [example.label for example in training]
    if isinstance(task, NumberTask):
        return np.array(labels, np.float64)[:, None]
    named = [label if isinstance(label, tuple) else (label,) for label in labels]
    return np.array([[1.0 if name in own else -1.0 for name in task.labels] for own in named], np.float64)


def word_vector(text: str) -> Float32s:
    """Return the words of a text as a vector of fixed width: float32 [VECTOR_WIDTH]."""
    places = [xxhash.xxh3_64_intdigest(word.encode()) % VECTOR_WIDTH for word in words(text)]
    return np.asarray(np.log1p(np.bincount(places or [0], minlength=VECTOR_WIDTH)), np.float32)


def _tags_of_words(task: TagsTask, training: Sequence[Example], examples: Sequence[Example]) -> list[list[str]]:
    """Return for each word the tag that it has most often in training; the commonest of all for a new word."""
    tags = defaultdict[str, Counter[str]](Counter)
    for example in training:
        for word, tag in zip(example.words, task.learnt_tags(example), strict=True):
            tags[word][tag] += 1
    usual = {word: counts.most_common(1)[0][0] for word, counts in tags.items()}
    return [[usual.get(word, task.usual) for word in example.words] for example in examples]
