"""Read the parts of a corpus: the decisions about each row, together with the columns of its document.

    part of a corpus     id, revision, generation, since, held_out; row, documents ─┐
    part of documents    text, title, url, ... ◄────────────────────────────────────┘

A text is stored only once, with the documents. A row of a corpus identifies the documents that it belongs to by the
content of their table. So a corpus does not depend on their folder, and it changes if they change. A corpus written
before version 3 contains all columns itself, and is read by the same functions.

Promise: only the requested columns are read. Documents are read only if one of their own columns is requested, and only
the record batches that contain rows of the corpus. Damage is reported with the path of the damaged file, so that its
stage rebuilds it.

Cost: 20 bytes a document on disk. Opening a part reads the last bytes of its documents' manifest. The whole manifest is
read once per process.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bools, Int64s
from corpora.kernels.fixed_width import to_byte_matrix, to_number_pairs
from corpora.schema import DOCUMENTS, arrange_columns
from corpora.store.damage import Damaged
from corpora.store.digests.content import Content, sum_contents
from corpora.store.manifest import Manifest, ManifestAddress, Part
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, read_manifest_address, read_manifest_at
from corpora.store.tables import read_part_rows, read_part_table

CORPUS = pa.schema(
    [
        *DOCUMENTS,
        pa.field("generation", pa.int32(), nullable=False),  # whose parts hold this row
        pa.field("since", pa.int32(), nullable=False),  # in which the id first appeared
        pa.field("held_out", pa.bool_(), nullable=False),
    ]
)

ROW_KEY = ("id", "revision", "generation")  # of a row: what says that it is deleted
VERDICT_COLUMNS = (*ROW_KEY, "since", "held_out")  # columns of a corpus that verdicts decide
DOCUMENTS_DIGEST = pa.binary(16)

VIEW = pa.schema(
    [
        *(CORPUS.field(name) for name in VERDICT_COLUMNS),
        pa.field("row", pa.int32(), nullable=False),  # of the part of documents
        pa.field("documents", DOCUMENTS_DIGEST, nullable=False),  # the content of that part's table
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """A file of a corpus, with the artifacts that may contain the texts of its rows.

    Attributes:
        folder: Folder of the corpus's stage, in the store.
        part: The file of the corpus.
        documents: Folders of artifacts with documents, in the order in which the file refers to them. If empty, the
            file itself contains all columns, as in stores written before version 3.
    """

    folder: str
    part: Part
    documents: tuple[str, ...]

    @property
    def num_rows(self) -> int:
        """Number of documents in the file, including those deleted by later updates."""
        return self.part.count_rows("documents")


def list_views(corpus: Manifest) -> list[PartView]:
    """List the files of a corpus, in the manifest's order, each with the artifacts that may contain its documents."""
    parents = [parent for parent in corpus.parents if parent.role == "documents"]  # none before version 3
    inputs = zip(corpus.facts["inputs"], parents, strict=False)
    folders = {(item["generation"], item["source"]): parent.folder for item, parent in inputs}
    views = []
    for part in corpus.parts:
        generation, source = int(part.labels["generation"]), part.labels.get("source")
        of = (n for n in folders if (n[1] == source and n[0] == generation if source else n[0] < generation))
        views.append(PartView(folder=corpus.stage_folder, part=part, documents=tuple(folders[each] for each in of)))
    return views


def compute_table_digest(part: Part) -> bytes:
    """Compute the digest (16 bytes) by which corpus rows refer to the documents in a part (a set of files)."""
    content = compute_documents_content(part)
    return content.digest.to_bytes(DOCUMENTS_DIGEST.byte_width, "little")


def compute_documents_content(part: Part) -> Content:
    """Compute the content digest of the table "documents" in a part (a set of files).

    The part's other tables do not affect the result.
    """
    return sum_contents(file.content for file in part.files if file.table == "documents")


def build_view_rows(verdicts: pa.RecordBatch, rows: Int64s, part: Part, generation: int) -> pa.Table:
    """Build the corpus rows (`VIEW`) of documents that are kept.

    Args:
        verdicts: The verdicts on the documents, in the order of `rows`.
        rows: int64, zero-based rows in `part`, ascending.
        part: The set of files that contains the documents.
        generation: Number of the corpus update that writes the files with the rows.
    """
    columns = {
        **{name: verdicts.column(name) for name in VERDICT_COLUMNS if name != "generation"},
        "generation": pa.array(np.full(len(rows), generation, np.int32)),
        "row": pa.array(rows.astype(np.int32)),
        "documents": pa.array([compute_table_digest(part)] * len(rows), DOCUMENTS_DIGEST),
    }
    return pa.table(arrange_columns(columns, VIEW), schema=VIEW)


class DeleteList:
    """The rows that are in some file of a corpus but no longer belong to it.

    A row is on the list only if its id, its revision and its corpus update all match the same entry. An entry takes 28
    bytes of memory, and rows are looked up by bisection.

    Args:
        rows: A table with the id, revision and corpus update (`generation`) of each entry.
    """

    def __init__(self, rows: pa.Table) -> None:
        """Build the list."""
        ids = to_number_pairs(rows.column("id").combine_chunks())
        order = np.argsort(ids[:, 0], kind="stable")
        self._heads, self._tails = (np.ascontiguousarray(half) for half in ids[order].T)
        self._revisions = rows.column("revision").to_numpy()[order]
        self._generations = rows.column("generation").to_numpy()[order]

    def __len__(self) -> int:
        return len(self._heads)

    def find_deleted(self, batch: pa.RecordBatch) -> Bools:
        """Find the rows of a record batch that are on the list: bool [rows of the batch].

        Args:
            batch: Rows with the columns of `ROW_KEY`.
        """
        heads, tails = to_number_pairs(batch.column("id")).T
        revisions, generations = (batch.column(name).to_numpy() for name in ("revision", "generation"))
        at, ends = (np.searchsorted(self._heads, heads, side) for side in ("left", "right"))
        held = np.zeros(batch.num_rows, np.bool_)
        while np.any(at < ends):  # once for each time that one id is on the list
            row = np.flatnonzero(at < ends)
            same = self._tails[at[row]] == tails[row]
            same &= self._revisions[at[row]] == revisions[row]
            same &= self._generations[at[row]] == generations[row]
            held[row] |= same
            at = at + 1
        return held


def without_deleted(batch: pa.RecordBatch, deleted: DeleteList) -> pa.RecordBatch:
    """Return a record batch of corpus rows without the rows that are on the delete list."""
    held = deleted.find_deleted(batch)
    return batch.filter(pa.array(~held)) if held.any() else batch


def read_view(
    place: Place,
    view: PartView,
    columns: Sequence[str],
    rows: range | None = None,
    deleted: DeleteList | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file of a corpus as record batches.

    Args:
        place: The store.
        view: The file.
        columns: Names of the columns of `CORPUS` to read, in this order.
        rows: Range of zero-based rows to read, relative to the file (default: all rows).
        deleted: Rows to leave out. If None, rows deleted by later updates are yielded as well.

    Raises:
        Damaged: If a file is missing, damaged or modified.
    """
    stored_columns = VERDICT_COLUMNS if view.documents else CORPUS.names
    others = [name for name in columns if name not in stored_columns]
    needed = [*columns, *(ROW_KEY if deleted is not None else ()), *(("row", "documents") if others else ())]
    stored = [name for name in dict.fromkeys(needed) if name not in others]
    folders = list(view.documents)
    for batch in read_part_table(place, view.folder, view.part, "documents", stored, rows):
        live = batch if deleted is None else without_deleted(batch, deleted)
        for some in _with_documents(place, folders, live, others) if others else [live]:
            yield some.select(list(columns))


def _with_documents(
    place: Place, folders: list[str], batch: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield corpus rows together with columns of the documents that they refer to.

    Args:
        place: The store.
        folders: Folders of the artifacts to search, in order. Modified in place: an artifact is removed once the search
            has moved on to the next one.
        batch: Corpus rows that include the columns `row` and `documents`.
        columns: Names of the columns to add from the documents.

    Raises:
        Damaged: If the documents are in none of the folders, or a file is missing, damaged or modified.
    """
    rows = batch.column("row").to_numpy().astype(np.int64)
    tables = to_byte_matrix(batch.column("documents"))
    changes = np.any(tables[1:] != tables[:-1], axis=1) | (rows[1:] <= rows[:-1])
    first = 0
    for run in np.split(rows, np.flatnonzero(changes) + 1) if len(rows) else ():
        folder, part = _find_documents(place, folders, batch.column("documents")[first].as_py())
        for found in read_part_rows(place, folder, part, "documents", columns, run):
            decided = batch.slice(first, found.num_rows)
            yield pa.RecordBatch.from_arrays(
                [*decided.columns, *found.columns], schema=pa.schema([*decided.schema, *found.schema])
            )
            first += found.num_rows


def _find_documents(place: Place, folders: list[str], digest: bytes) -> tuple[str, Part]:
    """Find the part (set of files) whose documents have this digest. Return (its stage's folder, the part).

    Args:
        place: The store.
        folders: Folders of the artifacts to search, in order. Modified in place: those before the match are removed.
        digest: The 16 bytes from `compute_table_digest`.

    Raises:
        Damaged: If no artifact in `folders` contains the documents, or a manifest is missing or damaged.
    """
    while True:
        path = f"{folders[0]}/{MANIFEST}"
        try:
            parts = _index_parts(place, read_manifest_address(place, folders[0]))
        except FileNotFoundError as error:
            raise Damaged(path, "it is gone") from error
        if digest in parts:
            return folders[0].rpartition("/")[0], parts[digest]
        if len(folders) == 1:
            raise Damaged(path, "it does not have the documents that a corpus was made from")
        del folders[0]


@lru_cache(maxsize=16)
def _index_parts(place: Place, documents: ManifestAddress) -> dict[bytes, Part]:
    return {compute_table_digest(part): part for part in read_manifest_at(place, documents).parts}
