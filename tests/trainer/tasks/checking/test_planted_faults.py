"""Faults that were put into clean data: each is named, and the clean data has none."""

import json
import random
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from trainer.tasks.checking.check import check_task
from trainer.tasks.checking.findings import DataReport
from trainer.tasks.formats.records import FileSettings

Rows = list[dict[str, Any]]
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
GERMAN = "Die Katze sitzt heute wieder auf dem alten Dach und wartet auf die Vögel aus dem Garten nebenan."
ENGLISH = "The cat sits on the old roof again today and waits for the birds of the garden next door."


def sentence(draw: random.Random, words: int = 0) -> str:
    """Words that nobody wrote before."""
    return " ".join("".join(draw.choices(SYLLABLES, k=3)) for _ in range(words or draw.randint(14, 18)))


def classes(draw: random.Random, number: int) -> Rows:
    return [{"text": sentence(draw), "label": draw.choice(["good", "bad"])} for _ in range(number)]


def numbers(draw: random.Random, number: int) -> Rows:
    return [
        {"text": sentence(draw), "second": sentence(draw), "label": round(draw.uniform(0, 5), 2)} for _ in range(number)
    ]


def tags(draw: random.Random, number: int) -> Rows:
    spans = [["B-PER", "I-PER", "O"], ["B-LOC", "O", "O"], ["O", "B-PER", "O"], ["O", "B-LOC", "I-LOC"]]
    return [{"words": sentence(draw, 15).split(), "tags": [*chain(*draw.choices(spans, k=5))]} for _ in range(number)]


def answers(draw: random.Random, number: int) -> Rows:
    rows = []
    for _ in range(number):
        context, place = sentence(draw).split(), draw.randint(1, 9)
        spans = [{"text": context[place], "answer_start": len(" ".join(context[:place])) + 1}]
        rows.append({"question": sentence(draw, 8), "context": " ".join(context), "answers": spans})
    return rows


def passages(draw: random.Random, number: int) -> Rows:
    return [{"query": sentence(draw), "positive": sentence(draw), "negative": sentence(draw)} for _ in range(number)]


def choices(draw: random.Random, number: int) -> Rows:
    return [
        {"context": sentence(draw), "choices": [sentence(draw, 5), sentence(draw, 5)], "label": draw.randint(0, 1)}
        for _ in range(number)
    ]


MAKERS = {"classes": classes, "number": numbers, "similarity": numbers, "tags": tags, "span": answers,
          "retrieval": passages, "choice": choices}  # fmt: skip


class Fault(NamedTuple):
    """plant: changes the training rows, and those to judge by, in place; kind: with settings of the task after it"""

    finding: str
    stops: bool
    kind: str
    plant: Callable[[Rows, Rows], object]
    settings: Mapping[str, Any] = MappingProxyType({})


def put(rows: Rows, number: int, **values: Any) -> None:
    for row in rows[:number]:
        row.update(values)


def each(rows: Rows, change: Callable[[dict[str, Any], int], dict[str, Any]]) -> None:
    for place, row in enumerate(rows):
        row.update(change(row, place))


def copied(rows: Rows, source: Rows, number: int, **values: Any) -> None:
    for row, other in zip(rows[:number], source[-number:], strict=True):
        row.update(other | values)


def one_word_less(text: str) -> str:
    return text.rpartition(" ")[0]


FAULTS = [
    Fault("null-labels", True, "classes", lambda a, b: put(a, 3, label="NaN")),
    Fault("null-labels", True, "classes", lambda a, b: (put(a, 2, label="null"), put(b, 1, label="N/A"))),
    Fault("null-labels", False, "classes", lambda a, b: put(a, 9, label="none")),
    Fault("null-labels", True, "tags", lambda a, b: a[0]["tags"].__setitem__(0, "nan")),
    Fault("unusable-rows", True, "classes", lambda a, b: put(a, 5, label=None)),
    Fault("unusable-rows", True, "classes", lambda a, b: put(b, 5, label=float("nan"))),
    Fault("unusable-rows", True, "number", lambda a, b: put(a, 5, label="NaN")),
    Fault("unusable-rows", True, "span", lambda a, b: put(a, 4, answers=[{"text": "x", "answer_start": 400}])),
    Fault("label-spellings", True, "classes", lambda a, b: put(a, 9, label="Good")),
    Fault("label-spellings", True, "classes", lambda a, b: put(a, 9, label="\uff47\uff4f\uff4f\uff44")),
    Fault("label-spellings", True, "classes", lambda a, b: put(a, 9, label="go od")),
    Fault("label-spellings", True, "tags", lambda a, b: put(a, 9, tags=["B-Per"] + ["O"] * 14)),
    Fault("rare-classes", False, "classes", lambda a, b: put(a, 2, label="mixed")),
    Fault("unmeasured-classes", False, "classes", lambda a, b: (put(a, 30, label="mixed"), put(b, 2, label="mixed"))),
    Fault("unseen-labels", True, "classes", lambda a, b: put(b, 9, label="mixed")),
    Fault("one-class", True, "classes", lambda a, b: put(b, 100, label="good")),
    Fault("imbalance", False, "classes", lambda a, b: put(a, 190, label="good")),
    Fault("label-shift", False, "classes", lambda a, b: put(b, 80, label="bad")),
    Fault("sorted-rows", False, "classes", lambda a, b: a.sort(key=lambda row: row["label"])),
    Fault(
        "missing-as-number",
        False,
        "classes",
        lambda a, b: each(a, lambda row, n: {"label": "-1" if n < 9 else str(n % 3)}),
    ),
    Fault("out-of-scale", False, "similarity", lambda a, b: put(a, 2, label=45.0)),
    Fault("missing-as-number", False, "number", lambda a, b: put(a, 3, label=-1)),
    Fault("repeated-rows", False, "classes", lambda a, b: copied(a, a, 9)),
    Fault(
        "contradictions", False, "classes", lambda a, b: (copied(a, a, 9, label="good"), put(a[-9:], 9, label="bad"))
    ),
    Fault("contradictions", False, "number", lambda a, b: (copied(a, a, 1, label=0.0), put(a[-1:], 1, label=5.0))),
    Fault(
        "near-repeats",
        False,
        "classes",
        lambda a, b: each(a[:9], lambda _, n: {"text": one_word_less(a[-n - 1]["text"])}),
    ),
    Fault("evaluation-in-training", True, "classes", lambda a, b: copied(b, a, 100)),
    Fault("evaluation-in-training", True, "tags", lambda a, b: a.__setitem__(slice(0, 100), b)),
    Fault("leak", True, "classes", lambda a, b: copied(b, a, 30)),
    Fault("leak", False, "span", lambda a, b: copied(b, a, 3)),
    Fault(
        "near-leak",
        False,
        "classes",
        lambda a, b: each(b[:9], lambda _, n: {"text": one_word_less(a[n]["text"]).upper()}),
    ),
    Fault("shared-contexts", False, "span", lambda a, b: put(b, 9, context=a[0]["context"], answers=a[0]["answers"])),
    Fault("shared-contexts", False, "retrieval", lambda a, b: put(b, 9, query=a[0]["query"])),
    Fault("repeated-ids", False, "classes", lambda a, b: each(a, lambda _, n: {"id": n // 2})),
    Fault("cut-texts", False, "classes", lambda a, b: put(a, 50, text="word " * 300)),
    Fault(
        "mixed-languages",
        False,
        "classes",
        lambda a, b: each(a, lambda row, n: {"text": f"{row['label']} {n} {GERMAN if n % 4 == 0 else ENGLISH}"}),
    ),
    Fault(
        "other-language",
        False,
        "classes",
        lambda a, b: (
            each(a, lambda _, n: {"text": f"{n} {ENGLISH}"}),
            each(b, lambda _, n: {"text": f"{n} {GERMAN}"}),
        ),
    ),
    Fault("mojibake", False, "classes", lambda a, b: put(a, 9, text="Das KÃ¤nguru hÃ¼pft Ã¼ber den Zaun")),
    Fault("markup", False, "classes", lambda a, b: each(a[:9], lambda row, _: {"text": row["text"] + "<br />"})),
    Fault("constant-text", True, "classes", lambda a, b: put(a, 200, text="a text")),
    Fault("null-texts", True, "classes", lambda a, b: put(a, 60, text="nan")),
    Fault("ids-as-texts", True, "classes", lambda a, b: each(a, lambda _, n: {"text": f"u{n:05}"})),
    Fault(
        "ids-as-features", False, "classes", lambda a, b: each(a + b, lambda _, n: {"user": n}), {"numeric": ("user",)}
    ),
    Fault(
        "ids-as-features",
        False,
        "classes",
        lambda a, b: each(a + b, lambda _, n: {"user": f"u{n:05}"}),
        {"categorical": ("user",)},
    ),
    Fault(
        "constant-column", False, "classes", lambda a, b: each(a + b, lambda *_: {"year": 1999}), {"numeric": ("year",)}
    ),
    Fault(
        "label-in-column",
        True,
        "classes",
        lambda a, b: each(a + b, lambda row, _: {"stars": 5 if row["label"] == "good" else 1}),
        {"numeric": ("stars",)},
    ),
    Fault(
        "label-in-text",
        True,
        "classes",
        lambda a, b: each(a + b, lambda row, _: {"text": f"{row['label']}: {row['text']}"}),
    ),
    Fault(
        "label-in-text",
        False,
        "classes",
        lambda a, b: each(a, lambda row, _: {"text": row["text"] + (" via web" if row["label"] == "good" else "")}),
    ),
    Fault("not-learnable", True, "tags", lambda a, b: a[3]["tags"].__setitem__(0, "X-PER")),
    Fault("no-spans", True, "tags", lambda a, b: put(b, 100, tags=["O"] * 15)),
    Fault(
        "cut-answers",
        False,
        "span",
        lambda a, b: each(a[:20], lambda row, _: {"answers": [{"text": row["context"][2:5], "answer_start": 2}]}),
    ),
    Fault("same-texts", True, "similarity", lambda a, b: each(a, lambda row, _: {"second": row["text"]})),
    Fault("same-texts", False, "retrieval", lambda a, b: each(a[:30], lambda row, _: {"positive": row["query"]})),
    Fault(
        "negative-is-positive",
        False,
        "retrieval",
        lambda a, b: each(a[:3], lambda row, _: {"negative": row["positive"]}),
    ),
    Fault("same-choices", False, "choice", lambda a, b: put(a, 3, choices=["one of two", "One of  two"])),
    Fault("choice-by-place", True, "choice", lambda a, b: put(a, 200, label=1)),
    Fault("not-learnable", True, "classes", lambda a, b: each(a + b, lambda _, n: {"label": n / 7})),
    Fault("one-class", True, "number", lambda a, b: put(a, 200, label=2.5)),
]


def report_of(folder: Path, kind: str, settings: Mapping[str, Any], train: Rows, dev: Rows) -> DataReport:
    """What is seen in two files."""
    for name, rows in (("train", train), ("dev", dev)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    files = [FileSettings(path=str(folder / f"{name}.jsonl")) for name in ("train", "dev")]
    return check_task({"kind": kind, **settings}, files)


def clean(kind: str) -> tuple[Rows, Rows]:
    """Rows without a fault."""
    draw = random.Random(3)
    return MAKERS[kind](draw, 200), MAKERS[kind](draw, 100)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.finding}-{fault.kind}")
def test_a_planted_fault_is_named(tmp_path: Path, fault: Fault) -> None:
    train, dev = clean(fault.kind)
    fault.plant(train, dev)
    report = report_of(tmp_path, fault.kind, fault.settings, train, dev)
    findings = [finding for finding in report.findings if finding.name == fault.finding]
    assert findings, [each.line for each in report.findings]
    assert (findings[0].severity == "stops") is fault.stops, findings[0].line
    for seen in report.findings:
        assert len(seen.line) <= 160 and "\n" not in seen.line
        assert seen.line == seen.text or seen.name == "not-learnable", seen.text
    assert fault.finding in report.paragraph


@pytest.mark.parametrize("kind", MAKERS)
def test_clean_rows_have_no_finding(tmp_path: Path, kind: str) -> None:
    """Fails if a judge that warns of everything passes the test of planted faults."""
    report = report_of(tmp_path, kind, {}, *clean(kind))
    assert not report.findings, [each.line for each in report.findings]
    report.check()
