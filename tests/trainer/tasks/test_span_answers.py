"""Answers that are spans: windows, spans, slices of the text, SQuAD 1.1 and 2.0 from the file to the file."""

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from page_blocks import blocks
from small_batches import padded_inputs, present_tokens, small_batch, small_inputs
from small_models import write_model
from small_tasks import both_models, encoded_for, kept_of, new_job, run, said_of

from corpora.errors import InputError
from trainer.huggingface.checkpoints import load_pretrained
from trainer.settings.model import FAMILIES
from trainer.tasks.data import EncodedExamples
from trainer.tasks.formats.records import FileSettings, Unusable
from trainer.tasks.heads.task_model import compute_log_softmax, mark_highest, to_group_numbers
from trainer.tasks.kinds.answers import SpanTask
from trainer.tasks.long_texts import find_best_spans, find_deciding_tokens
from trainer.tasks.text_encoder import TextEncoder

# The model.


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_opens_an_export_with_equal_logits_and_loss(
    tmp_path: Path, transformers: ModuleType, family: str
) -> None:
    model, reference = both_models(SpanTask(), family, tmp_path, transformers.AutoModelForQuestionAnswering)
    segments = FAMILIES[family].segment_types > 1
    for lengths in ((7, 12, 3, 20), (12, 12, 12)):
        batch = small_batch(lengths, pairs=False)
        if not segments:
            batch = replace(batch, segment_ids=torch.zeros_like(batch.segment_ids))
        places = torch.arange(len(lengths))
        batch = replace(batch, targets={"start": places, "end": places + 1 - 1 // (1 + places)})
        with torch.no_grad():
            said = reference(
                **padded_inputs(batch, small_inputs(family).special_ids.pad, segments),
                start_positions=batch.targets["start"], end_positions=batch.targets["end"],
            )  # fmt: skip
            found, sums = model(batch, answering=True).double(), model(batch)
        wanted = present_tokens(torch.stack([said.start_logits, said.end_logits], -1), batch)
        assert found.std() > 0.05, "the test compares nothing"
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(sums[0, 0].double() / 3, said.loss, atol=1e-5, rtol=1e-5)  # of rows of equal length


def test_softmax_within_groups_is_that_of_each_group() -> None:
    """Values and gradients, also of sizes far from each other and of logits that overflow an exponential."""
    sizes = torch.tensor([1, 200, 0, 3])
    logits = torch.randn(204, 2, generator=torch.Generator().manual_seed(0)) * 100
    logits[7], weights = 1e4, torch.rand(204, 2)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    found = compute_log_softmax(ours, to_group_numbers(sizes, 204), 4)
    wanted = torch.cat([each.log_softmax(0) for each in theirs.split(sizes.tolist())])
    torch.testing.assert_close(found, wanted)
    (found * weights).sum().backward()
    (wanted * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    best = mark_highest(logits, to_group_numbers(sizes, 204), 4)
    assert best.sum(0).tolist() == [3, 3] and bool(best[7].all())


# Windows and spans.


@given(st.lists(st.integers(1, 30), min_size=1, max_size=1), st.integers(1, 12), st.integers(1, 12))
def test_the_window_that_decides_is_that_of_the_authors(length: list[int], room: int, stride: int) -> None:
    """Against the two loops of run_squad.py, over the windows that its third loop makes."""
    begins, sizes, begin = list[int](), list[int](), 0
    while True:
        begins.append(begin)
        sizes.append(min(length[0] - begin, room))
        if begin + sizes[-1] == length[0]:
            break
        begin += min(sizes[-1], stride)
    found = find_deciding_tokens(np.array(begins), np.array(sizes))
    for number, (first, size) in enumerate(zip(begins, sizes, strict=True)):
        for token in range(first, first + size):
            best, chosen = None, None
            for other, (left, width) in enumerate(zip(begins, sizes, strict=True)):
                if left <= token < left + width:
                    score = (min(token - left, left + width - 1 - token), width)
                    if best is None or score > best:
                        best, chosen = score, other
            assert found[number][token - first] == (chosen == number)


numbers = st.lists(st.sampled_from([-np.inf, -1.5, 0.0, 0.5, 2.0, 3.25]), min_size=0, max_size=12)


@given(numbers, st.integers(1, 14), st.integers(1, 9), st.randoms(use_true_random=False))
def test_the_best_spans_are_the_best_of_all(begins: list[float], longest: int, most: int, drawn: Any) -> None:
    ends = drawn.sample(begins, len(begins))
    every = sorted(
        (-(begins[first] + ends[last]), first, last)
        for first in range(len(begins))
        for last in range(first, min(first + longest, len(begins)))
        if np.isfinite(begins[first] + ends[last])
    )
    found = find_best_spans(np.array(begins, np.float32), np.array(ends, np.float32), longest, most)
    assert [-score for score, _, _ in every[:most]] == found[2].tolist()
    spans = list(zip(*(each.tolist() for each in found), strict=True))
    assert len({*spans}) == len(spans) and {(-score, first, last) for first, last, score in spans} <= {*every}


def asked(folder: Path, context: str, answer: str, question: str = "a ?", length: int = 40, **task: Any) -> Any:
    """One question whose answer is the first place of a text in its context."""
    values = {
        "question": question,
        "context": context,
        "answers": [{"text": answer, "answer_start": context.index(answer)}],
    }
    return encoded_for(SpanTask(**task), folder, [values], length)


def told(task: SpanTask, encoded: EncodedExamples) -> list[Any]:
    """Predictions of a model that says the targets."""
    answers = []
    for item in encoded.items:
        logits = np.zeros((item.num_tokens, 2), np.float32)
        logits[item.targets["start"][0], 0] = logits[item.targets["end"][0], 1] = 9
        answers.append(logits)
    return task.make_predictions(encoded.examples, encoded.items, answers)


TEXTS = (
    ("the film was good, very good. a bad actor", "good"),
    ("cafe\u0301 was the cafe\u0301\u0323s plot", "cafe\u0301\u0323s"),
    ("a film: \u0928\u092e\u0938\u094d\u0924\u0947 was long", "\u0928\u092e\u0938\u094d\u0924\u0947"),
    ("\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd", "\u65e5\u672c"),
    ("a  plot\u00a0\t was\nlong  ", "plot\u00a0\t was\nlong"),
    ("the \u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd.", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd"),
    ("a\U0001f1f3\U0001f1f4 b \U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_an_answer_is_a_slice_of_the_text(tmp_path: Path, family: str) -> None:
    """Fails if offsets are of bytes, of normalised text, or part a letter from its marks."""
    write_model(tmp_path, family)
    for text, answer in TEXTS:
        encoded = asked(tmp_path, text, answer, length=80, max_answer=60)
        [found] = told(SpanTask(max_answer=60), encoded)
        chinese = family == "bert" and "\u6771" in text  # [UNK], a letter each
        assert found.best[0].text == answer and found.best[0].begin == text.index(answer), (text, chinese)
        assert all(text[each.begin :].startswith(each.text) for each in found.best) and len(found.best) > 1


def test_every_place_of_a_long_text_is_found(tmp_path: Path) -> None:
    """Each word of a text of many windows is asked for: also those at the edges of windows."""
    write_model(tmp_path)
    words = [f"{number:x}" for number in range(256, 320)]
    text = " ".join(words)  # of three tokens each
    for stride in (7, 128):
        values = [
            {"question": "a", "context": text, "answers": {"text": [word], "answer_start": [text.index(word)]}}
            for word in words
        ]
        task = SpanTask(stride=stride)
        encoded = encoded_for(task, tmp_path, values, 20)
        found = [prediction.best[0].text for prediction in told(task, encoded)]
        wrong = [(word, said) for word, said in zip(words, found, strict=True) if word != said]
        room = 20 - 4
        assert all(item.sequences[0].segment_ids[3:].all() for item in encoded.items)
        assert len(encoded.items) == len(words) * (1 + -(-(3 * 64 - room) // min(stride, room)))
        # Windows that do not overlap part a word: no window has the whole of it.
        assert len(wrong) == (0 if stride < room - 2 else sum(n % room > room - 3 for n in range(0, 192, 3)))
    whole = " ".join("x" * 3 for _ in range(25_000))
    [example] = encoded_for(SpanTask(), tmp_path, [{"question": "a", "context": whole}], 40, labelled=False).examples
    items = SpanTask().make_items(
        [example], TextEncoder.from_folder(tmp_path, load_pretrained(tmp_path).inputs, 40), False
    )
    assert sum(int(item.origin.decides.sum()) for item in items) == 75_000


def test_the_answer_is_the_best_span_of_all_windows(tmp_path: Path) -> None:
    """Random logits of six windows, against loops over all spans: the n best, and the odds for none."""
    write_model(tmp_path)
    context = " ".join(f"{letter}{number}" for number in range(4) for letter in "abcdef")
    task, drawn = SpanTask(stride=5, max_answer=4, n_best=7), np.random.default_rng(0)
    encoded = encoded_for(task, tmp_path, [{"question": "a ?", "context": context}], 20, labelled=False)
    logits = [drawn.normal(size=(item.num_tokens, 2)).astype(np.float32) for item in encoded.items]
    [found] = task.make_predictions(encoded.examples, encoded.items, logits)
    every = dict[str, float]()
    for item, own in zip(encoded.items, logits, strict=True):
        place, _, offsets, decides = item.origin
        for first in np.flatnonzero(decides):
            for last in range(first, min(first + 4, len(offsets))):
                text, score = (
                    context[offsets[first, 0] : offsets[last, 1]],
                    own[place + first, 0] + own[place + last, 1],
                )
                every[text] = max(every.get(text, -np.inf), float(score))
    best = sorted(every.items(), key=lambda each: -each[1])[:7]
    assert len(encoded.items) > 5 and [each.text for each in found.best] == [text for text, _ in best]
    assert [each.score for each in found.best] == pytest.approx([score for _, score in best])
    assert found.null_odds == pytest.approx(min(float(own[0].sum()) for own in logits) - best[0][1])


def test_a_long_question_leaves_room(tmp_path: Path) -> None:
    """It is cut to `max_question`, and to half of a sequence; what is cut is counted."""
    write_model(tmp_path)
    for most, kept in ((64, 18), (5, 5)):
        encoded = asked(tmp_path, "a good film", "good", "the plot " * 100, max_question=most)
        [item] = encoded.items
        assert item.origin.place == 1 + kept + 1 and item.num_tokens == kept + 3 + 3
        [tokens] = item.sequences
        assert tokens.segment_ids.tolist() == [0] * (kept + 2) + [1] * 4
        assert encoded.ledger.to_json()["figures"]["tokens_cut"] == 200 - kept
    nothing = encoded_for(SpanTask(), tmp_path, [{"question": "a", "context": "\u200b\u0001"}], labelled=False)
    [found] = SpanTask().make_predictions(nothing.examples, nothing.items, [np.zeros((4, 2), np.float32)])
    assert SpanTask().to_row(nothing.examples[0], found)["text"] == "" and json.dumps(found)


def test_what_cannot_be_used_is_said() -> None:
    task = SpanTask()
    plain = {"question": "a", "context": "a film"}
    for more, message in (
        ({"answers": [{"text": "plot", "answer_start": 2}]}, "not in the context at its place"),
        ({"answers": [{"text": "film", "answer_start": 3}]}, "not in the context at its place"),
        ({"answers": "film"}, "no texts with answer_start"),
        ({}, "no texts with answer_start"),
    ):
        with pytest.raises(Unusable, match=message):
            task.make_example({**plain, **more}, labelled=True)
    none = task.make_example({**plain, "answers": {"text": [], "answer_start": []}}, labelled=True)
    assert none.answers == () == task.make_example({**plain, "impossible": True}, labelled=True).answers
    with pytest.raises(InputError, match="no question has an answer"):
        task.fit([none], "here")
    some = task.make_example({**plain, "answers": [{"text": "film", "answer_start": 2}]}, labelled=True)
    assert task.fit([some, none], "here").impossible and task.fit([some], "here").impossible is False
    assert (
        "where training had none" in str(task.fit([some], "here").find_unknown_label(none))
        and task.find_unknown_label(none) is None
    )
    with pytest.raises(InputError, match="stride = 0"):
        SpanTask(stride=0)


# From the file to the file.


def questions(number: int, seed: int, impossible: bool) -> dict[str, Any]:
    """As SQuAD 2.0 has them: what was the film? It was good, or bad; of some nothing is said."""
    drawn = np.random.default_rng(seed)
    paragraphs = []
    for one in range(number):
        said = [("good", "bad", "")[one % (3 if impossible else 2)]]
        words = [*drawn.choice(["the", "plot", "was", "a", "long", "actor"], int(drawn.integers(3, 9)))]
        words[len(words) // 2 : len(words) // 2] = filter(None, said)
        context = " ".join(words)
        answers = [{"text": said[0], "answer_start": context.index(said[0])}] if said[0] else []
        asked = {"id": f"q{one}", "question": "a film", "answers": answers}
        paragraphs.append({"context": context, "qas": [asked | ({"is_impossible": not answers} if impossible else {})]})
    return {"version": "v2.0", "data": [{"title": "films", "paragraphs": paragraphs}]}


def question_job(folder: Path, output: str = "out", rows: int = 96, impossible: bool = True, **settings: Any) -> Any:
    job = new_job(folder, output, task={"kind": "span", "stride": 4}, **{"max_length": 12, **settings})
    files = []
    for name, number, seed in (("train", rows, 1), ("dev", 30, 2)):
        (folder / f"{name}.json").write_text(json.dumps(questions(number, seed, impossible)))
        files.append(FileSettings(path=str(folder / f"{name}.json"), format="squad"))
    task = {key: value for key, value in job.task.items() if key in ("kind", "stride")}
    return replace(job, training=files[0], evaluation=files[1], task=task)


def test_answers_and_their_absence_are_learnt(tmp_path: Path) -> None:
    """Fails if windows, targets, the threshold or its way into the folder are wrong."""
    record = run(question_job(tmp_path, rows=60, epochs=3))
    kept = kept_of(record)
    assert record["metric"] == "f1" and kept["best_f1"] == kept["f1"] > 0.9, kept
    assert record["task"]["impossible"] and record["task"]["null_threshold"] == kept["best_f1_threshold"]
    told, lines = said_of(
        tmp_path / "out", FileSettings(path=str(tmp_path / "dev.json"), format="squad"), tmp_path / "said", True
    )
    assert told["scores"]["f1"] == pytest.approx(kept["best_f1"]) and told["examples"] == 30
    for number, line in enumerate(lines):
        silent = line["null_odds"] > record["task"]["null_threshold"]
        assert (line["id"], line["text"]) == (f"q{number}", "" if silent else line["n_best"][0]["text"])
    assert 5 < sum(not line["text"] for line in lines) < 25
    content = questions(30, 2, True)
    for paragraph in content["data"][0]["paragraphs"]:
        del paragraph["qas"][0]["answers"], paragraph["qas"][0]["is_impossible"]
    (tmp_path / "test.json").write_text(json.dumps(content))
    unlabelled, again = said_of(
        tmp_path / "out", FileSettings(path=str(tmp_path / "test.json"), format="squad"), tmp_path / "said"
    )
    judged = [{**line, "gold": labelled["gold"]} for line, labelled in zip(again, lines, strict=True)]
    assert judged == [{**line, "score": line["n_best"][0]["score"]} for line in lines] and unlabelled["scores"] == {}


def test_the_guides_lines_make_the_files_of_the_official_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a question is left out, or the odds for no answer are no probability."""
    rows = [{"id": "q1", "text": "Malm\u00f6", "null_odds": 0.0}, {"id": "q2", "text": "", "null_odds": 2e6}]
    lines = "".join(json.dumps(row) + "\n" for row in [*rows, {"id": "q3", "unusable": "no context"}])
    (tmp_path / "answers.jsonl").write_text(lines)
    [shown] = [block.text for block in blocks("guide-finetuning.md", "python") if "na_prob" in block.text]
    monkeypatch.chdir(tmp_path)
    exec(shown, {})
    assert json.loads((tmp_path / "predictions.json").read_text()) == {"q1": "Malm\u00f6", "q2": ""}
    assert json.loads((tmp_path / "na_prob.json").read_text()) == {"q1": 0.5, "q2": 1.0}
