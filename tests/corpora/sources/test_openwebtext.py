"""OpenWebText: every form it is published in, odd members, and damage at any byte of any layer."""

import gzip
import io
import json
import lzma
import re
import tarfile
from hashlib import md5
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openwebtext_archives import (
    PAGES,
    nested,
    odd_members,
    page_name,
    read,
    subset,
    subsets,
    tar,
    write,
)
from source_reading import raw_file, raw_files, reasons

from corpora.errors import InputError
from corpora.sources import openwebtext as openwebtext_module
from corpora.sources.contract import Tally
from corpora.sources.openwebtext import OpenWebTextSource


def test_every_packing_gives_the_same_pages_and_keys(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for name, data in subsets():
        write(folder / name, data)
    write(folder / "README.md", b"not read")
    forms = [
        folder,
        write(tmp_path / "openwebtext.tar.xz", lzma.compress(nested())),
        write(tmp_path / "openwebtext.tar", nested()),
        write(tmp_path / "pages.tar", subset(range(12))),
        write(tmp_path / "of-tars.tar", tar([("a.tar", subset(range(4))), ("b.tar", subset(range(4, 12)))])),
        folder / "urlsf_subset00-*_data.xz",
    ]
    for form in forms:
        records = read(OpenWebTextSource(path=str(form)))
        assert [record.text for record in records] == PAGES, form
        assert [record.key for record in records] == [md5(str(number).encode()).hexdigest() for number in range(12)]
        assert [record.title for record in records] == [page_name(number) for number in range(12)]


def test_a_plain_tar_is_cut_at_its_subsets_and_else_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = OpenWebTextSource(path=str(write(tmp_path / "a.tar", nested())))
    file = raw_file(source)
    slices = source.slices(file)
    assert len(slices) == 3 + 1 and [slices[0].start, slices[-1].stop] == [0, file.size_bytes]
    assert [len(list(source.records(piece, Tally()))) for piece in slices] == [0, 5, 1, 6]
    assert read(source) == read(source, whole=True)

    long_names = tar([(f"{'folder/' * 30}{page_name(number)}", page.encode()) for number, page in enumerate(PAGES)])
    pages = OpenWebTextSource(path=str(write(tmp_path / "b.tar", long_names)))
    whole = read(pages, whole=True)
    assert len(pages.slices(raw_files(pages)[0])) == 1
    monkeypatch.setattr(openwebtext_module, "SLICE_BYTES", 4_000)
    assert len(pages.slices(raw_files(pages)[0])) > 4
    assert read(pages) == whole and [record.text for record in whole] == PAGES


def test_parquet_is_cut_at_its_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "train-00000-of-00080.parquet"
    table = pa.table({"url": [str(number) for number in range(12)], "text": PAGES})
    pq.write_table(table, path, row_group_size=5, compression="zstd")
    source = OpenWebTextSource(path=str(path))
    file = raw_file(source)
    slices = source.slices(file)
    assert [len(list(source.records(piece, Tally()))) for piece in slices] == [5, 5, 2]
    assert [slices[0].start, slices[-1].stop] == [0, file.size_bytes]
    records = read(source)
    assert [record.text for record in records] == PAGES and records == read(source, whole=True)
    assert {record.key for record in records} == {None}
    for record in records:
        assert source.raw_record(path, record.locator) == record.raw == record.text.encode()
    good = path.read_bytes()
    write(path, good[:-20])
    with pytest.raises(InputError, match=re.escape(str(path))):
        source.slices(file)
    write(path, good[:200] + bytes(100) + good[300:])
    with pytest.raises(InputError, match="row group 0"):
        list(source.records(slices[0], Tally()))


def test_a_row_of_another_parquet_file_is_refused(tmp_path: Path) -> None:
    """Fails if a place that the file does not have ends in an error of Python's instead of ours."""
    path = tmp_path / "pages.parquet"
    pq.write_table(pa.table({"text": PAGES}), path)
    source = OpenWebTextSource(path=str(path))
    locator = read(source)[0].locator
    assert source.raw_record(path, locator) == PAGES[0].encode()
    with pytest.raises(InputError, match="Is it the file that was read"):
        source.raw_record(path, locator._replace(stream=path.stat().st_size))


def test_bad_rows_of_parquet_are_drops(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array(["a", None, "", "x" * 200, "b"])}), path)
    source = OpenWebTextSource(path=str(path), max_record_bytes=100)
    assert reasons(read(source)) == [None, "damaged", "empty", "too large", None]
    pq.write_table(pa.table({"body": ["a"]}), path)
    with pytest.raises(InputError, match="no column 'text', only body"):
        raw_files(source) and source.slices(raw_files(source)[0])
    pq.write_table(pa.table({"text": [1, 2]}), path)
    with pytest.raises(InputError, match=r"a\.parquet"):
        read(source)


def test_json_lines_are_read_as_files_reads_them(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"text": page}) + "\n" for page in PAGES).encode()
    write(tmp_path / "a.jsonl", lines)
    write(tmp_path / "b.jsonl.gz", gzip.compress(lines, mtime=0))
    with pa.CompressedOutputStream(str(tmp_path / "c.jsonl.zst"), "zstd") as packed:
        packed.write(lines)
    records = read(OpenWebTextSource(path=str(tmp_path)))
    assert [record.text for record in records] == PAGES * 3


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_odd_members_are_drops_with_a_reason(tmp_path: Path, format: int) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for info, data, _ in odd_members():
            archive.addfile(info, io.BytesIO(data))
    expected = [reason for _, _, reason in odd_members() if reason != "folder"]
    inner = write(tmp_path / "subset.xz", lzma.compress(out.getvalue()))
    outer = write(tmp_path / "all.tar", tar([("subset.xz", inner.read_bytes())]))
    for path in (inner, outer):
        records = read(OpenWebTextSource(path=str(path), max_record_bytes=4096))
        assert reasons(records) == expected
        texts = [record.text for record in records if record.drop is None]
        assert texts == ["absolute", "upwards", "without a key", "na\u00efve", "marked"]
        assert [bool(record.key) for record in records[:3]] == [True, True, False]
        assert [record.drop.damaged for record in records if record.drop] == [
            reason == "damaged" for reason in expected if reason
        ]


def test_an_archive_in_a_subset_is_a_drop(tmp_path: Path) -> None:
    inner = tar([("more.tar", subset(range(3))), (page_name(4), PAGES[4].encode())])
    records = read(OpenWebTextSource(path=str(write(tmp_path / "a.tar", tar([("subset.tar", inner)])))))
    assert reasons(records) == ["not a page", None] and records[1].text == PAGES[4]
