"""The contents of an export, as its card and its metadata describe them.

Promise: the chain of ancestors is that of the artifact itself, by its parents' fingerprints: what else a run built is
not in it. The run is the first one on record that completed with this artifact, so that later runs change nothing.
Cost: a few columns of the corpus, whose texts are not read; the manifests of the chain, the records of runs up to that
one.

Files of bounded size from a stream of rows: row groups and files end where the rows say, not where batches do.

Promise: the same rows give the same files, however they were cut into record batches (with one version of pyarrow). A
file has no more than `file_bytes`, a row group no more than `group_bytes` of rows as they are in memory; a single row
that is larger has one of its own.
Cost: that of Parquet's encoding and zstd; each file is read once more for its sha256. Memory: a row group twice.

Makes a folder that appears whole: written next to its place under a hidden name, and renamed when complete.

Promise: a reader of the place sees no folder, an empty one that was there before, or the whole one. An exception and a
signal leave nothing; what a killed process leaves is removed by the next one that makes the same folder. Only one
process at a time may make it: a second one is told so, and nothing of the first is touched.
"""

import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.sources.contract import RawFile
from corpora.store.ledger import Account
from corpora.store.manifest import Manifest
from corpora.store.places.address import is_object_address, normalize_address
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from flows.export.cards.licenses import NOT_STATED
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.run.addresses import Artifact
from flows.run.record.ledger_balance import edits_of, records_account
from flows.run.record.run_record import DamagedRun, RunRecord, list_runs, read_run, recorded_lock, recorded_recipe
from flows.run.stage_kinds import STAGES, stage_order
from flows.signals import last_word
from trainer.complete_folders import (
    FOLDER_REMEDY,
    check_output,
    explain_disk_errors,
    locate_lock,
    open_unfinished_folder,
    put_folder,
)

GROUP_BYTES = 32 << 20
GROUPS = 8  # row groups that a file holds at least, where there are so many: it ends before one that may not fit
FOOTER_BYTES = 1 << 16  # left for what a file has besides rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file of an export. path: in its folder; split, rows and row_bytes: of a file of rows"""

    path: str
    size_bytes: int
    sha256: str
    split: str = ""
    rows: int = 0
    row_bytes: int = 0


class SplitFiles:
    """The files of one split, written one after another below a folder."""

    def __init__(
        self, folder: Path, called: str, schema: pa.Schema, file_bytes: int, group_bytes: int = GROUP_BYTES
    ) -> None:
        self._folder, self._called, self._schema = folder, called, schema
        self._file_bytes, self._group_bytes = file_bytes, min(group_bytes, file_bytes // GROUPS)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._files: list[ExportedFile] = []
        self._sink: pa.NativeFile | None = None
        self._writer: Any = None
        self._rows = self._row_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; full row groups are written."""
        sizes = row_sizes(batch)
        first = 0
        while first < batch.num_rows:
            reached = np.cumsum(sizes[first:]) + self._pending_bytes
            fitting = int(np.searchsorted(reached, self._group_bytes, side="right"))
            if fitting == 0 and not self._pending:
                fitting = 1
            self._pending += [batch.slice(first, fitting)] if fitting else []
            self._pending_bytes += int(sizes[first : first + fitting].sum())
            first += fitting
            if first < batch.num_rows:
                self._write_group()

    def finish(self) -> list[ExportedFile]:
        """Write what is left; the files under their final names, in order."""
        if self._pending:
            self._write_group()
        self._close()
        return [replace(file, path=self._named(number, file.path)) for number, file in enumerate(self._files)]

    def _named(self, number: int, path: str) -> str:
        """Give a file the name that says how many there are."""
        name = f"data/{self._called}-{number:05}-of-{len(self._files):05}.parquet"
        (self._folder / path).rename(self._folder / name)
        return name

    def _write_group(self) -> None:
        if self._sink is not None and self._sink.tell() + self._pending_bytes + FOOTER_BYTES > self._file_bytes:
            self._close()
        if self._sink is None:
            self._open()
        table = pa.Table.from_batches(self._pending, self._schema).combine_chunks()
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._rows += table.num_rows
        self._row_bytes += self._pending_bytes
        self._pending, self._pending_bytes = [], 0

    @property
    def _path(self) -> str:
        return f"data/{self._called}-{len(self._files):05}.parquet"

    def _open(self) -> None:
        (self._folder / "data").mkdir(exist_ok=True)
        self._sink = pa.OSFile(str(self._folder / self._path), "wb")
        self._writer = pq.ParquetWriter(
            self._sink, self._schema, compression="zstd", version="2.6", write_page_checksum=True
        )

    def _close(self) -> None:
        if self._sink is None:
            return
        self._writer.close()
        self._sink.close()
        written = file_at(self._folder, self._path)
        self._files.append(replace(written, split=self._called, rows=self._rows, row_bytes=self._row_bytes))
        self._sink, self._rows, self._row_bytes = None, 0, 0


def file_at(folder: Path, path: str) -> ExportedFile:
    """Return a file of a folder, with its size and sha256."""
    with (folder / path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return ExportedFile(path=path, size_bytes=file.tell(), sha256=digest)


def row_sizes(batch: pa.RecordBatch) -> Int64s:
    """Return the bytes of each row, as it is in memory: it depends on the row alone.

    >>> row_sizes(pa.record_batch({"a": ["xyz", None], "b": pa.array([1, 2], pa.int8())})).tolist()
    [8, 5]
    """
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        for part in _sizes(column):
            sizes += part
    return sizes


def _sizes(column: pa.Array) -> Iterator[Int64s]:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64) + 4
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        each = 36 if pa.types.is_string(kind.value_type) else max(1, kind.value_type.bit_width // 8)
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        yield lengths.astype(np.int64) * each + 4
    else:
        yield np.full(len(column), max(1, kind.bit_width // 8), np.int64)


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
    record: of that run; None if none is on record
    recipe: of that run; None if there is none, or it can no longer be read, as `unread` says
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
        """The verdicts on all generations of the corpus; None if they are gone."""
        return self.parent(self.corpus, "verdicts") if self.corpus is not None else None

    @property
    def versions(self) -> dict[str, str]:
        """The versions that the run recorded, and the libraries that decided bytes."""
        libraries = {name: str(number) for each in self.chain for name, number in each.libraries.items()}
        return libraries | dict(self.record.versions if self.record is not None else {})

    def parent(self, manifest: Manifest, kind: str) -> Manifest | None:
        """Return the last parent of a kind; None if it is gone."""
        named = [parent.fingerprint for parent in manifest.parents if parent.role == kind][-1:]
        return next((ancestor for ancestor in self.of_kind(kind) if ancestor.fingerprint in named), None)

    def of_kind(self, kind: str) -> list[Manifest]:
        """Return the members of the chain that are of a kind."""
        return [manifest for manifest in self.chain if manifest.kind == kind]

    def raw_files(self, documents: Manifest) -> tuple[RawFile, ...]:
        """Return the raw files that documents were parsed from; none where the lock does not name them."""
        return self.lock.find_raw_files(documents) if self.lock is not None else ()


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
        """Documents by language, the most frequent first; "" if it is unknown."""
        return most_first({of[0]: n for of, n in self.documents.by("language").items()}) if self.documents else {}

    @property
    def language_codes(self) -> list[str]:
        """The languages that have a code of two or three letters."""
        return sorted(name for name in self.languages if _LANGUAGE.fullmatch(name))

    @property
    def largest_source(self) -> list[tuple[str, int]]:
        """The source of most documents with their number; empty if there are none."""
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
        """The tokens that examples were made of; None if they are gone, or rows are documents."""
        return self.provenance.parent(self.provenance.manifest, "tokens")

    @property
    def unknown_tokens(self) -> list[tuple[int, int]]:
        """The numbers of unknown tokens and of all tokens; empty if they are unknown."""
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


def local_target(folder: str) -> Path:
    """Return the folder to write to. Raises InputError for an address that is not a folder of this machine."""
    address = normalize_address(folder)
    if is_object_address(address):
        raise InputError(f"{address} is an object store: export to a folder on this machine, and copy that there.")
    return Path(address)


@contextmanager
def scratch_beside(target: Path) -> Iterator[Path]:
    """Yield an empty folder next to a path, for the time of the block. Raises InputError for what the disk refuses."""
    with explain_disk_errors(target, FOLDER_REMEDY), open_unfinished_folder(target) as scratch:

        def remove() -> None:
            shutil.rmtree(scratch, ignore_errors=True)
            locate_lock(target).unlink(missing_ok=True)

        with last_word(remove):
            yield scratch


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a folder to write to, which is at `target` when the block has ended well. Raises InputError."""
    check_output(target)
    with scratch_beside(target) as new:
        yield new
        put_folder(new, target)
