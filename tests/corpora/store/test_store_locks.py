"""Locks: one process at a time, and nothing left of them."""

import threading
from pathlib import Path

import pytest

from corpora.store.places.files import hold_lock, is_same_file, try_lock

SOON = 120.0  # seconds, on a busy machine


def test_what_is_held_is_waited_for(tmp_path: Path) -> None:
    """Fails if two hold it at once, or the second is not told that it waits."""
    seen: list[str] = []
    waits = threading.Event()

    def second() -> None:
        with hold_lock(tmp_path / "held", waits.set):
            seen.append("second")

    with hold_lock(tmp_path / "held", lambda: pytest.fail("nobody else has it")):
        other = threading.Thread(target=second)
        other.start()
        assert waits.wait(SOON)
        seen.append("first")
    other.join(SOON)
    assert seen == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_many_hold_it_one_after_another(tmp_path: Path) -> None:
    """Fails if one that waited for a file which is removed meanwhile holds it together with the next."""
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(50):
            with hold_lock(tmp_path / "held"):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert not any(thread.is_alive() for thread in threads)
    assert (inside, most) == (0, 1)


def test_a_file_that_another_has_put_there_is_seen(tmp_path: Path) -> None:
    """Fails if a lock on a file that was removed or replaced is taken for one on the file at the path."""
    path = tmp_path / "file"
    with path.open("a") as file:
        assert try_lock(file) and is_same_file(file, path)
        path.unlink()
        assert not is_same_file(file, path)
        path.touch()
        assert not is_same_file(file, path)
