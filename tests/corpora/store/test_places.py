"""Places: a file that can be seen is whole, in a folder and on an object store alike."""

import errno
import hashlib
import os
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_stage import PATIENCE, toy_stage

from corpora.errors import InputError
from corpora.store.places.address import ObjectAddress, parse_object_address
from corpora.store.places.place import HashingSink, Place
from corpora.store.stage import build_stage, survey_stage

MEGABYTE = 1 << 20
NAMES = st.text(st.characters(blacklist_characters="/", blacklist_categories=("C",)), min_size=1, max_size=9).filter(
    lambda name: name not in (".", "..")
)


@pytest.fixture
def place(either_place: Place) -> Place:
    """An empty store of either kind."""
    return either_place


def everything_under(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def test_files_are_written_listed_read_and_deleted(place: Place) -> None:
    assert place.list_files("") == {}
    place.write("a/one.bin", b"first")
    place.write("a/b/two.bin", b"second!")
    place.write("c/three.bin", b"")
    assert place.list_files("") == {"a/one.bin": 5, "a/b/two.bin": 7, "c/three.bin": 0}
    assert place.list_files("a") == {"a/one.bin": 5, "a/b/two.bin": 7}
    assert place.list_files("nowhere") == {}
    assert (place.find_size("a/one.bin"), place.find_size("a"), place.find_size("a/none.bin")) == (5, None, None)
    assert place.read("a/b/two.bin") == b"second!"
    place.write("a/one.bin", b"another")
    assert place.read("a/one.bin") == b"another"
    place.delete("a/one.bin")
    assert place.list_files("a") == {"a/b/two.bin": 7}


def test_what_is_not_there_is_not_found(place: Place) -> None:
    for attempt in (place.read, place.open, place.delete):
        with pytest.raises(FileNotFoundError):
            attempt("none.bin")


def test_files_open_at_any_offset(place: Place) -> None:
    place.write("data.bin", bytes(range(256)) * 100)
    with place.open("data.bin") as source:
        assert source.size() == 25600
        source.seek(255)
        assert source.read(3) == b"\xff\x00\x01"


def test_a_sink_counts_and_hashes_what_it_writes(place: Place) -> None:
    pieces = [b"some", pa.py_buffer(b"bytes"), memoryview(b"and more"), b"x" * (3 * MEGABYTE)]
    with place.create("data.bin") as sink:
        for piece in pieces:
            sink.write(piece)
        sink.flush()
        told = sink.tell()
    data = b"".join(bytes(piece) for piece in pieces)
    assert place.read("data.bin") == data
    assert (told, sink.size_bytes, sink.sha256()) == (len(data), len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("error", [KeyError("our own"), PermissionError(errno.EACCES, "of another file")], ids=str)
def test_a_writer_that_raises_leaves_what_was_there(place: Place, error: Exception, tmp_path: Path) -> None:
    place.write("kept.bin", b"old")
    for path in ("kept.bin", "new.bin"):
        with pytest.raises(type(error)) as raised, place.create(path) as sink:
            sink.write(b"half of it")
            raise error
        assert raised.value is error  # never taken for a fault of this place
    assert place.list_files("") == {"kept.bin": 3}
    assert place.read("kept.bin") == b"old"
    if place.is_local:
        assert everything_under(tmp_path) == [tmp_path / "store" / "kept.bin"]


def test_nothing_is_seen_before_the_block_ends(place: Place) -> None:
    with place.create("new.bin") as sink:
        sink.write(b"x" * (2 * MEGABYTE))
        sink.flush()
        assert place.list_files("") == {} and place.find_size("new.bin") is None
    assert place.list_files("") == {"new.bin": 2 * MEGABYTE}


def test_a_reader_never_sees_half(place: Place) -> None:
    """Fails if a file can be read while it is half written: both begin together, again and again."""
    versions = [bytes([number]) * (number * 100_000) for number in range(1, 41 if place.is_local else 16)]
    place.write("data.bin", versions[0])
    together = threading.Barrier(2, timeout=PATIENCE)

    def write() -> None:
        for version in versions[1:]:
            together.wait()
            place.write("data.bin", version)

    with ThreadPoolExecutor(1) as threads:
        writer = threads.submit(write)
        for older, newer in pairwise(versions):
            together.wait()
            assert place.read("data.bin") in (older, newer)
        writer.result(PATIENCE)
    assert place.read("data.bin") == versions[-1]


def test_a_place_travels_as_its_address(place: Place) -> None:
    place.write("a.bin", b"here")
    data = pickle.dumps(place)
    assert len(data) < len(place.address) + 200
    other: Place = pickle.loads(data)
    assert other == place and hash(other) == hash(place)
    assert other.read("a.bin") == b"here"


def test_a_folder_is_found_by_any_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Place(str(tmp_path / "store")).write("a.bin", b"here")
    monkeypatch.chdir(tmp_path)
    for address in ("store", "./store/", "store/../store", f"file://{tmp_path}/store", f"{tmp_path}/store/"):
        place = Place(address)
        assert place.is_local
        assert (place.list_files(""), place.read("a.bin")) == ({"a.bin": 4}, b"here")
        assert place.to_full_path("a.bin") == f"{tmp_path}/store/a.bin"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("gopher://x/y", "gopher://... is not the address of a folder or an object store"),
        ("gs://bucket/prefix", "No other kind is supported"),
        ("s3:/bucket/prefix", "s3:/... is not the address"),
        ("s3:///prefix", "names no bucket"),
        ("s3://bucket/prefix?colour=red", "may be region, scheme, endpoint_override"),
        ("s3://bucket/prefix?scheme=ftp", "it is https or http"),
        ("s3://bucket/a/../b", "an object store has none"),
        ("s3://bucket/%ff", "not UTF-8"),
        ("file://server/share", "three slashes"),
        ("", "is not the path"),
        ("a\0b", "is not the path"),
        ("a/" + 256 * "n", "more than 255 bytes"),
        ("caf\udce9", "is not UTF-8"),
    ],
)
def test_an_address_of_nothing_is_refused(address: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        Place(address)


SECRET = "wJalrXUtnFEMI"


@pytest.mark.parametrize(
    "address",
    [
        f"s3://AKIA:{SECRET}@bucket/prefix",
        f"s3://AKIA:{SECRET}/K7MDENG@bucket/prefix",
        f"s3://{SECRET}@bucket",
        f"S3://AKIA:{SECRET}@bucket",
        f"s3://AKIA%3A{SECRET}%40bucket/prefix",
        f"s3://bucket/prefix?access_key=AKIA&secret_key={SECRET}",
        f"s3://bucket?X-Amz-Security-Token={SECRET}",
        f"s3://bucket?{SECRET}",
        f"s3://bucket?endpoint_override=user:{SECRET}@host:9000",
        f"s3://bucket?endpoint_override=user%3A{SECRET}%40host",
        f"gs://{SECRET}@bucket",
        f"https://user:{SECRET}@host/store",
        f"file://user:{SECRET}@host/store",
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_shown(address: str) -> None:
    """Fails if a form of it is taken, for it would be on record, or where the refusal tells it."""
    with pytest.raises(InputError) as refused:
        Place(address)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value.__cause__)


@given(names=st.lists(NAMES, max_size=3), region=st.sampled_from(["", "eu-west-1"]))
def test_an_object_address_that_is_shown_can_be_typed(names: list[str], region: str) -> None:
    """Fails if a character of a name means something else in an address: a space, `#`, `?`, `%`, `@`."""
    options = {"region": region} if region else {}
    address = ObjectAddress(bucket="news", pieces=tuple(names), options=options)
    assert parse_object_address(str(address)) == address
    assert Place(str(address)).address == str(address)
    assert Place(f"s3://news{'?region=' + region if region else ''}").to_address("/".join(names)) == str(address)


@pytest.mark.parametrize("path", ["file/data.bin", "file/deeper/data.bin", "folder"])
def test_something_in_the_way_is_the_users_to_move(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_bytes(b"in the way")
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    with pytest.raises(InputError, match=rf"Cannot write {re.escape(str(tmp_path))}/{path}: .*move it away"):
        Place(str(tmp_path)).write(path, b"data")
    assert everything_under(tmp_path) == [tmp_path / "file"]


def test_below_a_file_nothing_is_found_and_nothing_can_be_built(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"in the way")
    place = Place(str(tmp_path / "file" / "store"))
    assert place.list_files("") == {} and place.find_size("data.bin") is None
    for attempt in (place.read, place.open):
        with pytest.raises(FileNotFoundError):
            attempt("data.bin")
    assert survey_stage(place, toy_stage()).done == {}
    with pytest.raises(InputError, match="Cannot write"):
        build_stage(place, toy_stage())


def test_a_full_device_is_the_users_to_mend() -> None:
    with Path("/dev/full").open("wb", buffering=0) as handle:
        sink = HashingSink(handle, "/store/data.bin")
        with pytest.raises(InputError, match=r"Cannot write /store/data\.bin: the disk is full.*free some space"):
            sink.write(b"x")
        assert sink.size_bytes == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="permission bits do not bind root: run as another user")
def test_permissions_are_the_users_to_change(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    place.write("data.bin", b"data")
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match=r"Cannot write .*may not be written by you"):
        place.write("more.bin", b"data")
    (tmp_path / "data.bin").chmod(0o000)
    for attempt in (place.read, place.open):
        with pytest.raises(InputError, match=r"Cannot read .*data\.bin: you may not: change its permissions"):
            attempt("data.bin")
    assert place.list_files("") == {"data.bin": 4}
