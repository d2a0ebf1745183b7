"""Files that a source is given and does not read: nothing in its folder is lost silently or counted twice."""

import bz2
import os
from pathlib import Path
from typing import Any

import pytest

from corpora.sources.contract import RawFile, Source, StatCache, hash_files
from corpora.sources.passed_over import MAX_NAMES_PER_KIND, PATH_TOO_LONG, UNREADABLE_FOLDER, FileCounts, count_files
from corpora.sources.registry import make_source

KINDS = {
    "files": "a.txt",
    "wikipedia": "xwiki-pages-articles.xml",
    "cc-news": "a.warc.gz",
    "bookcorpus": "a.epub",
    "openwebtext": "a.tar.xz",
    "stories": "a.jsonl",
    "xml": "a.nxml",
}


def _look(source: Source, **others: Any) -> FileCounts:
    raw = [
        RawFile(name=name, sha256="", size_bytes=path.stat().st_size, path=str(path)) for name, path in source.files()
    ]
    return count_files(source, raw, **others)


def _files(path: Path | str) -> Source:
    return make_source({"kind": "files", "name": "mine", "path": str(path)})


def _numbers(found: FileCounts) -> dict[str, int]:
    return {group.kind: group.number for group in found.passed_over}


def _put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text")


@pytest.mark.parametrize(("kind", "read"), KINDS.items())
def test_every_kind_of_source_counts_what_it_does_not_read_by_ending(tmp_path: Path, kind: str, read: str) -> None:
    """Fails for a kind whose folder can hold files of which it says nothing."""
    _put(tmp_path, read, "1.PPT", "deep/2.ppt", "c4.yaml.gz", "notes.doc", "README", "odd.~1~")
    preset = {"preset": "jats"} if kind == "xml" else {}
    found = _look(make_source({"kind": kind, "name": "mine", "path": str(tmp_path), **preset}))
    assert found.num_read == 1
    assert _numbers(found) == {".ppt": 2, "file without ending": 2, ".doc": 1, ".yaml.gz": 1}
    assert {group.kind: group.names for group in found.passed_over}[".ppt"] == ("1.PPT", "deep/2.ppt")


def test_what_is_no_file_of_its_own_is_counted_as_what_it_is(tmp_path: Path) -> None:
    """Fails if a dangling link, a linked folder, a pipe or a hidden file goes without a word, or the mark of an open
    document is read as one."""
    folder, elsewhere = tmp_path / "raw", tmp_path / "elsewhere"
    _put(folder, "a.txt", ".DS_Store", ".git/config", "~$a.docx", ".~lock.a.docx#")
    _put(elsewhere, "b.txt")
    (folder / "gone.txt").symlink_to(folder / "nowhere")
    (folder / "linked").symlink_to(elsewhere)
    (folder / "through.txt").symlink_to(elsewhere / "b.txt")  # a link to a file is read
    os.mkfifo(folder / "pipe.txt")
    found = _look(_files(folder))
    expected = {"hidden file": 4, "dangling link": 1, "linked folder": 1, "pipe, socket or device": 1}
    assert (found.num_read, _numbers(found)) == (2, expected)


def test_a_folder_that_cannot_be_read_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if files are missing because their folder is closed, and nothing says so."""
    _put(tmp_path, "a.txt", "closed/b.txt")
    scandir = os.scandir

    def refusing(path: Any = ".") -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)  # the tests may run as root, who may read everything
    assert _numbers(_look(_files(tmp_path))) == {"unreadable folder": 1}
    assert _numbers(_look(_files(tmp_path / "*"))) == {"folder": 1}, "it is not looked into anyway"
    _put(tmp_path, "open/c.txt")
    assert _numbers(_look(_files(tmp_path / "*" / "*"))) == {"unreadable folder": 1}


def test_of_a_glob_what_it_matches_is_given(tmp_path: Path) -> None:
    _put(tmp_path, "a.txt", "b.ppt", "c.doc", "deep/d.txt", "deep/e.ppt")
    assert _numbers(_look(_files(tmp_path / "*.*"))) == {".doc": 1, ".ppt": 1}
    assert _numbers(_look(_files(tmp_path / "*"))) == {".doc": 1, ".ppt": 1, "folder": 1}
    assert _numbers(_look(_files(tmp_path / "**" / "*"))) == {".ppt": 2, ".doc": 1}
    assert _numbers(_look(_files(tmp_path / "a.txt"))) == {}


def test_what_another_source_reads_and_the_store_are_not_passed_over(tmp_path: Path) -> None:
    _put(tmp_path, "a.txt", "b.mbox", "store/documents/x/manifest.json")
    found = _look(
        _files(tmp_path), read_by_others=[str(tmp_path / "b.mbox")], is_excluded=(tmp_path / "store").samefile
    )
    assert found.passed_over == ()


def test_the_index_of_a_dump_is_read_with_it(tmp_path: Path) -> None:
    """Fails if an index that cuts its dump is said not to be read, or one without a dump is thought to be."""
    for name in ("xwiki-1-pages-articles-multistream.xml.bz2", "xwiki-1-pages-articles-multistream-index.txt.bz2"):
        (tmp_path / name).write_bytes(bz2.compress(b"x"))
    _put(tmp_path, "xwiki-2-pages-articles-multistream-index.txt.bz2")
    found = _look(make_source({"kind": "wikipedia", "path": str(tmp_path)}))
    assert _numbers(found) == {".txt.bz2": 1}
    assert found.passed_over[0].names == ("xwiki-2-pages-articles-multistream-index.txt.bz2",)


def test_empty_files_are_told(tmp_path: Path) -> None:
    """Fails if a file of no bytes, which gives no line and so no record, is read without a word."""
    _put(tmp_path, "a.txt")
    (tmp_path / "b.jsonl").touch()
    [empty] = _look(_files(tmp_path)).empty
    assert (empty.number, empty.names) == (1, ("b.jsonl",))


def test_names_are_bounded_and_can_be_written(tmp_path: Path) -> None:
    """Fails if a name that is not UTF-8 cannot be put on record, or a million names are."""
    _put(tmp_path, "a.txt", *(f"{number}.ppt" for number in range(MAX_NAMES_PER_KIND + 5)))
    (tmp_path / os.fsdecode(b"caf\xe9.doc")).touch()
    found = {group.kind: group for group in _look(_files(tmp_path)).passed_over}
    assert found[".ppt"].number == MAX_NAMES_PER_KIND + 5 and len(found[".ppt"].names) == MAX_NAMES_PER_KIND
    assert found[".doc"].names == ("caf\\xe9.doc",)


def test_what_is_deeper_than_a_path_may_be_is_counted(tmp_path: Path) -> None:
    """Fails if a tree deeper than 4,096 bytes ends in a traceback, or what is in it is passed over in silence."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):
        for name in ("a.txt", f"{'b' * 220}.txt"):
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    source = make_source({"kind": "files", "name": "docs", "path": str(tmp_path)})
    files = hash_files(source.files(), StatCache())
    looked = count_files(source, files)
    folders = [size for size in (len(str(tmp_path)) + 201 * depth for depth in range(26)) if size < 4_096]
    read = sum(folder + 1 + size < 4_096 for folder in folders for size in (5, 224))
    assert len(folders) < 26 and len(files) == read
    found = {group.kind: group.number for group in looked.passed_over}
    assert found == {kind: n for kind, n in ((PATH_TOO_LONG, 2 * len(folders) - read), (UNREADABLE_FOLDER, 1)) if n}
