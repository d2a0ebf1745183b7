"""The contract's own functions: files found, hashed and remembered, slices grouped."""

import os
import threading
from pathlib import Path

import pytest

from corpora.errors import InputError
from corpora.sources.contract import (
    SLICE_BYTES,
    RawFile,
    Slice,
    StatCache,
    cut_every,
    find_files,
    group_slices,
    hash_files,
)

ABC_SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1


def _file(name: str = "a", size: int = 100) -> RawFile:
    return RawFile(name=name, sha256="0" * 64, size_bytes=size, path=f"/nowhere/{name}")


def _find(path: Path | str) -> list[str]:
    return [name for name, _ in find_files("s", str(path), lambda name: name.endswith(".txt"), "text")]


def test_matching_files_names_are_relative_to_the_folder_or_fixed_part(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "deep/c.txt", "x.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    assert _find(tmp_path) == ["a.txt", "b.txt", "deep/c.txt"]
    assert _find(tmp_path / "deep" / "c.txt") == ["c.txt"]
    assert _find(tmp_path / "*.txt") == ["a.txt", "b.txt"]
    assert _find(tmp_path / "**" / "c*") == ["deep/c.txt"]


def test_matching_files_takes_a_file_whose_name_holds_a_wildcard(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("text")
    assert _find(tmp_path / "a[1].txt") == ["a[1].txt"]


@pytest.mark.parametrize("path", ["missing.txt", "empty", "*.txt", "missing/*.txt"])
def test_matching_files_refuses_a_path_that_means_nothing(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"Source 's'.*Set its `path` to text"):
        _find(tmp_path / path)


def test_files_are_hashed_side_by_side_and_given_in_their_order(tmp_path: Path) -> None:
    """Fails if one file's bytes are waited for before the next is asked for: here none comes before the last."""
    names = [f"{number}.txt" for number in range(4)]
    together = threading.Barrier(len(names), timeout=120)

    class Waiting(StatCache):
        def hash_file(self, path: Path) -> tuple[int, str]:
            together.wait()
            return 1, path.name

    files = hash_files([(name, tmp_path / name) for name in names], Waiting())
    assert [file.sha256 for file in files] == names


def test_stat_cache_remembers_an_old_file_and_sees_a_change(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    fresh = StatCache()
    fresh.hash_file(path)
    assert fresh.entries == {}, "a file that was just written may change within its time stamp"
    stat = path.stat()
    stamp = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
    cache = StatCache({str(path): [*stamp, "remembered"]})
    assert cache.hash_file(path) == (3, "remembered")
    os.utime(path, (1, 1))
    assert cache.hash_file(path) == (3, ABC_SHA256)


def test_parts_of_a_megabyte_are_cut_from_one_file() -> None:
    """Fails if `part_bytes` does nothing for a format that can be cut anywhere."""
    assert len(group_slices(cut_every(_file(size=4_000_000), SLICE_BYTES), 1_000_000)) == 4


def test_group_slices_joins_neighbours_and_cuts_at_the_part_size() -> None:
    first, second = _file("a"), _file("b")
    pieces = [Slice(file=first, start=start, stop=start + 10) for start in range(0, 50, 10)]
    groups = group_slices([*pieces, Slice(file=second, start=0, stop=5)], part_bytes=20)
    assert [[(piece.file.name, piece.start, piece.stop) for piece in group] for group in groups] == [
        [("a", 0, 20)],
        [("a", 20, 40)],
        [("a", 40, 50), ("b", 0, 5)],
    ]


def test_group_slices_does_not_join_across_a_gap() -> None:
    pieces = [Slice(file=_file(), start=0, stop=10), Slice(file=_file(), start=20, stop=30)]
    assert group_slices(pieces, part_bytes=1000) == [tuple(pieces)]


def test_identity_of_a_slice_holds_no_path() -> None:
    assert "/nowhere" not in str(Slice(file=_file(), start=0, stop=1).to_json())
    assert "/nowhere" not in str(_file().to_json())
