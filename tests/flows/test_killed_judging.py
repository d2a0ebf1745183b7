"""Verdicts and `cloze dedup` that are killed, or whose disk fills: nothing is left that the next run does not use."""

import errno
import json
import resource
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killed_at import WORK, started
from made_store import Made, MadeInput, build_inputs
from tiers import LONG

from corpora.duplicates.survivors import DuplicateSettings
from corpora.errors import InputError
from corpora.store.places.place import Place
from corpora.store.scratch import explain_scratch_errors

KILLS = 10 if LONG else 3
DOCUMENTS = 600


def texts(number: int) -> list[str]:
    """Texts of which a third are copies, half of these with another word."""
    made = []
    for at in range(number):
        own = at - at % 3 // 2
        words = [f"w{(own * 7919 + word * word) % 9973}" for word in range(24)]
        made.append(" ".join([*words, *(["more"] if at % 6 == 5 else [])]))
    return made


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of documents and signatures, and the same texts as lines of JSON and as Parquet."""
    folder = tmp_path_factory.mktemp("begun")
    rows = [Made(number, text) for number, text in enumerate(texts(DOCUMENTS))]
    build_inputs(Place(str(folder / "store")), [MadeInput(rows, 1, part_rows=100)], DuplicateSettings())
    (folder / "in.jsonl").write_text("".join(json.dumps({"text": row.text}) + "\n" for row in rows))
    pq.write_table(pa.table({"text": [row.text for row in rows]}), folder / "in.parquet")
    return folder


def made(folder: Path) -> dict[str, bytes]:
    """All files of a folder, but those that processes lock."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize("kind", WORK)
def test_what_is_killed_leaves_nothing_that_the_next_does_not_use(
    kind: str, begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: whenever the process is killed, the next one makes the same bytes, and no other file is there then.

    What the first left is hidden, next to what it made, and nothing is left in the folder for temporary files.
    """
    folders = [copytree(begun, tmp_path / f"{number}") for number in range(KILLS + 1)]
    (tmp_path / "tmp").mkdir()
    ends = started(kind, folders, tmp_path / "tmp")
    assert [end for end, _ in ends] == [0, *[-signal.SIGKILL] * KILLS]
    assert not [*(tmp_path / "tmp").iterdir()]
    whole = made(folders[0])
    assert len(whole) > len(made(begun))
    for folder in folders[1:]:
        left = [name for name in made(folder) if name not in whole]
        assert all(any(part.startswith(".") for part in Path(name).parts) for name in left), left
        monkeypatch.chdir(folder)
        WORK[kind]()
        assert made(folder) == whole


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file of this process may be longer: the disk refuses the rest, as a full one does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", WORK)
def test_a_disk_without_room_is_a_paragraph_and_leaves_nothing(
    kind: str, begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: wherever the room ends, one paragraph says where and what helps; what is left is what was there before."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    folder, refused = copytree(begun, tmp_path / "work"), 0
    before = made(folder)
    monkeypatch.chdir(folder)
    for size in (0, 1_000, 10_000, 30_000, 60_000, 90_000):
        try:
            with files_of_at_most(size):
                WORK[kind]()
        except InputError as error:
            refused += 1
            assert "\n" not in str(error) and "free some space, or" in str(error), error
            assert "store" in str(error) or "out" in str(error)
        else:
            break
        assert made(folder) == before, size
        assert not [*(tmp_path / "tmp").iterdir()]
    assert refused > 2
    if made(folder) == before:
        WORK[kind]()
    assert made(folder).keys() > before.keys()


@pytest.mark.parametrize("folder", ["a store", None])
def test_a_full_disk_of_scratch_names_what_helps(folder: str | None) -> None:
    """Fails if scratch of a store elsewhere, which is in the folder for temporary files, asks for another store."""
    with (
        pytest.raises(InputError, match=r"12 bytes of scratch in .* the disk is full: free some space, or") as found,
        explain_scratch_errors(folder or tempfile.gettempdir(), 12),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert ("set TMPDIR to a folder on another disk" in str(found.value)) == (folder is None)
