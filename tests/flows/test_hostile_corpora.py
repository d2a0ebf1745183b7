"""Corpora that are made to be dear, through both doors: the stage verdicts, and `cloze dedup`."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killed_at import started
from made_store import Made, MadeInput, build_inputs

from corpora.duplicates.build import plan_verdicts
from corpora.duplicates.candidates import SplitSettings
from corpora.duplicates.survivors import DuplicateSettings
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from corpora.tombstones import Tombstones
from flows.dedup.run import DedupSettings, dedup

READER = Path(__file__).resolve().parents[1] / "corpora" / "read_in_process.py"
WORDS = [f"w{number * number % 9973}" for number in range(60)]
PAGE = " ".join(WORDS)
MARKS = 97  # texts of marks alone that differ


def template(number: int) -> Iterator[str]:
    """Pages of one template, which differ in a number: each is a near-duplicate of the first."""
    return (f"{PAGE} page {at} of many" for at in range(number))


def near_misses(number: int) -> Iterator[str]:
    """Pages of one template of which nearly no two are near-duplicates, and many share a bucket."""
    for at in range(number):
        words = WORDS.copy()
        words[at % 60], words[at * 7 % 59] = f"x{at}", f"y{at}"
        yield " ".join(words)


def wordless(number: int) -> Iterator[str]:
    return ("." * (1 + at % MARKS) for at in range(number))


class Corpus(NamedTuple):
    """texts: of so many documents; kept: how many stay, at most; compared: pairs for each document, at most"""

    texts: Callable[[int], Iterator[str]]
    kept: Callable[[int], int] = lambda number: 1
    compared: int = 0


CORPORA = {
    "one template": Corpus(template, compared=1),
    "equal texts": Corpus(lambda number: (PAGE for _ in range(number))),
    "equal words": Corpus(lambda number: (f"{PAGE} {'!' * (at % 50)}{'?' * (at // 50 % 50)}" for at in range(number))),
    "one word": Corpus(lambda number: ("boat" for _ in range(number))),
    "no words": Corpus(wordless, kept=lambda number: MARKS),
    "nothing": Corpus(lambda number: ("" for _ in range(number))),
    "near misses": Corpus(near_misses, kept=lambda number: number, compared=400),
}


def written(folder: Path, name: str, number: int) -> None:
    """A store of documents and signatures, and lines of JSON."""
    rows = [Made(at, text) for at, text in enumerate(CORPORA[name].texts(number))]
    build_inputs(Place(str(folder / "store")), [MadeInput(rows, 1, part_rows=20_000)], DuplicateSettings())
    with (folder / "in.jsonl").open("w") as file:
        file.writelines(json.dumps({"text": row.text}) + "\n" for row in rows)


def judged(folder: Path, name: str, number: int) -> tuple[int, int]:
    """How many documents verdicts keep, and the pairs that are compared."""
    place, chosen = Place(str(folder)), DuplicateSettings()
    rows = [Made(at, text) for at, text in enumerate(CORPORA[name].texts(number))]
    inputs = build_inputs(place, [MadeInput(rows, 1, part_rows=100)], chosen)
    manifest = build_stage(place, plan_verdicts("made", inputs, chosen, SplitSettings(), Tombstones()))
    [account] = manifest.ledger.accounts
    assert account.total == number
    return account.outcomes["kept"], manifest.ledger.figures["pairs compared"]


def deduplicated(folder: Path, name: str, number: int) -> tuple[int, int]:
    """The same of `cloze dedup`."""
    lines = (json.dumps({"text": text}) + "\n" for text in CORPORA[name].texts(number))
    (folder / "in.jsonl").write_text("".join(lines))
    outcome = dedup([str(folder / "in.jsonl")], folder / "out.jsonl", DedupSettings(), 1)
    assert outcome.rows == number == outcome.kept + sum(outcome.removed.values())
    assert len((folder / "out.jsonl").read_text().splitlines()) == outcome.kept
    return outcome.kept, outcome.pairs_compared


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("door", [judged, deduplicated])
def test_work_grows_with_the_documents_and_not_with_their_square(
    door: Callable[[Path, str, int], tuple[int, int]], name: str, tmp_path: Path
) -> None:
    """Law: of whatever documents, the right ones stay, and each is compared with a bounded number of others."""
    corpus, number = CORPORA[name], 1_000
    kept, compared = door(tmp_path, name, number)
    assert kept == corpus.kept(number) if name != "near misses" else 0.9 * number < kept <= number
    assert compared <= corpus.compared * number
    assert compared > 0 if corpus.compared else compared == 0


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in CORPORA if name != "near misses"])
def test_a_million_of_them_take_a_bounded_memory(name: str, tmp_path: Path) -> None:
    """Fails if a process of either door holds more than 1.1 GB, or leaves a file in the folder for temporary ones.

    Each document shares each of its buckets with all others: that is the most that the buckets can take.
    """
    (tmp_path / "tmp").mkdir()
    written(tmp_path, name, 1_000_000)
    for door in ("verdicts", "dedup to a file"):
        [(end, used)] = started(door, [tmp_path], tmp_path / "tmp")
        assert end == 0 and 100 < used < 1_100, (door, used)
    assert not [*(tmp_path / "tmp").iterdir()]


@pytest.mark.long
def test_a_row_group_of_three_million_rows_is_read_piece_by_piece(tmp_path: Path) -> None:
    """Fails if `cloze dedup` holds more than 700 MB for it, or the source "files" more than 300 MB above its start."""
    rows = 3_000_000
    table = pa.table({"text": pa.array((f"row {at} {at * 7919 % 999_983}" for at in range(rows)), pa.string())})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=rows)
    del table
    (tmp_path / "tmp").mkdir()
    [(end, used)] = started("dedup of Parquet", [tmp_path], tmp_path / "tmp")
    assert end == 0 and 100 < used < 700, used
    asked = json.dumps({"kind": "files", "path": str(tmp_path / "in.parquet")})
    told = subprocess.run([sys.executable, READER, asked, "0", "100"], capture_output=True, check=True).stdout
    found = json.loads(told)
    assert found["records"] == rows and found["peak_bytes"] - found["begun_bytes"] < 300_000_000, found
