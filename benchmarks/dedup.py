"""`cloze dedup` next to other deduplicators, on one file of JSON lines: CPU time, and which rows stay.

    PEERS=PYTHON python -m benchmarks.dedup --text books --megabytes 20 --rounds 1

PYTHON is of an environment with datatrove, rensa, datasketch and FastSketchLSH (`dedup_peers.py`); without it ours runs
alone. Where the texts are fewer than asked for, they come again with other words, each for one as long. To them come
edited copies of each third one, of which .70 to 1 of the shingles stay. Each side is a whole
process, from file to file, with its start. Ours reads with one worker and compares candidates exactly, the others trust
a band. The notes say how many planted copies of at least .8 each found, of texts that it kept, and how many other rows
it removed.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.dedup_peers import TOOLS
from benchmarks.measuring import Report, Side, load_texts, main, side_by_side, size_mb, text_column
from corpora.duplicates.verify import build_shingle_sets, compute_overlaps

EVERY = 3  # of so many texts one has a copy
_WORD = re.compile(r"\w+")
MOST_EDITS = 0.035  # of the words of a copy: each changes up to five shingles


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare whole runs."""
    rows, similar = planted(texts)
    peers = os.environ.get("PEERS", "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = folder / "in.jsonl"
        given.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in rows), encoding="utf-8")
        tools: dict[str, Callable[[], set[str]]] = {"cloze dedup": lambda: _ours(folder, given)}
        for tool in TOOLS if peers else ():
            tools[tool] = lambda tool=tool: _theirs(peers, tool, folder, given)  # type: ignore[misc]
        kept: dict[str, set[str]] = {}
        sides = [
            Side(name=tool, call=lambda _, tool=tool, run=run: kept.update({tool: run()}))  # type: ignore[misc]
            for tool, run in tools.items()
        ]
        tools["cloze dedup"]()  # compiles
        report = side_by_side("dedup", [text for _, text in rows], sides, rounds, [])
    notes = tuple(_note(tool, kept[tool], kept["cloze dedup"], rows, similar) for tool in tools)
    return [Report(title=report.title, amounts=report.amounts, rows=report.rows, notes=notes)]


def load(folder: Path | None, megabytes: float) -> list[str]:
    """Return texts, and as often as it takes the same with other words."""
    texts = load_texts(folder, megabytes)
    size, more = size_mb(texts), list(texts)
    for number in range(1, round(megabytes / size)):
        more += with_other_words(texts, number)
    return more


def with_other_words(texts: Sequence[str], number: int) -> list[str]:
    """Return texts in which every word is another one of its length."""
    draw, by_length = random.Random(number), dict[int, list[str]]()
    for word in sorted({word for text in texts for word in _WORD.findall(text)}):
        by_length.setdefault(len(word), []).append(word)
    table = dict[str, str]()
    for some in by_length.values():
        table.update(zip(some, draw.sample(some, len(some)), strict=True))
    return [_WORD.sub(lambda match: table[match[0]], text) for text in texts]


def planted(texts: Sequence[str]) -> tuple[list[tuple[str, str]], dict[str, float]]:
    """Return rows (id, text) with edited copies, and the similarity of each copy to its original."""
    draw = random.Random(42)
    rows, pairs = [(f"t{number}", text) for number, text in enumerate(texts)], []
    for number in range(0, len(texts), EVERY):
        words = texts[number].split()
        for place in draw.sample(range(len(words)), int(draw.uniform(0, MOST_EDITS) * len(words))):
            words[place] = f"w{draw.randrange(10**6)}"
        pairs.append((number, len(rows)))
        rows.append((f"c{number}", " ".join(words)))
    sets = build_shingle_sets(text_column([text for _, text in rows]))
    left, right = np.array(pairs, np.int64).T
    overlaps = compute_overlaps(sets.values, sets.offsets, left, right)
    shares = (overlaps.intersection / np.maximum(overlaps.union, 1)).tolist()
    return rows, {rows[copy][0]: share for (_, copy), share in zip(pairs, shares, strict=True)}


def _ours(folder: Path, given: Path) -> set[str]:
    for path in folder.glob("out*"):
        path.unlink()
    command = [sys.executable, "-m", "flows.main", "dedup", str(given), str(folder / "out.jsonl"), "--workers", "1"]
    # Bytecode as an installed package has it, whatever this process was told.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return {json.loads(line)["id"] for line in (folder / "out.jsonl").open(encoding="utf-8")}


def _theirs(python: str, tool: str, folder: Path, given: Path) -> set[str]:
    script, kept = Path(__file__).with_name("dedup_peers.py"), folder / f"{tool}.txt"
    subprocess.run([python, str(script), tool, str(given), str(kept)], check=True, capture_output=True)
    return set(kept.read_text(encoding="utf-8").split())


def _note(tool: str, kept: set[str], ours: set[str], rows: Sequence[tuple[str, str]], similar: dict[str, float]) -> str:
    copies = {id for id, share in similar.items() if share >= 0.8 and f"t{id[1:]}" in kept}
    edge = {id for id in copies if similar[id] < 0.85}
    found, others = len(copies - kept), sum(id not in kept and similar.get(id, 0) < 0.8 for id, _ in rows)
    return (
        f"{tool}: {len(kept):,} of {len(rows):,} rows stay ({len(kept ^ ours):,} not as ours); found {found:,} of "
        f"{len(copies):,} copies from .8 on of texts that stay, {len(edge - kept):,} of {len(edge):,} up to .85; "
        f"removed {others:,} others"
    )


if __name__ == "__main__":
    main(benchmark, load)
