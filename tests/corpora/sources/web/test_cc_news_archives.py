"""News archives: locators, slices, damage, and the real archives next to the checkout."""

import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from news_archives import html, outcome, page, warc, write
from source_reading import raw_file, read

from corpora.errors import InputError
from corpora.sources.bytes.faults import DamagedBytes
from corpora.sources.contract import (
    Record,
    StatCache,
    Tally,
    group_slices,
    hash_files,
)
from corpora.sources.web import archived_pages
from corpora.sources.web.source import CcNewsSource
from corpora.sources.web.warc import CutRecord, read_archive


def cut(path: Path) -> list[CutRecord]:
    """All records of an archive, the tally checked."""
    tally = Tally()
    records = list(read_archive(path, 0, max(1, path.stat().st_size), 1 << 20, tally))
    assert tally.records == len(records)
    return records


SMALL = [
    warc("warcinfo", b"software: x\r\n"),
    warc("request", b"GET / HTTP/1.1\r\n\r\n", Target_URI="https://a.example/"),
    warc("metadata", b""),
    warc("metadata", b"a: b\r\n\r\nWARC/1.0\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n"),
]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "a-one.warc.gz"])
def test_locators_lead_back_to_the_record(tmp_path: Path, name: str) -> None:
    records = [*SMALL, page(html())]
    source = CcNewsSource(path=write(tmp_path / name, records))
    found = read(source)
    path = Path(raw_file(source).path)
    assert [source.raw_record(path, record.locator) for record in found] == records
    streams = {record.locator.stream for record in found}
    assert len(streams) == (5 if name == "a.warc.gz" else 1) and (-1 in streams) == (name == "a.warc")
    for stream in streams - {-1}:
        assert path.read_bytes()[stream:].startswith(b"\x1f\x8b")


def test_a_line_of_a_page_that_looks_like_a_head_is_no_record(tmp_path: Path) -> None:
    quoted = html(more="<pre>\nWARC/1.0\r\nWARC-Type: request\r\n\r\nWARC/1.0\n</pre>")
    for name in ("a.warc", "a.warc.gz", "a-one.warc.gz"):
        found = read(CcNewsSource(path=write(tmp_path / name, [page(quoted), page(quoted), *SMALL])))
        assert Counter(map(outcome, found))["document"] == 2 and len(found) == 6


def test_line_ends_and_gaps_of_other_writers(tmp_path: Path) -> None:
    records = [warc("metadata", b"a: b\n", end="\n"), warc("request", b"GET /\n"), page(html())]
    path = tmp_path / "a.warc"
    path.write_bytes(b"\n".join(records))
    assert [outcome(record) for record in read(CcNewsSource(path=str(path)))][2] == "document"
    padded = tmp_path / "b.warc.gz"
    padded.write_bytes(b"".join(map(gzip.compress, records)) + bytes(300_000))
    assert [outcome(record) for record in read(CcNewsSource(path=str(padded)))][2] == "document"


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "a-one.warc.gz"])
def test_a_file_cut_off_anywhere_is_noticed(tmp_path: Path, name: str) -> None:
    """Every byte at which an archive can end: it is refused, or it ends between two whole records."""
    path = tmp_path / name
    whole = Path(write(path, SMALL)).read_bytes()
    records = cut(path)
    starts = {record.stream for record in records}
    ends = {record.offset + record.length for record in records}
    allowed = {"a.warc": {0} | {end + more for end in ends for more in range(5)}, "a.warc.gz": starts}.get(name, {0})
    accepted = set()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        try:
            found = cut(path)
        except DamagedBytes as fault:
            assert fault.position <= size
        else:
            assert [(record.data, record.fault) for record in found] == [(r.data, "") for r in records[: len(found)]]
            accepted.add(size)
    assert accepted == allowed - {len(whole)}


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.warc.gz", [warc("warcinfo"), page(html()), page(html())]))
    data = bytearray(path.read_bytes())
    second = cut(path)[1].stream
    data[second + 200] ^= 0x10
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=f"gzip member at byte {second} is damaged"):
        read(CcNewsSource(path=str(path)))
    path.write_bytes(bytes(data[:second]) + b"no member" + bytes(data[second:]))
    with pytest.raises(InputError, match=f"no gzip member begins at byte {second}"):
        read(CcNewsSource(path=str(path)))


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (warc("response", b"x" * 50, Content_Length="40"), "goes on after"),
        (warc("response", b"x" * 50, Content_Length="9000"), "ends before"),
        (warc("response", b"x" * 50).replace(b"Content-Length", b"Length"), "without end or Content-Length"),
        (b"no record at all", "does not begin"),
        (b"WARC/1.0\r\n" + b"A: b\r\n" * 20_000, "without end"),
    ],
)
def test_a_broken_record_costs_itself_alone(tmp_path: Path, broken: bytes, why: str) -> None:
    good = page(html())
    records = read(CcNewsSource(path=write(tmp_path / "a.warc.gz", [good, broken, good])))
    assert [outcome(record) for record in records] == ["document", "damaged", "document"]
    drop = records[1].drop
    assert drop is not None and drop.damaged and why in drop.detail
    for name in ("a.warc", "a-one.warc.gz"):  # where nothing but its length says where the next one begins
        with pytest.raises(InputError, match=re.escape(why)):
            read(CcNewsSource(path=write(tmp_path / name, [good, broken, good])))


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    for data in (b"", gzip.compress(b"some text"), b"some text", gzip.compress(b"WARC/1.0 x")[:20]):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"a\.warc\.gz"):
            read(CcNewsSource(path=str(path)))
    with pytest.raises(InputError, match=r"\.warc\.gz"):
        CcNewsSource(path=str(Path(__file__))).files()


def many(count: int) -> list[bytes]:
    choose = random.Random(3)
    blocks = [bytes(choose.choices(range(256), k=choose.randrange(10, 4_000))) for _ in range(count)]
    return [warc("metadata", block, Target_URI=f"https://a.example/{n}") for n, block in enumerate(blocks)]


@pytest.mark.parametrize("slice_bytes", [100, 1_000, 7_000, 100_000])
def test_slices_give_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_bytes: int) -> None:
    records = many(60)
    source = CcNewsSource(path=write(tmp_path / "a.warc.gz", records))
    monkeypatch.setattr(archived_pages, "SLICE_BYTES", slice_bytes)
    slices = source.slices(raw_file(source))
    assert len(slices) == -(-raw_file(source).size_bytes // slice_bytes) > 1
    whole = read(CcNewsSource(path=source.path, split=False))
    assert [record.locator for record in read(source, slices)] == [record.locator for record in whole]
    assert [source.raw_record(Path(source.path), record.locator) for record in whole] == records
    for group in group_slices(slices, 3 * slice_bytes):
        inside = [record for record in whole if group[0].start <= record.locator.stream < group[-1].stop]
        assert read(source, group) == inside


def test_an_archive_in_an_archive_is_never_cut_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored archive shows the members of its own in the file's bytes: wherever the file is cut, it is seen."""
    inner = b"".join(gzip.compress(record + b"\r\n\r\n") for record in many(20))
    parts = [*many(5), warc("resource", inner), *many(8)]
    path = tmp_path / "a.warc.gz"
    path.write_bytes(b"".join(gzip.compress(part + b"\r\n\r\n", compresslevel=0) for part in parts))
    whole = read(CcNewsSource(path=str(path), split=False))
    assert len(whole) == len(parts)
    refused = 0
    sizes = range(1_500, 90_000, 4_000)
    for slice_bytes in sizes:
        monkeypatch.setattr(archived_pages, "SLICE_BYTES", slice_bytes)
        source = CcNewsSource(path=str(path))
        try:
            assert read(source) == whole
        except InputError as error:
            assert "split = false" in str(error)
            refused += 1
    assert 0 < refused < len(sizes)


def test_slices_do_not_pass_over_damage_at_their_border(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(write(tmp_path / "a.warc.gz", many(40)))
    streams = [record.stream for record in cut(path)]
    data = bytearray(path.read_bytes())
    data[streams[20]] ^= 0xFF
    path.write_bytes(bytes(data))
    for slice_bytes in (streams[20], streams[20] - 1, streams[20] + 1, 5_000):
        monkeypatch.setattr(archived_pages, "SLICE_BYTES", slice_bytes)
        with pytest.raises(InputError, match=r"(G|g)et the file again"):
            read(CcNewsSource(path=str(path)))


@pytest.fixture(scope="module")
def sample(shared: Path) -> dict[Path, list[Record]]:
    """The records of each archive of the sample."""
    source = CcNewsSource(path=str(shared / "data" / "sample" / "cc-news" / "warc"))
    return {Path(file.path): read(source, source.slices(file)) for file in hash_files(source.files(), StatCache())}


def test_genuine_archives(shared: Path) -> None:
    """Every record of archives that real crawlers wrote is accounted for, and none is damaged."""
    total: Counter[str] = Counter()
    source = CcNewsSource(path=str(shared / "data" / "cc-news" / "warc-genuine"))
    for file in hash_files(source.files(), StatCache()):
        data = Path(file.path).read_bytes()
        plain = gzip.decompress(data) if file.path.endswith(".gz") else data
        records = read(source, source.slices(file))
        assert len(records) == len(re.findall(rb"^WARC/1\.0\r$", plain, re.MULTILINE))
        assert [source.raw_record(Path(file.path), record.locator) in plain for record in records].count(False) == 0
        total.update(map(outcome, records))
    assert total.total() == 682 and total["document"] == 66
    assert total["not a page: revisit"] > 100 and total["damaged"] == 0


def four_grams(text: str) -> Counter[tuple[str, ...]]:
    words = re.findall(r"\w+", text)
    return Counter(zip(words, words[1:], words[2:], words[3:], strict=False))


def f1(found: str, gold: str) -> float:
    ours, theirs = four_grams(found), four_grams(gold)
    return 2 * (ours & theirs).total() / (ours.total() + theirs.total())


def test_main_text_against_the_marked_one(shared: Path, sample: dict[Path, list[Record]]) -> None:
    """Mean 4-gram F1 over the pages of the sample: .940 when this was written."""
    lines = (
        (shared / "data" / "sample" / "cc-news" / "gold" / "news-sample.jsonl").read_text(encoding="utf-8").splitlines()
    )
    gold = {row["url"].partition("#")[0]: row["text"] for row in map(json.loads, lines)}
    texts = {record.key: record.text for records in sample.values() for record in records if record.drop is None}
    scores = [f1(texts[url], text) for url, text in gold.items()]
    assert len(scores) == 68
    assert sum(scores) / len(scores) > 0.935
