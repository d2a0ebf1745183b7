"""The benchmarks on a tiny text: that they compare what they say, that a difference ends them; nothing is timed."""

import doctest
import gc
import importlib
import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_models import write_model

from benchmarks import (
    budgets,
    clean,
    cluster,
    content,
    curves,
    encode,
    figures,
    first_contact,
    loader,
    masks,
    measuring,
    pairs,
    record,
    rules,
    run,
    sentences,
    signatures,
    tables,
    task_memory,
    verdict_memory,
    vocabulary,
    wikitext,
)
from benchmarks.measuring import Report, Row, Side
from corpora.duplicates.signatures import signatures as make_signatures
from corpora.errors import InputError
from corpora.judging.steps.clean import clean as clean_column
from corpora.judging.steps.rules import reasons
from corpora.sources.wiki.wikitext.prose import is_redirect, wikitext_to_text
from corpora.store.content import Content
from corpora.store.places import Place
from corpora.text.sentences.splitter import sentence_offsets
from shards.builders.pairs import build_pairs
from shards.masks.masking import draw_masks
from shards.reading.loader import gather_plain
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.learning.wordpiece import train_wordpiece
from trainer.families.registry import FAMILIES
from trainer.jobs.start import Start

WORDS = (
    "the of and to that river keeper market light house café winter carried measured remembered stones boat quiet "
    "evening before because village naïve hundred stories people island road little always never"
).split()

Benchmark = Callable[[Sequence[str], int], Sequence[Report]]


def prose(seed: int, sentences: int = 9) -> str:
    """English-like text that the rules keep, with a few letters beyond ASCII."""
    draw = random.Random(seed)
    picked = (draw.choices(WORDS, k=draw.randrange(8, 14)) for _ in range(sentences))
    return " ".join(f"The {' '.join(words)} “with” him." for words in picked)


TEXTS = [prose(seed) for seed in range(6)] + ["Too short.", "Dr. Grey's boat… came  in\r\nat 5 p.m. today."]
PAGES = [f"'''Page {n}''' is a [[small town|town]] of {{{{formatnum:{n}000}}}} people.<ref>x</ref>" for n in range(3)]


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

    for module in (encode, loader, masks, rules, sentences, vocabulary):
        monkeypatch.setattr(module, "find_spec", absent)


CASES = {
    signatures: ["signatures, from text", "datasketch, hashes given", "datasketch, from text", "definition, from text"],
    clean: ["clean", "ftfy.fix_text", "definition (clean_text)"],
    sentences: ["sentence_offsets", "segtok", "definition (split_sentences)"],
    rules: ["reasons", "definition (judge)"],
    vocabulary: ["counting and training", "  counting", "  training", "tokenizers' trainer"],
    encode: [
        "Encoder, its words known",
        "Encoder, new",
        "  two, known, in two threads",
        "tokenizers encode_batch_fast",
        "tokenizers encode_batch",
    ],
    pairs: ["build_pairs", "definition (pairs_plain)"],
    masks: [
        "put_masks",
        "  as rows of int64",
        "  each by itself",
        "  whole words",
        "  n-grams",
        "  spans",
        "definition (masks_plain)",
    ],
    loader: ["Loader"],
    content: ["content_of", "content_plain", "sha256 of IPC bytes"],
    tables: ["checked", "unchecked", "ids, checked"],
}


@pytest.mark.usefixtures("no_peers")
@pytest.mark.parametrize("module", CASES, ids=lambda module: module.__name__)
def test_both_sides_agree_and_each_is_measured(module: ModuleType) -> None:
    reports: Sequence[Report] = module.benchmark(TEXTS, 2)
    assert len(reports) == {clean: 4, content: 4, encode: 2, vocabulary: 2}.get(module, 1)
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
        "signatures",
        altered(make_signatures, lambda batch: batch._replace(signature=batch.signature ^ np.uint32(1))),
    ),
    clean: ("clean", altered(clean_column, spoil_first)),
    sentences: (
        "sentence_offsets",
        altered(sentence_offsets, lambda found: (found[0], found[1] - (found[1] > 20), found[2])),
    ),
    rules: ("reasons", altered(reasons, lambda codes: codes + (codes == 0))),
    vocabulary: (
        "train_wordpiece",
        lambda counts, settings: train_wordpiece(counts, replace(settings, limit_alphabet=5)),
    ),
    encode: ("Encoder", SpoiltEncoder),
    pairs: (
        "build_pairs",
        altered(build_pairs, lambda built: (built[0]._replace(label=1 - built[0].label), built[1])),
    ),
    masks: (
        "draw_masks",
        altered(draw_masks, lambda drawn: drawn._replace(positions=drawn.positions ^ np.uint16(1))),
    ),
    loader: ("gather_plain", altered(gather_plain, lambda found: replace(found, ids=found.ids + 1))),
    content: ("content_of", lambda table: Content(table.num_rows, table.num_rows**2)),
}


@pytest.mark.usefixtures("no_peers")
@pytest.mark.parametrize("module", SPOILT, ids=lambda module: module.__name__)
def test_a_difference_ends_the_benchmark(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    name, spoilt = SPOILT[module]
    monkeypatch.setattr(module, name, spoilt)
    with pytest.raises(AssertionError, match=r"differ|depends"):
        module.benchmark(TEXTS, 1)


def test_wikitext_is_compared_by_its_words() -> None:
    [report] = wikitext.benchmark(PAGES, 1)
    assert [row.name for row in report.rows] == ["wikitext_to_text", "mwparserfromhell, parse and strip_code"]
    # The number is in ours alone: the other drops templates, and keeps the reference.
    ours, theirs = wikitext_to_text(PAGES[2]), wikitext.strip_code(PAGES[2])
    assert ours == "Page 2 is a town of 2,000 people."
    assert wikitext.f_measure([ours], [ours]) == 1.0
    assert 0.5 < wikitext.f_measure([ours], [theirs]) < 1.0


def test_pages_come_from_the_shipped_sample_or_a_dump(tmp_path: Path) -> None:
    sample = wikitext.load_pages(None, 100)
    assert len(sample) > 30 and not any(is_redirect(page) for page in sample)
    titled = "<page><title>A{0}</title><id>{0}</id><revision><text>{1}</text></revision></page>"
    texts = ["One page.", "#REDIRECT [[A1]]", "", "Another page."]
    pages = "".join(titled.format(number, text) for number, text in enumerate(texts))
    (tmp_path / "small.xml").write_text(f"<mediawiki>{pages}</mediawiki>")
    assert wikitext.load_pages(tmp_path, 1) == ["One page.", "Another page."]


def test_the_masks_of_transformers_are_measured_where_it_is_installed() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    [report] = masks.benchmark(TEXTS, 1)
    assert report.rows[-1].name == "DataCollatorForLanguageModeling"


@pytest.mark.usefixtures("no_peers")
def test_the_masks_say_that_transformers_is_not_installed() -> None:
    [report] = masks.benchmark(TEXTS, 1)
    assert "not installed" in report.notes[-1]


def test_what_fills_a_budget_is_told_of_every_kind_of_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a kind is left out, or padding to the longest is not told from examples end to end."""
    for name, value in {"BATCH": 3, "RANKS": 1, "BUDGET": 2048}.items():
        monkeypatch.setattr(budgets, name, value)
    reports = budgets.benchmark(TEXTS, 1)
    assert [report.title.split(": ")[2].split(",")[0] for report in reports] == [
        "tickets", "pairs of 128", "pairs of 512",
    ]  # fmt: skip
    for report in reports:
        assert [row.name for row in report.rows] == ["cut_step", "definition (cut_plain)"]
        assert [note.split(":")[0] for note in report.notes[1:]] == [name for name, _ in budgets.WAYS]
        assert "end to end: 0.0% padding" in report.notes[2] and "0.0% padding" not in report.notes[3]
    monkeypatch.setattr(budgets, "cut_plain", lambda *given: ([], []))
    with pytest.raises(AssertionError, match="cuts differ"):
        budgets.benchmark(TEXTS, 1)


def test_the_runs_are_timed_stage_by_stage() -> None:
    texts = [prose(seed, 20) for seed in range(5)]
    for report, documents in zip(run.benchmark(texts, 1), (30, 4), strict=True):
        assert [row.name for row in report.rows] == [run.WHOLE, *run.BUILT]
        assert all(row.median > 0 for row in report.rows)
        assert sum(row.median for row in report.rows[1:]) <= report.rows[0].median
        assert report.amounts["documents"] >= documents


def test_a_run_that_ends_in_other_shards_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, once = count(), run.run_once

    def wavering(*arguments: Any) -> run.Timed:
        timed = once(*arguments)
        shards = replace(timed.outcome.shards, name=f"shards {next(numbers)}")
        return replace(timed, outcome=replace(timed.outcome, shard_sets={"": shards}))

    monkeypatch.setattr(run, "run_once", wavering)
    with pytest.raises(AssertionError, match="other shards"):
        run.benchmark([prose(seed, 20) for seed in range(3)], 1)


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
    monkeypatch.setattr(measuring, "LEAST_SECONDS", 0.02)
    calls: list[int] = []
    seconds = measuring.cpu_seconds(calls.append, count())
    assert len(calls) > 100
    assert 0.019 < seconds * len(calls) < 1  # the time of all of them: one would be a hundredth of the least


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


def test_the_text_that_any_machine_has() -> None:
    texts = measuring.load_texts(None, 0.1)
    assert 0.05 < measuring.size_mb(texts) < 0.2
    assert measuring.size_mb(measuring.cleaned([*texts, " \n "])) < 0.2
    assert len(measuring.cleaned([*texts, " \n "])) == len(texts)


def test_a_folder_without_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with pytest.raises(InputError, match=r"no \.txt file"):
        measuring.load_texts(tmp_path, 1)
    monkeypatch.setattr("sys.argv", ["rules.py", "--text", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        measuring.main(rules.benchmark)
    assert ended.value.code == 2
    assert "no .txt file" in capsys.readouterr().err


def test_the_command_prints_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["rules.py", "--text", str(tmp_path), "--rounds", "3"])
    measuring.main(rules.benchmark)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("rules: ") and printed[0].endswith(" documents, medians of 3 rounds")
    assert printed[2].split()[0] == "reasons" and printed[2].split()[-1] == "1.00"


def test_a_call_goes_on_record_and_calls_come_back_as_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Fails where a call is lost, overwrites another, or a range leaves one out."""
    monkeypatch.setattr(record, "RECORD", tmp_path / "figures.jsonl")
    (tmp_path / "a.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["rules.py", "--text", str(tmp_path), "--rounds", "1", "--record"])
    measuring.main(rules.benchmark)
    measuring.main(rules.benchmark)
    calls = record.read_calls(tmp_path / "figures.jsonl")
    assert [(call["benchmark"], call["text"], call["megabytes"]) for call in calls] == [
        ("rules", tmp_path.name, 2.0)
    ] * 2
    assert all(0 <= call["others"] <= 1 and call["processor"] for call in calls)
    of_twin = [call["reports"][0]["rows"][1]["times"] for call in calls]
    [row] = [line for line in figures.tables(calls) if "definition (judge)" in line]
    assert row.split(" | ")[3] == figures.extent(of_twin)
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if "definition" in line]
    assert [float(fields[-1]) for fields in shown[:2]] == of_twin


def test_calls_on_other_texts_are_not_one_range() -> None:
    """Fails where a figure of 2 MB and one of 32 MB, or of another text, make one range."""

    def call(text: str, megabytes: float, times: float) -> dict[str, Any]:
        rows = [{"name": "ours", "speed": 10.0, "times": 1.0}, {"name": "theirs", "times": times}]
        reports = [{"what": "steps", "unit": "MB", "rows": rows}]
        return {"date": "2026-01-02", "benchmark": "steps", "text": text, "megabytes": megabytes, "others": 0.25,
                "reports": reports}  # fmt: skip

    calls = [
        call("books", 2, 7.0),
        call("books", 32, 9.0),
        call("books", 2, 5.0),
        {**call("mail", 2, 1.0), "noted": "once"},
    ]
    assert [line for line in figures.tables(calls) if "theirs" in line] == [
        "| | theirs | | 5 to 7 | |",
        "| | theirs | | 9 | |",
        "| | theirs | | 1 | |",
    ]
    assert [line for line in figures.tables(calls) if "ours" in line] == [
        "| steps; books, 2 MB | ours | 10 | 1 | 2026-01-02 (others 25%) |",
        "| steps; books, 32 MB | ours | 10 | 1 | 2026-01-02 (others 25%) |",
        "| steps; mail, 2 MB | ours | 10 | 1 | 2026-01-02 (once) |",
    ]


def test_the_page_has_the_tables_of_the_record() -> None:
    """Fails where a call was put on record and the page was not written again, or a table was edited by hand."""
    page = figures.PAGE.read_text(encoding="utf-8")
    assert figures.page_with(page, record.read_calls()) == page


@pytest.mark.parametrize("name", ["measuring", "figures", "wikitext", "sentences"])
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"benchmarks.{name}"))
    assert result.attempted and not result.failed


def test_the_memory_of_verdicts_is_that_of_all_documents(tmp_path: Path) -> None:
    """Fails where documents are dropped before they are judged, so that their memory is not counted."""
    verdict_memory.write_documents(tmp_path / "texts.jsonl", 40)
    assert [verdict_memory.judge(tmp_path, kind) for kind in ("signatures", "verdicts")] == [40, 40]


def test_the_memory_of_labelled_rows_is_that_of_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails where the table is not repeated to the number that is asked for, or its pairs are read as texts."""
    write_model(tmp_path)
    (tmp_path / "rows.tsv").write_text("a\tb\tlabel\na film\tgood\tx\nthe film\tgood\ty\n", encoding="utf-8")
    called = ["--model", str(tmp_path), "--column", "text=a", "--column", "second=b", "--rows", "5"]
    task_memory.main([*called, str(tmp_path / "rows.tsv")])
    found = json.loads(capsys.readouterr().out)
    assert {name: found[name] for name in ("rows", "items", "tokens", "text_bytes")} == {
        "rows": 5, "items": 5, "tokens": 5 * 6, "text_bytes": 3 * len("a filmgood") + 2 * len("the filmgood"),
    }  # fmt: skip
    assert found["peak_bytes"] >= found["begun_bytes"] > 0


def test_the_cluster_is_measured_on_the_same_files(tmp_path: Path) -> None:
    """Fails where two measurements read different texts, or less than was asked for."""
    for name in ("one", "other"):
        cluster.write_notes(tmp_path / name, 100_000)
    one, other = ({path.name: path.read_bytes() for path in (tmp_path / n).iterdir()} for n in ("one", "other"))
    assert one == other and sum(map(len, one.values())) >= 100_000


def test_the_texts_of_the_first_contact_are_the_same_each_time(tmp_path: Path) -> None:
    """Fails where the texts hang on anything but the seed, are alike, or are not as many as asked for."""
    for name in ("one", "two"):
        first_contact.write_texts(tmp_path / name, 30_000)
    files = {name: sorted((tmp_path / name).rglob("*.txt")) for name in ("one", "two")}
    texts = {name: [path.read_text() for path in paths] for name, paths in files.items()}
    assert texts["one"] == texts["two"] and len(texts["one"]) == len(set(texts["one"])) == 23
    assert sum(map(len, texts["one"][:3])) >= 30_000


def test_a_command_is_measured_with_what_it_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails where a command's CPU seconds are not its own, or a failed one goes unsaid."""
    asked = first_contact.Step(name="help", arguments=("--help",))
    failed = first_contact.Step(name="nothing", arguments=("report", "nothing-there"))
    environment = {**os.environ, "CLOZE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(first_contact.PAGE.parents[1])}
    rows = [first_contact.timed(step, tmp_path, environment) for step in (asked, failed)]
    assert rows[0]["code"] == 0 and 0 < rows[0]["cpu"] and rows[1]["code"] == 2
    assert capsys.readouterr().err.startswith("nothing: cloze: ")


def test_the_table_of_the_first_contact_is_that_of_its_record() -> None:
    """Fails where a figure on the page is not on record, or a step is missing from a call."""
    page, calls = first_contact.PAGE.read_text(encoding="utf-8"), record.read_calls(first_contact.RECORD)
    assert first_contact.page_with(page, calls) == page and calls
    assert all([row["name"] for row in call["rows"]] == [step.name for step in first_contact.STEPS] for call in calls)


def test_all_learn_from_the_same_text_and_the_student_twice(tmp_path: Path) -> None:
    """Fails where a model is tuned by itself, or the student alone is another one than the one that is taught."""
    (tmp_path / "text").mkdir()
    for seed in range(40):
        (tmp_path / "text" / f"{seed}.txt").write_text(prose(seed), encoding="utf-8")
    place = Place(str(tmp_path / "store"))
    built = curves.build_shards(place, tmp_path / "text", tmp_path)
    untaught = [entry for entry in curves.ENTRIES if not entry.teacher]
    jobs = {entry.name: curves.plan(place, built, entry, 0.01, {}).parts[0].job for entry in untaught}
    first = jobs["bert"]
    assert {job.model.family for job in jobs.values()} == {*FAMILIES}
    alike = [(job.shards, job.vocabulary, replace(job.training, phase=first.training.phase)) for job in jobs.values()]
    assert len({training.schedule for _, _, training in alike}) == 1
    assert all(each[:2] == alike[0][:2] for each in alike)
    taught, begun = (entry for entry in curves.ENTRIES if entry.teacher)
    teacher = Start(folder="somewhere", files={})
    told, untold = (entry.settings({"bert": teacher}) for entry in (taught, begun))
    assert told.objective == {"kind": "distillation", "teacher": "somewhere"}
    alone = jobs[taught.behind[0]]
    assert taught.behind == ("student alone", begun.name) and told.layers < first.model.layers
    assert replace(told, objective=None) == replace(untold, objective=None) == alone.model
    assert taught.steps == begun.steps == 100 * alone.training.steps and len({taught.rate, begun.rate}) == 1


def test_curves_say_what_was_reached_and_when() -> None:
    """Fails where a goal counts that was not reached, or a model that is behind counts as ahead."""
    found = [
        learnt("bert", [0.02, 0.11, 0.14]),
        learnt("distilbert", [0.03, 0.08, 0.09]),
        learnt("student alone", [0.01, 0.02, 0.1]),
        learnt("electra", [0.0, 0.01, 0.02], [0.5, 0.69, 0.72]),
    ]
    assert [each.reached for each in found] == [20, None, 30, 30]
    bert, student, ahead, electra = curves.verdicts(found)
    assert bert.endswith("14.0% of the words, the goal is 10%: met") and student.endswith(
        "9.0% of the words, the goal is 10%: not met"
    )
    assert ahead.endswith(": not ahead") and electra == "electra: area 0.720, the goal is 0.7: met"
    rows = list(curves.table(found))[2:]
    assert rows[0] == "| bert | 1,000 | 30 | 5 | 4.000 | 5.000 | 14.0% of 50 | | 20 |"
    assert rows[1].endswith("| not reached |") and "| 0.720 |" in rows[3]
    page = curves.page(found, ["<of a text>"])
    assert page.count("<svg") == 3 + len(found) and "&lt;of a text&gt;" in page


def learnt(name: str, words: Sequence[float], areas: Sequence[float] = ()) -> curves.Trained:
    """A model with an evaluation every ten steps."""
    [entry] = [entry for entry in curves.ENTRIES if entry.name == name]
    events: list[dict[str, Any]] = []
    for number, right in enumerate(words, 1):
        said = {"step": 10 * number, "phase": 1, "masked_loss": 7.0 - number}
        area = {"replaced_auc": areas[number - 1]} if areas else {}
        measured = {"unigram_entropy": 5.0, "rare_word_accuracy": right, "rare_words": 50, **area}
        events += [{"event": "step", **said, "learning_rate": 1e-3}, {"event": "evaluation", **said, **measured}]
    events.append({"event": "done", "step": 10 * len(words), "parameters": 1_000, "tokens": 100})
    return curves.Trained(entry=entry, seconds=5.2, events=events)


def test_a_text_that_is_absent_is_told(tmp_path: Path) -> None:
    """Fails where a machine without the text is an error, or anything is written there."""
    told: list[str] = []
    assert curves.main(["--text", str(tmp_path / "none"), "--out", str(tmp_path / "out")], told.append) == 0
    assert "nothing is trained" in told[0] and not (tmp_path / "out").exists()
