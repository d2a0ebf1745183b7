"""A store of documents that are written straight into parts, and the verdicts on them as the rules read, row by row."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from corpora.duplicates.build import hash_groups, plan_signatures
from corpora.duplicates.candidates import Input, SplitSettings, hash_text_64
from corpora.duplicates.signatures import compute_band_keys, compute_signatures
from corpora.duplicates.survivors import DuplicateSettings, judge_duplicates_plain
from corpora.duplicates.sweep import KEPT
from corpora.duplicates.verify import build_shingle_sets
from corpora.schema import DOCUMENTS, DROPPED, compute_keyed_id, compute_occurrence_id
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Parent
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.randomness import compute_keys, draw_uniform
from corpora.store.stage import PartPlan, Stage, build_stage
from corpora.tombstones import Tombstones, hash_text

LOCATOR = {"file": "made", "sha256": "", "stream": -1, "offset": 0, "length": 0}


@dataclass(frozen=True)
class Made:
    """A document; `id` is its key, or stands for the bytes of a record without one. `text` None: it was dropped."""

    id: int
    text: str | None
    keyed: bool = True
    revision: int | None = None
    group: str | None = None
    quality: int = 50

    @property
    def key(self) -> bytes:
        return compute_keyed_id("made", f"{self.keyed} {self.id}")


@dataclass(frozen=True)
class MadeInput:
    """The documents of one source and generation, and how many go to each part."""

    rows: Sequence[Made]
    generation: int
    priority: int = 1
    part_rows: int = 4


def build_inputs(place: Place, inputs: Sequence[MadeInput], settings: DuplicateSettings) -> list[Input]:
    """Write documents and their signatures."""
    found = []
    for number, item in enumerate(inputs):
        parts = [item.rows[at : at + item.part_rows] for at in range(0, len(item.rows), item.part_rows)] or [[]]
        stage = Stage(
            kind="documents",
            name=f"made{number}",
            build_version=1,
            settings={},
            parents=(Parent(role="raw", name="made", fingerprint=str(number)),),
            libraries={},
            parts=tuple(PartPlan(name=f"{at:05d}", key=repr(part), job=part) for at, part in enumerate(parts)),
            build=_write,
        )
        documents = build_stage(place, stage)
        sketches = build_stage(place, plan_signatures(documents, settings))
        found.append(
            Input(generation=item.generation, priority=item.priority, documents=documents, signatures=sketches)
        )
    return found


def _write(writer: PartWriter, plan: PartPlan) -> Ledger:
    rows: Sequence[Made] = plan.job
    kept, gone = [row for row in rows if row.text is not None], [row for row in rows if row.text is None]
    with writer.create_table("documents", DOCUMENTS) as sink:
        sink.write(pa.RecordBatch.from_pylist([_fields(row) for row in kept], DOCUMENTS))
    with writer.create_table("dropped", DROPPED) as sink:
        told = {"step": "rules", "reason": "short"}
        sink.write(pa.RecordBatch.from_pylist([{**_fields(row), **told} for row in gone], DROPPED))
    outcomes = {"documents": len(kept), "dropped": len(gone)}
    return Ledger(accounts=(Account(unit="records", total=len(rows), outcomes=outcomes),))


def _fields(row: Made) -> dict[str, Any]:
    return {
        "id": row.key,
        "keyed": row.keyed,
        "revision": row.revision,
        "text": row.text,
        "source": "made",
        "locator": LOCATOR,
        "group": row.group,
        "quality": row.quality,
    }


def plain_verdicts(
    inputs: Sequence[MadeInput], settings: DuplicateSettings, split: SplitSettings, tombstones: Tombstones
) -> list[dict[str, Any]]:
    """The rows of `VERDICTS` as the rules read: one row after another, one comparison after another."""
    rows = [(row, item) for item in inputs for row in item.rows if row.text is not None]
    dropped = [(row, item) for item in inputs for row in item.rows if row.text is None and row.keyed]
    seen = Counter[bytes]()
    ids = []
    for row, _ in rows:
        ids.append(row.key if row.keyed else compute_occurrence_id(row.key, seen[row.key]))
        seen[row.key] += not row.keyed

    def stamp(row: Made, item: MadeInput) -> tuple[int, int]:
        return (row.revision if row.revision is not None else item.generation, item.generation)

    known = [*zip(ids, rows, strict=True), *((row.key, (row, item)) for row, item in dropped)]
    since, newest = dict[bytes, int](), dict[bytes, tuple[int, int]]()
    for id, (row, item) in known:
        since[id] = min(since.get(id, item.generation), item.generation)
        if row.keyed:
            newest[id] = max(newest.get(id, stamp(row, item)), stamp(row, item))
    hashes = [hash_text(str(row.text).encode()) for row, _ in rows]
    reasons: list[str | None] = [
        "forgotten" if tombstones.is_forgotten(id, text) else None for id, text in zip(ids, hashes, strict=True)
    ]
    text_of, standing = dict[bytes, bytes](), set[bytes]()
    for id, (row, item), text in zip(ids, rows, hashes, strict=True):
        if row.keyed and stamp(row, item) == newest[id]:
            text_of[id] = text
    for at, (id, (row, _), text) in enumerate(zip(ids, rows, hashes, strict=True)):
        if row.keyed and reasons[at] is None:
            if text != text_of.get(id):
                reasons[at] = "superseded"
            elif id in standing:
                reasons[at] = "repeated"
            standing |= {id} if text == text_of.get(id) else set()
    texts = pa.array([row.text for row, _ in rows], pa.large_string())
    sketch = compute_signatures(texts, settings.signature)
    shingles = sketch.num_shingles.tolist()
    keys, sets = compute_band_keys(sketch.signature, settings.band), sketch.set_hash.copy()
    for at in np.flatnonzero(sketch.num_shingles == 0).tolist():
        sets[at] = keys[at] = int.from_bytes(hashes[at][:7], "little") | 1
    longest = settings.prefer == "longest"
    order = sorted(
        (at for at, reason in enumerate(reasons) if reason is None and settings.enabled),
        key=lambda at: (
            since[ids[at]],
            rows[at][1].priority,
            -shingles[at] if longest else 0,
            -rows[at][0].quality,
            ids[at],
        ),
    )
    judged = judge_duplicates_plain(
        sets[order], keys[order], build_shingle_sets(texts.take(pa.array(order, pa.int64()))), settings
    )
    found: list[dict[str, Any]] = []
    for id, (row, item), reason in zip(ids, rows, reasons, strict=True):
        key = hash_text_64(id.hex())
        if row.group is not None:
            key = hash_groups(pa.array(["made"]), pa.array([row.group]))[0].as_py()
        held_out = bool(draw_uniform(compute_keys(split.seed, "held-out", 0, np.uint64(key)), 0) < split.share)
        told = {"id": id, "revision": stamp(row, item)[0], "since": since[id], "held_out": held_out, "reason": reason}
        found.append({**told, "survivor": None, "similarity": None, "missing": None})
    for place in np.flatnonzero(judged.survivor != KEPT).tolist():
        found[order[place]] |= {
            "reason": "exact duplicate" if judged.exact[place] else "near duplicate",
            "survivor": ids[order[judged.survivor[place]]],
            "similarity": float(judged.similarity[place]),
            "missing": float(judged.missing[place]),
        }
    return found


def cut_points(rows: Sequence[Made], ends: Sequence[int]) -> list[Sequence[Made]]:
    """Rows cut at some places."""
    return [rows[first:last] for first, last in pairwise(chain([0], sorted(ends), [len(rows)]))]
