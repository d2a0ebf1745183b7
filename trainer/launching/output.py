"""The output of a trainer's processes: events, and a log of the rest, whose end explains a failure. No torch."""

import json
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from trainer.metrics import Event

LOG_LINES = 20  # of the end of the log, reported where training failed
GO_ON = "The same command continues from the newest checkpoint."
ENDED = "First to end: rank "
_OF_AGENT = re.compile(r"[A-Z]\d{4} [\d:.]+ \d+ \S*torch/distributed/")
_OF_RANK = re.compile(r"\[rank(\d+)\]:")  # as torch begins the lines of a traceback


def events(output: IO[bytes], log: IO[bytes]) -> Iterator[Event]:
    """Yield the events of an output; every other line goes to the log."""
    for line in output:
        event = _event(line)
        if event is None:
            log.write(line)
        else:
            yield event


def _event(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def failure(log: Path, begin: int, code: int) -> str:
    """Return how the trainer ended, the last lines of its log after a byte, and how to continue."""
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read().decode("utf-8", errors="replace").splitlines()
    report = [f"The trainer {how_ended(code)}; the end of its log {log}:", *last_words(lines)]
    killed = any(how_ended(-signal.SIGKILL) in each for each in (report[0], report[-1]))
    no_memory = " The system also sends signal 9 where main memory runs out." if killed else ""
    return "\n".join([*report, f"{GO_ON}{no_memory}"])


def last_words(lines: Sequence[str]) -> list[str]:
    """Return the last lines of a log that explain why training failed.

    Left out: what torchrun's agent notes, and the tracebacks of the ranks that failed because another one had ended.
    """
    first = next((line.removeprefix(ENDED).split()[0] for line in lines if line.startswith(ENDED)), None)
    kept = []
    for line in lines:
        of_rank = _OF_RANK.match(line)
        if not _OF_AGENT.match(line) and (of_rank is None or first in (None, of_rank[1])):
            kept.append(line)
    return kept[-LOG_LINES:]


def how_ended(code: int) -> str:
    """An exit code in words.

    >>> how_ended(-6)
    'was killed by signal 6'
    """
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
