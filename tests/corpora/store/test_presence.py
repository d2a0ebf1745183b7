"""Processes at work with a store are listed in a file each, until they remove it or end."""

import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from corpora.errors import InputError
from corpora.store import leases as presence
from corpora.store.leases import MAX_SILENT_SECONDS, HeartbeatWriter, identify_this_process, read_heartbeat
from corpora.store.places.place import Place

SOON = 60.0  # seconds, on a busy machine


def test_what_is_said_is_there_until_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if nobody hears what changes, or where it or an empty folder stays."""
    monkeypatch.setattr(presence, "POLL_SECONDS", 0.01)
    place, said, heard = Place(str(tmp_path)), {"parts": 1}, threading.Event()

    def say() -> dict[str, int]:
        heard.set()
        return dict(said)

    with HeartbeatWriter(place, "runs/one/running.json", say):
        first = read_heartbeat(place, "runs/one/running.json")
        assert first is not None and first.report == {"parts": 1} and first.process == identify_this_process()
        assert not first.is_gone
        said["parts"] = 2
        for _ in range(int(SOON * 100)):
            heard.clear()
            assert heard.wait(SOON)
            now = read_heartbeat(place, "runs/one/running.json")
            assert now is not None
            if now.report == {"parts": 2}:
                break
        assert now.report == {"parts": 2}
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_gone_is_known_by_its_beginning() -> None:
    """Fails if a number that was given to another process keeps a killed one alive."""
    here = identify_this_process()
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    assert not here.is_gone(silent_seconds=1e9)  # it is known here, however long it says nothing
    assert replace(here, began=here.began - 1).is_gone(silent_seconds=0)
    assert replace(here, pid=int(child.stdout)).is_gone(silent_seconds=0)


def test_a_process_of_another_machine_lives_as_long_as_it_is_heard_of() -> None:
    """Fails if the number of a process of another machine is looked for on this one."""
    there = replace(identify_this_process(), machine="another", pid=1 << 22)
    assert not there.is_gone(silent_seconds=MAX_SILENT_SECONDS - 1)
    assert there.is_gone(silent_seconds=MAX_SILENT_SECONDS + 1)


def test_what_no_process_says_is_no_presence(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    for text in ("", "[]", "{}", json.dumps({"beat": "today", "process": {}, "said": {}})):
        place.write("p.json", text.encode())
        assert read_heartbeat(place, "p.json") is None
    assert read_heartbeat(place, "q.json") is None


def test_a_store_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file"):
        HeartbeatWriter(Place(str(tmp_path / "file")), "runs/one/running.json", dict)
