"""The parts of a corpus as they are read: what the verdicts decided for each row, next to the documents' own columns.

    part of a corpus     id, revision, generation, since, held_out; row, documents ─┐
    part of documents    text, title, url, ... ◄────────────────────────────────────┘

A text is in a store once: with its documents. A row of a corpus says by the content of their table which documents it
is of, so a corpus does not depend on the folder that they are in, and changes if they do. A corpus of before version 3
holds all columns itself; it is read by the same functions.

Promise: only columns that are asked for are read, of documents only the record batches that have rows of the corpus,
and only if one of their own columns is asked for. What is damaged is named by its own path, so that its stage builds it
again.

Cost: 20 bytes a document on disk. Opening a part reads the last bytes of the manifest of its documents; the manifest is
read once in a process.
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
    """A part of a corpus, and where the documents are that its rows are of.

    folder:    of its stage
    documents: the folders of artifacts, one of which has its documents, in the order of its rows; empty: the part holds
               all columns itself
    """

    folder: str
    part: Part
    documents: tuple[str, ...]

    @property
    def num_rows(self) -> int:
        """The number of its documents, deleted ones among them."""
        return self.part.count_rows("documents")


def list_views(corpus: Manifest) -> list[PartView]:
    """Return the parts of a corpus as they are read, each with the artifacts of documents that it may be of."""
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
    """Return the content of a part's documents in the form in which rows of a corpus name it."""
    content = compute_documents_content(part)
    return content.digest.to_bytes(DOCUMENTS_DIGEST.byte_width, "little")


def compute_documents_content(part: Part) -> Content:
    """Return the content of a part's documents, without that of its other tables."""
    return sum_contents(file.content for file in part.files if file.table == "documents")


def build_view_rows(verdicts: pa.RecordBatch, rows: Int64s, part: Part, generation: int) -> pa.Table:
    """Return rows of a part of a corpus.

    verdicts:   one row for each of `rows`
    rows:       of a part of documents, ascending
    part:       the part of documents
    generation: whose parts hold the rows
    """
    columns = {
        **{name: verdicts.column(name) for name in VERDICT_COLUMNS if name != "generation"},
        "generation": pa.array(np.full(len(rows), generation, np.int32)),
        "row": pa.array(rows.astype(np.int32)),
        "documents": pa.array([compute_table_digest(part)] * len(rows), DOCUMENTS_DIGEST),
    }
    return pa.table(arrange_columns(columns, VIEW), schema=VIEW)


class DeleteList:
    """Rows that some part of a corpus holds and that no longer belong to the corpus.

    Promise: a row is on the list if and only if its id, revision and generation are all three those of an entry. Cost:
    28 bytes an entry; a row is looked up by the first half of its id, by bisection.
    """

    def __init__(self, rows: pa.Table) -> None:
        """Build the list. rows: id, revision and generation of each entry"""
        ids = to_number_pairs(rows.column("id").combine_chunks())
        order = np.argsort(ids[:, 0], kind="stable")
        self._heads, self._tails = (np.ascontiguousarray(half) for half in ids[order].T)
        self._revisions = rows.column("revision").to_numpy()[order]
        self._generations = rows.column("generation").to_numpy()[order]

    def __len__(self) -> int:
        return len(self._heads)

    def find_deleted(self, batch: pa.RecordBatch) -> Bools:
        """Return, for each row of a batch, whether it is on the list: bool [rows].

        The batch must have ROW_KEY's columns.
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
    """Return a batch of corpus rows without those on the list."""
    held = deleted.find_deleted(batch)
    return batch.filter(pa.array(~held)) if held.any() else batch


def read_view(
    place: Place,
    view: PartView,
    columns: Sequence[str],
    rows: range | None = None,
    deleted: DeleteList | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part of a corpus, with these of its columns, without those on the list of deleted rows.

    rows:    those to read, counted from the part's first; None: all
    deleted: None: all rows are read
    Raises Damaged.
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
    """Yield rows of a corpus with columns of their documents.

    folders: where to look; those that are passed are taken out
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
    """Return the part of documents with a table of this content, and the folder of its stage. Raises Damaged."""
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
