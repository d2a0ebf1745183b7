"""The export, step by step: rows to files, the vocabulary next to them, the card and the metadata, all or nothing.

Promise: the same artifact in the same store gives the same bytes. The folder appears when all of it is written
(`folder.py`). A damaged artifact, a full disk or a folder that cannot be written end as one error.
Memory: a row group, a record batch, and the counts of documents.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from corpora.errors import InputError
from corpora.schema import count_text_bytes
from corpora.store.settings import check_choice
from flows.export.cards.data_card import card
from flows.export.croissant import croissant
from flows.export.exported import Exported, exported
from flows.export.files import ExportedFile, SplitFiles, file_at
from flows.export.folder import new_folder
from flows.export.rows import KINDS, PUBLISHED, DocumentRows, ExampleRows
from flows.run.store_address import Artifact, find_artifacts, newest, vocabulary_of

CARD, METADATA, TOKENIZER = "README.md", "croissant.json", "tokenizer"
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """How rows become files.

    splits:   those to export
    file_mib: a file has at most so many MiB
    """

    splits: tuple[str, ...] = tuple(PUBLISHED)
    file_mib: int = 256

    def __post_init__(self) -> None:
        for split in self.splits:
            check_choice("--split", split, tuple(PUBLISHED))


def choose(address: str, kind: str | None, name: str | None) -> Artifact:
    """Return the corpus or shard set that an address means. Raises InputError where there is none, or several."""
    if kind is not None:
        check_choice("--kind", kind, KINDS)
    artifacts = find_artifacts(address)
    of_kind = [artifact for artifact in artifacts if artifact.manifest.kind in ((kind,) if kind else KINDS)]
    chosen = [artifact for artifact in of_kind if name in (None, artifact.manifest.name)]
    sets = sorted({(artifact.manifest.kind, artifact.manifest.name) for artifact in chosen})
    if len(sets) == 1:
        return newest(chosen)
    others = sorted({(artifact.manifest.kind, artifact.manifest.name) for artifact in of_kind})
    listed = ", ".join(f"--kind {kind} --name {name}" for kind, name in sets or others)
    if sets:
        raise InputError(f"{address} has {len(sets)} things to export: choose one with one of {listed}.")
    raise InputError(
        f"{address} has no {'such ' if of_kind else ''}corpus or shard set, and only these can be exported"
        f"{': ' + listed if listed else ''}. `cloze inspect` shows what a store holds."
    )


def export(artifact: Artifact, target: Path, settings: ExportSettings) -> Exported:
    """Write the live rows of an artifact, and what describes them, to a new folder.

    Raises InputError.
    """
    if artifact.place.is_local and target.resolve().is_relative_to(Path(artifact.place.to_full_path(""))):
        raise InputError(f"{target} is inside the store {artifact.place.to_address('')}: give a folder outside of it.")
    rows = ExampleRows(artifact) if artifact.manifest.kind == "shards" else DocumentRows(artifact)
    content = exported(artifact)
    with new_folder(target) as folder:
        files, units = write_rows(rows, folder, settings)
        if not files:
            raise InputError(
                f"{artifact.manifest.folder} has no live row of {' or '.join(settings.splits)}: nothing to export."
            )
        content = replace(
            content,
            schema=rows.schema,
            files=tuple(files),
            extra=tuple(write_vocabulary(artifact, folder)),
            units=units,
        )
        (folder / CARD).write_text(card(content), encoding="utf-8")
        (folder / METADATA).write_bytes(croissant(content, file_at(folder, CARD)))
    return content


def write_rows(
    rows: DocumentRows | ExampleRows, folder: Path, settings: ExportSettings
) -> tuple[list[ExportedFile], dict[str, int]]:
    """Write the files of all splits; also returns how many tokens or bytes of text each split has."""
    bound = settings.file_mib * MEBIBYTE
    writers = {split: SplitFiles(folder, PUBLISHED[split], rows.schema, bound) for split in PUBLISHED}
    units = Counter[str]()
    for split, batch in rows.batches():
        if split in settings.splits:
            writers[split].add(batch)
            units[PUBLISHED[split]] += units_of(batch)
    return [file for writer in writers.values() for file in writer.finish()], dict(units)


def units_of(batch: pa.RecordBatch) -> int:
    """Return the tokens of examples, or the bytes of text of documents."""
    if "input_ids" in batch.schema.names:
        return int(pc.sum(pc.list_value_length(batch.column("input_ids"))).as_py() or 0)
    return count_text_bytes(batch.column("text"))


def write_vocabulary(artifact: Artifact, folder: Path) -> Sequence[ExportedFile]:
    """Write the files of the vocabulary that examples were made with. Raises InputError where it is gone."""
    if artifact.manifest.kind != "shards":
        return []
    vocabulary_of(artifact).save(folder / TOKENIZER)
    return [file_at(folder, f"{TOKENIZER}/{path.name}") for path in sorted((folder / TOKENIZER).iterdir())]
