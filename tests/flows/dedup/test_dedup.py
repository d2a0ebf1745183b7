"""`cloze dedup`: the right rows stay, with all that they had; bad input costs one row or one paragraph."""

import errno
import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_recipe import prose

from corpora.duplicates.signatures import compute_band_keys, compute_signatures, compute_text_keys
from corpora.duplicates.survivors import judge_duplicates_plain
from corpora.duplicates.verify import build_shingle_sets
from corpora.errors import InputError
from corpora.judging.steps.lines import compute_line_hash
from corpora.sources.bytes import raw_files
from corpora.text.shingles import hash_text_shingles
from flows.dedup import columns, output, parts, run, sketches
from flows.dedup.run import DedupOutcome, DedupSettings, dedup

LONG = prose(1, 12)
LONGER = f"{LONG} The lamp was lit again before the storm."


def put(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def run_on(folder: Path, rows: Sequence[Any], **chosen: Any) -> tuple[list[Any], list[Any], DedupOutcome]:
    """(what stays, what goes, the outcome) of rows of JSON lines."""
    given = put(folder / "in.jsonl", rows)
    outcome = dedup([str(given)], folder / "out.jsonl", DedupSettings(**chosen), 1)
    kept, removed = (read(folder / name) for name in ("out.jsonl", "out.removed.jsonl"))
    assert outcome.kept == len(kept) and outcome.rows == len(kept) + sum(outcome.removed.values())
    return kept, removed, outcome


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def texts(*all_of_them: str | None) -> list[Mapping[str, Any]]:
    return [{"id": number, "text": text} for number, text in enumerate(all_of_them)]


def ids(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def test_a_row_says_whose_copy_it_was(tmp_path: Path) -> None:
    """Fails if a line changes on its way, or a removal is not explained by the two texts."""
    lines = [f'{{ "text":{json.dumps(text)},"n":1e2}}' for text in (prose(2), LONG, LONG, LONGER)]
    kept, removed, outcome = run_on(tmp_path, lines)
    assert (tmp_path / "out.jsonl").read_text().splitlines() == lines[:2] and len(kept) == 2
    given = str(tmp_path / "in.jsonl")
    exact, near = removed
    told = {key: exact[key] for key in columns.ADDED_COLUMNS}
    expected = ["exact duplicate", f"{given}:2", 1.0, 0.0]
    assert told == dict(zip(columns.ADDED_COLUMNS, [given, 3, *expected], strict=True))
    one, other = hash_text_shingles(LONGER), hash_text_shingles(LONG)
    assert (near["row"], near["reason"], near["survivor"]) == (4, "near duplicate", f"{given}:2")
    assert near["similarity"] == pytest.approx(len(one & other) / len(one | other))
    assert near["missing"] == pytest.approx(len(one - other) / len(one))
    assert outcome.missing == (pytest.approx(near["missing"]),) * 2


@pytest.mark.parametrize(
    ("chosen", "stay"),
    [
        ({}, [0, 3]),
        ({"keep": "longest"}, [2, 3]),
        ({"keep": "none"}, [3]),
        ({"exact_only": True}, [0, 2, 3]),
        ({"exact_only": True, "keep": "none"}, [2, 3]),
        ({"rule": "contained"}, [0, 2, 3]),
        ({"rule": "contained", "keep": "longest"}, [2, 3]),
        ({"threshold": 0.99}, [0, 2, 3]),
    ],
)
def test_who_stays(tmp_path: Path, chosen: dict[str, Any], stay: list[int]) -> None:
    """Two copies, a longer telling of them, and a stranger."""
    kept, removed, _ = run_on(tmp_path, texts(LONG, LONG, LONGER, prose(3)), **chosen)
    assert sorted(ids(kept)) == stay
    survivors = {row["survivor"] for row in removed if row["reason"] != "has duplicates"}
    places = {f"{tmp_path / 'in.jsonl'}:{id + 1}" for id in stay}
    assert survivors <= places or chosen.get("keep") == "none"


def test_a_copy_of_what_is_removed_has_its_survivor(tmp_path: Path) -> None:
    """Fails if a survivor is a row that is not kept."""
    _, removed, _ = run_on(tmp_path, texts(LONG, LONGER, LONGER), id="id")
    assert [(row["reason"], row["survivor"]) for row in removed] == [("near duplicate", "0")] * 2


def test_copies_in_other_groups_stay(tmp_path: Path) -> None:
    rows = [{"id": n, "text": text, "shop": shop} for n, (text, shop) in enumerate([(LONG, 1), (LONG, 2), (LONGER, 1)])]
    kept, _, _ = run_on(tmp_path, rows, within="shop")
    assert ids(kept) == [0, 1]


@pytest.mark.parametrize("copy", [LONG, LONGER])
def test_what_another_corpus_has_goes(tmp_path: Path, copy: str) -> None:
    """Fails if the other corpus is judged itself: of its near copies each must count."""
    other = put(tmp_path / "other.jsonl", texts(prose(4), LONG, LONG, LONGER))
    kept, removed, outcome = run_on(tmp_path, texts(copy, prose(5)), against=str(other))
    assert ids(kept) == [1] and outcome.rows == 2 and outcome.text_bytes == len(copy) + len(prose(5))
    assert removed[0]["survivor"] == f"{other}:{2 if copy == LONG else 4}"


def test_an_empty_file_makes_an_empty_output(tmp_path: Path) -> None:
    assert run_on(tmp_path, [])[:2] == ([], [])


def test_rows_without_words_are_compared_by_their_bytes(tmp_path: Path) -> None:
    """Empty, shorter than a shingle, without a letter, null, absent, no text, no JSON, half a character."""
    rows = [*texts("", "", "Hm", "Hm", "?!", "!?", None, None), {"id": 8}, {"id": 9, "text": 5}, "{broken", ""]
    rows += ['{"id": 10, "text": "\\ud800 half"}']
    kept, removed, outcome = run_on(tmp_path, rows)
    assert ids(kept) == [0, 2, 4, 5, 6, 7, 8, 9, 10]
    assert [row["reason"] for row in removed] == ["exact duplicate"] * 2 + ["unreadable"]
    assert removed[2]["raw"] == "{broken" and outcome.without_text == 4


SAID = ["The lamp was lit again before the storm came in", "Café", "?!", "- -", ""]
TEXTS = st.builds(
    lambda said, marks, upper: f"{(said.upper() if upper else said)}{marks}",
    st.lists(st.sampled_from(SAID), max_size=3).map(" ".join),
    st.sampled_from(["", ".", " ..", "\u0301"]),
    st.booleans(),
)


@given(st.lists(TEXTS, min_size=1, max_size=12), st.booleans())
@settings(max_examples=25, deadline=None)
def test_rows_go_by_the_rule_of_the_engine(some: list[str], exact_only: bool) -> None:
    """Copies are of the same words, or of the same bytes if there are none: as a store's documents, by one rule.

    Fails where one door knows another exact copy than the other does, or asks for other bytes than it says.
    """
    chosen = DedupSettings(exact_only=exact_only)
    column, rule = pa.array(some, pa.large_string()), chosen.to_duplicate_settings()
    sketch = compute_signatures(column, rule.signature)
    hashes = np.array([2 + some.index(text) for text in some], np.uint64)
    by_bytes = np.flatnonzero((sketch.num_shingles == 0) | exact_only)
    set_hash, keys = sketch.set_hash.copy(), compute_band_keys(sketch.signature, rule.band)
    set_hash[by_bytes], keys[by_bytes] = compute_text_keys(np.stack([hashes, hashes], axis=1)[by_bytes], rule.bands)
    sets = build_shingle_sets(
        pa.array([""] * len(some), pa.large_string()) if exact_only else column, rule.shingle_words
    )
    verdicts = judge_duplicates_plain(set_hash, keys, sets, rule)
    with TemporaryDirectory() as name:
        _, removed, _ = run_on(Path(name), texts(*some), exact_only=exact_only, id="id")
    told = {row["id"]: (row["reason"] == "exact duplicate", int(row["survivor"])) for row in removed}
    gone = np.flatnonzero(verdicts.survivor >= 0).tolist()
    assert told == {row: (bool(verdicts.exact[row]), int(verdicts.survivor[row])) for row in gone}


def test_half_a_character_names_a_row_and_a_group(tmp_path: Path) -> None:
    lines = [
        f'{{"id": "\\ud800{number}", "by": "{by}", "text": "{LONG}"}}' for number, by in enumerate(["\\ud800", "b"] * 2)
    ]
    kept, removed, _ = run_on(tmp_path, lines, id="id", within="by")
    assert [row["survivor"] for row in removed] == ["\\ud8000", "\\ud8001"] and len(kept) == 2


def test_columns_of_all_files_are_kept(tmp_path: Path) -> None:
    """JSON, gzip, CSV and Parquet in one folder: values as they came, text where types differ."""
    folder = tmp_path / "in"
    folder.mkdir()
    put(folder / "a.jsonl", [{"text": LONG, "n": 1, "mixed": 7, "meta": {"k": [1]}, "reason": "mine"}])
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps({"text": prose(7), "n": 0.5, "mixed": "x"}).encode()))
    (folder / "c.csv").write_text(f'text,mixed\n"{LONG}",8\n"{prose(8)}",9\n')
    table = pa.table({"text": [prose(9), LONGER], "n": [5, 6], "day": pa.array([1, 2], pa.date32())})
    pq.write_table(table, folder / "d.parquet")
    dedup([str(folder)], tmp_path / "out", DedupSettings(), 1)
    kept, removed = (pq.read_table(tmp_path / "out" / side).to_pylist() for side in ("kept", "removed"))
    assert [row["text"] for row in kept] == [LONG, prose(7), prose(8), prose(9)]
    assert [row["n"] for row in kept] == [1.0, 0.5, None, 5.0]
    assert [row["mixed"] for row in kept] == ["7", "x", "9", None]
    assert kept[0]["meta"] == {"k": [1]} and kept[0]["reason"] == "mine"
    assert [row["day"] for row in kept][3] == table.column("day")[0].as_py()
    assert [row["reason_"] for row in removed] == ["exact duplicate", "near duplicate"]


def test_workers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MIN_PARALLEL_BYTES", 0)
    rows = texts(*(text for number in range(40) for text in (prose(number), f"{prose(number)} More of it.")))
    for part in (0, 1):
        put(tmp_path / f"{part}.jsonl", rows[part::2])
    made = []
    for workers in (1, 2):
        outcome = dedup([str(tmp_path / "*.jsonl")], tmp_path / f"out {workers}", DedupSettings(), workers)
        sides = (pq.read_table(tmp_path / f"out {workers}" / side) for side in ("kept", "removed"))
        made.append((outcome, *(side.to_pylist() for side in sides)))
    assert made[0] == made[1] and made[0][0].removed == {"near duplicate": 40}


def peak_of(call: str) -> tuple[int, int]:
    """The rows that stay of `call`, run as a process of its own, and its peak of memory, in MB."""
    script = f"""
import resource
from pathlib import Path
from flows.dedup.run import DedupSettings, dedup
print({call}.kept, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000)"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    kept, peak = map(int, done.stdout.split())
    return kept, peak


@pytest.mark.long
def test_a_million_equal_rows_take_little_memory(tmp_path: Path) -> None:
    """Once equal by their bytes, once by their words alone: those are compared, but not each with each."""
    for name, marks in (("same", ["."]), ("words", [".", "!", "?", "...", ";"])):
        with (tmp_path / name).with_suffix(".jsonl").open("w") as file:
            for number in range(1_000_000):
                file.write(json.dumps({"text": LONG[:300] + marks[number % len(marks)]}) + "\n")
        where, to = tmp_path / f"{name}.jsonl", tmp_path / f"{name}.out.jsonl"
        kept, peak = peak_of(f"dedup([{str(where)!r}], Path({str(to)!r}), DedupSettings(), 1)")
        assert (
            kept == 1 and peak < 1_100
        )  # of which up to 400 are pages of the file of shingles, which the system takes back


@pytest.mark.long
def test_texts_of_100_megabytes_take_a_bounded_memory(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    words = np.array([f"w{number}" for number in range(100_000)])
    text = " ".join(words[chance.integers(0, len(words), 15_000_000)].tolist())
    put(tmp_path / "in.jsonl", [{"text": text}, {"text": LONG}, {"text": f"{text} And more."}])
    where, to = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    kept, peak = peak_of(f"dedup([{str(where)!r}], Path({str(to)!r}), DedupSettings(), 1)")
    assert kept == 2 and peak < 4_000


def test_hashes_that_are_all_equal_remove_nothing_on_their_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one key and one set hash for all rows, what is removed is what the texts say."""
    made, ones = sketches.compute_signatures, np.ones(4, np.uint64)
    monkeypatch.setattr(sketches, "compute_signatures", lambda *of: made(*of)._replace(set_hash=ones))
    monkeypatch.setattr(sketches, "compute_band_keys", lambda _, settings: np.ones((4, settings.bands), np.uint64))
    kept, _, _ = run_on(tmp_path, texts(LONG, prose(11), LONGER, prose(12)))
    assert ids(kept) == [0, 1, 3]


def test_what_a_killed_run_left_goes_with_the_next(tmp_path: Path) -> None:
    """Fails if hidden folders gather, or where what was half written is taken for the output."""
    (tmp_path / ".out.jsonl.tmp").mkdir()
    (tmp_path / ".out.jsonl.tmp" / "out.jsonl").write_text('{"text": "half a')
    kept, _, _ = run_on(tmp_path, texts(LONG))
    assert ids(kept) == [0] and not list(tmp_path.glob(".*"))


def test_a_removed_line_is_the_very_line_with_the_reason(tmp_path: Path) -> None:
    """Fails if numbers or escapes change, or where a survivor that is called so makes a row unreadable."""
    lines = [f'{{"text": {json.dumps(LONG)}, "n": 1e2, "reason": "\\u00e9", "id": "unreadable"}}'] * 2
    _, [removed], _ = run_on(tmp_path, lines, id="id")
    assert (tmp_path / "out.removed.jsonl").read_text().startswith(lines[0][:-1] + ', "file":')
    assert (removed["reason"], removed["reason_"], removed["survivor"]) == ("é", "exact duplicate", "unreadable")


@pytest.mark.parametrize("held_bytes", [0, 4_000, 1 << 30])
def test_shingles_are_held_or_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_bytes: int) -> None:
    """Of no row, of the first ones, of all: fails where a block of sets has those of other rows."""
    monkeypatch.setattr(run, "MAX_CACHE_BYTES", held_bytes)
    monkeypatch.setattr(sketches, "BLOCK_SHINGLES", 300)
    monkeypatch.setattr(raw_files, "BLOCK_BYTES", 300)
    rows = texts(LONG, "?!", prose(11), LONGER, "?!", f"{prose(11)} It rained.", prose(13), LONG.upper())
    kept, removed, _ = run_on(tmp_path, rows, id="id")
    assert ids(kept) == [0, 1, 2, 6] and not list(tmp_path.glob(".*"))
    assert [(row["id"], row["survivor"], row["similarity"] == 1) for row in removed] == [
        (3, "0", False), (4, "1", True), (5, "2", False), (7, "0", True)
    ]  # fmt: skip


def test_recall_on_planted_pairs_is_that_of_the_curve(tmp_path: Path) -> None:
    """Fails if sketches or bands miss what they promise to find; in a script without spaces, too."""
    chance = np.random.default_rng(1)
    chinese = ["".join(map(chr, page)) for page in chance.integers(0x4E00, 0x5200, (40, 300)).tolist()]
    for rows in (texts(*(prose(number, 20) for number in range(60))), texts(*chinese)):
        _, _, outcome = run_on(tmp_path, rows)
        assert outcome.recall is not None and outcome.recall.pairs > 50
        assert outcome.recall.theory > 0.99
        assert outcome.recall.found == pytest.approx(outcome.recall.theory, abs=0.03)
        for name in ("out.jsonl", "out.removed.jsonl"):
            (tmp_path / name).unlink()


SONG = ["We met by the river.", "Sent from my phone", "", "We met by the river.", "It was late."]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_lines_of_earlier_rows_are_cut_out_of_later_ones(tmp_path: Path, kind: str) -> None:
    """Fails if a row's own repetition goes, where what is left has other bytes, or what is cut is lost."""
    rows = [
        {"id": 0, "text": "\n".join(SONG), "n": 3},
        {"id": 1, "text": "  New é.\n\nSENT from my phone \nMore\n\nIt was late.\n", "n": 7},
        {"id": 2, "text": "Sent from my phone\n It was late."},
        {"id": 3, "text": "Nothing of it.\n"},
    ]
    given = put(tmp_path / "in.jsonl", rows)
    if kind == "parquet":
        given = tmp_path / "in.parquet"
        pq.write_table(pa.Table.from_pylist(rows), given)
    outcome = dedup([str(given)], tmp_path / f"out.{kind}", DedupSettings(parts="lines"), 1)
    kept, removed = (
        read(path) if kind == "jsonl" else pq.read_table(path).to_pylist()
        for path in (tmp_path / f"out.{kind}", tmp_path / f"out.removed.{kind}")
    )
    assert [row["text"] for row in kept] == [rows[0]["text"], "  New é.\n\nMore", "Nothing of it.\n"]
    assert kept[1]["n"] == 7
    assert [(row["id"], row["reason"], row["text"]) for row in removed] == [
        (1, "parts cut out", "SENT from my phone \nIt was late."),
        (2, "nothing new", rows[2]["text"]),
    ]
    assert (outcome.parts_cut, outcome.kept, outcome.removed) == (2, 3, {"nothing new": 1})


@pytest.mark.parametrize(("chosen", "cut"), [({}, [1, 2]), ({"within": "by"}, [2])])
def test_paragraphs_are_cut_within_a_group(tmp_path: Path, chosen: dict[str, Any], cut: list[int]) -> None:
    rows = [{"id": n, "by": by, "text": f"New {n}.\n\nOld\nlines."} for n, by in enumerate("aba")]
    kept, removed, _ = run_on(tmp_path, rows, parts="paragraphs", **chosen)
    assert ids(removed) == cut and [row["text"] for row in kept if row["id"] in cut] == [f"New {n}." for n in cut]


def test_what_another_corpus_has_is_cut_in_one_that_nests_its_texts(tmp_path: Path) -> None:
    other = put(tmp_path / "other.jsonl", [{"data": {"text": "Sent from my phone"}}])
    rows = [{"id": 0, "data": {"text": "Hello.\nSent from my phone\nSent from my phone", "n": 1}}]
    [kept], _, _ = run_on(tmp_path, rows, parts="lines", text="data.text", against=str(other))
    assert kept["data"] == {"text": "Hello.", "n": 1}


@given(st.lists(st.text(st.sampled_from("aB \n\r\té"), max_size=20), max_size=6), st.sampled_from(parts.PART_KINDS[1:]))
@settings(max_examples=200, deadline=None)
def test_parts_are_those_of_a_regular_expression(some: list[str], kind: str) -> None:
    """The kernel and its plain twin: where parts are, which are equal, and what is left of a text."""
    hashes, spans, counts = parts.find_parts(pa.array(some, pa.large_string()), kind)
    space = "".join(map(chr, range(33)))
    apart = "\n" if kind == "lines" else r"\n[\0-\x09\x0b-\x20]*\n"
    expected = [[part.strip(space) for part in re.split(apart, text) if part.strip(space)] for text in some]
    assert counts.tolist() == [len(each) for each in expected]
    at = 0
    for text, own in zip(some, expected, strict=True):
        places = spans[at : at + len(own)].tolist()
        assert [text.encode()[begin:end].decode() for begin, end in places] == own
        assert hashes[at : at + len(own)].tolist() == [compute_line_hash(part) for part in own]
        if own:
            left, taken = parts.remove_parts(text, places, [True, *[False] * (len(own) - 1)])
            assert (left.strip(space), taken) == (text.strip(space)[len(own[0]) :].strip(space), own[0])
        at += len(own)


@pytest.mark.parametrize("chosen", [{}, {"id": "day"}, {"within": "day"}])
@pytest.mark.parametrize("name", ["out", "out.jsonl"])
def test_a_time_beyond_pythons_is_written_as_it_came(tmp_path: Path, name: str, chosen: dict[str, Any]) -> None:
    """Fails if a row with such a time ends the command, or is written without it."""
    days = pa.array([1, 10**8, 3, 10**8], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"text": [LONG, prose(2), prose(3), prose(2)], "day": days}), tmp_path / "in.parquet")
    outcome = dedup([str(tmp_path / "in.parquet")], tmp_path / name, DedupSettings(**chosen), 1)
    assert outcome.removed == {"exact duplicate": 1}
    if name == "out":
        assert pq.read_table(tmp_path / "out" / "kept").column("day").cast(pa.int32()).to_pylist() == [1, 10**8, 3]
    else:
        assert [row["day"][-10:] for row in read(tmp_path / name)] == ["1970-01-02", "100000000>", "1970-01-04"]


@pytest.mark.parametrize(
    ("name", "make", "chosen", "message"),
    [
        ("in.parquet", lambda p: p.write_bytes(b"PAR1 nothing"), {}, "no Parquet file"),
        ("in.parquet", lambda p: pq.write_table(pa.table({"n": [1]}), p), {}, "no column 'text'"),
        ("in.parquet", lambda p: pq.write_table(pa.table({"text": [1]}), p), {}, "holds no text"),
        ("in.jsonl", lambda p: put(p, [{"n": 1}]), {}, "No row of 1 has a text"),
        ("in.jsonl", lambda p: put(p, texts(LONG)), {"text": "body"}, "No row of 1 has a text under 'body'"),
        ("in.csv", lambda p: p.write_text("a,b\n1,2\n"), {"text": "c"}, "'c'"),
        ("in.jsonl", lambda p: put(p, texts(LONG)), {"keep": "all"}, "--keep = 'all' is not known"),
        ("in.jsonl", lambda p: put(p, texts(LONG)), {"threshold": 1.5}, "no similarity to compare with"),
        ("none.jsonl", lambda p: None, {}, r"^There is no \S+none.jsonl\. Give a file with one of the endings"),
        (".", lambda p: None, {}, r"^Nothing in \S+ can be read: .*\. Give a file"),
        ("in.jsonl", lambda p: put(p, texts(LONG)), {"parts": "words"}, "--parts = 'words' is not known"),
    ],
)
def test_what_cannot_be_done_is_said(
    tmp_path: Path, name: str, make: Any, chosen: dict[str, Any], message: str
) -> None:
    """And nothing is left where the output would be."""
    (tmp_path / "raw").mkdir()
    make(tmp_path / "raw" / name)
    with pytest.raises(InputError, match=message):
        dedup([str(tmp_path / "raw" / name)], tmp_path / "out", DedupSettings(**chosen), 1)
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


@pytest.mark.parametrize("name", ["out", "out.jsonl", "out.removed.jsonl"])
def test_nothing_is_replaced(tmp_path: Path, name: str) -> None:
    given = put(tmp_path / "in.jsonl", texts(LONG))
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=r"exists already|is not a folder"):
        dedup([str(given)], tmp_path / name.replace(".removed", ""), DedupSettings(), 1)
    assert (tmp_path / name).read_text() == "mine"


def test_a_full_disk_is_a_paragraph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object, *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(output.RowWriter, "write", full)
    given = put(tmp_path / "in.jsonl", texts(LONG))
    with pytest.raises(InputError, match="the disk is full: free some space, or give another folder"):
        dedup([str(given)], tmp_path / "out", DedupSettings(), 1)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_disk_without_room_for_scratch_is_a_paragraph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a recipe's store is spoken of, which is none of this command, or a file is left."""
    given = put(tmp_path / "in.jsonl", texts(LONG, LONGER))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(InputError, match=r"Cannot write scratch in .*: the disk is full: free some space, or write to"):
        dedup([str(given)], tmp_path / "out", DedupSettings(), 1)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
