"""Vectors of texts: poolings and losses by their definitions, what is learnt, and what sentence-transformers says."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_models import WORDS, write_model
from small_tasks import encoded_for, exported_model, kept_of, new_job, run, said_of, write_rows

from corpora.errors import InputError
from trainer.tasks.folders import load_task
from trainer.tasks.heads.task_model import batch_items
from trainer.tasks.kinds.texts import compute_correlations, compute_means
from trainer.tasks.kinds.vectors import SimilarityTask, VectorExample, score_own_rankings
from trainer.tasks.settings import FinetuneJob

PAIRS = (
    {"text": "good film .", "second": "a good plot", "label": "5.0"},
    {"text": "bad", "second": "the scene was very long", "label": "0"},
    {"text": "the actor was good , very good", "second": "bad plot", "label": "1.25"},
)


# Losses.


def fitted(task: SimilarityTask, rows: Any = PAIRS) -> SimilarityTask:
    return task.fit([task.make_example(row, True) for row in rows], "here")


def losses_of(task: SimilarityTask, folder: Path, rows: Any = PAIRS) -> tuple[Any, Any, Any, torch.Tensor]:
    """The model, its vectors by pair, the batch, and what it says the losses are."""
    model = exported_model(task, folder / "model", folder / "out", {})
    batch = batch_items(encoded_for(task, folder / "model", rows).items)
    with torch.no_grad():
        vectors = model.compute_outputs(batch)
        return model, vectors, batch, model.compute_losses(vectors, batch)


def test_scores_are_learnt_as_cosines_of_their_range(tmp_path: Path) -> None:
    """Fails if labels are not brought to [0, 1], pairs are mixed up, or widths are left out of the loss."""
    write_model(tmp_path / "model")
    task = fitted(SimilarityTask(widths=(8,)))
    assert (task.lowest, task.highest) == (0.0, 5.0)
    _, vectors, _, losses = losses_of(task, tmp_path)
    wanted = 0.0
    for width in (8, 32):
        for place, label in enumerate((5.0, 0.0, 1.25)):
            one, other = vectors[2 * place, :width].double(), vectors[2 * place + 1, :width].double()
            wanted += float(one @ other / (one.norm() * other.norm()) - label / 5) ** 2
    assert float(losses[0, 0]) == pytest.approx(wanted, rel=1e-4)


def test_classes_are_learnt_of_both_vectors_and_their_difference(tmp_path: Path) -> None:
    """Fails if (u, v, |u - v|) is another, or a loaded folder says otherwise than the exported model."""
    write_model(tmp_path / "model")
    rows = [{**row, "label": label} for row, label in zip(PAIRS, ("no", "yes", "maybe"), strict=True)]
    task = fitted(SimilarityTask(loss="softmax"), rows)
    assert task.labels == ("maybe", "no", "yes")
    model, vectors, batch, losses = losses_of(task, tmp_path, rows)
    one, other = vectors[0::2], vectors[1::2]
    logits = torch.cat([one, other, (one - other).abs()], 1) @ model.pair_head.weight.detach().T
    assert float(losses[0, 0]) == pytest.approx(
        float(F.cross_entropy(logits, torch.tensor([1, 2, 0]), reduction="sum")), rel=1e-4
    )
    with torch.no_grad():
        answers = load_task(tmp_path / "out").model.eval().answer(batch)
    assert torch.allclose(answers[1::2, 32:], logits, atol=1e-5) and torch.equal(answers[:, :32], vectors)
    said = task.to_row(task.make_example(rows[0], True), answers[:2].numpy())
    assert said["label"] == task.labels[int(logits[0].argmax())]


def test_every_other_text_of_a_step_is_a_negative_but_equal_ones(tmp_path: Path) -> None:
    """Fails if a row's own answer, another's negative, or an equal text is counted otherwise than it should be."""
    write_model(tmp_path / "model")
    rows = [
        {"text": "good film", "second": "a plot", "negative": "long"},
        {"text": "bad film", "second": "a plot"},  # the first's answer is this one's as well
        {"text": "good film", "second": "scene", "negative": ["short", "a plot"]},
        {"text": "actor", "second": "very"},
    ]
    task = fitted(SimilarityTask(loss="in-batch"), rows)
    _, vectors, _, losses = losses_of(task, tmp_path, rows)
    unit = (vectors / vectors.norm(dim=1, keepdim=True)).double()
    firsts, seconds, mores = [0, 3, 5, 9], [1, 4, 6, 10], [2, 7, 8]
    left_out = {(0, 1), (1, 0), (0, 2), (2, 0), (0, 6), (1, 6)}  # columns: the seconds, then the negatives
    wanted = 0.0
    for row, first in enumerate(firsts):
        columns = {
            place: 20 * unit[first] @ unit[at]
            for place, at in enumerate([*seconds, *mores])
            if (row, place) not in left_out
        }
        wanted -= float(columns[row] - torch.logsumexp(torch.stack([*columns.values()]), 0))
    assert float(losses[0, 0]) == pytest.approx(wanted, rel=1e-4)


# Learning, and what comes out.


def alike(number: int, seed: int) -> list[tuple[str, ...]]:
    """Pairs that are alike where both say good, or both bad."""
    drawn = random.Random(seed)
    rows = []
    for _ in range(number):
        words = [drawn.choice(("good", "bad")) for _ in range(2)]
        texts = [" ".join(drawn.sample([word, *drawn.choices(WORDS[2:], k=3)], 4)) for word in words]
        rows.append((*texts, f"{4.5 if words[0] == words[1] else 0.5:.1f}"))
    return rows


def alike_job(folder: Path, output: str, task: Any, **settings: Any) -> FinetuneJob:
    job = new_job(folder, output, task={"kind": "similarity", **task}, **settings)
    columns = ("text", "second", "label")
    training = write_rows(folder / "pairs.tsv", alike(160, 1), columns)
    return replace(job, training=training, evaluation=write_rows(folder / "held.tsv", alike(60, 2), columns))


def test_likeness_is_learnt_at_every_width(tmp_path: Path) -> None:
    """Fails if nothing is learnt, narrower vectors are useless, or the exported folder says other cosines."""
    job = alike_job(tmp_path, "out", {"widths": [8]}, epochs=3)
    kept = kept_of(run(job))
    unlearnt = kept_of(run(alike_job(tmp_path, "none", {}, learning_rate=0.0)))
    assert (Path(job.output) / "modules.json").is_file() and (Path(job.output) / "1_Pooling" / "config.json").is_file()
    assert kept["spearman"] > 0.8 and kept["spearman_at_8"] > 0.8 and unlearnt["spearman"] < 0.65
    said, lines = said_of(Path(job.output), job.evaluation, tmp_path / "said.jsonl", True)
    assert said["scores"]["spearman"] == pytest.approx(kept["spearman"], abs=1e-6)
    gold = [float(row[2]) for row in alike(60, 2)]
    assert compute_correlations(gold, [line["cosine"] for line in lines])["pearson"] == pytest.approx(
        kept["pearson"], abs=1e-4
    )


# Rankings, and what is refused.


def test_each_first_text_is_ranked_among_all_seconds() -> None:
    """Fails if equal texts are several, negatives are not ranked, or another's second counts as found."""
    east, north, west = np.eye(3, dtype=np.float32)
    examples = [VectorExample("a", "x", ("y",)), VectorExample("a", "z"), VectorExample("b", "x")]
    vectors = [np.stack([east, east, north]), np.stack([east, west]), np.stack([north, east])]
    found = compute_means(score_own_rankings(examples, vectors, "cosine", ("mrr@10", "recall@1", "map")))
    # a: x first, of its two; b: y is first, x or z second
    assert found["recall@1"] == pytest.approx((0.5 + 0.0) / 2)
    assert found["mrr@10"] in (pytest.approx((1 + 1 / 2) / 2), pytest.approx((1 + 1 / 3) / 2))


def test_what_cannot_be_learnt_is_told(tmp_path: Path) -> None:
    """Fails if a run begins that learns nothing, or something else than is meant."""
    with pytest.raises(InputError, match="has 3 different labels, and in-batch learning takes every row"):
        fitted(SimilarityTask(loss="in-batch"))
    with pytest.raises(InputError, match="only one pair"):
        fitted(SimilarityTask(loss="in-batch"), [{"text": "a", "second": "b"}])
    with pytest.raises(InputError, match="scores from 0 to 5, but `lowest` and `highest` are 0 to 4"):
        fitted(SimilarityTask(highest=4.0))
    with pytest.raises(InputError, match="every row has the label 5"):
        fitted(SimilarityTask(), PAIRS[:1])
    write_model(tmp_path / "model")
    with pytest.raises(InputError, match="widths names 32 dimensions, and the vectors of this model have 32"):
        exported_model(SimilarityTask(widths=(32,)), tmp_path / "model", tmp_path / "out")
