"""Every form of raw file cut off, or where none should be: counted drops or one clear paragraph, nothing else written.

Each case goes the way of a run: the source's files are planned, a part is built, and its ledger compares the records
counted in the bytes with the rows that were written. `test_fuzz.py` damages what is in these files, and
`test_memory.py` has what is large or expands.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest
from fuzz_inputs import TARGETS
from fuzz_readers import RawFileReader
from tiers import a_few

from corpora.errors import InputError
from corpora.judging.documents import plan_documents
from corpora.judging.settings import DocumentsSettings
from corpora.sources.contract import QUARANTINED, StatCache, Tally, hash_files, to_quarantine_key
from corpora.sources.registry import SOURCES, load_source_class, make_source
from corpora.store.places.place import Place
from corpora.store.stage import build_stage

NOBODY = 65_534
READERS = {name: target.read for name, target in TARGETS.items() if isinstance(target.read, RawFileReader)}
PACKED = [name for name, reader in READERS.items() if reader.name.endswith((".gz", ".bz2", ".xz", ".zst"))]

each_form = pytest.mark.parametrize("form", READERS)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the hostile file, two below the one that is watched; the working folder is next to it."""
    for name in ("raw", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "raw"


def whole_file(form: str) -> bytes:
    """A file of this form without fault."""
    whole = TARGETS[form].inputs[0]
    return whole.pack(whole.data)


def outcome(path: Path, form: str) -> Mapping[str, int] | str:
    """Return a run's outcome for a path: counted rows by outcome, or the paragraph with which it refuses.

    Fails where anything else is raised, the ledger does not add up, the paragraph is no paragraph or names no file,
    or something outside the store is written or changed.
    """
    around = Path.cwd().parent
    store = around / "store"
    before = listing(around, store)
    source = READERS[form].source(path)
    try:
        files = hash_files(source.files(), StatCache())
        manifest = build_stage(Place(str(store)), plan_documents(source, files, DocumentsSettings()))
    except InputError as error:
        assert path.name in str(error) and str(error).strip() == str(error) and "\n\n" not in str(error)
        assert listing(around, store) == before
        return str(error)
    assert listing(around, store) == before
    if not manifest.parts:
        return {}
    account = manifest.ledger.find_account("records")
    rows = sum(part.count_rows("documents") + part.count_rows("dropped") for part in manifest.parts)
    assert account.total == sum(account.outcomes.values()) == rows
    return account.outcomes


def listing(folder: Path, store: Path) -> list[tuple[str, int, int]]:
    """Everything below a folder but the store: path, size, time of the last change."""
    found = (path for path in sorted(folder.rglob("*")) if store not in (path, *path.parents))
    return [(str(path), (stat := path.lstat()).st_size, stat.st_mtime_ns) for path in found]


@each_form
def test_a_record_in_quarantine_is_not_parsed(place: Path, form: str) -> None:
    """Fails if a source parses a record before it asks, so that a crash over it has no name."""
    path = place / READERS[form].name
    path.write_bytes(whole_file(form))
    source = READERS[form].source(path)
    files = hash_files(source.files(), StatCache())
    for piece in [piece for file in files for piece in source.slices(file)]:
        for number, record in enumerate(whole := list(source.records(piece, Tally()))):
            if record.drop is None:
                again = list(source.records(piece, Tally([to_quarantine_key(record.locator)])))
                assert again[number][:2] == (record.locator, "") and again[number].drop == QUARANTINED
                assert [*again[:number], *again[number + 1 :]] == [*whole[:number], *whole[number + 1 :]]


@each_form
def test_cut_off(place: Path, form: str) -> None:
    """Fails if a file that is cut off ends a run in anything but drops or a paragraph."""
    data, path = whole_file(form), place / READERS[form].name
    for share in a_few((0.1, 0.5, 0.9), 1, form):
        path.write_bytes(data[: int(share * len(data))])
        outcome(path, form)
    path.write_bytes(b"")
    found = outcome(path, form)
    assert isinstance(found, str) or found.get("documents", 0) == 0


@pytest.mark.parametrize("form", PACKED)
def test_packed_files_that_are_cut_off_are_told(place: Path, form: str) -> None:
    """Fails if a packed file that is cut off is taken for a whole one, however little is missing."""
    data, path = whole_file(form), place / READERS[form].name
    for size in (len(data) // 3, len(data) - 1):
        path.write_bytes(data[:size])
        found = outcome(path, form)
        assert isinstance(found, str) or any("damaged" in reason for reason in found)


@each_form
def test_a_folder_in_place_of_a_file(place: Path, form: str) -> None:
    """Fails if a folder with the name of a file is opened: alone, and among files."""
    name = READERS[form].name
    (place / name).mkdir()
    assert isinstance(outcome(place / name, form), str)
    (place / f"z{name}").write_bytes(whole_file(form))
    found = outcome(place, form)
    assert not isinstance(found, str) and sum(found.values()) >= 1


@each_form
def test_a_file_that_goes_away(place: Path, form: str) -> None:
    """Fails if a link to nothing is read, or named without its name."""
    path = place / READERS[form].name
    path.symlink_to(place / "nowhere")
    assert isinstance(outcome(path, form), str)


@each_form
def test_a_file_that_may_not_be_read(form: str) -> None:
    """Fails if permissions are anything but a paragraph: of a file, and of the folder around it."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder), as_nobody(Path(folder)):
        for name in ("raw", "work"):
            (Path(folder) / name).mkdir()
        os.chdir("work")
        path = Path(folder) / "raw" / READERS[form].name
        path.write_bytes(whole_file(form))
        path.chmod(0)
        assert isinstance(outcome(path, form), str)
        path.parent.chmod(0)
        assert isinstance(outcome(path, form), str)
        path.parent.chmod(0o700)


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Root may read everything, so for a while it is somebody else, to whom the folder belongs."""
    if os.geteuid():
        yield
        return
    for kind in SOURCES:
        load_source_class(kind)  # imported while its libraries can be read
    try:
        os.chown(folder, NOBODY, -1)
    except OSError:
        pytest.skip("root of a user namespace in which there is nobody else: it may read everything")
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_name_that_is_not_utf_8(place: Path) -> None:
    """Fails if a file is not read for its name, or a column gets a name that it cannot hold."""
    (place / os.fsdecode(b"caf\xe9.jsonl")).write_bytes(b'{"text": "a"}\n')
    source = make_source({"kind": "files", "name": "hostile", "path": str(place)})
    [(name, path)] = source.files()
    assert name == r"caf\xe9.jsonl" and path.is_file()
    [file] = hash_files([(name, path)], StatCache())
    assert [record.text for piece in source.slices(file) for record in source.records(piece, Tally())] == ["a"]
