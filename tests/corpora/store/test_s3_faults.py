"""An object store that is slow, refuses, answers 503, says nothing or dies in the middle."""

import random
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from faulty_proxy import FaultyProxy, faulty_proxy
from toy_stage import build_squares, toy_stage

from corpora.errors import InputError
from corpora.store.ledger import Ledger
from corpora.store.part_writer import PartWriter
from corpora.store.places import object_store
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, build_stage

pytestmark = pytest.mark.server

BODY = random.Random(1).randbytes(100_000)


@pytest.fixture
def proxy(s3_endpoint: str) -> Iterator[FaultyProxy]:
    with faulty_proxy(s3_endpoint) as running:
        yield running


@pytest.fixture
def far(s3_store: Place, s3_endpoint: str, proxy: FaultyProxy) -> Place:
    """The same store as `s3_store`, by the proxy."""
    return Place(s3_store.address.replace(s3_endpoint, proxy.address))


def impatient(monkeypatch: pytest.MonkeyPatch, first: float = 0.3, later: float = 0.6) -> None:
    monkeypatch.setattr(object_store, "FIRST_PATIENCE_SECONDS", first)
    monkeypatch.setattr(object_store, "PATIENCE_SECONDS", later)
    monkeypatch.setattr(object_store, "MAX_SILENT_SECONDS", 1.0)


@pytest.mark.parametrize("fault", ["busy", "reset", "cut"])
def test_what_passes_is_asked_for_again(fault: str, s3_store: Place, far: Place, proxy: FaultyProxy) -> None:
    """Fails if a fault that passes ends a run, or half an object is taken for a whole one."""
    proxy.faults = [fault] * 3
    far.write("a.bin", BODY)
    assert s3_store.read("a.bin") == BODY
    proxy.drop("")
    proxy.faults = [fault] * 3
    assert Place(far.address).read("a.bin") == BODY
    assert far.list_files("") == {"a.bin": len(BODY)}
    assert proxy.faults == [] and proxy.num_connections >= 6


def test_slow_is_no_fault(s3_store: Place, far: Place, proxy: FaultyProxy) -> None:
    s3_store.write("a.bin", BODY)
    proxy.pause = 0.02
    with far.open("a.bin") as source:
        assert source.read_at(50_000, 10_000) == BODY[10_000:60_000]
        assert (source.read(7), source.read(), source.size()) == (BODY[:7], BODY[7:], len(BODY))


@pytest.mark.parametrize("fault", ["busy", "reset", "silent"])
def test_what_does_not_pass_is_one_paragraph(
    fault: str, far: Place, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a command hangs, ends in a traceback, or does not name the store as it can be typed."""
    impatient(monkeypatch)
    proxy.always = fault
    attempts: list[tuple[str, Callable[[], object]]] = [
        ("read", lambda: far.list_files("")),
        ("read", lambda: far.read("a.bin")),
        ("write", lambda: far.write("a.bin", b"data")),
    ]
    for act, attempt in attempts:
        with pytest.raises(InputError, match=rf"Cannot {act} s3://cloze-tests/.*does not answer properly") as said:
            attempt()
        assert "\n" not in str(said.value)
        shown = re.findall(r"(s3://\S+): ", str(said.value))[0]
        assert Place(shown).address in (far.address, far.to_address("a.bin"))
    assert 3 <= proxy.num_connections <= 12


def test_who_was_never_reached_is_given_up_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if an address with a slip of the pen is asked for a minute."""
    monkeypatch.setattr(object_store, "FIRST_PATIENCE_SECONDS", 0.3)
    for endpoint in ("127.0.0.1:1", "no-such-host.invalid:9000"):
        with pytest.raises(InputError, match="does not answer"):
            Place(f"s3://bucket/store?endpoint_override={endpoint}&scheme=http&region=eu-west-1").list_files("")


def test_who_was_waited_for_in_vain_is_given_up_sooner(
    far: Place, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a run whose store is gone waits as long again to record that it has failed."""
    far.write("a.bin", b"data")
    impatient(monkeypatch, first=0.0, later=1.0)
    proxy.drop("reset")
    requests = []
    for _ in range(2):
        before = proxy.num_connections
        with pytest.raises(InputError, match="does not answer"):
            far.find_size("a.bin")
        requests.append(proxy.num_connections - before)
    assert requests[0] > 1 == requests[1]
    proxy.drop("")
    assert far.find_size("a.bin") == 4
    proxy.faults = ["reset"]
    assert far.find_size("a.bin") == 4, "it has answered, so it is waited for again"


def test_a_store_that_dies_in_the_middle_is_waited_for(s3_store: Place, far: Place, proxy: FaultyProxy) -> None:
    """Fails if an outage of a moment ends what is under way."""
    far.write("a.bin", BODY)
    with far.open("a.bin") as source:
        assert source.read_at(100, 0) == BODY[:100]
        proxy.drop("reset")
        back = threading.Timer(0.6, setattr, (proxy, "always", ""))
        back.start()
        assert source.read_at(100, 500) == BODY[500:600]
        back.join()
    assert s3_store.list_files("") == {"a.bin": len(BODY)}


def test_a_stage_whose_store_dies_goes_on_when_it_is_back(
    far: Place, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if what was finished is lost, or half a part is taken for a whole one."""
    impatient(monkeypatch)
    stage = toy_stage()

    def dying(writer: PartWriter, plan: PartPlan) -> Ledger:
        if plan is stage.parts[2]:
            proxy.drop("reset")
        return build_squares(writer, plan)

    with pytest.raises(InputError, match="finished parts are kept"):
        build_stage(far, replace(stage, build=dying))
    proxy.drop("")
    finished = [path for path in far.list_files("") if "/parts/" in path]
    assert [path.rpartition("/")[2] for path in finished] == ["part-00.json", "part-01.json"]
    assert build_stage(far, stage).to_bytes() == build_stage(Place(str(tmp_path)), toy_stage()).to_bytes()


@pytest.mark.parametrize("address", ["/proc/nope", "/proc/nope/deeper", "/dev/null/store", "/sys/nope"])
def test_a_folder_in_which_nothing_can_be_made_is_one_paragraph(address: str) -> None:
    place = Place(address)
    assert place.list_files("") == {}
    with pytest.raises(InputError, match=rf"Cannot write {address}/a\.bin: .*choose another store"):
        place.write("a.bin", b"data")


def test_a_folder_that_is_removed_while_a_file_is_written_is_one_paragraph(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "store"))
    with pytest.raises(InputError, match=r"its folder was removed meanwhile"), place.create("a.bin") as sink:
        sink.write(b"data")
        shutil.rmtree(tmp_path / "store")
