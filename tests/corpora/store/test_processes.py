"""Processes as the system has them."""

import os
import signal
import subprocess
import sys
import threading
import time

from corpora.store.processes import children, cpu_seconds, family, ignores, lives, resident_bytes, send, wants_to_run

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
    """Fails where a child of a thread or one in a session of its own is not found, or a dead one lives."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert parent.pid in children(os.getpid()) and children(parent.pid) == [child]
        assert family(parent.pid) == [parent.pid, child]
        assert ignores(parent.pid, signal.SIGHUP) and not ignores(parent.pid, signal.SIGTERM)
        assert resident_bytes(parent.pid) > 1_000_000 and cpu_seconds([parent.pid]) > 0
        send(child, signal.SIGSTOP)
        while wants_to_run([child]):
            time.sleep(0.01)
        assert lives(child)
        send(child, signal.SIGKILL)
        while lives(child):
            time.sleep(0.01)
        assert children(parent.pid) == [] and resident_bytes(child) == 0
        parent.kill()
        while lives(parent.pid):
            time.sleep(0.01)
        assert parent.pid not in children(os.getpid())  # it is dead, and was not waited for yet
    assert children(parent.pid) == [] and family(parent.pid) == [parent.pid]
    send(parent.pid, signal.SIGTERM)


def test_who_runs_wants_to() -> None:
    """Fails where a process that computes is taken for one that stands still."""
    over = threading.Event()
    spinning = threading.Thread(target=lambda: [None for _ in iter(over.is_set, True)])
    spinning.start()
    used = cpu_seconds([os.getpid()])
    while cpu_seconds([os.getpid()]) == used:
        pass
    assert wants_to_run([os.getpid()])
    over.set()
    spinning.join()
