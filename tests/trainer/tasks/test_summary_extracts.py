"""Summaries that are sentences of a text: what is learnt of a summary, how texts are read, from file to file."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import write_model
from small_tasks import encoded_for, exported_model, kept_of, new_job, run, said_of, write_json_rows

from corpora.errors import InputError
from trainer.huggingface.checkpoints import load_pretrained
from trainer.settings.model import FAMILIES
from trainer.tasks.formats.records import Unusable
from trainer.tasks.heads.task_model import batch_of_items
from trainer.tasks.kinds.summary import SummaryTask, best_sentences, greedy_extract, words_of
from trainer.tasks.saving import MORE

# What is learnt of a summary.


def rouge_of_sets(summary: str, sentences: list[str], length: int) -> float:
    """As `_calc_rouge` and `_get_word_ngrams` of BertSum's code count it."""
    wanted, *found = [
        {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}
        for words in map(words_of, [summary, *sentences])
    ]
    union = set[tuple[str, ...]]().union(*found)
    precision = len(wanted & union) / len(union) if union else 0.0
    recall = len(wanted & union) / len(wanted) if wanted else 0.0
    return 2 * precision * recall / (precision + recall + 1e-8)


lines = st.lists(st.sampled_from("abcde"), max_size=6).map(" ".join)


@given(st.lists(lines, min_size=1, max_size=5), lines, st.integers(1, 3))
def test_the_sentences_are_those_of_the_authors_search(sentences: list[str], summary: str, most: int) -> None:
    """Against its plain loops."""
    chosen, best = list[int](), 0.0
    for _ in range(most):
        found, number = best, -1
        for one in set(range(len(sentences))) - {*chosen}:
            some = [sentences[each] for each in [*chosen, one]]
            score = rouge_of_sets(summary, some, 1) + rouge_of_sets(summary, some, 2)
            if score > found + 1e-9:
                found, number = score, one
        if number < 0:
            break
        best = found
        chosen.append(number)
    assert greedy_extract(sentences, summary, most) == tuple(sorted(chosen))


def test_sentences_with_a_run_in_common_are_not_both_taken() -> None:
    sentences = ["the film was good", "was it? The film was long", "a bad plot", "a cat", "the actor"]
    scores = np.array([0.9, 0.8, 0.1, 0.3], np.float32)  # the last one was not read
    assert best_sentences(sentences, scores, 3, 3) == (0, 2, 3)
    assert best_sentences(sentences, scores, 3, 0) == (0, 1, 3)
    assert best_sentences(sentences, scores, 9, 4) == (0, 1, 2, 3)


# How texts are read.


def test_each_sentence_has_a_token_before_it(tmp_path: Path) -> None:
    """Segments take turns; a text that is too long is cut within its last sentence, and what is lost is counted."""
    write_model(tmp_path)
    task = SummaryTask()
    values = {"sentences": ["a film", "the plot was long", " ", "good"], "labels": [0, 1, 0, True]}
    for length, ids, points, taken in ((40, 14, [0, 4, 10], [0, 1, 1]), (8, 8, [0, 4], [0, 1]), (6, 4, [0], [0])):
        encoded = encoded_for(task, tmp_path, [values], length)
        [item] = encoded.items
        [tokens] = item.sequences
        special = load_pretrained(tmp_path).inputs.special_ids
        assert len(tokens.ids) == len(tokens.segment_ids) == ids - (length == 40), length
        assert tokens.ids[item.points].tolist() == [special.cls] * len(points) and tokens.ids[-1] == special.sep
        assert item.points.tolist() == points and item.targets["sentence"].tolist() == taken
        assert tokens.segment_ids[item.points].tolist() == [0, 1, 0][: len(points)]
        assert encoded.ledger.to_json()["figures"]["tokens_cut"] == 13 - len(tokens.ids)
    assert task.predictions(encoded.examples, encoded.items, [np.zeros((1, 1))])[0].taken == (0,)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sentences": "\n \n", "labels": []}, "no sentences"),
        ({"sentences": 3, "labels": []}, "sentences is no list of texts"),
        ({"sentences": ["a", "b"]}, "neither summary nor labels"),
        ({"sentences": ["a", "b"], "labels": [0]}, "labels are not 0 or 1 for each sentence"),
        ({"sentences": ["a", "b"], "labels": [0, 2]}, "labels are not 0 or 1 for each sentence"),
        ({"sentences": ["a", "b"], "labels": "01"}, "labels are not 0 or 1 for each sentence"),
    ],
)
def test_what_cannot_be_used_is_said(values: dict[str, Any], message: str) -> None:
    with pytest.raises(Unusable, match=message):
        SummaryTask().example(values, labelled=True)


def test_a_task_knows_whether_there_are_summaries() -> None:
    task = SummaryTask()
    some = task.example({"sentences": "a film\nthe plot", "summary": "the plot"}, labelled=True)
    other = task.example({"sentences": ["a film", "the plot"], "labels": [1, 0]}, labelled=True)
    assert (some.labels, other.labels) == ((1,), (0,))
    assert task.fitted([some], "here").metrics[0] == "rouge1" and task.fitted([some, other], "here").metrics == ("f1",)
    with pytest.raises(Unusable, match="no summary, where training had one"):
        task.fitted([some], "here").example({"sentences": ["a"], "labels": [1]}, labelled=True)
    with pytest.raises(InputError, match="no sentence is in a summary"):
        task.fitted([other._replace(labels=())], "here")


# From file to file.


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_folder_has_the_head_beside_the_encoder(tmp_path: Path, family: str) -> None:
    write_model(tmp_path / "model", family)
    model = exported_model(SummaryTask(), tmp_path / "model", tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_bytes())
    assert config["architectures"] == [FAMILIES[family].names.architectures["encoder"]]
    assert (tmp_path / "out" / MORE).is_file()
    items = encoded_for(
        SummaryTask(), tmp_path / "model", [{"sentences": ["a", "the film", "bad"], "labels": [0, 1, 0]}] * 2
    ).items
    with torch.no_grad():
        logits, sums = model(batch_of_items(items), answering=True), model(batch_of_items(items))
    wanted = torch.tensor([0.0, 1.0, 0.0] * 2)
    by_hand = torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], wanted, reduction="sum")
    assert logits.shape == (6, 1) and logits.std() > 0.01
    torch.testing.assert_close(sums[0], torch.stack([by_hand, ((logits[:, 0] > 0) == (wanted > 0)).sum().float()]))


def test_summaries_are_learnt(tmp_path: Path) -> None:
    """The sentences with "good" are the summary; of what is predicted without labels the same is said."""
    drawn = np.random.default_rng(0)
    files = []
    for name, number in (("train", 120), ("dev", 30)):
        rows = []
        for _ in range(number):
            texts = [" ".join(drawn.choice(["the", "plot", "was", "a", "long"], 3)) for _ in range(5)]
            right = drawn.choice(5, 2, replace=False)
            for one in right:
                texts[one] = f"{texts[one]} good"
            rows.append({"sentences": texts, "summary": [texts[one] for one in sorted(right)], "id": len(rows)})
        files.append(write_json_rows(tmp_path / f"{name}.jsonl", rows))
    job = new_job(tmp_path, epochs=12, batch=12)
    record = run(replace(job, training=files[0], evaluation=files[1], task={"kind": "summary", "take": 2, "block": 0}))
    kept = kept_of(record)
    assert record["metric"] == "rouge1" and kept["rouge1"] > 0.95 and kept["rougeLsum"] > 0.95, kept
    told, said = said_of(tmp_path / "out", files[1], tmp_path / "said.jsonl", True)
    assert told["scores"] == {name: pytest.approx(kept[name]) for name in told["scores"]}
    bare = [{"sentences": json.loads(line)["sentences"]} for line in Path(files[1].path).read_text().splitlines()]
    _, again = said_of(tmp_path / "out", write_json_rows(tmp_path / "bare.jsonl", bare), tmp_path / "again.jsonl")
    judged = [{**line, "id": number, "gold": said[number]["gold"]} for number, line in enumerate(again)]
    assert judged == said and said[0]["gold"]["summary"]
    assert all(len(line["probabilities"]) == 5 and line["summary"].count("\n") == 1 for line in again)
