"""The benchmarks on a tiny text: that they compare what they say, that a difference ends them; nothing is timed."""

import doctest
import gc
import importlib
import json
import os
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from small_recipe import stages_without

from benchmarks import (
    clean,
    curves,
    encode,
    figures,
    first_contact,
    loader,
    masks,
    measuring,
    record,
    signatures,
    vocabulary,
    whole_run,
)
from benchmarks.measuring import Report, Row, Side
from corpora.duplicates.signatures import compute_signatures as make_signatures
from corpora.errors import InputError
from corpora.judging.steps.clean import clean as clean_column
from shards.masks.masking import draw_masks
from shards.reading.loader import gather_plain
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.learning.wordpiece import train_wordpiece

WORDS = (
    "the of and to that river keeper market light house café winter carried measured remembered stones boat quiet "
    "evening before because village naïve hundred stories people island road little always never"
).split()


def prose(seed: int) -> str:
    """Return English-like text that the rules keep, with a few letters beyond ASCII."""
    draw = random.Random(seed)
    picked = (draw.choices(WORDS, k=draw.randrange(8, 14)) for _ in range(9))
    return " ".join(f"The {' '.join(words)} “with” him." for words in picked)


THEIRS = "datasketch, hashes given"
TEXTS = [prose(seed) for seed in range(6)] + ["Too short.", "Dr. Grey's boat… came  in\r\nat 5 p.m. today."]


@pytest.fixture(autouse=True)
def brief_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is repeated for the clock's sake; garbage is looked for, before each, among what is new alone."""
    gc.freeze()
    monkeypatch.setattr(measuring, "LEAST_SECONDS", 1e-9)


@pytest.fixture
def no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no library were installed that only benchmarks know, nor transformers, whose import takes seconds."""

    def absent(name: str) -> ModuleSpec | None:
        return None

    for module in (encode, loader, masks, vocabulary):
        monkeypatch.setattr(module, "find_spec", absent)


CASES = {
    signatures: ["signatures, from text", "datasketch, hashes given", "datasketch, from text", "definition, from text"],
    clean: ["clean", "ftfy.fix_text", "definition (clean_text)"],
    vocabulary: ["counting and training", "  counting", "  training", "tokenizers' trainer"],
    encode: [
        "Encoder, new",
        "Encoder, its words known",
        "tokenizers encode_batch_fast",
        "tokenizers encode_batch",
    ],
    masks: [
        "put_masks",
        "  as rows of int64",
        "  each by itself",
        "  whole words",
        "  n-grams",
        "  spans",
        "definition (masks_plain)",
    ],
    loader: ["Loader", "forty lines by hand"],
}


@pytest.mark.usefixtures("no_peers")
@pytest.mark.parametrize("module", CASES, ids=lambda module: module.__name__)
def test_both_sides_agree_and_each_is_measured(module: ModuleType) -> None:
    reports: Sequence[Report] = module.benchmark(TEXTS, 2)
    assert len(reports) == {clean: 4, encode: 2, vocabulary: 2}.get(module, 1)
    for report in reports:
        assert [row.name for row in report.rows] == CASES[module]
        assert all(len(row.seconds) == 2 and min(row.seconds) > 0 for row in report.rows)
        assert min(report.amounts.values()) > 0
        assert any("equal" in note for note in report.notes)


def altered(function: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function with another result."""
    return lambda *args, **kwargs: change(function(*args, **kwargs))


class SpoiltEncoder(Encoder):
    """An encoder that gives each token the next id."""

    def encode_sentences(self, *sentences: Any) -> Any:
        found = super().encode_sentences(*sentences)
        return found._replace(ids=found.ids + 1)


def spoil_first(column: pa.Array) -> pa.Array:
    return pa.array(["spoilt", *column.to_pylist()[1:]], pa.large_string())


SPOILT: dict[ModuleType, tuple[str, Any]] = {
    signatures: (
        "compute_signatures",
        altered(make_signatures, lambda batch: batch._replace(signature=batch.signature ^ np.uint32(1))),
    ),
    clean: ("clean", altered(clean_column, spoil_first)),
    vocabulary: (
        "train_wordpiece",
        lambda counts, settings: train_wordpiece(counts, replace(settings, limit_alphabet=5)),
    ),
    encode: ("Encoder", SpoiltEncoder),
    masks: (
        "draw_masks",
        altered(draw_masks, lambda drawn: drawn._replace(positions=drawn.positions ^ np.uint16(1))),
    ),
    loader: ("gather_plain", altered(gather_plain, lambda found: replace(found, ids=found.ids + 1))),
}


@pytest.mark.usefixtures("no_peers")
@pytest.mark.parametrize("module", SPOILT, ids=lambda module: module.__name__)
def test_a_difference_ends_the_benchmark(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    name, spoilt = SPOILT[module]
    monkeypatch.setattr(module, name, spoilt)
    with pytest.raises(AssertionError, match=r"differ|depends"):
        module.benchmark(TEXTS, 1)


def test_the_masks_of_transformers_are_measured_where_it_is_installed() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    [report] = masks.benchmark(TEXTS, 1)
    assert report.rows[-1].name == "DataCollatorForLanguageModeling"


@pytest.mark.usefixtures("no_peers")
def test_the_masks_say_that_transformers_is_not_installed() -> None:
    [report] = masks.benchmark(TEXTS, 1)
    assert "not installed" in report.notes[-1]


def test_sides_take_turns_and_no_number_comes_twice() -> None:
    calls: list[tuple[str, int]] = []

    def side(name: str) -> Side:
        def call(number: int) -> int:
            calls.append((name, number))
            return sum(range(2000))

        return Side(name=name, call=call)

    rows = measuring.take_turns([side("one"), side("other")], 3)
    assert [name for name, _ in calls] == ["one", "other"] * 3
    assert len({number for _, number in calls}) == 6
    assert [(row.name, len(row.seconds)) for row in rows] == [("one", 3), ("other", 3)]


def test_a_call_too_short_for_the_clock_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if one call is taken for a measurement, or the time of all calls for that of one."""
    calls: list[int] = []
    monkeypatch.setattr(measuring, "LEAST_SECONDS", 0.02)
    monkeypatch.setattr(measuring, "_cpu_clock", lambda: 7.0 + 0.001 * len(calls))
    assert measuring.cpu_seconds(calls.append, count()) == pytest.approx(0.001)
    assert calls == [*range(20)] or calls == [*range(21)]  # by how the sum of thousandths is rounded


def test_a_report_as_text() -> None:
    report = Report(
        title="steps",
        amounts={"MB": 2.0},
        rows=(Row(name="ours", seconds=(0.5, 0.1, 0.2)), Row(name="theirs", seconds=(8.0, 4.0))),
        notes=("all equal",),
    )
    assert "\n".join(report.lines()) == (
        "steps\n"
        "             CPU s      from        to  MB/CPU s     times\n"
        "  ours       0.200     0.100     0.500      10.0      1.00\n"
        "  theirs      6.00      4.00      8.00     0.333      30.0\n"
        "  - all equal"
    )


def test_texts_of_a_folder_are_cut_at_paragraphs_and_spread(tmp_path: Path) -> None:
    paragraphs = [f"{number} {'x' * 998}" for number in range(10)]
    (tmp_path / "a.txt").write_bytes("\r\n\r\n".join(paragraphs).encode())
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.txt").write_bytes("Größe".encode("latin-1"))
    texts = measuring.load_texts(tmp_path, 1)
    assert texts == ["\n\n".join(paragraphs[at : at + 3]) for at in (0, 3, 6, 9)] + ["Größe"]
    assert measuring.load_texts(tmp_path, 0.004) == [texts[0], texts[2]]


@pytest.mark.long
def test_the_text_that_any_machine_has() -> None:
    texts = measuring.load_texts(None, 0.1)
    assert 0.05 < measuring.size_mb(texts) < 0.2
    assert measuring.size_mb(measuring.cleaned([*texts, " \n "])) < 0.2
    assert len(measuring.cleaned([*texts, " \n "])) == len(texts)


def test_a_folder_without_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with pytest.raises(InputError, match=r"no \.txt file"):
        measuring.load_texts(tmp_path, 1)
    monkeypatch.setattr("sys.argv", ["signatures.py", "--text", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        measuring.main(signatures.benchmark)
    assert ended.value.code == 2
    assert "no .txt file" in capsys.readouterr().err


def test_the_command_prints_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["signatures.py", "--text", str(tmp_path), "--rounds", "3"])
    measuring.main(signatures.benchmark)
    printed = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"signatures of 128 permutations: .* documents, medians of 3 rounds", printed[0])
    assert printed[2].split()[:3] == ["signatures,", "from", "text"] and printed[2].split()[-1] == "1.00"


def test_a_call_goes_on_record_and_calls_come_back_as_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Fails if a call is lost, overwrites another, or a range leaves one out."""
    monkeypatch.setattr(record, "RECORD", tmp_path / "figures.jsonl")
    (tmp_path / "a.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["signatures.py", "--text", str(tmp_path), "--rounds", "1", "--record"])
    measuring.main(signatures.benchmark)
    measuring.main(signatures.benchmark)
    calls = record.read_calls(tmp_path / "figures.jsonl")
    assert [(call["benchmark"], call["text"], call["megabytes"]) for call in calls] == [
        ("signatures", tmp_path.name, 2.0)
    ] * 2
    assert all(0 <= call["others"] <= 1 and call["processor"] for call in calls)
    of_theirs = [row["times"] for call in calls for row in call["reports"][0]["rows"] if row["name"] == THEIRS]
    assert len(of_theirs) == 2
    [row] = [line for line in figures.tables(calls) if THEIRS in line]
    assert row.removesuffix(" |").split(" | ")[3] == figures.extent(of_theirs)
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip().startswith(THEIRS)]
    assert [float(fields[-1]) for fields in shown[:2]] == of_theirs


def test_calls_on_other_texts_are_not_one_range() -> None:
    """Fails if a figure of 2 MB and one of 32 MB, or of another text, make one range, or a definition is a side."""

    def call(text: str, megabytes: float, times: float) -> dict[str, Any]:
        rows = [{"name": "ours", "speed": 10.0, "times": 1.0}, {"name": "theirs", "times": times}]
        rows.append({"name": "definition (steps_plain)", "times": 99.0})
        reports = [{"what": "steps", "unit": "MB", "rows": rows}]
        return {"date": "2026-01-02", "benchmark": "steps", "text": text, "megabytes": megabytes, "others": 0.25,
                "reports": reports}  # fmt: skip

    rule = "|---|---|---|---|"
    calls = [
        call("books", 2, 7.0),
        call("books", 32, 9.0),
        call("books", 2, 5.0),
        {**call("mail", 2, 1.0), "noted": "once"},
    ]
    assert list(figures.tables(calls)) == [
        *("", "| `steps`: books, 2 MB; 2026-01-02 (others 25%) | side | MB/CPU s | times the first's |", rule),
        *("| steps | ours | 10 | 1 |", "| | theirs | | 5 to 7 |"),
        *("", "| `steps`: books, 32 MB; 2026-01-02 (others 25%) | side | MB/CPU s | times the first's |", rule),
        *("| steps | ours | 10 | 1 |", "| | theirs | | 9 |"),
        *("", "| `steps`: mail, 2 MB; 2026-01-02 (once) | side | MB/CPU s | times the first's |", rule),
        *("| steps | ours | 10 | 1 |", "| | theirs | | 1 |"),
    ]


def test_the_page_has_the_tables_of_the_record() -> None:
    """Fails if a call was put on record and the page was not written again, or a table was edited by hand."""
    page = figures.PAGE.read_text(encoding="utf-8")
    assert figures.page_with(page, figures.tables(record.read_calls())) == page


@pytest.mark.parametrize("name", ["measuring", "figures"])
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"benchmarks.{name}"))
    assert result.attempted and not result.failed


def test_the_texts_of_the_first_contact_are_the_same_each_time(tmp_path: Path) -> None:
    """Fails if the texts hang on anything but the seed, are alike, or are not as many as asked for."""
    for name in ("one", "two"):
        first_contact.write_texts(tmp_path / name, 30_000)
    files = {name: sorted((tmp_path / name).rglob("*.txt")) for name in ("one", "two")}
    texts = {name: [path.read_text() for path in paths] for name, paths in files.items()}
    assert texts["one"] == texts["two"] and len(texts["one"]) == len(set(texts["one"])) == 23
    assert sum(map(len, texts["one"][:3])) >= 30_000


def texts_of(folder: Path) -> list[str]:
    return [json.loads(line)["text"] for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


def test_the_same_size_is_the_same_text(tmp_path: Path) -> None:
    """Fails if chance is drawn from anything but the size, or a small text is not the beginning of a large one."""
    for name, size in (("one", 0.3), ("again", 0.3), ("more", 0.5)):
        whole_run.write_texts(tmp_path / name, size)
    one, again, more = (texts_of(tmp_path / name) for name in ("one", "again", "more"))
    assert one == again == more[: len(one)]
    assert 0.3e6 <= sum(map(len, one)) < 0.31e6
    assert len(more) > len(one) and 0.9 < len(set(more)) / len(more) < 1


@pytest.mark.slow
def test_the_whole_run_is_told_stage_by_stage(capsys: pytest.CaptureFixture[str]) -> None:
    whole_run.main(["--megabytes", "0.4"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines[1:-2]] == [*stages_without("fits", "models")]
    assert lines[0][2:] == ["0.4", "MB"] and all(float(line[-1]) > 0 for line in lines[1:])


def test_a_command_is_measured_with_what_it_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a command's CPU seconds are not its own, or a failed one goes unsaid."""
    asked = first_contact.Step(name="help", arguments=("--help",))
    failed = first_contact.Step(name="nothing", arguments=("report", "nothing-there"))
    environment = {**os.environ, "CLOZE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(figures.PAGE.parents[1])}
    rows = [first_contact.timed(step, tmp_path, environment) for step in (asked, failed)]
    assert rows[0]["code"] == 0 and 0 < rows[0]["cpu"] and rows[1]["code"] == 2
    assert capsys.readouterr().err.startswith("nothing: cloze: ")


def test_the_table_of_the_first_contact_is_that_of_its_record() -> None:
    """Fails if a figure on the page is not on record, or a step is missing from a call."""
    page, calls = figures.PAGE.read_text(encoding="utf-8"), record.read_calls(first_contact.RECORD)
    again = figures.page_with(page, first_contact.table(calls), first_contact.BEGIN, first_contact.END)
    assert again == page and calls
    assert all([row["name"] for row in call["rows"]] == [step.name for step in first_contact.STEPS] for call in calls)


def test_curves_are_told_against_both_scores() -> None:
    """Fails if a score is told with the wrong sign, against the other, or of one seed for the median."""
    models = [
        SimpleNamespace(
            history=[
                {"event": "step", "step": 1},
                {"event": "evaluation", "step": 10, "masked_loss": loss, "unigram_loss": 6.0, "unigram_entropy": 5.5},
            ]
        )
        for loss in (5.0, 5.6, 5.9)
    ]
    points = tuple(point for model in models for point in curves.read_points(cast(Any, model)))
    assert [round(point.below_entropy, 3) for point in points] == [0.5, -0.1, -0.4]
    line = curves.format_points(points)
    assert line.split() == (
        "10,240 tokens: 0.400 below guessing (1.000, 0.400, 0.100), -0.100 below the entropy".split()
    )
