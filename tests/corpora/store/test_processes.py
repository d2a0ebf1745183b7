"""Processes as the system has them."""

import os
import signal
import subprocess
import sys
import threading
import time

from corpora.store.processes import (
    is_alive,
    is_any_runnable,
    is_signal_ignored,
    list_children,
    list_process_tree,
    read_cpu_seconds,
    read_resident_bytes,
    send_signal,
)

PARENT = """
import signal, subprocess, sys, threading
signal.signal(signal.SIGHUP, signal.SIG_IGN)
child = []
thread = threading.Thread(target=lambda: child.append(subprocess.Popen(["sleep", "60"], start_new_session=True)))
thread.start()
thread.join()
print(child[0].pid, flush=True)
sys.stdin.read()
"""


def test_a_process_its_children_and_its_end() -> None:
    """Fails if a child of a thread or one in a session of its own is not found, or a dead one lives."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert parent.pid in list_children(os.getpid()) and list_children(parent.pid) == [child]
        assert list_process_tree(parent.pid) == [parent.pid, child]
        assert is_signal_ignored(parent.pid, signal.SIGHUP) and not is_signal_ignored(parent.pid, signal.SIGTERM)
        assert read_resident_bytes(parent.pid) > 1_000_000 and read_cpu_seconds([parent.pid]) > 0
        send_signal(child, signal.SIGSTOP)
        while is_any_runnable([child]):
            time.sleep(0.01)
        assert is_alive(child)
        send_signal(child, signal.SIGKILL)
        while is_alive(child):
            time.sleep(0.01)
        assert list_children(parent.pid) == [] and read_resident_bytes(child) == 0
        parent.kill()
        while is_alive(parent.pid):
            time.sleep(0.01)
        assert parent.pid not in list_children(os.getpid())  # it is dead, and was not waited for yet
    assert list_children(parent.pid) == [] and list_process_tree(parent.pid) == [parent.pid]
    send_signal(parent.pid, signal.SIGTERM)


def test_who_runs_wants_to() -> None:
    """Fails if a process that computes is taken for one that stands still."""
    over = threading.Event()
    spinning = threading.Thread(target=lambda: [None for _ in iter(over.is_set, True)])
    spinning.start()
    used = read_cpu_seconds([os.getpid()])
    while read_cpu_seconds([os.getpid()]) == used:
        pass
    assert is_any_runnable([os.getpid()])
    over.set()
    spinning.join()
