"""Lines of JSON are read as Python's json reads them, whatever they are."""

import gzip
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hostile_lines import on_hostile_lines

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.bytes import raw_files
from corpora.sources.bytes.raw_files import Lines
from corpora.sources.contract import RawFile, Record, Slice, Tally, to_quarantine_key
from corpora.sources.files.formats import JsonLines
from corpora.sources.files.json_lines import find_columns, find_values
from corpora.sources.files.json_spans import ABSENT

FIELDS = {
    "text": ("text", "data.text", "body"),
    "key": "id",
    "revision": ("rev", "data.rev"),
    "title": ("title", "a.b.title", "b."),
    "url": "a.b",
}
FORMS = {
    "the text": JsonLines(max_record_bytes=400),
    "all fields": JsonLines(fields=FIELDS, max_record_bytes=400),
    "no key": JsonLines(fields={**FIELDS, "key": ("key", "data.id", "id")}, encoding="auto", max_record_bytes=400),
    "another encoding": JsonLines(fields={"title": "title"}, encoding="cp1252", max_record_bytes=400),
    "a name that no file has": JsonLines(fields={"title": "\udce9", "url": "\udce9.b"}, max_record_bytes=400),
}


def raw_file(path: Path) -> RawFile:
    return RawFile(name=path.name, sha256="0" * 64, size_bytes=path.stat().st_size, path=str(path))


def read_all(form: JsonLines, path: Path, cuts: Sequence[int]) -> tuple[list[Record], int]:
    """The records of a file in slices, and how many were counted."""
    file, tally, records = raw_file(path), Tally(), list[Record]()
    bounds = [*sorted({0, *(cut for cut in cuts if cut < file.size_bytes)}), file.size_bytes]
    for start, stop in pairwise(bounds):
        records += form.records(Slice(file=file, start=start, stop=stop), tally)
    return records, tally.records


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines") / "in.jsonl"


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_records_are_those_of_json(place: Path, form: JsonLines) -> None:
    """The law: a record is what the parsed line gives, wherever blocks and slices end; by twins, kernel and json."""

    @on_hostile_lines
    def law(lines: list[bytes]) -> None:
        place.write_bytes(b"\n".join(lines))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(JsonLines, "_read_plain_records", lambda self, lines, *_: [None] * len(lines))
            expected = read_all(form, place, ())
        assert repr(read_all(form, place, ())) == repr(expected)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(raw_files, "BLOCK_BYTES", 7)
            assert repr(read_all(form, place, (1, 20, 45))) == repr(expected)

    law()


def test_plain_lines_need_no_python() -> None:
    """Fails if the kernel leaves ordinary lines to Python, whose answer would be right and slow."""
    rows = ['{"id": 7, "text": "\\u00e9 \\"quoted\\" \\ud83d\\ude00", "meta": {"a": [1, -2.5e3, null, {}]}}', "{ }"]
    lines = Lines.from_lines([row.encode() for row in rows])
    spans, plain = find_values(lines, ["text", "id"])
    assert plain.all() and (spans[1] == ABSENT).all()
    assert lines.data[slice(*spans[0, 1])] == b"7"
    columns, plain = find_columns(lines, {"key": "id", "title": "meta.b", "url": ("url", "id")})
    assert plain.tolist() == [True, False]
    assert [values[0] for values in columns.values()] == ['\u00e9 "quoted" \U0001f600', "7", None, "7"]


def test_one_line_of_another_encoding_costs_no_other() -> None:
    """Fails if a byte that is not UTF-8 sends the lines around it the long way."""
    _, plain = find_columns(Lines.from_lines([b'{"text":"a"}', b'{"text":"\xe9"}', '{"text":"\u00e9"}'.encode()]), {})
    assert plain.tolist() == [True, False, True]


def test_a_line_in_quarantine_sends_its_part_the_long_way(tmp_path: Path) -> None:
    """Fails if a line that ended its worker is read again, or one next to it is not."""
    path, form = tmp_path / "in.jsonl", JsonLines(max_record_bytes=100)
    path.write_bytes(b'{"text":"a"}\n{"text":"b"}\n')
    whole = Slice(file=raw_file(path), start=0, stop=path.stat().st_size)
    first, second = form.records(whole, Tally())
    bad, good = form.records(whole, Tally([to_quarantine_key(first.locator)]))
    assert (bad.text, bad.drop is not None, good) == ("", True, second)


def test_a_line_that_is_longer_than_a_block_is_parsed_by_itself() -> None:
    """It may end the worker, and is named only then."""
    long = b'{"text":"%s"}' % (b"x" * raw_files.BLOCK_BYTES)
    assert find_columns(Lines.from_lines([b'{"text":"a"}', long]), {})[1].tolist() == [True, False]


@pytest.mark.parametrize("block_bytes", [1, 7, 500])
def test_each_line_is_in_one_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    """Wherever slices and blocks end; a line that is too long is a row that cannot be read."""
    monkeypatch.setattr(raw_files, "BLOCK_BYTES", block_bytes)
    path, form = tmp_path / "in.jsonl", JsonLines(encoding="auto", max_record_bytes=1_000)
    rows = [b'{"text":"%d"}' % number for number in range(9)] + [b"x" * 3_000, b'{"text":"end"}']
    path.write_bytes(b"\r\n\n".join(rows))
    size = path.stat().st_size
    for cut in (0, 1, 14, 40, size - 8, size - 2_000):
        both = [Slice(file=raw_file(path), start=start, stop=stop) for start, stop in ((0, cut), (cut, size))]
        found = [line for each in both for block in form.iter_blocks(each, "") for line in block]
        assert found == [*rows[:9], b"", rows[10]]


def test_a_line_after_the_damage_of_its_file_is_refused(tmp_path: Path) -> None:
    """Fails if the library's error of a file that was cut off since reaches the caller."""
    path = tmp_path / "a.jsonl.gz"
    data = b"".join(b'{"text": "%d"}\n' % (number * 7919) for number in range(1000))
    path.write_bytes(gzip.compress(data)[:-400])
    locator = Locator(file=path.name, sha256="", stream=0, offset=len(data) - 20, length=15)
    with pytest.raises(InputError, match=re.escape(str(path))):
        JsonLines(max_record_bytes=100).raw_record(path, locator)
