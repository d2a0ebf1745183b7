"""Stories: its three forms, the slices of each, bad stories and damaged files."""

import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_reading import raw_file, read, reasons

from corpora.errors import InputError
from corpora.sources import stories as stories_module
from corpora.sources.bytes.raw_files import Line
from corpora.sources.contract import Tally
from corpora.sources.stories import StoriesSource, find_line_start, iter_story_lines, join_lines, read_lines_around

STORIES = [
    f"Story {number} began.\nThen it went on{' and on' * (number * 37 % 30)}.\nIt ended." for number in range(60)
]


def test_a_line_is_a_story(tmp_path: Path) -> None:
    path = tmp_path / "cc_stories.txt"
    path.write_bytes(b"\xef\xbb\xbfOnce.\r\n\r\n  \nTwice \\n told <n> tale.\nThrice, to the end")
    source = StoriesSource(path=str(path))
    records = read(source)
    assert [record.text for record in records] == ["Once.", "Twice \\n told <n> tale.", "Thrice, to the end"]
    assert [source.raw_record(path, record.locator) for record in records] == [record.raw for record in records]
    assert {record.key for record in records} == {None} and reasons(records) == [None] * 3


def test_a_blank_line_stands_between_stories(tmp_path: Path) -> None:
    path = tmp_path / "stories.txt"
    path.write_bytes(b"\n\nOnce.\r\nUpon a time.\r\n\r\nTwice.\n \t\n\nThrice,\nto the end")
    source = StoriesSource(path=str(path), form="blank-line")
    records = read(source)
    assert [record.text for record in records] == ["Once.\nUpon a time.", "Twice.", "Thrice,\nto the end"]
    raws = [source.raw_record(path, record.locator) for record in records]
    assert raws == [b"Once.\r\nUpon a time.", b"Twice.", b"Thrice,\nto the end"]


def test_a_file_is_a_story(tmp_path: Path) -> None:
    for number, story in enumerate(STORIES[:3]):
        (tmp_path / f"{number}.txt").write_text(story + "\n\nAnd more.")
    records = read(StoriesSource(path=str(tmp_path), form="file"))
    assert [record.text for record in records] == [story + "\n\nAnd more." for story in STORIES[:3]]


@pytest.mark.parametrize("form", ["line", "blank-line"])
def test_packed_files_and_json_lines_give_the_same(tmp_path: Path, form: str) -> None:
    stories = STORIES if form == "blank-line" else [story.replace("\n", " ") for story in STORIES]
    data = ("\n\n" if form == "blank-line" else "\n").join(stories).encode()
    lines = "".join(json.dumps({"text": story}) + "\n" for story in stories).encode()
    files = {"a.txt": data, "b.txt.gz": gzip.compress(data), "c.jsonl": lines, "d.jsonl.gz": gzip.compress(lines)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        source = StoriesSource(path=str(tmp_path / name), form=form)
        records = read(source)
        assert [record.text for record in records] == stories, name
        raw = source.raw_record(tmp_path / name, records[7].locator)
        assert raw == records[7].raw
    assert len(read(StoriesSource(path=str(tmp_path), form=form))) == 4 * len(STORIES)


@pytest.mark.parametrize("form", ["line", "blank-line"])
def test_stories_of_any_slicing_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(STORIES) + "\n\n\n", encoding="utf-8")
    source = StoriesSource(path=str(path), form=form)
    whole = read(source)
    assert [record.text for record in whole] == (STORIES if form == "blank-line" else "\n".join(STORIES).split("\n"))
    file = raw_file(source)
    assert len(source.slices(file)) == 1
    for size in (7, 100, 1000):
        monkeypatch.setattr(stories_module, "SLICE_BYTES", size)
        slices = source.slices(file)
        assert len(slices) == -(-file.size_bytes // size) > 5
        assert read(source, slices) == whole


LINES = st.lists(st.sampled_from([b"", b"a", b"bc\r", b"\r", b" ", b"x" * 30, b" " * 30, b"\xc3\xa9"]), max_size=14)


@given(LINES, st.integers(1, 40), st.booleans(), st.integers(1, 40))
def test_stories_are_the_runs_between_blank_lines(lines: list[bytes], step: int, ends: bool, most: int) -> None:
    data = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    found: list[Line] = []
    for start in range(0, len(data), step):
        tally = Tally()
        lines_here = read_lines_around(io.BytesIO(data), start, start + step, most)
        here = list(join_lines(iter_story_lines(lines_here, start, start + step, tally), most))
        assert tally.records == len(here)
        found += here
    assert [(line.offset, line.data) for line in found] == list(plain_stories(data, most))


def plain_stories(data: bytes, most: int) -> list[tuple[int, bytes | None]]:
    """(offset, bytes) of each story; None for one, or one of whose lines, is longer than `most`."""
    stories: list[tuple[int, bytes | None]] = []
    offset, run, run_offset = 0, list[bytes](), 0
    for line in [*data.split(b"\n"), b""]:
        text = line.removesuffix(b"\r")
        if text.strip() or len(text) > most:
            run_offset = run_offset if run else offset
            run.append(text)
        elif run:
            ends = offset - 1 - (1 if data[offset - 2 : offset - 1] == b"\r" else 0)
            whole = all(len(each) <= most for each in run) and ends - run_offset <= most
            stories.append((run_offset, b"\n".join(run) if whole else None))
            run = []
        offset += len(line) + 1
    return stories


@pytest.mark.parametrize("position", [1, 2, 3, 4, 5, 4095, 4096, 4097, 9000, 12_000, 12_001])
def test_line_start_looks_back_to_the_line_before(position: int) -> None:
    data = b"a\n\nb\n" + b"c" * 9000 + b"\n" + b"d" * 9000
    expected = data.rfind(b"\n", 0, position - 1) + 1
    assert find_line_start(io.BytesIO(data), position, 100_000) == expected
    assert find_line_start(io.BytesIO(data), position, 8_000) == (expected if position - 1 - expected < 8_000 else None)


@pytest.mark.parametrize("form", ["line", "blank-line"])
def test_bad_stories_are_drops_and_cost_no_other(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.txt"
    stories = [b"good", b"na\xefve", b"x" * 101, b"y" * 100, b"\xe2\x80\x83", b"z" * 5000, b"good"]
    path.write_bytes(b"\n\n".join(stories))
    source = StoriesSource(path=str(path), form=form, max_record_bytes=100)
    records = read(source)
    assert reasons(records) == [None, "damaged", "too large", None, "empty", "too large", None]
    damaged = records[1].drop
    assert damaged is not None and damaged.damaged and damaged.detail.startswith("not utf-8 at byte 8")
    assert source.raw_record(path, records[1].locator) == b"na\xefve"
    path.write_bytes(b"many\n" * 25 + b"\nfew\nlines")
    found = reasons(read(StoriesSource(path=str(path), form="blank-line", max_record_bytes=100)))
    assert found == ["too large", None]


def test_what_cannot_be_a_source_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"x")
    for path in (tmp_path, tmp_path / "photo.png", tmp_path / "missing"):
        with pytest.raises(InputError, match=r"Source 'stories'.*\.txt"):
            StoriesSource(path=str(path)).files()
    assert StoriesSource(path="x").settings() == {"form": "line", "max_record_bytes": 10_000_000}
    assert StoriesSource(path="x", form="file").settings() != StoriesSource(path="x").settings()
