"""OpenWebText archives that are damaged, odd or hostile."""

import io
import lzma
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openwebtext_archives import (
    PAGES,
    nested,
    page_name,
    read,
    subset,
    subsets,
    tar,
    write,
)
from source_reading import raw_files, reasons

from corpora.errors import InputError
from corpora.sources.bytes import packed_stream
from corpora.sources.bytes.archives import ByteReader, MemberCount, TarReader, _iter_pax_records
from corpora.sources.contract import RawFile, Tally, slice_whole_file
from corpora.sources.openwebtext import OpenWebTextSource


class Counting(bytes):
    """Bytes that count how many of them are copied out."""

    copied = 0

    def __getitem__(self, key: Any) -> Any:
        Counting.copied += len(range(*key.indices(len(self))))
        return Counting(super().__getitem__(key))


def test_records_of_a_header_are_read_once() -> None:
    """Fails if each record copies those after it: 200,000 of a header took seconds, and a tar has many headers."""
    data = Counting(b"5 a=\n" * 2_000 + b"12 path=b.c\n" + b"9 broken")
    assert list(_iter_pax_records(data)) == [(b"a", b"")] * 2_000 + [(b"path", b"b.c")]
    assert Counting.copied < 10 * len(data)


def cuts(size: int) -> list[int]:
    """Places to cut at: many in the middle, each near both ends."""
    return sorted({*range(0, size, max(1, size // 60)), *range(min(size, 30)), *range(max(0, size - 30), size)})


def refused(path: Path, data: bytes, says: str) -> None:
    """The file is refused, with its name, the place and the remedy in one paragraph."""
    file = RawFile(name=path.name, sha256="0" * 64, size_bytes=len(data), path=str(write(path, data)))
    with pytest.raises(InputError) as caught:
        list(OpenWebTextSource(path=str(path)).records(slice_whole_file(file), Tally()))
    message = str(caught.value)
    assert str(path) in message and re.search(says, message) and "\n" not in message
    assert "at its byte" in message and message.endswith("Get the file again.")


@pytest.mark.parametrize("name", ["subset.xz", "openwebtext.tar.xz"])
def test_xz_cut_anywhere_is_refused(tmp_path: Path, name: str) -> None:
    data = lzma.compress(nested() if name.startswith("open") else subset(range(12)))
    places = cuts(len(data))
    assert len(places) > 100
    for place in places:
        refused(tmp_path / name, data[:place], "cut off")


def test_xz_that_is_damaged_anywhere_is_refused(tmp_path: Path) -> None:
    data = lzma.compress(subset(range(12)))
    for place in cuts(len(data)):
        damaged = data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :]
        refused(tmp_path / "subset.xz", damaged, "damaged|cut off")
    refused(tmp_path / "subset.xz", data + b"what follows", "damaged")
    refused(tmp_path / "subset.xz", data + bytes(3), "padding")


@pytest.mark.parametrize("name", ["openwebtext.tar", "openwebtext.tar.xz"])
def test_a_subset_cut_inside_a_whole_archive_is_refused(tmp_path: Path, name: str) -> None:
    (first, whole), (second, packed), _ = subsets()
    for place in cuts(len(packed)):
        outer = tar([(first, whole), (second, packed[:place])])
        refused(tmp_path / name, lzma.compress(outer, preset=0) if name.endswith("xz") else outer, f"{second} is cut")
    pages = subset(range(5))
    for place in (0, 100, 512, 700, 1024, len(PAGES[0]) + 512, len(pages.rstrip(b"\0"))):
        outer = tar([(first, whole), (second, lzma.compress(pages[:place]))])
        refused(tmp_path / name, lzma.compress(outer, preset=0) if name.endswith("xz") else outer, f"{second} is cut")


def test_a_plain_tar_cut_before_its_end_is_refused(tmp_path: Path) -> None:
    for data in (nested(), subset(range(3))):
        end = -(-len(data.rstrip(b"\0")) // 512) * 512 + 1024  # the second block of zeros
        path = tmp_path / "a.tar"
        for place in [*cuts(end), *range(0, end, 512)]:
            refused(path, data[:place], "cut off|damaged")
            with pytest.raises(InputError, match=re.escape(str(path))):
                source = OpenWebTextSource(path=str(path))
                source.slices(raw_files(source)[0])
        assert read(OpenWebTextSource(path=str(write(path, data[:end]))))


def test_a_wrong_header_is_refused(tmp_path: Path) -> None:
    data = subset(range(3))
    for place in range(0, 512, 7):
        refused(tmp_path / "a.tar", data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], "a header is wrong")
    refused(tmp_path / "a.tar", b"Once upon a time there was no tar. " * 100, "no tar")
    refused(tmp_path / "a.xz", b"Once upon a time there was no xz. " * 100, "no xz file")


def test_streams_and_tars_one_after_another_are_read_as_one(tmp_path: Path) -> None:
    parts = [subset(range(0, 4)), subset(range(4, 12))]
    halves = [lzma.compress(part) for part in parts]
    path = write(tmp_path / "a.xz", halves[0] + bytes(8) + halves[1] + bytes(4))
    assert [record.text for record in read(OpenWebTextSource(path=str(path)))] == PAGES
    path = write(tmp_path / "a.tar", b"".join(parts))
    assert [record.text for record in read(OpenWebTextSource(path=str(path)))] == PAGES


def test_what_would_need_too_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.xz", lzma.compress(subset(range(2)), preset=6))
    assert len(read(OpenWebTextSource(path=str(path)))) == 2
    monkeypatch.setattr(packed_stream, "MAX_DECODER_BYTES", 1_000_000)
    with pytest.raises(InputError, match=r"needs over 1 MB of memory to be unpacked.*Pack it again"):
        read(OpenWebTextSource(path=str(path)))


names = st.text(st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["C"]), min_size=1)


@given(
    st.lists(st.tuples(names, st.integers(0, 300), st.binary(max_size=1300)), max_size=6),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.integers(1, 3000),
)
def test_members_are_those_of_tarfile(members: list[tuple[str, int, bytes]], format: int, piece_bytes: int) -> None:
    data = tar([("d" * depth + "/" + name, content) for name, depth, content in members], format)
    pieces = [data[start : start + piece_bytes] for start in range(0, len(data), piece_bytes)]
    count = MemberCount()
    assert sum(map(count.feed, pieces)) == count.members == len(members)
    reader = TarReader(ByteReader(iter(pieces)), "it")
    found = [(member.name, member.offset, member.start, reader.read(member)) for member in reader.iter_members()]
    with tarfile.open(fileobj=io.BytesIO(data)) as reference:
        infos = reference.getmembers()
    assert [name for name, _, _, _ in found] == [info.name for info in infos]
    assert [start for _, _, start, _ in found] == [info.offset_data for info in infos]
    assert [offset for _, offset, _, _ in found] == [info.offset for info in infos]
    assert [content for _, _, _, content in found] == [content for _, _, content in members]


def with_checksum(header: bytes) -> bytes:
    """The header with the right sum in it."""
    return header[:148] + f"{sum(header[:148]) + sum(header[156:]) + 256:06o}\0 ".encode() + header[156:]


def test_sizes_in_base_256(tmp_path: Path) -> None:
    data = bytearray(subset(range(2)))
    size = int(data[124:136].rstrip(b"\0"), 8)
    data[124:136] = b"\x80" + size.to_bytes(11, "big")
    data[:512] = with_checksum(bytes(data[:512]))
    assert [record.text for record in read(OpenWebTextSource(path=str(write(tmp_path / "a.tar", data))))] == PAGES[:2]
    for field in (b"\x80" + b"\xff" * 11, b"\xff" * 12, b"00000000009\0", b"size unknown"):
        data[124:136] = field
        data[:512] = with_checksum(bytes(data[:512]))
        refused(tmp_path / "a.tar", bytes(data), "a header is wrong")
        with pytest.raises(InputError, match="a header is wrong"):
            source = OpenWebTextSource(path=str(tmp_path / "a.tar"))
            source.slices(raw_files(source)[0])


def old_sparse(num_maps: int, stored: bytes) -> bytes:
    """A sparse file as GNU tar wrote it before pax: a header, blocks of its map, what is stored of it."""
    header = bytearray(tar([(page_name(1), stored)])[:512])
    header[156:157] = b"S"
    header[482] = num_maps > 0
    maps = b"".join(bytes(504) + bytes([number + 1 < num_maps]) + bytes(7) for number in range(num_maps))
    return with_checksum(bytes(header)) + maps + stored + bytes(-len(stored) % 512)


def pax(records: dict[str, str], name: str, data: bytes, stated: int | None = None) -> bytes:
    """A member after pax records; stated: the size in its own header, where it is not the true one."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo(name)
        info.size, info.pax_headers = len(data), records
        archive.addfile(info, io.BytesIO(data))
    whole = bytearray(out.getvalue()[: -(-(len(out.getvalue().rstrip(b"\0"))) // 512) * 512])
    if stated is not None:
        at = len(whole) - 512 - -(-len(data) // 512) * 512
        whole[at + 124 : at + 136] = f"{stated:011o}\0".encode()
        whole[at : at + 512] = with_checksum(bytes(whole[at : at + 512]))
    return bytes(whole)


@pytest.mark.parametrize("piece_bytes", [1, 511, 4096])
def test_sparse_members_are_counted_drops_and_pax_sizes_hold(tmp_path: Path, piece_bytes: int) -> None:
    sparse = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": page_name(3)}
    stored = b"x" * 700
    parts = [
        tar([(page_name(0), PAGES[0].encode())])[: 512 + -(-len(PAGES[0]) // 512) * 512],
        old_sparse(0, stored),
        old_sparse(3, stored),
        pax(sparse, "GNUSparseFile.0/page.txt", stored),
        pax({"size": "700"}, page_name(4), stored, stated=0),
        subset(range(5, 8)),
    ]
    data = b"".join(parts)
    records = read(OpenWebTextSource(path=str(write(tmp_path / "a.tar", data))))
    assert reasons(records) == [None, *["not a page"] * 3, *[None] * 4]
    assert [record.drop.detail for record in records if record.drop] == [
        f"sparse {page_name(1)}",
        f"sparse {page_name(1)}",
        f"sparse {page_name(3)}",
    ]
    assert [record.text for record in records if not record.drop] == [PAGES[0], stored.decode(), *PAGES[5:8]]
    inner = write(tmp_path / "b.xz", lzma.compress(data))
    assert reasons(read(OpenWebTextSource(path=str(inner)))) == reasons(records)
    count = MemberCount()
    assert sum(count.feed(data[at : at + piece_bytes]) for at in range(0, len(data), piece_bytes)) == len(records)


def test_a_locator_of_another_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar.xz", lzma.compress(nested()))
    record = read(OpenWebTextSource(path=str(path)))[-1]
    write(path, lzma.compress(nested()[:1024]))
    with pytest.raises(InputError, match=re.escape(str(path))):
        OpenWebTextSource(path=str(path)).raw_record(path, record.locator)
