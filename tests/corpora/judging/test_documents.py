"""The documents stage: what each step drops, in which order, and that batches and parts change no row."""

import errno
import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from corpora.errors import InputError, UnreadableFile
from corpora.judging import documents as documents_module
from corpora.judging.batches import STEPS, judge_records
from corpora.judging.documents import check_damage, iter_batches, name_file_in_errors, plan_documents
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.added import PLACES
from corpora.judging.steps.rules import GopherRules, RulesSettings, compute_quality
from corpora.schema import Locator, compute_keyed_id
from corpora.sources.bytes.faults import DamagedBytes
from corpora.sources.contract import Drop, RawFile, Record, StatCache, hash_files
from corpora.sources.files.source import FilesSource
from corpora.store.digests.content import Content, compute_content
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import build_stage, survey_stage

SETTINGS = DocumentsSettings(rules=RulesSettings(gopher=GopherRules(min_words=8)))
GOOD = "The keeper of the lighthouse and his cat watch over the bay. It is a quiet life. They have a boat with oars."
GERMAN = "Der Leuchtturmwärter und seine Katze wachen über die Bucht. Es ist ein ruhiges Leben. Sie haben ein Boot."


def record(text: str, number: int = 0, **more: Any) -> Record:
    locator = Locator(file="f", sha256="00", offset=number, length=len(text.encode()))
    return Record(locator=locator, text=text, key=f"k{number}", title=f"T{number}", **more)


def test_the_steps_name_each_table_of_their_settings_once() -> None:
    """Fails if a table of settings belongs to no step, so no recipe could have it, or to two."""
    tables = [table for step in STEPS for table in step.tables]
    defaults = DocumentsSettings()
    assert sorted(tables) == sorted(
        field.name for field in fields(defaults) if is_dataclass(getattr(defaults, field.name))
    )
    assert {*PLACES} <= {"parse", *(step.name for step in STEPS)}


def test_each_step_drops_for_its_own_reason() -> None:
    """Fails if a reason, its step or its row is mixed up with another's."""
    records = [
        record(GOOD, 0),
        record("", 1, drop=Drop("redirect", "to Bay")),
        record("\u200b \x07\n", 2),
        record(GERMAN, 3),
        record("The cat and the dog sleep.", 4),
        record(GOOD.replace("quiet", "loud"), 5),
        record(GOOD * 40, 6),
    ]
    small = DocumentsSettings(rules=SETTINGS.rules, max_document_bytes=4000)
    judged = judge_records(records, "own", small)
    assert judged.documents.column("title").to_pylist() == ["T0", "T5"]
    dropped = [(r["title"], r["step"], r["reason"], r["detail"]) for r in judged.dropped.to_pylist()]
    assert dropped == [
        ("T1", "parse", "redirect", "to Bay"),
        ("T2", "clean", "empty", None),
        ("T3", "language", "other language", "de"),
        ("T4", "rules", "gopher.min_words", "6 words"),
        ("T6", "parse", "too large", "over 4000 bytes"),
    ]
    assert Counter(judged.reasons) == Counter(f"{step}: {reason}" for _, step, reason, _ in dropped)


def test_a_limit_is_of_bytes_and_not_of_characters() -> None:
    """Fails if a text of two-byte letters slips under the limit, or one of exactly the limit is dropped."""
    text = GOOD + " Zürich."
    size = len(text.encode())
    for limit, kept in ((size, 1), (size - 1, 0)):
        chosen = DocumentsSettings(rules=SETTINGS.rules, max_document_bytes=limit)
        assert judge_records([record(text)], "own", chosen).documents.num_rows == kept


def test_rows_carry_what_the_record_said() -> None:
    """Fails if a column is shifted against its row once something between was dropped."""
    texts = [GOOD, "x", GOOD.replace("cat", "dog"), GERMAN, GOOD.replace("bay", "sea")]
    records = [record(text, n, revision=n, url=f"u{n}", group=f"g{n}") for n, text in enumerate(texts)]
    kept = judge_records(records, "own", SETTINGS).documents
    assert kept.column("text").to_pylist() == [texts[n] for n in (0, 2, 4)]
    assert kept.column("id").to_pylist() == [compute_keyed_id("own", f"k{n}") for n in (0, 2, 4)]
    for name, sign in (("url", "u"), ("group", "g"), ("title", "T")):
        assert kept.column(name).to_pylist() == [f"{sign}{n}" for n in (0, 2, 4)]
    assert kept.column("revision").to_pylist() == [0, 2, 4]
    assert set(kept.column("language").to_pylist()) == {"en"}
    assert kept.column("quality").to_pylist() == compute_quality(kept.column("text")).tolist()


KINDS = (
    GOOD,
    GERMAN,
    "",
    "\u200b",
    "Too short.",
    GOOD.replace("boat", "ship"),
    "caf\u00c3\u00a9 " + GOOD,
)


@examples(30)
@given(st.lists(st.sampled_from(KINDS), max_size=12), st.integers(0, 12))
def test_batches_change_no_row(texts: list[str], cut: int) -> None:
    """Fails if a document's fate depends on the others in its batch."""
    records = [record(text, n) for n, text in enumerate(texts)]
    whole = judge_records(records, "own", SETTINGS)
    halves = [judge_records(part, "own", SETTINGS) for part in (records[:cut], records[cut:])]
    for table in ("documents", "dropped"):
        rows = [compute_content(getattr(half, table)) for half in halves]
        assert rows[0] + rows[1] == compute_content(getattr(whole, table))
    assert whole.documents.num_rows + whole.dropped.num_rows == len(records)


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a batch grows with its input, or a record is lost between two."""
    monkeypatch.setattr(documents_module, "BATCH_ROWS", 4)
    monkeypatch.setattr(documents_module, "BATCH_BYTES", 100)
    records = [record("x" * (n * 7 % 60), n) for n in range(40)]
    batches = list(iter_batches(records))
    assert [r for batch in batches for r in batch] == records
    assert max(len(batch) for batch in batches) == 4
    assert all(sum(len(r.text) for r in batch[:-1]) < 100 for batch in batches)
    assert list(iter_batches([])) == []


@pytest.fixture
def source(tmp_path: Path) -> FilesSource:
    """Three files: ten good lines each, then one of every trouble."""
    folder = tmp_path / "raw"
    folder.mkdir()
    for file in range(3):
        lines = [json.dumps({"text": f"{GOOD} Day {file} {n}.", "id": f"{file}-{n}"}) for n in range(10)]
        odd = [
            "{",
            json.dumps({"id": "x"}),
            json.dumps({"text": " ", "id": "y"}),
            json.dumps({"text": GERMAN, "id": "z"}),
        ]
        (folder / f"{file}.jsonl").write_text("\n".join([*lines, *odd]) + "\n")
    return FilesSource(name="own", path=str(folder), fields={"text": "text", "key": "id"})


def build(source: FilesSource, folder: Path, **changes: Any) -> Manifest:
    chosen = DocumentsSettings(rules=SETTINGS.rules, **changes)
    files = hash_files(source.files(), StatCache())
    return build_stage(Place(str(folder)), plan_documents(source, files, chosen))


def test_parts_change_no_row(source: FilesSource, tmp_path: Path) -> None:
    """Fails if a cut into parts changes, drops or doubles a row."""
    one, three = build(source, tmp_path / "a", part_bytes=10**9), build(source, tmp_path / "b", part_bytes=1)
    assert (len(one.parts), len(three.parts)) == (1, 3)
    assert one.tables == three.tables and one.tables["documents"] != Content()


def test_a_part_that_is_cut_the_same_is_not_built_again(source: FilesSource, tmp_path: Path) -> None:
    """Fails if a setting that only cuts determines the bytes of a part."""
    place = Place(str(tmp_path / "store"))
    build(source, tmp_path / "store", part_bytes=1)
    files = hash_files(source.files(), StatCache())
    again = plan_documents(source, files, DocumentsSettings(rules=SETTINGS.rules, part_bytes=2))
    survey = survey_stage(place, again)
    assert survey.manifest is None and survey.missing == () and survey.num_reused == 3


def test_the_bound_on_damage(source: FilesSource, tmp_path: Path) -> None:
    """Fails if the bound is off by one, or the message lacks the counts and the key."""
    manifest = build(source, tmp_path / "store")
    check_damage(Place(str(tmp_path / "store")), manifest, DocumentsSettings(max_damaged_share=6 / 42))
    said = r"Source 'own': 6 of 42 records are damaged, more than documents\.max_damaged_share = 0\.14 allows"
    with pytest.raises(InputError, match=said):
        check_damage(Place(str(tmp_path / "store")), manifest, DocumentsSettings(max_damaged_share=0.14))


@pytest.mark.parametrize(
    ("earlier", "stops"),
    [
        ([(0, 57)], True),  # 6 of 99 are still few
        ([(0, 58)], False),  # 6 of 100
        ([(9, 100)], True),  # 15 of 151
        ([(99, 100), (0, 58)], False),  # no more are asked than it takes
        ([(0, 30), (0, 28)], False),
    ],
)
def test_a_few_records_are_judged_together_with_earlier_ones(
    source: FilesSource, tmp_path: Path, earlier: list[tuple[int, int]], stops: bool
) -> None:
    """Fails if the share of a small number stops a run, or a large number is judged by what came before it."""
    manifest, place = build(source, tmp_path / "store"), Place(str(tmp_path / "store"))
    counts = [Counter(damaged=damaged, sound=total - damaged) for damaged, total in earlier]
    with pytest.raises(InputError, match="records are damaged") if stops else nullcontext():
        check_damage(place, manifest, DocumentsSettings(max_damaged_share=0.06), counts)
    with pytest.raises(InputError, match="6 of 42 records are damaged"):
        check_damage(place, manifest, DocumentsSettings(max_damaged_share=0.06, rule_share_from=42), counts)


@pytest.mark.parametrize(
    ("said", "named"), [(OSError(errno.EIO, "Input/output error"), False), (OSError("ZSTD decompress failed"), True)]
)
def test_a_disk_that_fails_is_no_damage_of_the_file(said: OSError, named: bool) -> None:
    """Fails if a failing disk, told by a reader in its own words, has a file left out that is whole."""
    file = RawFile(name="a.warc.zst", sha256="0" * 64, size_bytes=1, path="/a.warc.zst")
    fault = DamagedBytes("its zstd stream cannot be read", 0)
    fault.__cause__ = said
    with pytest.raises(InputError) as raised, name_file_in_errors(FilesSource(name="own", path="/"), file):
        raise InputError("a.warc.zst cannot be read") from fault
    assert isinstance(raised.value, UnreadableFile) == named
