"""Hostile places: folders for files, files that go away or may not be read, names and members that point elsewhere."""

import gzip
import io
import lzma
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hostile_forms import (
    EPUB_FIELDS,
    LONG_PROSE,
    ROW_FIELDS,
    Form,
    documents,
    dump,
    each_form,
    epub,
    json_lines,
    outcome,
)

from corpora.errors import InputError
from corpora.sources.registry import make_source

NOBODY = 65_534


@each_form
def test_a_folder_in_place_of_a_file(place: Path, form: Form) -> None:
    """Fails where a folder with the name of a file is opened: alone, and among files."""
    (place / form.name).mkdir()
    assert isinstance(outcome(place / form.name, form), str)
    whole = place / f"z{form.name}"
    whole.write_bytes(form.make(form.fields))
    assert documents(outcome(place, form)) >= 1


@each_form
def test_a_file_that_goes_away(place: Path, form: Form) -> None:
    """Fails where a link to nothing is read, or named without its name."""
    (place / form.name).symlink_to(place / "nowhere")
    assert isinstance(outcome(place / form.name, form), str)


@each_form
def test_a_file_that_may_not_be_read(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where permissions are anything but a paragraph: of a file, and of the folder around it."""
    with tempfile.TemporaryDirectory() as folder, as_nobody(Path(folder)):
        place = Path(folder) / "raw"
        (Path(folder) / "work").mkdir()
        monkeypatch.chdir(Path(folder) / "work")
        place.mkdir()
        (place / form.name).write_bytes(form.make(form.fields))
        (place / form.name).chmod(0)
        assert isinstance(outcome(place / form.name, form), str)
        place.chmod(0)
        assert isinstance(outcome(place / form.name, form), str)
        place.chmod(0o700)
        monkeypatch.undo()


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Root may read everything, so for a while it is somebody else, to whom the folder belongs."""
    if os.geteuid():
        yield
        return
    os.chown(folder, NOBODY, -1)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_name_that_is_not_utf_8(place: Path) -> None:
    """Fails where a name that no column can hold is found out only by the writer of a table."""
    name = os.fsdecode(b"caf\xe9.jsonl")
    (place / name).write_bytes(json_lines(ROW_FIELDS))
    source = make_source({"kind": "files", "name": "hostile", "path": str(place)})
    with pytest.raises(InputError, match="UTF-8"):
        source.files()


def hostile_tar(target: Path) -> bytes:
    """Members that would be written next to and above, links and devices with and without bytes, and one good text."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in (f"{target}/absolute.txt", "../../up.txt", "a/../../../up.epub", "good.txt"):
            info = tarfile.TarInfo(name)
            info.size = len(LONG_PROSE)
            archive.addfile(info, io.BytesIO(LONG_PROSE))
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, b"6", b"Z")):
            info = tarfile.TarInfo(f"{number}.txt")
            info.type, info.linkname = kind, f"{target}/secret.txt"
            archive.addfile(info)
    return out.getvalue()


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.xz"])
def test_members_that_point_elsewhere(place: Path, name: str) -> None:
    """Fails where a member is unpacked, or a link followed: what it names is neither written nor in a text."""
    target = place.parent / "target"
    target.mkdir()
    (target / "secret.txt").write_bytes(b"The secret word is xyzzy. " * 90)
    packings: dict[str, Callable[[bytes], bytes]]
    packings = {"a.tar": bytes, "a.tar.gz": gzip.compress, "a.tar.xz": lzma.compress}
    (place / name).write_bytes(packings[name](hostile_tar(target)))
    kinds = {"a.tar": ("bookcorpus", "openwebtext"), "a.tar.gz": ("bookcorpus",), "a.tar.xz": ("openwebtext",)}
    for kind in kinds[name]:
        found = outcome(place / name, Form(kind=kind, name=name, make=dump))
        assert not isinstance(found, str) and sum(found.values()) == 10
        assert documents(found) >= 1 and sum(count for reason, count in found.items() if "not a" in reason) >= 5


@pytest.mark.parametrize("kind", ["bookcorpus", "files"])
def test_a_zip_that_points_elsewhere(place: Path, kind: str) -> None:
    """Fails where a page that an EPUB names outside itself is read, or one of its members is unpacked."""
    (place.parent / "secret.xhtml").write_bytes(b"<p>The secret word is xyzzy.</p>" * 90)
    for href in (b"../secret.xhtml", b"/etc/hostname", b"file:///etc/hostname", b"%2e%2e/secret.xhtml"):
        (place / "a.epub").write_bytes(epub({**EPUB_FIELDS, b"href": href}))
        found = outcome(place / "a.epub", Form(kind=kind, name="a.epub", make=epub))
        assert not isinstance(found, str) and documents(found) == 0
        with zipfile.ZipFile(place / "a.epub", "a") as archive:
            archive.writestr("../../up.txt", "up")
        outcome(place / "a.epub", Form(kind=kind, name="a.epub", make=epub))
