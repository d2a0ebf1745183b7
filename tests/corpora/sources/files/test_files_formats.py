"""Every ending that the kind "files" knows: Parquet, pages, books, archives and packed files."""

import bz2
import datetime
import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_reading import raw_file, read, reasons

from corpora.errors import InputError
from corpora.sources.files.source import FilesSource

SAMPLES = Path(__file__).resolve().parents[4] / "corpora" / "samples"
PROSE = "The keeper of the mill came down to the river every morning and counted the boats that lay there. " * 12


def pack_zst(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": pack_zst}


@pytest.mark.parametrize("ending", PACKERS)
def test_packed_files_are_streamed_and_damage_is_refused(tmp_path: Path, ending: str) -> None:
    values = [{"text": f"number {number} of {number * 7919 % 1000003}"} for number in range(3000)]
    data = "".join(json.dumps(value) + "\n" for value in values).encode()
    path = tmp_path / f"a.jsonl{ending}"
    path.write_bytes(PACKERS[ending](data))
    source = FilesSource(name="own", path=str(path))
    records = read(source)
    assert [record.text for record in records] == [value["text"] for value in values]
    assert source.raw_record(path, records[2000].locator) == records[2000].raw
    packed = path.read_bytes()
    for bad in (packed[: len(packed) // 2], b"no packed file"):
        path.write_bytes(bad)
        with pytest.raises(InputError, match=f"a.jsonl{ending} cannot be read to its end"):
            read(source)


def test_paths_reach_into_nested_objects(tmp_path: Path) -> None:
    value = {"text": "a", "metadata": {"url": "u", "deep": {"id": 7}}, "a.b": "plain"}
    (tmp_path / "a.jsonl").write_text(json.dumps(value) + "\n")
    fields = {"url": "metadata.url", "key": "metadata.deep.id", "title": "a.b", "group": "metadata.url.x"}
    (found,) = read(FilesSource(name="own", path=str(tmp_path), fields=fields))
    assert (found.url, found.key, found.title, found.group) == ("u", "7", "plain", None)


def write_parquet(path: Path, rows: list[dict[str, Any]], group_rows: int = 100) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=group_rows)
    return path


def test_parquet_rows_are_records_and_row_groups_slices(tmp_path: Path) -> None:
    rows = [
        {
            "body": f"row {n}" if n % 50 else "",
            "meta": {"id": n, "url": None},
            "day": datetime.date(2024, 1, 1 + n % 28),
            "hash": bytes([n % 256, 255]),
        }
        for n in range(250)
    ]
    path = write_parquet(tmp_path / "a.parquet", rows)
    fields = {"text": "body", "key": "meta.id", "url": "meta.url", "date": "day", "revision": "meta.id"}
    source = FilesSource(name="own", path=str(tmp_path), fields=fields)
    file = raw_file(source)
    slices = source.slices(file)
    assert len(slices) == 3 and slices[0].start == 0 and slices[-1].stop == file.size_bytes
    records = read(source)
    assert [record.text for record in records] == [row["body"] for row in rows]
    assert (records[7].key, records[7].revision, records[7].date, records[7].url) == ("7", 7, "2024-01-08", None)
    assert [n for n, record in enumerate(records) if record.drop] == [0, 50, 100, 150, 200]
    for n in (3, 130, 249):
        raw = source.raw_record(path, records[n].locator)
        assert raw == records[n].raw and len(raw) == records[n].locator.length
        assert json.loads(raw) == {**rows[n], "day": rows[n]["day"].isoformat(), "hash": rows[n]["hash"].hex()}


def test_bad_rows_of_parquet_are_drops(tmp_path: Path) -> None:
    texts = pa.array([b"good", b"\xff\xfe bad", None, b"x" * 500, b"good"], pa.binary())
    text = pa.StringArray.from_buffers(5, texts.buffers()[1], texts.buffers()[2], texts.buffers()[0], 1)
    table = pa.table({"text": text, "n": list(range(5))})
    pq.write_table(table, tmp_path / "a.parquet")
    source = FilesSource(name="own", path=str(tmp_path), max_record_bytes=400)
    records = read(source)
    found = [(record.drop.reason, record.drop.damaged) if record.drop else None for record in records]
    assert found == [None, ("damaged", True), ("damaged", True), ("too large", False), None]
    assert records[1].drop is not None and "column 'text' is not utf-8" in records[1].drop.detail
    assert source.raw_record(tmp_path / "a.parquet", records[1].locator) == records[1].raw
    assert b"fffe" in records[1].raw


def test_a_time_beyond_pythons_costs_its_row_alone(tmp_path: Path) -> None:
    days = pa.array([1, 10**8, 3], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"text": ["a", "b", "c"], "day": days}), tmp_path / "a.parquet")
    records = read(FilesSource(name="own", path=str(tmp_path)))
    assert [record.text for record in records] == ["a", "", "c"]
    assert records[1].drop is not None and "column 'day' cannot be read" in records[1].drop.detail
    assert b"100000000" in records[1].raw


def test_texts_and_times_that_parquet_keeps_otherwise(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": pa.array([b"Z\xc3\xbcrich", b"\xff"], pa.binary()),
            "when": pa.array([1_700_000_000_123_456_789] * 2, pa.timestamp("ns", "UTC")),
            "tag": pa.array(["a", "b"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    fields = {"text": "text", "date": "when", "group": "tag"}
    first, second = read(FilesSource(name="own", path=str(tmp_path), fields=fields))
    assert (first.text, first.date, first.group) == ("Zürich", "2023-11-14T22:13:20.123456+00:00", "a")
    assert second.drop is not None and "'text' is not utf-8 at byte 0" in second.drop.detail


def test_parquet_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", [{"body": f"row {n}", "m": {"a": 1}} for n in range(50)])
    with pytest.raises(InputError, match="no column 'text', only body, m"):
        read(FilesSource(name="own", path=str(path)))
    with pytest.raises(InputError, match=r"no column 'm2\.a'"):
        read(FilesSource(name="own", path=str(path), fields={"text": "body", "url": "m2.a"}))
    data = path.read_bytes()
    for bad in (data[:-30], b"no Parquet"):
        path.write_bytes(bad)
        with pytest.raises(InputError, match="damaged or no Parquet file"):
            read(FilesSource(name="own", path=str(path), fields={"text": "body"}))


FLIP = """
import sys
from pathlib import Path
from corpora.errors import InputError
from corpora.sources.files.source import FilesSource
from corpora.sources.contract import StatCache, Tally, hash_files

path = Path(sys.argv[1])
whole, refused = path.read_bytes(), 0
footer = int.from_bytes(whole[-8:-4], "little")
for place in range(len(whole) - 8 - footer, len(whole) - 8):
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
    source = FilesSource(name="own", path=str(path))
    try:
        (file,) = hash_files(source.files(), StatCache())
        tally = Tally()
        number = sum(1 for piece in source.slices(file) for _ in source.records(piece, tally))
        assert number == tally.records
    except InputError:
        refused += 1
print(footer, refused)
"""


def test_a_damaged_footer_of_parquet_ends_no_process(tmp_path: Path) -> None:
    """Fails if a flipped byte brings down the process, ends in a traceback, or loses rows without a word."""
    path = write_parquet(tmp_path / "a.parquet", [{"text": f"row {n}", "n": n} for n in range(6)], group_rows=3)
    command = [sys.executable, "-c", FLIP, str(path)]
    done = subprocess.run(command, cwd=SAMPLES.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    footer, refused = map(int, done.stdout.split())
    assert footer > 500 and refused > 100


def test_a_page_is_its_main_text(tmp_path: Path) -> None:
    head = "<head><title>Moulin “é”</title></head>"
    page = f"<html>{head}<body><nav>Home</nav><article><p>{PROSE}</p></article></body></html>"
    (tmp_path / "a.html").write_bytes(page.encode("cp1252"))
    (tmp_path / "b.htm.gz").write_bytes(gzip.compress(page.encode()))
    (tmp_path / "c.html").write_bytes(b"<html><body><script>x()</script></body></html>")
    (tmp_path / "d.html").write_bytes(b" \n")
    source = FilesSource(name="own", path=str(tmp_path))
    records = read(source)
    assert [record.text for record in records] == [PROSE.strip(), PROSE.strip(), "", ""]
    assert [record.title for record in records] == ["Moulin “é”", "Moulin “é”", None, None]
    assert reasons(records) == [None, None, "needs scripts", "empty"]
    assert source.raw_record(tmp_path / "b.htm.gz", records[1].locator) == page.encode()


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        ("Zürich “x”".encode("cp1252"), "auto", "Zürich “x”"),
        ("Zürich".encode(), "auto", "Zürich"),
        ("Zürich".encode("utf-16"), "auto", "Zürich"),
        (b"\xfe\xff" + "Zürich".encode("utf-16-be"), "auto", "Zürich"),
        (b"\x81\x8d", "auto", None),
        (b"zero \x00 byte", "utf-8", None),
        (b"\xff\xfea\x00", "utf-8", None),
    ],
)
def test_encodings_of_a_text(tmp_path: Path, data: bytes, encoding: str, text: str | None) -> None:
    (tmp_path / "a.md").write_bytes(data)
    (found,) = read(FilesSource(name="own", path=str(tmp_path), encoding=encoding))
    assert found.drop is None if text else found.drop is not None and found.drop.damaged
    assert found.text == (text or "")
