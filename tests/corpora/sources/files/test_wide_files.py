"""Lines, rows and texts in UTF-16 and UTF-32, with a mark and without: read as in UTF-8, and traced back."""

import json
from pathlib import Path

import pytest
from source_reading import raw_file

from corpora.errors import InputError
from corpora.sources.contract import RawFile, Record, StatCache, Tally, hash_files
from corpora.sources.files import formats
from corpora.sources.files.guessing import guess_text_columns
from corpora.sources.files.source import FilesSource

CODECS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be")
TEXTS = [f"Zürich, \u00fcber {n} Brücken \u2013 \u7dcf\u6570 {n}" for n in range(60)]
TABLE = "nr,note\r\n" + "".join(f'{n},"{text}"\r\n' for n, text in enumerate(TEXTS))
LINES = "".join(json.dumps({"nr": n, "note": text}, ensure_ascii=False) + "\n" for n, text in enumerate(TEXTS))


def read(path: Path) -> tuple[FilesSource, list[RawFile], list[Record]]:
    source = FilesSource(name="own", path=str(path), encoding="auto", fields={"text": "note"})
    files = hash_files(source.files(), StatCache())
    pieces = [piece for file in files for piece in source.slices(file)]
    return source, files, [record for piece in pieces for record in source.records(piece, Tally())]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("name", "data"), [("a.csv", TABLE), ("a.jsonl", LINES)])
def test_lines_are_those_of_the_same_file_in_utf_8(
    tmp_path: Path, codec: str, name: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a line is lost or cut, a file is cut where no line begins, or a record is not found again."""
    monkeypatch.setattr(formats, "SLICE_BYTES", 500)
    path = tmp_path / name
    path.write_bytes(data.encode(codec))
    source, files, records = read(path)
    assert [record.text for record in records] == TEXTS
    assert [source.raw_record(path, record.locator) for record in records] == [record.raw for record in records]
    assert guess_text_columns(FilesSource(name="own", path=str(path), encoding="auto"), files).names == ("note",)


def test_bytes_that_are_not_in_it_end_the_file_with_a_word(tmp_path: Path) -> None:
    """Fails if half a file passes for a whole one."""
    (tmp_path / "a.jsonl").write_bytes(LINES.encode("utf-16") + b"\x00\xd8a\x00")
    with pytest.raises(InputError, match=r"a\.jsonl cannot be read to its end: it is not utf-16-le throughout"):
        read(tmp_path)


def test_another_encoding_is_said_to_be_the_wrong_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES.encode("utf-16"))
    source = FilesSource(name="own", path=str(tmp_path))
    file = raw_file(source)
    with pytest.raises(InputError, match=r'is UTF-16\. Set the source\'s `encoding` to "auto"'):
        list(source.records(source.slices(file)[0], Tally()))
