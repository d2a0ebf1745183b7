"""Other deduplicators, run in an environment of their own: `PYTHON dedup_peers.py TOOL IN.jsonl OUT`.

IN has rows of `id` and `text`; OUT gets the ids of the rows that stay, one a line. Words are what each tool's users
write: `split` for datatrove, a regular expression for the others; all compare shingles of five words, 18 bands of 7.
"""

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

BANDS, ROWS, WORDS, THRESHOLD = 18, 7, 5, 0.8
_WORD = re.compile(r"\w+")


def read(path: Path) -> tuple[list[str], list[set[str]]]:
    """Return the ids of rows, and their shingles."""
    rows = [json.loads(line) for line in path.open(encoding="utf-8")]
    return [row["id"] for row in rows], [shingles(_WORD.findall(row["text"].lower())) for row in rows]


def shingles(words: Sequence[str]) -> set[str]:
    """Return the runs of five words."""
    return {" ".join(words[at : at + WORDS]) for at in range(max(1, len(words) - WORDS + 1))}


def rensa(path: Path) -> list[str]:
    """rensa's signatures of all rows at once, and its index, whose candidates are compared by their estimate."""
    module = import_module("rensa")
    ids, sets = read(path)
    index, kept = module.RMinHashLSH(threshold=THRESHOLD, num_perm=BANDS * ROWS, num_bands=BANDS), []
    sketches = module.RMinHash.from_token_sets([list(each) for each in sets], BANDS * ROWS, 42)
    for number, sketch in enumerate(sketches):
        if not any(sketch.jaccard(sketches[other]) >= THRESHOLD for other in index.query(sketch)):
            index.insert(number, sketch)
            kept.append(ids[number])
    return kept


def fastsketchlsh(path: Path) -> list[str]:
    """FastSketchLSH's batch of sketches of 128 numbers, and its index of 16 bands of 8; on one thread."""
    module = import_module("FastSketchLSH")
    ids, sets = read(path)
    sketches = module.FastSimilaritySketch(128, 42).batch([list(each) for each in sets], False, 1)
    index, kept = module.LSH(128, 16, num_threads=1), []
    for id, sketch in zip(ids, sketches, strict=True):
        if not index.query(sketch):
            index.insert([sketch])
            kept.append(id)
    return kept


def datasketch(path: Path) -> list[str]:
    """datasketch's signatures in bulk, and its index, in which rows are inserted that have no candidate."""
    from datasketch import MinHash, MinHashLSH

    ids, sets = read(path)
    index, kept = MinHashLSH(num_perm=BANDS * ROWS, params=(BANDS, ROWS)), []
    encoded = [[shingle.encode() for shingle in each] for each in sets]
    for id, sketch in zip(ids, MinHash.bulk(encoded, num_perm=BANDS * ROWS), strict=True):
        if not index.query(sketch):
            index.insert(id, sketch, check_duplication=False)
            kept.append(id)
    return kept


def datatrove(path: Path) -> list[str]:
    """datatrove's four stages, each by its local executor in this process."""
    minhash = import_module("datatrove.pipeline.dedup.minhash")
    executor = import_module("datatrove.executor").LocalPipelineExecutor
    reader = import_module("datatrove.pipeline.readers").JsonlReader
    writer = import_module("datatrove.pipeline.writers.jsonl").JsonlWriter

    class Split:
        def word_tokenize(self, text: str) -> list[str]:
            return text.split()

    vars(minhash)["load_word_tokenizer"] = lambda language: Split()
    config = minhash.MinhashConfig(n_grams=WORDS, num_buckets=BANDS, hashes_per_bucket=ROWS)
    with tempfile.TemporaryDirectory() as folder:
        raw = reader(str(path.parent), glob_pattern=path.name)
        stages: list[tuple[list[Any], int]] = [
            ([raw, minhash.MinhashDedupSignature(f"{folder}/signatures", config=config)], 1),
            ([minhash.MinhashDedupBuckets(f"{folder}/signatures", f"{folder}/buckets", config=config)], BANDS),
            ([minhash.MinhashDedupCluster(f"{folder}/buckets", f"{folder}/ids", config=config)], 1),
            (
                [
                    raw,
                    minhash.MinhashDedupFilter(f"{folder}/ids"),
                    writer(f"{folder}/kept", compression=None),
                ],
                1,
            ),
        ]
        for number, (pipeline, tasks) in enumerate(stages):
            executor(pipeline=pipeline, tasks=tasks, logging_dir=f"{folder}/logs{number}").run()
        files = sorted(Path(folder, "kept").glob("*.jsonl"))
        return [json.loads(line)["id"] for file in files for line in file.open(encoding="utf-8")]


TOOLS = {each.__name__: each for each in (datatrove, rensa, datasketch, fastsketchlsh)}

if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))
    kept_ids = TOOLS[sys.argv[1]](Path(sys.argv[2]))
    Path(sys.argv[3]).write_text("\n".join(kept_ids), encoding="utf-8")
