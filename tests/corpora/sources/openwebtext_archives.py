"""Archives of pages as OpenWebText has them, made by the tests."""

import io
import json
import lzma
import tarfile
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

from source_reading import raw_files

from corpora.sources.contract import Record, Tally, slice_whole_file
from corpora.sources.openwebtext import OpenWebTextSource

PAGES = [f"Page {number}.\n\nIts second paragraph{'!' * (number * 97 % 900)}\n" for number in range(12)]


def page_name(number: int) -> str:
    return f"{number:07d}-{md5(str(number).encode()).hexdigest()}.txt"


def tar(members: list[tuple[str, bytes]], format: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def subset(numbers: range) -> bytes:
    return tar([(page_name(number), PAGES[number].encode()) for number in numbers])


def subsets() -> list[tuple[str, bytes]]:
    ranges = (range(0, 5), range(5, 6), range(6, 12))
    return [(f"urlsf_subset00-{n}_data.xz", lzma.compress(subset(each))) for n, each in enumerate(ranges)]


def nested() -> bytes:
    """The outer tar, its folder included."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        folder = tarfile.TarInfo("openwebtext")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in subsets():
            info = tarfile.TarInfo(f"openwebtext/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def read(source: OpenWebTextSource, whole: bool = False) -> list[Record]:
    """All records, the tally and every locator checked."""
    tally, records = Tally(), []
    for file in raw_files(source):
        for piece in [slice_whole_file(file)] if whole else source.slices(file):
            found = list(source.records(piece, tally))
            records += found
            for record in found[:: max(1, len(found) // 10)]:
                if record.drop is None or record.drop.reason == "empty":
                    raw = source.raw_record(Path(file.path), record.locator)
                    assert raw == record.raw or json.loads(raw)["text"] == record.text
    assert tally.records == len(records)
    return records


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def odd_members() -> Iterator[tuple[tarfile.TarInfo, bytes, str | None]]:
    """(member, its bytes, why it is dropped; "folder": no record of it)"""

    def member(name: str, data: bytes = b"", type: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.size, info.type, info.linkname = len(data), type, link
        return info

    plain = [
        ("/etc/" + page_name(0), b"absolute", None),
        ("../../" + page_name(1), b"upwards", None),
        ("notes.txt", b"without a key", None),
        ("page.html", b"<p>", "not a page"),
        ("._" + page_name(3), b"\0\5\26\7", "not a page"),
        (page_name(4), b"", "empty"),
        (page_name(5), b" \n\n", "empty"),
        (page_name(6), b"x" * 5000, "too large"),
        (page_name(7), "na\u00efve".encode("cp1252"), None),
        (page_name(8), b"\x81\xff neither", "damaged"),
        (page_name(9), b"\xef\xbb\xbfmarked", None),
    ]
    for name, data, reason in plain:
        yield member(name, data), data, reason
    yield member("folder", type=tarfile.DIRTYPE), b"", "folder"
    yield member(page_name(10), type=tarfile.SYMTYPE, link="/etc/passwd"), b"", "not a page"
    yield member(page_name(11), type=tarfile.LNKTYPE, link=page_name(0)), b"", "not a page"
    yield member("pipe.txt", type=tarfile.FIFOTYPE), b"", "not a page"
