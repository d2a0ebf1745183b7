"""Finds which splits of a suite a model has read in its pre-training, where a store has its artifact and corpus.

Cost: the corpus' texts are read once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from corpora.build import read_delete_list, without_deleted
from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.tables import read_table
from flows.export.exported import Provenance, provenance_of
from flows.run.store_address import find_artifacts, newest
from trainer.tasks.registry import read_task
from trainer.tasks.suites.overlap import CorpusOverlap, item_texts, met_texts, overlap_of
from trainer.tasks.suites.suite import Suite

READ = ("id", "revision", "generation", "source", "held_out", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRead:
    """A corpus, and the sources of it that a model has read; None: all."""

    corpus: Manifest
    sources: frozenset[str] | None


def overlaps(suite: Suite, made: Provenance | None) -> Mapping[tuple[str, str], CorpusOverlap]:
    """Return the overlap of each task and labelled split, as far as the corpus that a model was made from exists.

    made: what the model's artifact was made from; None where it is not in a store
    """
    read = corpora_read(made) if made is not None else ()
    if made is None or not read:
        return {}
    items = {
        (task.name, split.name): item_texts(read_task(task.task), split.file)
        for task in suite.tasks
        for split in task.splits
        if split.labelled
    }
    texts = (text for of_split in items.values() for texts in of_split for text in texts)
    met = met_texts(texts, _documents(made, read))
    return {key: overlap_of(of_split, met) for key, of_split in items.items()}


def corpora_read(made: Provenance) -> tuple[CorpusRead, ...]:
    """Return the corpora behind a model's shards; none where one of them is gone."""
    read_by_folder: dict[str, CorpusRead] = {}
    for shards in made.of_kind("shards"):
        corpus = made.parent(shards, "corpora")
        if corpus is None:
            return ()
        chosen = shards.settings.get("sources") or None
        before = read_by_folder.get(corpus.folder)
        sources = frozenset(chosen) if chosen is not None else None
        if before is not None:
            sources = None if sources is None or before.sources is None else sources | before.sources
        read_by_folder[corpus.folder] = CorpusRead(corpus=corpus, sources=sources)
    return tuple(read_by_folder.values())


def began_elsewhere(made: Provenance) -> bool:
    """Return whether a model began with weights of another one, or learnt from one, whose texts are unknown here."""
    return any(name in made.manifest.settings for name in ("start", "origin", "teacher"))


def _documents(made: Provenance, read: Sequence[CorpusRead]) -> Iterator[pa.Array]:
    """Yield the live texts of training, batch by batch."""
    for each in read:
        deleted = read_delete_list(made.place, each.corpus)
        for batch in read_table(made.place, each.corpus, "documents", READ):
            live = without_deleted(batch, deleted)
            wanted = pc.invert(live.column("held_out"))
            if each.sources is not None:
                chosen = pa.array(sorted(each.sources), live.schema.field("source").type)
                wanted = pc.and_(wanted, pc.is_in(live.column("source"), value_set=chosen))
            yield live.filter(wanted).column("text").cast(pa.large_string())


def provenance_at(address: str) -> Provenance | None:
    """Return what the model at an address was made from; None where it is not in a store."""
    try:
        artifact = newest(find_artifacts(address, "models"))
    except InputError:  # no artifact exists at the address
        return None
    return provenance_of(artifact)
