"""The contents of an export, as its card and its metadata describe them.

Promise: the chain of ancestors is that of the artifact itself, by its parents' fingerprints: what else a run built is
not in it. The run is the first one on record that completed with this artifact, so that later runs change nothing.
Cost: a few columns of the corpus, whose texts are not read; the manifests of the chain, the records of runs up to that
one.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.sources.contract import RawFile
from corpora.store.ledger import Account
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from flows.export.cards.licenses import NOT_STATED
from flows.export.files import ExportedFile
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.run.record.ledger_balance import edits_of, records_account
from flows.run.record.run_record import DamagedRun, RunRecord, list_runs, read_run, recorded_lock, recorded_recipe
from flows.run.stage_kinds import STAGES, stage_order
from flows.run.store_address import Artifact

_LANGUAGE = re.compile("[a-z]{2,3}")
NAMES = ("source", "split", "generation", "language", "license")
_BY = ("source", "held_out", "generation", "language", "license")


@dataclass(frozen=True)
class DocumentCounts:
    """Numbers of live documents, by the values of all NAMES; language and license are "" where unknown."""

    counts: Counter[tuple[str, ...]]

    def by(self, *names: str) -> dict[tuple[str, ...], int]:
        """Return sums by some of the names, in their order."""
        places = [NAMES.index(name) for name in names]
        sums = Counter[tuple[str, ...]]()
        for of, count in self.counts.items():
            sums[tuple(of[place] for place in places)] += count
        return dict(sorted(sums.items()))

    @property
    def total(self) -> int:
        """Return the number of all documents."""
        return self.counts.total()


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """An artifact, its ancestors in the order of stages, and the run that built it.

    gone:   ancestors that the store no longer has
    record: of that run; None where none is on record
    recipe: of that run; None where there is none, or it can no longer be read, as `unread` says
    """

    artifact: Artifact
    ancestors: tuple[Manifest, ...]
    gone: tuple[str, ...]
    record: RunRecord | None = None
    recipe: Recipe | None = None
    lock: Lock | None = None
    unread: str = ""

    @property
    def place(self) -> Place:
        """The store."""
        return self.artifact.place

    @property
    def manifest(self) -> Manifest:
        """The artifact's own."""
        return self.artifact.manifest

    @property
    def chain(self) -> tuple[Manifest, ...]:
        """The ancestors, then the artifact."""
        return (*self.ancestors, self.manifest)

    @property
    def names_files(self) -> bool:
        """Return whether raw files may be named: their names may name people."""
        return self.recipe is not None and self.recipe.privacy.samples == "text"

    @cached_property
    def corpus(self) -> Manifest | None:
        """The corpus that it is, or was made from; None where that is gone."""
        return self.manifest if self.manifest.kind == "corpora" else self.parent(self.manifest, "corpora")

    @cached_property
    def verdicts(self) -> Manifest | None:
        """The verdicts on all generations of the corpus; None where they are gone."""
        return self.parent(self.corpus, "verdicts") if self.corpus is not None else None

    @property
    def versions(self) -> dict[str, str]:
        """The versions that the run recorded, and the libraries that decided bytes."""
        libraries = {name: str(number) for each in self.chain for name, number in each.libraries.items()}
        return libraries | dict(self.record.versions if self.record is not None else {})

    def parent(self, manifest: Manifest, kind: str) -> Manifest | None:
        """Return the last parent of a kind; None where it is gone."""
        named = [parent.fingerprint for parent in manifest.parents if parent.role == kind][-1:]
        return next((ancestor for ancestor in self.of_kind(kind) if ancestor.fingerprint in named), None)

    def of_kind(self, kind: str) -> list[Manifest]:
        """Return the members of the chain that are of a kind."""
        return [manifest for manifest in self.chain if manifest.kind == kind]

    def raw_files(self, documents: Manifest) -> tuple[RawFile, ...]:
        """Return the raw files that documents were parsed from; none where the lock does not name them."""
        return self.lock.raw_files(documents) if self.lock is not None else ()


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Rows in files, what they were made from, and what describes them.

    documents: the live documents behind them; None where the corpus is gone
    files:     those of rows, split by split in order
    extra:     the other files but the card and the metadata
    units:     by split, how many tokens (of examples) or bytes of text (of documents) its rows have
    """

    provenance: Provenance
    documents: DocumentCounts | None
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    files: tuple[ExportedFile, ...] = ()
    extra: tuple[ExportedFile, ...] = ()
    units: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The artifact's name."""
        return self.provenance.manifest.name

    @property
    def has_examples(self) -> bool:
        """Return whether rows are examples; else they are documents."""
        return self.provenance.manifest.kind == "shards"

    @property
    def masks(self) -> str:
        """How masked examples that come with their vocabulary are masked: static or dynamic; "" for other rows."""
        kind = str(self.provenance.manifest.facts.get("masking"))
        return kind if self.has_examples and self.extra and kind in ("static", "dynamic") else ""

    @property
    def splits(self) -> list[str]:
        """The splits that have rows, as they are published."""
        return list(dict.fromkeys(file.split for file in self.files))

    def of_split(self, split: str) -> list[ExportedFile]:
        """The files of a split."""
        return [file for file in self.files if file.split == split]

    def rows(self, split: str) -> int:
        """The rows of a split."""
        return sum(file.rows for file in self.of_split(split))

    @property
    def num_rows(self) -> int:
        """The rows of all splits."""
        return sum(file.rows for file in self.files)

    @cached_property
    def languages(self) -> dict[str, int]:
        """Documents by language, the most frequent first; "" where it is unknown."""
        return most_first({of[0]: n for of, n in self.documents.by("language").items()}) if self.documents else {}

    @property
    def language_codes(self) -> list[str]:
        """The languages that have a code of two or three letters."""
        return sorted(name for name in self.languages if _LANGUAGE.fullmatch(name))

    @property
    def largest_source(self) -> list[tuple[str, int]]:
        """The source of most documents with their number; empty where there are none."""
        sums = {of[0]: number for of, number in self.documents.by("source").items()} if self.documents else {}
        return sorted(sums.items(), key=lambda item: (item[1], item[0]))[-1:]

    @cached_property
    def licenses(self) -> dict[str, dict[str, int]]:
        """By source, how many documents are under which licence, as it is stated; the most frequent first."""
        recipe, sums = self.provenance.recipe, dict[str, dict[str, int]]()
        by_recipe = {entry.source.name: entry.license for entry in recipe.sources} if recipe is not None else {}
        for (source, license), number in self.documents.by("source", "license").items() if self.documents else ():
            named = license or by_recipe.get(source) or NOT_STATED
            counts = sums.setdefault(source, {})
            counts[named] = counts.get(named, 0) + number
        return {source: most_first(counts) for source, counts in sums.items()}

    @property
    def stated(self) -> set[str]:
        """Every licence that is stated."""
        return {name for counts in self.licenses.values() for name in counts}

    @cached_property
    def parsed(self) -> list[Manifest]:
        """The documents of the sources, as far as they are in the store."""
        return self.provenance.of_kind("documents")

    @cached_property
    def records(self) -> Account:
        """The account of the raw records."""
        return records_account(self.parsed)

    @property
    def left_out(self) -> int:
        """How many raw files could not be read."""
        return sum(len(manifest.settings.get("left_out", ())) for manifest in self.parsed)

    @property
    def edits(self) -> dict[str, int]:
        """The changes and findings in documents that stayed, and how often, in the order of its names."""
        sums: dict[str, int] = {}
        for manifest in self.parsed:
            for name, number in edits_of(manifest):
                sums[name] = sums.get(name, 0) + number
        return dict(sorted(sums.items()))

    @property
    def settings_by_source(self) -> dict[str, Mapping[str, Any]]:
        """The settings of the documents of each source; of several generations the last."""
        return {manifest.name: manifest.settings for manifest in self.parsed}

    @cached_property
    def tokenised(self) -> Manifest | None:
        """The tokens that examples were made of; None where they are gone, or rows are documents."""
        return self.provenance.parent(self.provenance.manifest, "tokens")

    @property
    def unknown_tokens(self) -> list[tuple[int, int]]:
        """The numbers of unknown tokens and of all tokens; empty where they are unknown."""
        if self.tokenised is None or self.provenance.manifest.facts.get("special_ids", {}).get("unk") is None:
            return []
        figures = self.tokenised.ledger.figures
        unknown, whole = (
            sum(figures.get(f"{split} {what}", 0) for split in ("train", "held-out"))
            for what in ("unknown tokens", "tokens")
        )
        return [(unknown, whole)]


def exported(artifact: Artifact) -> Exported:
    """Return an artifact with what it was made from and the documents behind it."""
    provenance = provenance_of(artifact)
    corpus, sources = provenance.corpus, artifact.manifest.settings.get("sources") or ()
    documents = count_documents(artifact.place, corpus, sources) if corpus is not None else None
    return Exported(provenance=provenance, documents=documents)


def count_documents(place: Place, corpus: Manifest, sources: Collection[str] = ()) -> DocumentCounts:
    """Count the live documents of a corpus, or of some of its sources. Raises Damaged."""
    counts = Counter[tuple[str, ...]]()
    for batch in Corpus(place, corpus).iter_batches(_BY):
        table = pa.Table.from_batches([batch])
        for row in table.group_by(list(_BY), use_threads=False).aggregate([([], "count_all")]).to_pylist():
            split = "held-out" if row["held_out"] else "train"
            of = (row["source"], split, row["generation"], row["language"] or "", row["license"] or "")
            if not sources or row["source"] in sources:
                counts[of] += row["count_all"]
    return DocumentCounts(counts)


def most_first(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts, the greatest first; equal ones in order of their names."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def share(part: int, whole: int) -> str:
    """Return a part of a whole in percent.

    >>> share(1, 8), share(0, 0)
    ('12.50 %', '-')
    """
    return f"{100 * part / whole:.2f} %" if whole else "-"


def provenance_of(artifact: Artifact) -> Provenance:
    """Return the provenance of an artifact. Raises Damaged for a manifest that is not what was written."""
    chain, gone = _ancestors(artifact)
    record = _first_run(artifact)
    recipe, lock, unread = None, None, ""
    if record is not None:
        try:
            recipe = recorded_recipe(record, artifact.place.address)
            lock = recorded_lock(artifact.place, record.run_id)
        except InputError as error:
            unread = str(error)
    return Provenance(
        artifact=artifact,
        ancestors=tuple(chain),
        gone=tuple(gone),
        record=record,
        recipe=recipe,
        lock=lock,
        unread=unread,
    )


def _ancestors(artifact: Artifact) -> tuple[list[Manifest], list[str]]:
    """Return the manifests of all ancestors in the order of stages, and the folders of those that are gone."""
    manifests: dict[str, Manifest | None] = {}
    waiting = list(_parent_folders(artifact.manifest))
    while waiting:
        folder = waiting.pop()
        if folder not in manifests:
            ancestor = manifests[folder] = read_manifest(artifact.place, folder)
            waiting += _parent_folders(ancestor) if ancestor is not None else ()
    ordered = sorted(
        (manifest for manifest in manifests.values() if manifest is not None),
        key=lambda manifest: (stage_order(manifest.kind), manifest.facts.get("generations", 0), manifest.folder),
    )
    return ordered, sorted(folder for folder, manifest in manifests.items() if manifest is None)


def _parent_folders(manifest: Manifest) -> Iterator[str]:
    """Yield the folders of the artifacts that one was made from."""
    for parent in manifest.parents:
        if parent.role in STAGES:
            yield parent.folder


def _first_run(artifact: Artifact) -> RunRecord | None:
    """Return the first recorded run that completed with an artifact; else the first that has it. Skips damaged ones."""
    other = None
    for run_id in list_runs(artifact.place):
        try:
            record = read_run(artifact.place, run_id)
        except DamagedRun:
            continue
        if any(stage.folder == artifact.manifest.folder for stage in record.stages):
            if record.state == "completed":
                return record
            other = other or record
    return other
