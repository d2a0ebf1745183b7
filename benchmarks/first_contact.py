"""The cost of the first minutes: CPU and clock seconds of each command that a new user runs, against their goals.

    python -m benchmarks.first_contact                          a new folder for caches, prepared on the way
    python -m benchmarks.first_contact --home .cloze --record   caches copied from a prepared home, which is noted

The texts are written here: two folders of ten tickets, and one of plain prose. CPU is user and system, of the command
and every process that it started and waited for. The commands run one after another, as a user would run them; a run
builds into a store of its own folder. With `--record` a call leaves a line in `benchmarks/first_contact.jsonl`, and the
table of docs/performance.md is written again: the range over all calls on record.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import PAGE, extent, page_with
from benchmarks.measuring import cpu_of_children, figure
from benchmarks.record import Others, call_of, put_on_record, read_calls

RECORD = Path(__file__).with_name("first_contact.jsonl")
BEGIN, END = "<!-- table of `python -m benchmarks.first_contact` -->", "<!-- end of that table -->"
CLOZE = (sys.executable, "-m", "flows.main")
PREPARED = ("kernels", "prefect")  # the parts of a home that `cloze prepare` makes
TICKETS, TICKET_CHARACTERS = 10, 1_500
COMMON = "the of and to that in is was for it with as on be at by not are from have".split()
CONSONANTS, VOWELS = "bcdfghklmnprstvw", "aeiou"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command that is measured. goal: the CPU seconds that it may take; "" for none"""

    name: str
    arguments: tuple[str, ...]
    goal: str = ""


STEPS = (
    Step(name="cloze --help", arguments=("--help",), goal="0.5"),
    Step(name="cloze prepare", arguments=("prepare",)),
    Step(name="ten tickets, the first run", arguments=("run", "--source", "tickets-1"), goal="the next row"),
    Step(name="ten other tickets", arguments=("run", "--source", "tickets-2")),
    Step(name="the same again: nothing new", arguments=("run", "--source", "tickets-2"), goal="6"),
    Step(name="a folder of prose, planned", arguments=("plan", "--source", "prose")),
    Step(name="a folder of prose", arguments=("run", "--source", "prose"), goal="9"),
    Step(name="its report again", arguments=("report",)),
)


def main(arguments: Sequence[str]) -> int:
    """Measure each command and print the table; returns 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_contact", description=__doc__.split("\n\n")[0])
    parser.add_argument("--home", type=Path, help="a prepared CLOZE_HOME to copy; else a new one is prepared")
    parser.add_argument("--megabytes", type=float, default=1.0, help="of prose (default: 1, what the goal is for)")
    parser.add_argument("--record", action="store_true", help="put the call on record and write the table again")
    given = parser.parse_args(arguments)
    others = Others.now()
    with tempfile.TemporaryDirectory(prefix="cloze-contact-") as name:
        rows = measure(Path(name), given.home, int(given.megabytes * 1e6))
    home = "copied" if given.home else "new"
    call = call_of(others, home=home, megabytes=given.megabytes, rows=rows)
    print("\n".join(table([call])))
    if given.record and all(row["code"] == 0 for row in rows):
        put_on_record(call, RECORD)
        page = page_with(PAGE.read_text(encoding="utf-8"), table(read_calls(RECORD)), BEGIN, END)
        PAGE.write_text(page, encoding="utf-8")
    return 0 if all(row["code"] == 0 for row in rows) else 1


def measure(folder: Path, home: Path | None, prose_bytes: int) -> list[dict[str, Any]]:
    """Run every command in a folder with its texts; returns a row for each."""
    write_texts(folder, prose_bytes)
    if home is not None:
        for name in PREPARED:
            shutil.copytree(home / name, folder / "home" / name)
    environment = {**os.environ, "CLOZE_HOME": str(folder / "home")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])  # the working folder is that of the texts
    return [timed(step, folder, environment) for step in STEPS]


def timed(step: Step, folder: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return a command's CPU and clock seconds, and its exit code; the output of a failed one is printed."""
    before, began = cpu_of_children(), time.monotonic()
    done = subprocess.run([*CLOZE, *step.arguments], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"{step.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
    spent, clock = cpu_of_children() - before, time.monotonic() - began
    return {"name": step.name, "cpu": float(figure(spent)), "clock": float(figure(clock)), "code": done.returncode}


def write_texts(folder: Path, prose_bytes: int) -> None:
    """Write two folders of tickets and one of prose, in files of 10 kB; the same every time."""
    draw = random.Random(1)
    words = [*made_up_words(draw, 3_000), *150 * COMMON]
    for number in (1, 2):
        write_files(folder / f"tickets-{number}", (made_up(draw, words, TICKET_CHARACTERS) for _ in range(TICKETS)))
    write_files(folder / "prose", (made_up(draw, words, 10_000) for _ in range(-(-prose_bytes // 10_000))))


def write_files(folder: Path, texts: Iterator[str]) -> None:
    """Write a file for each text."""
    folder.mkdir(parents=True)
    for number, text in enumerate(texts):
        (folder / f"{number:04}.txt").write_text(text, encoding="utf-8")


def made_up_words(draw: random.Random, number: int) -> list[str]:
    """Return words of one to four syllables."""
    syllables = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]
    return ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(number)]


def made_up(draw: random.Random, words: Sequence[str], characters: int) -> str:
    """Return paragraphs of sentences of these words."""
    sentences, length = [], 0
    while length < characters:
        sentence = " ".join(draw.choices(words, k=draw.randrange(6, 22))).capitalize()
        sentences.append(sentence + (".\n\n" if draw.random() < 0.15 else ". "))
        length += len(sentences[-1])
    return "".join(sentences)


def table(calls: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table, of all calls: from the lowest to the highest."""
    yield ""
    yield "| command | CPU s | goal | by the clock, s |"
    yield "|---|---|---|---|"
    for step in STEPS:
        rows = [row for call in calls for row in call["rows"] if row["name"] == step.name]
        cpu, clock = (extent(row[key] for row in rows) for key in ("cpu", "clock"))
        yield " ".join(f"| {cell}".rstrip() for cell in (step.name, cpu, step.goal, clock)) + " |"
    call_lines = (f"{call['date']}, home {call['home']}, others {call['others']:.0%}" for call in calls)
    yield ""
    yield f"({'; '.join(call_lines)})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
