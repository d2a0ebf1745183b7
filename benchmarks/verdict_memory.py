"""The memory that the verdicts take: bytes for each document, by the difference between two sizes.

    python -m benchmarks.verdict_memory --documents 20000 60000

Documents are 60 English words drawn by a seeded generator, so none is a near-duplicate of another. Each size is built
up to its sketches; then a new process judges them, as a worker does, and says the most memory that was resident at any
time. What a process takes for itself is in both sizes, so the difference is what documents cost.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import load_texts
from benchmarks.memory import peak_bytes
from benchmarks.sized_stores import run_metered
from corpora.sources.contract import StatCache
from corpora.store.places import Place
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import Recipe, parse_recipe

RECIPE = """
[[source]]
kind = "files"
name = "texts"
path = "texts.jsonl"
[rules]
gopher.enabled = false
repetition.enabled = false
c4.enabled = false
"""
WORDS, SENTENCE = 60, 12  # of a document, of a sentence


def write_documents(path: Path, number: int) -> None:
    """So many documents as JSON lines."""
    known = sorted({word for text in load_texts(None, 20) for word in re.findall(r"\b[a-z]{2,12}\b", text)})
    draw = random.Random(number)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(number):
            words = draw.choices(known, k=WORDS)
            sentences = (" ".join(words[at : at + SENTENCE]).capitalize() for at in range(0, WORDS, SENTENCE))
            file.write(json.dumps({"text": ". ".join(sentences) + "."}) + "\n")


def judge(folder: Path, until: str) -> int:
    """Build a store up to a kind of stage; how many documents that has."""
    recipe: Recipe = parse_recipe(RECIPE, folder / "texts.toml", {})
    run = run_metered(recipe, resolve(recipe, Lock(), StatCache()).lock, Place(recipe.store), until)
    return run.manifests[until].rows(until)


def measured(number: int) -> tuple[int, int]:
    """(documents judged, most bytes resident while they were)."""
    with tempfile.TemporaryDirectory() as name:
        write_documents(Path(name) / "texts.jsonl", number)
        judge(Path(name), "signatures")
        command = [sys.executable, "-m", "benchmarks.verdict_memory", "--judge", name]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        documents, peak = map(int, said.split())
        return documents, peak


def bytes_a_document(few: tuple[int, int], many: tuple[int, int]) -> float:
    """What one document more costs. Each: documents, bytes

    >>> bytes_a_document((1000, 5_000_000), (3000, 9_000_000))
    2000.0
    """
    return (many[1] - few[1]) / (many[0] - few[0])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both sizes and the bytes of a document."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.verdict_memory", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--documents", type=int, nargs=2, default=[20_000, 60_000], help="two sizes")
    parser.add_argument("--judge", type=Path, help="a folder made by this command: judge it in this process")
    parsed = parser.parse_args(arguments)
    if parsed.judge:
        print(judge(parsed.judge, "verdicts"), peak_bytes())
        return
    few, many = (measured(number) for number in parsed.documents)
    for documents, peak in (few, many):
        print(f"{documents:,} documents: {peak / 1e6:,.0f} MB")
    print(f"{bytes_a_document(few, many):,.0f} bytes a document")


if __name__ == "__main__":
    main()
