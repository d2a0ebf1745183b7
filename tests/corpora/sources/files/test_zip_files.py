"""Zips: members are read as files of their own; what is not read is counted, and hostile ones are refused."""

import io
import json
import struct
import zipfile
from pathlib import Path

import pytest
from office_files import package
from source_reading import raw_files, read_and_find

from corpora.errors import InputError
from corpora.sources.bytes.endings import ENCRYPTED, OTHER_PACKING
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import open_raw
from corpora.sources.bytes.zip_members import MemberPath
from corpora.sources.contract import RawFile, StatCache, Tally, hash_files, slice_whole_file
from corpora.sources.files import formats
from corpora.sources.files.source import FilesSource
from corpora.sources.openwebtext import OpenWebTextSource
from corpora.sources.passed_over import classify_error, count_files

LINES = "".join(json.dumps({"text": f"line {number}"}) + "\n" for number in range(50))


def texts(source: FilesSource) -> dict[str, list[str]]:
    """The texts of each file, each found again."""
    found: dict[str, list[str]] = {}
    for file in raw_files(source):
        records = [record for piece in source.slices(file) for record in source.records(piece, Tally())]
        for record in records:
            assert source.raw_record(parse_raw_path(file.path), record.locator).strip() == record.raw.strip()
        found[file.name] = [record.text for record in records]
    return found


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_are_read_as_files(tmp_path: Path, method: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a member is read otherwise than the file, a line is lost where it is cut, or none is found again."""
    monkeypatch.setattr(formats, "SLICE_BYTES", 300)
    members = {"a/é.txt": "One.", "b.jsonl": LINES, "c.csv": "text\nTwo.\n", "d.json": '[{"text": "Three."}]'}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.ZIP").write_bytes(package(members, method))
    found = texts(FilesSource(name="own", path=str(tmp_path), encoding="auto"))
    assert found == {
        "in/x.ZIP/a/é.txt": ["One."],
        "in/x.ZIP/b.jsonl": [f"line {number}" for number in range(50)],
        "in/x.ZIP/c.csv": ["Two."],
        "in/x.ZIP/d.json": ["Three."],
    }


def _flagged(data: bytes, flags: int, method: int) -> bytes:
    """A zip whose last member has other flags and another packing in both of its headers."""
    for sign, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        start = data.rindex(sign) + at
        data = data[:start] + struct.pack("<HH", flags, method) + data[start + 4 :]
    return data


def test_what_is_not_read_of_a_zip_is_counted(tmp_path: Path) -> None:
    """Fails if a picture, a locked member or an archive in it is lost in silence, or a name is."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in ("a.txt", "b.png", "c.zip", "__MACOSX/._a.txt", "caf\u00e9.txt", "locked.txt"):
            archive.writestr(name, name)
    (tmp_path / "x.zip").write_bytes(_flagged(out.getvalue(), 1, 0))
    (tmp_path / "y.zip").write_bytes(_flagged(package({"a.txt": "A.", "z.txt": "Z."}), 0, 9))
    source = FilesSource(name="own", path=str(tmp_path))
    files = raw_files(source)
    assert [file.name for file in files] == ["x.zip/a.txt", "x.zip/caf\u00e9.txt", "y.zip/a.txt"]
    passed = {group.kind: group.names for group in count_files(source, files).passed_over}
    assert passed == {
        ".png": ("x.zip/b.png",),
        ".zip in a .zip": ("x.zip/c.zip",),
        "hidden file": ("x.zip/__MACOSX/._a.txt",),
        ENCRYPTED: ("x.zip/locked.txt",),
        OTHER_PACKING: ("y.zip/z.txt",),
    }
    alone = FilesSource(name="own", path=str(tmp_path / "y.zip"))
    assert [group.kind for group in count_files(alone, raw_files(alone)).passed_over] == [OTHER_PACKING]


def test_a_zip_of_which_nothing_can_be_read_says_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(package({"a.png": "x", "b.png": "x"}))
    with pytest.raises(InputError, match=r"it holds 2 \.png\. Unpack it"):
        FilesSource(name="own", path=str(tmp_path / "x.zip")).files()


def test_names_of_code_page_437_and_of_utf_8_without_its_flag(tmp_path: Path) -> None:
    """Fails if the name of a member is not the one that unpackers show."""
    for name, raw, shown in (
        ("a", b"caf\x82.txt", "caf\u00e9.txt"),
        ("b", "caf\u00e9s.txt".encode(), "caf\u00e9s.txt"),
    ):
        data = package({"x" * len(raw): "One."}).replace(b"x" * len(raw), raw)
        (tmp_path / f"{name}.zip").write_bytes(data)
        assert list(texts(FilesSource(name="own", path=str(tmp_path / f"{name}.zip")))) == [f"{name}.zip/{shown}"]


def test_damage_of_one_member_costs_only_that(tmp_path: Path) -> None:
    """Fails if a bad checksum goes unseen, or one member takes the others with it."""
    data = package({"a.txt": "The first.", "b.txt": "The second."}, zipfile.ZIP_STORED)
    (tmp_path / "x.zip").write_bytes(data.replace(b"The first.", b"The worst."))
    source = FilesSource(name="own", path=str(tmp_path))
    first, second = raw_files(source)
    with pytest.raises(InputError, match=r"x\.zip!/a\.txt cannot be read to its end: the member is damaged"):
        list(source.records(source.slices(first)[0], Tally()))
    assert [record.text for record in source.records(source.slices(second)[0], Tally())] == ["The second."]


def _with_one_body(data: bytes) -> bytes:
    """A zip whose list has all members, of which only the first is there."""
    body, end = data[: data.index(b"PK\3\4", 4)], data.index(b"PK\5\6")
    entries = data[data.index(b"PK\1\2") : end]
    return body + entries + data[end : end + 16] + struct.pack("<LH", len(body), 0)


@pytest.mark.parametrize("damage", ["cut", "overlap"])
def test_zips_whose_list_is_wrong_are_refused_with_a_remedy(tmp_path: Path, damage: str) -> None:
    """Fails if a cut zip ends a run before it is named, or one that unpacks to petabytes is read."""
    data = package({f"{number}.txt": "x" * 5000 for number in range(30)}, zipfile.ZIP_STORED)
    data = data[:-100] if damage == "cut" else _with_one_body(data)
    (tmp_path / "x.zip").write_bytes(data)
    (tmp_path / "y.txt").write_text("One.")
    source = FilesSource(name="own", path=str(tmp_path))
    bad, good = raw_files(source)
    with pytest.raises(InputError, match=r"x\.zip cannot be read: .*\. Get it again, or unpack it\."):
        source.slices(bad)
    assert good.name == "y.txt"


def test_a_member_that_unpacks_to_far_more_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(package({"a.txt": "x" * 5_000_000}))
    (record,) = read_and_find(FilesSource(name="own", path=str(tmp_path), max_record_bytes=10_000))
    assert record.drop is not None and record.drop.reason == "too large"


def test_a_member_is_recognised_by_its_bytes(tmp_path: Path) -> None:
    """Fails if a zip that is written again with one more file makes all of them new, or a cache is wrong."""
    path = tmp_path / "x.zip"
    cache = StatCache()
    path.write_bytes(package({"a.txt": "One."}))
    (before,) = hash_files(FilesSource(name="own", path=str(path)).files(), cache)
    path.write_bytes(package({"0.txt": "Zero.", "a.txt": "One."}))
    _, after = hash_files(FilesSource(name="own", path=str(path)).files(), cache)
    assert (before.sha256, before.size_bytes) == (after.sha256, after.size_bytes)
    assert isinstance(parse_raw_path(after.path), MemberPath) and isinstance(after, RawFile)
    path.unlink()
    assert not parse_raw_path(after.path).exists()


def test_resources_of_a_saved_page_are_no_documents(tmp_path: Path) -> None:
    """Fails if frames of a page that a browser saved are documents, or a folder of texts is passed over."""
    page = f"<html><body><article><p>{'The ferry was late that day. ' * 9}</p></article></body></html>"
    for name in ("page.html", "page_files/ad.html", "page_files/js/x.txt", "own_files/kept.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(page)
    (tmp_path / "page_files" / "a.js").write_text("x")
    source = FilesSource(name="own", path=str(tmp_path))
    files = raw_files(source)
    assert [file.name for file in files] == ["own_files/kept.html", "page.html"]
    (group,) = count_files(source, files).passed_over
    assert (group.kind, group.number) == ("file of a saved page", 3)


def test_a_folder_may_be_called_as_what_is_in_a_zip(tmp_path: Path) -> None:
    """Fails if the path of a file is taken for that of a member."""
    (tmp_path / "data.zip!").mkdir()
    (tmp_path / "data.zip!" / "b.txt").write_text("One.")
    assert texts(FilesSource(name="own", path=str(tmp_path), encoding="auto")) == {"data.zip!/b.txt": ["One."]}


def test_a_member_whose_header_is_damaged_is_told_as_that(tmp_path: Path) -> None:
    """Fails if the disk is blamed for it."""
    data = package({"a.txt": "One.", "b.txt": "Two."})
    (tmp_path / "x.zip").write_bytes(b"PX" + data[2:])
    source, faults = FilesSource(name="own", path=str(tmp_path)), list[OSError]()
    hash_files(source.files(), StatCache(), lambda name, path, error: faults.append(error))
    assert [classify_error(error) for error in faults] == ["damaged zip member"]


def test_a_damaged_member_is_refused_with_the_damage(tmp_path: Path) -> None:
    """Fails if a message says None in place of the damage, which no number of the operating system names."""
    archive = tmp_path / "x.zip"
    archive.write_bytes(package({"a.txt": "One.", "b.tar": "Two."}).replace(b"PK\3\4", b"PK\3\5"))
    text, tar = (parse_raw_path(f"{archive}!/{name}") for name in ("a.txt", "b.tar"))
    pages = OpenWebTextSource(path=str(tar))
    piece = slice_whole_file(RawFile(name="b.tar", sha256="", size_bytes=4, path=str(tar)))
    for path, read in (
        (text, lambda: open_raw(text)),
        (text, lambda: hash_files([("a.txt", text)], StatCache())),
        (tar, lambda: list(pages.records(piece, Tally()))),
    ):
        with pytest.raises(InputError, match="its list names a member where none begins") as error:
            read()
        assert str(path) in str(error.value)
        assert "None" not in str(error.value)
