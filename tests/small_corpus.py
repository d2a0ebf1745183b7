"""A corpus written row by row, for tests of what is built from one: counts, vocabularies, tokens, shards.

corpus = put_corpus(place, {"g001-a-00000": [row(1, prose), ...]}, deleted=[row(2, ...)])
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from corpora.build import DELETED, Corpus
from corpora.schema import compute_keyed_id
from corpora.store.ledger import Ledger
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_stage
from corpora.views import CORPUS

Row = dict[str, Any]
WORDS = (
    "the river keeper carried seven grey stones and a broken clock over old bridges while winter tides came in".split()
)


def words(seed: int, sentences: int = 6) -> str:
    """Sentences of few words, different for every seed."""
    draw = random.Random(seed)
    return " ".join(" ".join(draw.choices(WORDS, k=draw.randint(4, 12))).capitalize() + "." for _ in range(sentences))


def row(
    number: int, text: str, generation: int = 1, held_out: bool = False, revision: int = 1, source: str = "small"
) -> Row:
    """A row of the corpus; its id is made of its number."""
    id = compute_keyed_id("small", str(number))
    locator = {"file": "f", "sha256": "00", "stream": -1, "offset": number, "length": len(text.encode())}
    absent = dict.fromkeys(("url", "date", "license", "group", "meta"))
    return {
        **absent,
        **{"id": id, "keyed": True, "revision": revision, "text": text, "source": source, "locator": locator},
        **{"title": f"T{number}", "language": "en", "quality": 0},
        **{"generation": generation, "since": generation, "held_out": held_out},
    }


def put_corpus(place: Place, parts: Mapping[str, Sequence[Row]], deleted: Sequence[Row] = ()) -> Corpus:
    """Write the parts (named g001-source-...) and the delete list, and publish them as corpora/small."""

    def build(writer: PartWriter, plan: PartPlan) -> Ledger:
        with writer.create_table("documents", CORPUS) as sink:
            sink.write(pa.Table.from_pylist(list(parts.get(plan.name, [])), CORPUS))
        if plan.name.endswith("changes"):
            gone = [{**{n: r[n] for n in ("id", "revision", "generation")}, "reason": "superseded"} for r in deleted]
            with writer.create_table("deleted", DELETED) as sink:
                sink.write(pa.Table.from_pylist(gone, DELETED))
        return Ledger()

    names = [*parts, *(["g002-changes"] if deleted else [])]
    numbers = [int(name[1:4]) for name in names]
    plans = [
        PartPlan(name=name, key=[repr(parts.get(name)), repr(deleted)], labels=_labels(name, number))
        for name, number in zip(names, numbers, strict=True)
    ]
    stage = Stage(
        kind="corpora",
        name="small",
        build_version=1,
        settings={"rows": repr(parts), "deleted": repr(deleted)},
        parents=(),
        libraries={},
        parts=tuple(plans),
        build=build,
        facts={"generations": max(numbers), "inputs": []},
    )
    return Corpus(place, build_stage(place, stage))


def _labels(name: str, generation: int) -> dict[str, str]:
    source = {} if name.endswith("changes") else {"source": name.split("-")[1]}
    return {"generation": str(generation), **source}
