"""What an export contains: the artifact, what it was made from, its files, and the folder that they are written to.

Promise: the ancestors are found by the fingerprints of parents, so that what else a run built is not among them. The
run is the first recorded one that completed with this artifact, so that later runs change nothing.
Cost: a few columns of the corpus, without texts; the manifests of the ancestors; the records of runs up to that one.

Files: the same rows give the same files, however they were divided into record batches (with one version of pyarrow). A
file has at most `file_bytes`, a row group at most `group_bytes` of rows as they are in memory; a single row that is
larger has one of its own.
Cost: Parquet encoding and zstd; each file is read once more for its sha256. Memory: two row groups.

Folders: a reader of the target sees no folder, an empty one that was there before, or the complete one. An exception or
a signal leaves nothing; what a killed process leaves is removed by the next one with the same target. Only one process
at a time may write a target: a second one gets an error, and the first is not disturbed.
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
from flows.run.record.ledger_balance import list_edits, sum_records
from flows.run.record.run_record import (
    DamagedRun,
    RunRecord,
    list_run_ids,
    read_recorded_lock,
    read_recorded_recipe,
    read_run,
)
from flows.run.stage_kinds import STAGES, get_stage_index
from flows.signals import call_on_stop
from trainer.complete_folders import (
    FOLDER_REMEDY,
    check_output,
    explain_disk_errors,
    locate_lock,
    open_unfinished_folder,
    put_folder,
)

MAX_GROUP_BYTES = 32 << 20
MIN_GROUPS = 8  # row groups that a file holds at least, where there are so many: it ends before one that may not fit
FOOTER_BYTES = 1 << 16  # left for what a file has besides rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file of an export.

    Attributes:
        path: Path relative to the export folder.
        size_bytes: Size of the file in bytes.
        sha256: SHA-256 digest of the file, as a hexadecimal string.
        split: Name, in the exported data, of the split that the rows belong to, such as "train"; "" if the file has no
            rows.
        rows: Number of rows in the file.
        row_bytes: Size of the rows in memory, in bytes.
    """

    path: str
    size_bytes: int
    sha256: str
    split: str = ""
    rows: int = 0
    row_bytes: int = 0


class SplitWriter:
    """Writes the rows of one split to a sequence of Parquet files of bounded size.

    Args:
        folder: The export folder. Files are written to its `data` subfolder.
        split: Name of the split in the exported data, such as "train". File names start with it.
        schema: The schema of the rows.
        file_bytes: Maximum size of a file in bytes.
        group_bytes: Maximum size of a row group in memory, in bytes. It is capped at an eighth of `file_bytes`.
    """

    def __init__(
        self, folder: Path, split: str, schema: pa.Schema, file_bytes: int, group_bytes: int = MAX_GROUP_BYTES
    ) -> None:
        self._folder, self._split, self._schema = folder, split, schema
        self._file_bytes, self._group_bytes = file_bytes, min(group_bytes, file_bytes // MIN_GROUPS)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._files: list[ExportedFile] = []
        self._sink: pa.NativeFile | None = None
        self._writer: Any = None
        self._rows = self._row_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch. Row groups are written to the file as soon as they are full."""
        sizes = compute_row_sizes(batch)
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
        """Write the remaining rows, rename the files to their final names, and return the files in row order.

        Call it once, after all rows were added.
        """
        if self._pending:
            self._write_group()
        self._close()
        return [replace(file, path=self._rename_file(number, file.path)) for number, file in enumerate(self._files)]

    def _rename_file(self, number: int, path: str) -> str:
        """Rename a file to its final name, which includes the total number of files, and return the new path.

        Args:
            number: Zero-based index of the file.
            path: Path of the file. It is relative to the export folder, like the result.
        """
        name = f"data/{self._split}-{number:05}-of-{len(self._files):05}.parquet"
        (self._folder / path).rename(self._folder / name)
        return name

    def _write_group(self) -> None:
        """Write the pending rows as one row group, in a new file if the group might not fit into the current one."""
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
        """Temporary path of the current file, relative to the export folder."""
        return f"data/{self._split}-{len(self._files):05}.parquet"

    def _open(self) -> None:
        """Create the next Parquet file, under its temporary path."""
        (self._folder / "data").mkdir(exist_ok=True)
        self._sink = pa.OSFile(str(self._folder / self._path), "wb")
        self._writer = pq.ParquetWriter(
            self._sink, self._schema, compression="zstd", version="2.6", write_page_checksum=True
        )

    def _close(self) -> None:
        """Complete the current file, if there is one, and add it to the list of files."""
        if self._sink is None:
            return
        self._writer.close()
        self._sink.close()
        written = describe_file(self._folder, self._path)
        self._files.append(replace(written, split=self._split, rows=self._rows, row_bytes=self._row_bytes))
        self._sink, self._rows, self._row_bytes = None, 0, 0


def describe_file(folder: Path, path: str) -> ExportedFile:
    """Read a file in an export folder to compute its size and SHA-256 digest.

    Args:
        folder: The export folder.
        path: Path of the file relative to `folder`.
    """
    with (folder / path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return ExportedFile(path=path, size_bytes=file.tell(), sha256=digest)


def compute_row_sizes(batch: pa.RecordBatch) -> Int64s:
    """Compute the size of each row in memory, in bytes, as int64 [rows].

    A row's size does not depend on the batch that contains the row.

    >>> compute_row_sizes(pa.record_batch({"a": ["xyz", None], "b": pa.array([1, 2], pa.int8())})).tolist()
    [8, 5]
    """
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        for part in _iter_sizes(column):
            sizes += part
    return sizes


def _iter_sizes(column: pa.Array) -> Iterator[Int64s]:
    """Yield int64 arrays with one entry per row. Their sum is the size of each value of a column in bytes."""
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
COUNT_KEYS = ("source", "split", "generation", "language", "license")
_CORPUS_COLUMNS = ("source", "held_out", "generation", "language", "license")


@dataclass(frozen=True)
class DocumentCounts:
    """The number of documents by source, split, generation (the raw files that one run added), language and license.

    Deleted documents are not counted.

    Attributes:
        counts: Number of documents by tuple. A tuple has one value for each of COUNT_KEYS, in that order; an unknown
            language or license is "".
    """

    counts: Counter[tuple[str, ...]]

    def sum_by(self, *names: str) -> dict[tuple[str, ...], int]:
        """Add up the counts of documents that have the same values for some of the COUNT_KEYS.

        Args:
            names: The keys to group by, such as "source".

        Returns:
            Number of documents by tuple, sorted by tuple. A tuple has one value for each of `names`, in that order.

        Raises:
            ValueError: If a name is not one of the COUNT_KEYS.
        """
        places = [COUNT_KEYS.index(name) for name in names]
        sums = Counter[tuple[str, ...]]()
        for of, count in self.counts.items():
            sums[tuple(of[place] for place in places)] += count
        return dict(sorted(sums.items()))

    @property
    def total(self) -> int:
        """The total number of documents."""
        return self.counts.total()


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """An artifact (stored stage result), its ancestors, and the run that built it.

    Attributes:
        artifact: The artifact.
        ancestors: Manifests (descriptions) of all artifacts that the artifact was built from, directly or indirectly,
            in the order of the pipeline stages.
        missing: Folders of the ancestors that the store no longer has.
        record: Record of the run; None if no recorded run lists the artifact.
        recipe: Recipe of the run; None if there is no record, or if the recipe cannot be read.
        lock: The lock file, which records the raw files that the run read; None if there is no record, or if the recipe
            or the lock file cannot be read.
        read_error: Error message if the recipe or the lock file could not be read; otherwise "".
    """

    artifact: Artifact
    ancestors: tuple[Manifest, ...]
    missing: tuple[str, ...]
    record: RunRecord | None = None
    recipe: Recipe | None = None
    lock: Lock | None = None
    read_error: str = ""

    @property
    def place(self) -> Place:
        """The store that contains the artifact (stored stage result)."""
        return self.artifact.place

    @property
    def manifest(self) -> Manifest:
        """The manifest (description) of the artifact (stored stage result) that this provenance is about."""
        return self.artifact.manifest

    @property
    def chain(self) -> tuple[Manifest, ...]:
        """The manifests (descriptions) of the artifact's ancestors, followed by that of the artifact itself."""
        return (*self.ancestors, self.manifest)

    @property
    def names_files(self) -> bool:
        """True if the recipe allows raw file names to be shown. They may contain the names of people."""
        return self.recipe is not None and self.recipe.privacy.samples == "text"

    @cached_property
    def corpus(self) -> Manifest | None:
        """Manifest (description) of the corpus that the artifact is or was built from.

        None if the store no longer has the corpus.
        """
        return self.manifest if self.manifest.kind == "corpora" else self.find_parent(self.manifest, "corpora")

    @cached_property
    def verdicts(self) -> Manifest | None:
        """Manifest (description) of the deduplication decisions of the corpus: which documents are kept.

        None if the store no longer has the decisions or the corpus.
        """
        return self.find_parent(self.corpus, "verdicts") if self.corpus is not None else None

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the programs and libraries that made the artifact and its ancestors, by name."""
        libraries = {name: str(number) for each in self.chain for name, number in each.libraries.items()}
        return libraries | dict(self.record.versions if self.record is not None else {})

    def find_parent(self, manifest: Manifest, kind: str) -> Manifest | None:
        """Find the last parent of a given kind that is listed in a manifest (description of an artifact).

        Args:
            manifest: Manifest of the artifact or of one of its ancestors.
            kind: Kind of the parent, such as "corpora".

        Returns:
            The parent's manifest; None if there is no such parent or the store no longer has it.
        """
        fingerprints = [parent.fingerprint for parent in manifest.parents if parent.role == kind][-1:]
        return next((ancestor for ancestor in self.find_all(kind) if ancestor.fingerprint in fingerprints), None)

    def find_all(self, kind: str) -> list[Manifest]:
        """Return the manifests (descriptions) of one kind among the artifact and its ancestors, oldest first.

        Args:
            kind: Kind of pipeline stage, such as "documents".
        """
        return [manifest for manifest in self.chain if manifest.kind == kind]

    def find_raw_files(self, documents: Manifest) -> tuple[RawFile, ...]:
        """Return the raw files from which documents were parsed.

        The result is empty if the lock file (which records these raw files) cannot be found.

        Args:
            documents: Manifest (description) of the documents.
        """
        return self.lock.find_raw_files(documents) if self.lock is not None else ()


@dataclass(frozen=True, kw_only=True)
class ExportContent:
    """The content of an export, which its data card and metadata describe.

    Attributes:
        provenance: The exported corpus or shard set, and everything that it was built from.
        documents: Counts of the documents that the rows come from, without deleted documents; None if the store no
            longer has the corpus.
        schema: The schema of the rows.
        files: The files that contain rows, grouped by split.
        extra: The other files, except the card and the metadata.
        units: Maps the name of each split in the exported data to its number of tokens (if rows are examples) or bytes
            of text (if rows are documents).
    """

    provenance: Provenance
    documents: DocumentCounts | None
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    files: tuple[ExportedFile, ...] = ()
    extra: tuple[ExportedFile, ...] = ()
    units: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the corpus or shard set that was exported."""
        return self.provenance.manifest.name

    @property
    def has_examples(self) -> bool:
        """True if the rows are training examples, False if they are documents."""
        return self.provenance.manifest.kind == "shards"

    @property
    def masks(self) -> str:
        """The masking of the examples: "static" or "dynamic"; "" if they are not masked or the rows are documents."""
        kind = str(self.provenance.manifest.facts.get("masking"))
        return kind if self.has_examples and self.extra and kind in ("static", "dynamic") else ""

    @property
    def splits(self) -> list[str]:
        """The names, in the exported data, of the splits that have rows."""
        return list(dict.fromkeys(file.split for file in self.files))

    def list_files(self, split: str) -> list[ExportedFile]:
        """Return the exported files that contain the rows of a split.

        Args:
            split: Name of the split in the exported data, such as "train".
        """
        return [file for file in self.files if file.split == split]

    def count_rows(self, split: str) -> int:
        """Return the number of exported rows of a split.

        Args:
            split: Name of the split in the exported data, such as "train".
        """
        return sum(file.rows for file in self.list_files(split))

    @property
    def num_rows(self) -> int:
        """The total number of exported rows in all splits."""
        return sum(file.rows for file in self.files)

    @cached_property
    def languages(self) -> dict[str, int]:
        """The number of documents by language code, most frequent first.

        The code of an unknown language is "". The dictionary is empty if the store no longer has the corpus.
        """
        counts = self.documents.sum_by("language") if self.documents else {}
        return sort_by_count({of[0]: number for of, number in counts.items()})

    @property
    def language_codes(self) -> list[str]:
        """The language codes of two or three letters, sorted."""
        return sorted(name for name in self.languages if _LANGUAGE.fullmatch(name))

    @property
    def largest_source(self) -> list[tuple[str, int]]:
        """The source with the most documents, as a list of one (name, number of documents) pair.

        The list is empty if the store no longer has the corpus.
        """
        sums = {of[0]: number for of, number in self.documents.sum_by("source").items()} if self.documents else {}
        return sorted(sums.items(), key=lambda item: (item[1], item[0]))[-1:]

    @cached_property
    def licenses(self) -> dict[str, dict[str, int]]:
        """For each source, the number of documents by license name, most frequent first.

        The license of a document is the one stated in its record; otherwise, the one that the recipe states for the
        source; otherwise, `NOT_STATED`.
        """
        recipe, sums = self.provenance.recipe, dict[str, dict[str, int]]()
        by_recipe = {entry.source.name: entry.license for entry in recipe.sources} if recipe is not None else {}
        for (source, license), number in self.documents.sum_by("source", "license").items() if self.documents else ():
            name = license or by_recipe.get(source) or NOT_STATED
            counts = sums.setdefault(source, {})
            counts[name] = counts.get(name, 0) + number
        return {source: sort_by_count(counts) for source, counts in sums.items()}

    @property
    def stated_licenses(self) -> set[str]:
        """The names of all licenses in `licenses`."""
        return {name for counts in self.licenses.values() for name in counts}

    @cached_property
    def parsed(self) -> list[Manifest]:
        """The manifests (descriptions) of the sets of parsed documents that the store still has."""
        return self.provenance.find_all("documents")

    @cached_property
    def records(self) -> Account:
        """The number of raw records that became documents, and the number of dropped records by reason."""
        return sum_records(self.parsed)

    @property
    def num_unreadable_files(self) -> int:
        """The number of raw files that were skipped because they could not be read."""
        return sum(len(manifest.settings.get("left_out", ())) for manifest in self.parsed)

    @property
    def edits(self) -> dict[str, int]:
        """The number of occurrences of each edit or finding in the kept documents, by name."""
        sums: dict[str, int] = {}
        for manifest in self.parsed:
            for name, number in list_edits(manifest):
                sums[name] = sums.get(name, 0) + number
        return dict(sorted(sums.items()))

    @property
    def settings_by_source(self) -> dict[str, Mapping[str, Any]]:
        """The settings with which each source's newest documents were parsed, by source name."""
        return {manifest.name: manifest.settings for manifest in self.parsed}

    @cached_property
    def tokenised(self) -> Manifest | None:
        """Manifest (description) of the tokenized documents from which the examples were built.

        None if the store no longer has the tokenized documents, or if the rows are documents.
        """
        return self.provenance.find_parent(self.provenance.manifest, "tokens")

    @property
    def unknown_tokens(self) -> list[tuple[int, int]]:
        """The number of unknown tokens and the number of all tokens, as a list of one pair.

        The list is empty if the numbers are not known.
        """
        if self.tokenised is None or self.provenance.manifest.facts.get("special_ids", {}).get("unk") is None:
            return []
        figures = self.tokenised.ledger.figures
        unknown, total = (
            sum(figures.get(f"{split} {what}", 0) for split in ("train", "held-out"))
            for what in ("unknown tokens", "tokens")
        )
        return [(unknown, total)]


def collect_content(artifact: Artifact) -> ExportContent:
    """Read the provenance of an artifact (stored corpus or shard set), and count the documents that its rows come from.

    Returns:
        An `ExportContent` without a schema, files or units, which are known only after the rows have been written.

    Raises:
        Damaged: If the manifest (description) of an ancestor or a file of the corpus is damaged.
    """
    provenance = read_provenance(artifact)
    corpus, sources = provenance.corpus, artifact.manifest.settings.get("sources") or ()
    documents = count_documents(artifact.place, corpus, sources) if corpus is not None else None
    return ExportContent(provenance=provenance, documents=documents)


def count_documents(place: Place, corpus: Manifest, sources: Collection[str] = ()) -> DocumentCounts:
    """Count the documents of a corpus by source, split, generation, language and license.

    A generation is the raw files that one run added. Deleted documents are omitted.

    Args:
        place: The store that contains the corpus.
        corpus: Manifest (description) of the corpus.
        sources: Names of the sources to count. If empty, all sources are counted.

    Raises:
        Damaged: If a file of the corpus is damaged.
    """
    counts = Counter[tuple[str, ...]]()
    for batch in Corpus(place, corpus).iter_batches(_CORPUS_COLUMNS):
        table = pa.Table.from_batches([batch])
        for row in table.group_by(list(_CORPUS_COLUMNS), use_threads=False).aggregate([([], "count_all")]).to_pylist():
            split = "held-out" if row["held_out"] else "train"
            of = (row["source"], split, row["generation"], row["language"] or "", row["license"] or "")
            if not sources or row["source"] in sources:
                counts[of] += row["count_all"]
    return DocumentCounts(counts)


def sort_by_count(counts: Mapping[str, int]) -> dict[str, int]:
    """Return a copy of the counts in descending order. Equal counts are sorted by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def format_share(part: int, whole: int) -> str:
    """Format `part` as a percentage of `whole`. Returns "-" if `whole` is 0.

    >>> format_share(1, 8), format_share(0, 0)
    ('12.50 %', '-')
    """
    return f"{100 * part / whole:.2f} %" if whole else "-"


def read_provenance(artifact: Artifact) -> Provenance:
    """Read the ancestors of an artifact (stored stage result) and the run that built it.

    The record, recipe and lock file (which records the raw files) of this run are read. If the recipe or the lock file
    cannot be read, `read_error` of the result contains the error message.

    Raises:
        Damaged: If the manifest (description) of an ancestor is damaged.
    """
    chain, missing = _read_ancestors(artifact)
    record = _find_first_run(artifact)
    recipe, lock, read_error = None, None, ""
    if record is not None:
        try:
            recipe = read_recorded_recipe(record, artifact.place.address)
            lock = read_recorded_lock(artifact.place, record.run_id)
        except InputError as error:
            read_error = str(error)
    return Provenance(
        artifact=artifact,
        ancestors=tuple(chain),
        missing=tuple(missing),
        record=record,
        recipe=recipe,
        lock=lock,
        read_error=read_error,
    )


def _read_ancestors(artifact: Artifact) -> tuple[list[Manifest], list[str]]:
    """Read the manifests (descriptions) of all ancestors of an artifact (stored stage result).

    Returns:
        The manifests in the order of the pipeline stages, and the folders of the ancestors that the store no longer
        has.

    Raises:
        Damaged: If a manifest is damaged.
    """
    manifests: dict[str, Manifest | None] = {}
    waiting = list(_iter_parent_folders(artifact.manifest))
    while waiting:
        folder = waiting.pop()
        if folder not in manifests:
            ancestor = manifests[folder] = read_manifest(artifact.place, folder)
            waiting += _iter_parent_folders(ancestor) if ancestor is not None else ()
    ordered = sorted(
        (manifest for manifest in manifests.values() if manifest is not None),
        key=lambda manifest: (get_stage_index(manifest.kind), manifest.facts.get("generations", 0), manifest.folder),
    )
    return ordered, sorted(folder for folder, manifest in manifests.items() if manifest is None)


def _iter_parent_folders(manifest: Manifest) -> Iterator[str]:
    """Yield the folders of the artifacts that an artifact was directly built from, as listed in its manifest."""
    for parent in manifest.parents:
        if parent.role in STAGES:
            yield parent.folder


def _find_first_run(artifact: Artifact) -> RunRecord | None:
    """Find the first completed run that built or reused an artifact (stored stage result).

    If there is none, the first run of any state that lists the artifact is returned, or None if no record lists it.
    Damaged records are skipped.
    """
    unfinished = None
    for run_id in list_run_ids(artifact.place):
        try:
            record = read_run(artifact.place, run_id)
        except DamagedRun:
            continue
        if any(stage.folder == artifact.manifest.folder for stage in record.stages):
            if record.state == "completed":
                return record
            unfinished = unfinished or record
    return unfinished


def parse_local_target(folder: str) -> Path:
    """Convert the address of a folder on this machine to a path.

    Raises:
        InputError: If the address is in an object store or is not a valid path.
    """
    address = normalize_address(folder)
    if is_object_address(address):
        raise InputError(f"{address} is an object store: export to a folder on this machine, and copy that there.")
    return Path(address)


@contextmanager
def open_scratch_folder(target: Path) -> Iterator[Path]:
    """Create an empty temporary folder next to `target`, and yield its path.

    The folder is removed when the block ends, even after an exception or signal.

    Raises:
        InputError: If a disk error occurs, or another process is using a temporary folder for the same target.
    """
    with explain_disk_errors(target, FOLDER_REMEDY), open_unfinished_folder(target) as scratch:

        def remove() -> None:
            shutil.rmtree(scratch, ignore_errors=True)
            locate_lock(target).unlink(missing_ok=True)

        with call_on_stop(remove):
            yield scratch


@contextmanager
def open_new_folder(target: Path) -> Iterator[Path]:
    """Create a temporary folder, yield its path, and rename it to `target` if the block ends without an exception.

    After an exception or a signal, the temporary folder is removed instead.

    Raises:
        InputError: If `target` exists and is not an empty folder, a disk error occurs, or another process is writing to
            the same target.
    """
    check_output(target)
    with open_scratch_folder(target) as new:
        yield new
        put_folder(new, target)
