"""Raw files in an object store: what every kind reads of them is what it reads of the same files in a folder."""

import bz2
import gzip
import lzma
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faulty_proxy import FaultyProxy, faulty_proxy
from source_reading import raw_files

from corpora.errors import InputError, UnreadableFile
from corpora.judging.documents import name_file_in_errors
from corpora.sources.bytes import bz2_streams, objects
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.contract import RawFile, Source, StatCache, Tally, hash_files
from corpora.sources.passed_over import count_files
from corpora.sources.registry import OBJECT_KINDS, make_source
from corpora.store.places import object_store
from corpora.store.places.place import Place

pytestmark = pytest.mark.server

BUCKET = "cloze-tests"
SAMPLES = Path(objects.__file__).parents[2] / "samples"
KINDS = {
    "files": "mine",
    "bookcorpus": "books",
    "cc-news": "cc_news/CC-NEWS-20260103000000-00000.warc.gz",
    "openwebtext": "openwebtext/openwebtext.tar.xz",
    "stories": "stories/*.txt",
    "wikipedia": "wikipedia",
    "xml": "mine/deep",
}
PROSE = b"The keeper counted seven boats, and nobody knew why one was missing.\n" * 40
XML = b"<articles><article><title>One</title><body><p>Seven boats.</p></body></article></articles>"


def fill(folder: Path) -> Path:
    """The samples, a file of most endings of the kind `files`, and some that nobody reads."""
    shutil.copytree(SAMPLES, folder, ignore=shutil.ignore_patterns("pages", "__pycache__"))
    mine = folder / "mine"
    (mine / "deep").mkdir(parents=True)
    lines = b"".join(b'{"text": "line %d"}\n' % number for number in range(300))
    packings = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    zstd = pa.Codec("zstd")
    for ending, pack in {**packings, ".zst": lambda data: zstd.compress(data, asbytes=True)}.items():
        (mine / f"a b#{len(ending)}.txt{ending}").write_bytes(pack(PROSE))
        (mine / "deep" / f"lines.jsonl{ending}").write_bytes(pack(lines))
    (mine / "table.csv").write_bytes(b"text,id\n" + b'"a, ""b""",1\n' * 50)
    rows = [{"text": f"row {number}", "more": "x" * 300} for number in range(1000)]
    pq.write_table(pa.Table.from_pylist(rows), mine / "rows.parquet", row_group_size=250)
    (mine / "deep" / "articles.xml").write_bytes(XML)
    for name in ("notes.pdf", "deep/README", ".hidden"):
        (mine / name).write_bytes(b"text")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw files in a folder."""
    return fill(tmp_path_factory.mktemp("raw") / "files")


@pytest.fixture(scope="module")
def bucket(folder: Path, s3_endpoint: str) -> Place:
    """The same in an object store."""
    s3_store = Place(f"s3://{BUCKET}/raw files?endpoint_override={s3_endpoint}&scheme=http")
    for path in folder.rglob("*"):
        if path.is_file():
            s3_store.write(path.relative_to(folder).as_posix(), path.read_bytes())
    return s3_store


def source_at(kind: str, path: str) -> Source:
    """A source of a kind, as a recipe has it."""
    more: dict[str, Any] = {"record": "article", "fields": {"title": "title", "text": "body"}} if kind == "xml" else {}
    return make_source({"kind": kind, "name": "mine", "path": path, **more})


def address(place: Place, name: str) -> str:
    """The address of an object, or of a pattern of some."""
    return place.to_address(name)


def all_records(source: Source, files: list[RawFile]) -> list[Any]:
    """Slices and records of all files; a slice without the path of its file."""
    found: list[Any] = []
    for file in files:
        for piece in source.slices(file):
            tally = Tally()
            found += [piece.to_json(), *source.records(piece, tally), tally.records]
    return found


@pytest.mark.parametrize("kind", OBJECT_KINDS)
def test_objects_are_read_as_files_are(
    kind: str, folder: Path, bucket: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Names, hashes, slices, records, single records and what is passed over; and nothing is copied to this machine."""
    monkeypatch.setattr(objects, "READ_BYTES", 1_000)
    monkeypatch.setattr(bz2_streams, "WINDOW_BYTES", 5_000)
    here, there = source_at(kind, str(folder / KINDS[kind])), source_at(kind, address(bucket, KINDS[kind]))
    files, away = raw_files(here), raw_files(there)
    assert [file.to_json() for file in files] == [file.to_json() for file in away] and files
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no-folder"))  # there is nowhere to copy to
    found = all_records(here, files)
    assert all_records(there, away) == found
    assert count_files(there, away).passed_over == count_files(here, files).passed_over
    first = next(record for record in found if hasattr(record, "locator") and record.drop is None)
    one, other = (next(f.path for f in some if f.sha256 == first.locator.sha256) for some in (files, away))
    assert (
        there.raw_record(parse_raw_path(other), first.locator)
        == here.raw_record(parse_raw_path(one), first.locator)
        != b""
    )


def test_addresses_mean_what_paths_mean(folder: Path, bucket: Place) -> None:
    """One object, a prefix, wildcards; with their names relative to where the wildcards begin."""
    for path in ("mine", "mine/*.txt", "mine/**/*.jsonl", "*/deep/lines.jsonl.*", "mine/table.csv"):
        here, there = (source_at("files", where).files() for where in (str(folder / path), address(bucket, path)))
        assert [name for name, _ in there] == [name for name, _ in here] and here
        assert [away.stat().st_size for _, away in there] == [path.stat().st_size for _, path in here]
    with pytest.raises(InputError, match=r"nothing at s3://.*/nowhere"):
        source_at("files", address(bucket, "nowhere")).files()


def test_an_object_that_did_not_change_is_hashed_once(bucket: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = source_at("files", address(bucket, "mine/table.csv")), StatCache()
    [first] = hash_files(source.files(), cache)
    monkeypatch.setattr(objects.ObjectReader, "_read", lambda self, size: pytest.fail("it is read again"))
    assert hash_files(source.files(), cache) == [first]
    monkeypatch.undo()
    bucket.write(
        "mine/table.csv", Path(SAMPLES / "__init__.py").read_bytes()[: first.size_bytes].ljust(first.size_bytes)
    )
    [second] = hash_files(source.files(), cache)
    assert second.size_bytes == first.size_bytes and second.sha256 != first.sha256


@pytest.fixture
def proxy(s3_endpoint: str) -> Any:
    """A proxy in front of the store."""
    with faulty_proxy(s3_endpoint) as running:
        yield running


def test_a_store_that_falters_costs_waits_and_no_record(
    bucket: Place, s3_endpoint: str, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503s, connections that break, answers that end too soon or come slowly."""
    monkeypatch.setattr(objects, "READ_BYTES", 2_000)
    far = bucket.address.replace(s3_endpoint, proxy.address)
    near, away = (source_at("files", address(Place(where), "mine/deep/*.jsonl*")) for where in (bucket.address, far))
    expected = all_records(near, raw_files(near))
    proxy.pause = 0.002
    proxy.faults = ["", "busy", "reset", "", "cut", "busy", "", "", "reset", "cut"]
    assert all_records(away, raw_files(away)) == expected
    assert not proxy.faults


def test_a_store_that_goes_is_no_damage_of_a_file(
    bucket: Place, s3_endpoint: str, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `on_damage = "skip"` a damaged file is left out of the corpus; an outage must not do that."""
    monkeypatch.setattr(object_store, "PATIENCE_SECONDS", 0.5)
    far = Place(bucket.address.replace(s3_endpoint, proxy.address))
    for name in ("mine/table.csv", "mine/rows.parquet", "mine/deep/lines.jsonl.bz2", "mine/deep/lines.jsonl.zst"):
        source = source_at("files", address(far, name))
        [file] = raw_files(source)
        [piece, *_] = source.slices(file)
        proxy.drop()
        with (
            pytest.raises(InputError, match="the object store does not answer") as caught,
            name_file_in_errors(source, file),
        ):
            list(source.records(piece, Tally()))
        assert not isinstance(caught.value, UnreadableFile)
        proxy.always = ""
