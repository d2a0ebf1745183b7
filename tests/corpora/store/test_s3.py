"""A stage on an object store: the same manifest as in a folder, and the store's refusals said plainly."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from toy_stage import toy_stage

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.ledger import Ledger
from corpora.store.part_writer import PartWriter
from corpora.store.places.object_store import FETCH_BYTES
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, build_stage, survey_stage
from corpora.store.tables import read_table

pytestmark = pytest.mark.server


@pytest.fixture
def strict_server(s3_endpoint: str) -> Iterator[None]:
    """The server asks for credentials that it knows, which ours are not."""

    def requests_without_credentials(count: str) -> None:
        address = f"http://{s3_endpoint}/moto-api/reset-auth"
        headers = {"Content-Type": "text/plain"}
        with urllib.request.urlopen(urllib.request.Request(address, count.encode(), headers, method="POST")) as reply:
            assert reply.status == 200

    requests_without_credentials("0")
    yield
    requests_without_credentials("inf")


def test_a_stage_is_the_same_on_an_object_store(s3_store: Place, tmp_path: Path) -> None:
    assert not s3_store.is_local
    stage = toy_stage()
    here, there = build_stage(Place(str(tmp_path)), stage), build_stage(s3_store, stage)
    assert there.to_bytes() == here.to_bytes()
    assert s3_store.list_files("") == Place(str(tmp_path)).list_files("")
    tables = [pa.Table.from_batches(read_table(place, there, "squares")) for place in (Place(str(tmp_path)), s3_store)]
    assert tables[0].equals(tables[1]) and tables[0].num_rows == 26
    assert survey_stage(s3_store, stage).manifest == there


def test_a_table_that_fails_half_way_is_never_an_object(s3_store: Place) -> None:
    def fail(writer: PartWriter, plan: PartPlan) -> Ledger:
        with writer.create_table("blobs", pa.schema([("blob", pa.binary())]), compression=None) as rows:
            for _ in range(3):
                rows.write(pa.record_batch({"blob": [bytes(8 << 20)]}))  # more than one piece of an upload
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        build_stage(s3_store, toy_stage(build=fail))
    assert s3_store.list_files("") == {}


def test_only_what_was_sound_is_kept(s3_store: Place) -> None:
    """Fails if refused bytes are given again once the object is mended, or sound ones are asked for twice."""

    def parse(data: bytes) -> bytes:
        if data != b"sound":
            raise Damaged("a.json", "its bytes are not those that were written")
        return data

    s3_store.write("a.json", b"other")
    with pytest.raises(Damaged):
        s3_store.read_checked("a.json", parse)
    s3_store.write("a.json", b"sound")
    assert s3_store.read_checked("a.json", parse) == b"sound"
    s3_store.delete("a.json")
    assert s3_store.read_checked("a.json", parse) == b"sound"


@pytest.mark.parametrize("size", [3 * FETCH_BYTES // 2, 5 * FETCH_BYTES + 7])
def test_pieces_of_an_object_are_those_of_its_bytes(s3_store: Place, size: int) -> None:
    """Fails if a piece that came with another one, or was fetched ahead, is of other bytes or of another length."""
    data = Random(size).randbytes(size)
    s3_store.write("object.bin", data)
    draw = Random(1)
    with s3_store.open("object.bin") as file:
        at = 0
        while at < size:  # one after another, large and small, as a reader of a raw file does
            num_bytes = draw.choice((FETCH_BYTES, FETCH_BYTES, FETCH_BYTES, FETCH_BYTES - 1, 1_000))
            assert file.read_at(num_bytes, at) == data[at : at + num_bytes]
            at += num_bytes
        for _ in range(30):
            at, num_bytes = draw.randrange(size), draw.choice((1, 5_000, FETCH_BYTES - 1, FETCH_BYTES, 2 * FETCH_BYTES))
            assert file.read_at(num_bytes, at) == data[at : at + num_bytes]
        large = [file.read_at(FETCH_BYTES, at) for at in range(0, size, FETCH_BYTES)]
        assert b"".join(large) == data


def test_an_object_that_is_removed_while_it_is_read_ahead_is_gone(s3_store: Place) -> None:
    """Fails if the fault of a piece that was fetched ahead is lost, or is another one than of any piece."""
    s3_store.write("object.bin", bytes(5 * FETCH_BYTES))
    with s3_store.open("object.bin") as file:
        for at in (0, FETCH_BYTES):
            file.read_at(FETCH_BYTES, at)
        s3_store.delete("object.bin")
        with pytest.raises(FileNotFoundError):  # the third piece may have come before that
            for at in (2 * FETCH_BYTES, 3 * FETCH_BYTES, 4 * FETCH_BYTES):
                file.read_at(FETCH_BYTES, at)


def test_what_a_process_wrote_of_a_part_it_does_not_ask_for(s3_store: Place) -> None:
    """Fails if a table that is written once is fetched by who wrote it, or is believed once it was damaged there."""
    manifest = build_stage(s3_store, toy_stage())
    paths = [f"{manifest.stage_folder}/{file.path}" for part in manifest.parts for file in part.files]
    for path in paths:
        s3_store.delete(path)
    assert sum(batch.num_rows for batch in read_table(s3_store, manifest, "squares")) == 26
    far = Place(s3_store.address + "&region=us-east-1")  # another address: nothing of it is kept
    with pytest.raises(Damaged, match="it is gone"):
        list(read_table(far, manifest, "squares"))


def test_a_bucket_that_is_not_there_is_the_users_to_make(s3_store: Place) -> None:
    other = Place(s3_store.address.replace("cloze-tests", "no-such-bucket"))
    assert survey_stage(other, toy_stage()).done == {}
    with pytest.raises(InputError, match=r"Cannot write s3://no-such-bucket/.*: there is no such bucket: make it"):
        build_stage(other, toy_stage())


@pytest.mark.usefixtures("strict_server")
def test_credentials_that_are_not_known_are_the_users_to_mend(s3_store: Place) -> None:
    with pytest.raises(InputError, match=r"Cannot write s3://cloze-tests/.*: .*fix AWS_ACCESS_KEY_ID"):
        s3_store.write("data.bin", b"data")
    with pytest.raises(InputError, match=r"Cannot read s3://cloze-tests/.*: .*fix AWS_ACCESS_KEY_ID"):
        survey_stage(s3_store, toy_stage())


def test_an_unusable_temporary_folder_is_named(
    s3_store: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"no folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.raises(InputError, match=rf"Cannot write {re.escape(str(tmp_path))}/file: .*move it away"):
        s3_store.write("data.bin", b"data")
    assert s3_store.list_files("") == {}
