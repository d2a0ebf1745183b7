"""`cloze trace`: an example back to documents and raw records, a document forward to its examples and answers."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
from cyclopts import Parameter
from rich.console import Console, Group, RenderableType
from rich.text import Text

from corpora.errors import InputError
from corpora.schema import Document
from corpora.sources.contract import StatCache
from corpora.store.places.place import Place
from corpora.store.settings import check_choice
from corpora.store.stage import MANIFEST, read_manifest
from corpora.store.tables import read_file
from flows.command import arguments
from flows.command.terminal import EXCERPT_WIDTH, TITLE_WIDTH, console, format_left_out, print_json
from flows.recipes.privacy import to_one_line, to_printable
from flows.report.masked_example import (
    ShownToken,
    describe_example,
    find_label_kind,
    get_example_masks,
    get_stored_masks,
    list_shown_tokens,
)
from flows.run.addresses import Artifact, find_artifacts, pick_newest, read_vocabulary_for
from flows.run.inputs.raw_files import read_stat_cache
from flows.run.record.counts_text import format_count
from flows.run.record.run_record import iter_raw_files, read_recorded_recipe
from flows.run.stage_kinds import STAGES
from shards.build import SPLITS
from shards.masks.masking import Masks
from shards.reading.epoch_rows import TracedDocument, find_document, open_corpus, trace_example
from shards.reading.files.shard_set import ShardSet
from shards.schema import Example
from tokenizers_train.vocabularies.vocabulary import Vocabulary

MAX_TOKENS = 512
MAX_RAW_BYTES, MAX_RAW_LINES = 1_500, 40
SEGMENT_STYLES = ("cyan", "yellow")


def trace(
    shards: Annotated[
        str, Parameter(help="A shards artifact (folder or short id), a release (STORE@NAME), or a store.")
    ],
    index: Annotated[arguments.Position | None, Parameter(help="Number of an example.")] = None,
    *,
    document: Annotated[str | None, Parameter(help="A document id instead: find its examples and answers.")] = None,
    split: Annotated[str, Parameter(help="train or held-out.")] = "train",
    as_json: arguments.AsJson = False,
) -> None:
    """Follow an example back to its raw records.

    With --document, follow a document to its examples and answers instead.
    """
    if (index is None) == (document is None):
        raise InputError("Give the number of an example, or --document ID (one of the two).")
    artifact = pick_newest(find_artifacts(shards, "shards"))
    if as_json:
        print_json(
            build_example_json(artifact, index, split) if index is not None else build_document_json(artifact, document)
        )
    elif index is not None:
        print_example_trace(console, artifact, index, split)
    else:
        assert document is not None
        print_document_trace(console, artifact, document)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """The raw record of a document, or the reason why it cannot be shown.

    Attributes:
        data: The bytes of the record; None if the raw file is gone or has another content now.
        absence: Why there are no bytes, such as "the raw file is not on this machine"; "" if there are.
    """

    data: bytes | None = None
    absence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTrace:
    """A document of a training example, with its raw record.

    Attributes:
        trace: The document and its role in the example.
        raw: Its raw record.
    """

    trace: TracedDocument
    raw: RawRecord


def trace_number(shards: Artifact, index: int, split: str = "train") -> tuple[ShardSet, list[RawTrace]]:
    """Open a shard set, and trace one of its examples back to its documents and their raw records.

    Args:
        shards: The stored shard set.
        index: The zero-based index of the example in the split.
        split: "train" or "held-out".

    Returns:
        The shard set of the split, and the documents of the example, in order.

    Raises:
        InputError: If the split is unknown, or there is no such example.
    """
    check_choice("--split", split, SPLITS)
    shard_set = ShardSet(shards.place, shards.manifest, split)
    if not 0 <= index < len(shard_set):
        raise InputError(f"There is no example {index}: {shards.manifest.folder} holds 0 to {len(shard_set) - 1}.")
    traces = trace_example(shard_set, index)
    raws = [RawTrace(trace=trace, raw=read_raw_record(shards.place, trace.document)) for trace in traces]
    return shard_set, raws


def read_raw_record(place: Place, document: Document) -> RawRecord:
    """Read the raw record of a document from a raw file that a run recorded, if the file is still what was read.

    If the digest of a file is not known for its size and times, the whole file is read.

    Args:
        place: The store that contains the document.
        document: The document. Its locator specifies where the record is, and the digest of the raw file.

    Returns:
        The record; without bytes if the raw file is no longer on this machine, or has changed since.
    """
    absence = "the raw file is not on this machine"
    for record, file in iter_raw_files(place, document.locator.sha256):
        try:
            _, sha256 = _load_hashes(arguments.find_home()).hash_file(file)
        except OSError as error:
            absence = f"the raw file cannot be read: {file} ({error.strerror or error})"
            continue
        if sha256 != document.locator.sha256:
            absence = f"the raw file has changed since it was read, so its record is not shown: {file}"
            continue
        recipe = read_recorded_recipe(record, place.address)
        sources = (entry.source for entry in recipe.sources if entry.source.name == document.source)
        return RawRecord(data=next(sources).raw_record(file, document.locator))
    return RawRecord(absence=absence)


@cache
def _load_hashes(home: Path) -> StatCache:
    """Return the digests of raw files that runs on this machine computed, to which this process adds its own."""
    return read_stat_cache(home)


def trace_document(shards: Artifact, id_hex: str) -> tuple[Document, dict[str, list[int]]]:
    """Find a document and all examples that contain it.

    Args:
        shards: The stored shard set.
        id_hex: The document's id as 32 hexadecimal digits.

    Returns:
        The document, and the zero-based indices of its examples by split.

    Raises:
        InputError: If the id is malformed, or the corpus has no such document.
    """
    try:
        id = bytes.fromhex(id_hex)
    except ValueError as error:
        raise InputError(f"{id_hex!r} is not a document id: an id is 32 hexadecimal digits.") from error
    document = find_document(open_corpus(shards.place, shards.manifest), id)
    if document is None:
        raise InputError(f"The corpus of {shards.manifest.folder} keeps no document {id_hex}.")
    sets = {split: ShardSet(shards.place, shards.manifest, split) for split in SPLITS}
    return document, {split: shard_set.find_examples_with_document(id) for split, shard_set in sets.items()}


def build_example_json(shards: Artifact, index: int, split: str) -> dict[str, Any]:
    """Build the JSON object of an example.

    Args:
        shards: The stored shard set.
        index: The zero-based index of the example in the split.
        split: "train" or "held-out".

    Returns:
        A dict with the keys "shards" (the folder in the store), "split", "example" (the index), "tokens" (as text) and
        "documents" (dicts with "role" and the document's metadata and text).

    Raises:
        InputError: If the split is unknown, or there is no such example.
    """
    shard_set, traces = trace_number(shards, index, split)
    example, vocabulary = shard_set[index], read_vocabulary_for(shards)
    return {
        "shards": shards.manifest.folder,
        "split": split,
        "example": index,
        "tokens": [vocabulary.tokens[id] for id in example.ids.tolist()],
        "documents": [
            {"role": each.trace.role, **_build_document_facts(each.trace.document, each.raw)} for each in traces
        ],
    }


def build_document_json(shards: Artifact, id_hex: str | None) -> dict[str, Any]:
    """Build the JSON object of a document in the corpus of a shard set.

    Args:
        shards: The stored shard set.
        id_hex: The document's id as 32 hexadecimal digits.

    Returns:
        A dict with the keys "shards", "document" (its text and metadata), "examples" (indices by split) and "answers"
        (predictions of fine-tuned models, by their folder in the store).

    Raises:
        InputError: If the id is malformed, or the corpus has no such document.
    """
    document, examples = trace_document(shards, str(id_hex))
    facts = _build_document_facts(document, read_raw_record(shards.place, document))
    answers = find_answers(shards.place, document)
    return {"shards": shards.manifest.folder, "document": facts, "examples": examples, "answers": answers}


def find_answers(place: Place, document: Document) -> dict[str, str]:
    """Find what fine-tuned models predicted for a document. Reads all predictions in the store.

    Args:
        place: The store.
        document: The document.

    Returns:
        The prediction of each model, by the folder of the stored predictions. A vector is described by its length.

    Raises:
        Damaged: If a file of predictions is damaged.
    """
    answers, here = {}, [("id", "=", document.id.hex())]
    kinds = [kind for kind, described in STAGES.items() if described.has_answers]
    paths = [path for kind in kinds for path in sorted(place.list_files(kind)) if path.endswith(f"/{MANIFEST}")]
    manifests = (read_manifest(place, path.removesuffix(f"/{MANIFEST}")) for path in paths)
    files = [(manifest, file) for manifest in manifests if manifest for part in manifest.parts for file in part.files]
    for manifest, file in files:
        if file.path.endswith(".parquet"):
            table = pa.BufferReader(read_file(place, manifest.stage_folder, file))
            for row in pq.read_table(table, filters=here).to_pylist():
                answers[manifest.folder] = row.get("answer") or f"a vector of {len(row['vector'])} numbers"
    return answers


def _build_document_facts(document: Document, raw: RawRecord) -> dict[str, Any]:
    """Build the JSON object of a document, with the keys "id", "where", "raw_bytes", "text" and its metadata.

    Args:
        document: The document.
        raw: Its raw record. Without bytes, "raw_bytes", the size, is None, and the key "raw_absence" says why.
    """
    fields = ("title", "source", "url", "date", "license", "language", "text")
    where = {"id": document.id.hex(), "where": str(document.locator)}
    found = {"raw_bytes": len(raw.data)} if raw.data is not None else {"raw_bytes": None, "raw_absence": raw.absence}
    return {**where, **found, **{name: getattr(document, name) for name in fields}}


def render_example(
    example: Example, vocabulary: Vocabulary, masks: Masks | None = None, labels: str | None = "next-sentence"
) -> Text:
    """Render an example for the terminal, with its two segments in different colors.

    A masked token is shown as the model sees it, followed by the token that the model must predict.

    Args:
        example: The example.
        vocabulary: The vocabulary of the example's shard set.
        masks: The masks of this example only. If None, the masks stored with the example.
        labels: The kind of labels in the shard set, such as "next-sentence"; None if there are none.
    """
    tokens = list_shown_tokens(example, vocabulary, masks if masks is not None else get_stored_masks(example))
    guessed = sum(token.kind not in ("plain", "special") for token in tokens)
    title = describe_example(example, labels)
    text = Text.assemble((title, "bold"), f"; {format_count(len(tokens), 'token')}, {guessed} to guess\n")
    if example.boundary < len(tokens):
        text.append("A", SEGMENT_STYLES[0]).append(": ")
    for place, token in enumerate(tokens[:MAX_TOKENS]):
        if place == example.boundary:
            text.append("\n").append("B", SEGMENT_STYLES[1]).append(": ")
        text.append_text(_format_token(token)).append(" ")
    for line in format_left_out(len(tokens), MAX_TOKENS, "tokens"):
        text.append("\n").append_text(line)
    return text


def _format_token(token: ShownToken) -> Text:
    """Format a token. A masked token is followed by the token to predict (= if equal): `[MASK]→the`, `the→=`."""
    style = SEGMENT_STYLES[token.segment]
    if token.kind in ("plain", "special"):
        return Text(to_one_line(token.text, TITLE_WIDTH), "dim" if token.kind == "special" else style)
    guess = "=" if token.kind == "kept" else to_one_line(token.text, TITLE_WIDTH)
    return Text.assemble((to_one_line(token.seen, TITLE_WIDTH), f"reverse {style}"), (f"→{guess}", f"bold {style}"))


def render_document(role: str, document: Document, raw: RawRecord, lines: int = MAX_RAW_LINES) -> RenderableType:
    """Render a document and the first lines of its raw record for the terminal.

    Args:
        role: The document's role in an example, shown before its id.
        document: The document.
        raw: Its raw record, or why there is none.
        lines: The maximum number of lines of the raw record to show.
    """
    head = Text.assemble((f"{role} {document.id.hex()}", "bold"))
    fields = {
        "title": document.title,
        "source": document.source,
        "where": str(document.locator),
        "url": document.url,
        "date": document.date,
        "licence": document.license,
        "language": document.language,
    }
    for name, value in fields.items():
        head.append(f"\n  {name:9} {to_one_line(value, 3 * TITLE_WIDTH)}" if value else "")
    text = Text.assemble(("\n  text      ", "dim"), to_one_line(document.text, EXCERPT_WIDTH))
    return Group(head.append_text(text), format_raw_record(raw, lines))


def format_raw_record(raw: RawRecord, most: int) -> Text:
    """Format the first lines of a raw record, with a note about how many bytes are not shown.

    Args:
        raw: The record. Without bytes, the result says why there are none.
        most: The maximum number of lines to show.
    """
    if raw.data is None:
        return Text(f"  {to_printable(raw.absence)}", "dim")
    lines = raw.data[:MAX_RAW_BYTES].splitlines(keepends=True)[:most]
    rest = len(raw.data) - sum(map(len, lines))
    text = Text.assemble((f"  raw record, {len(raw.data):,} bytes:", "dim"))
    for line in lines:
        text.append("\n  │ ", "dim").append(to_printable(line.rstrip(b"\r\n").decode("utf-8", "replace").expandtabs()))
    return text.append(f"\n  … cut here; {rest:,} more bytes" if rest else "", "dim")


def print_example_trace(
    console: Console, shards: Artifact, index: int, split: str, raw_lines: int = MAX_RAW_LINES
) -> None:
    """Print an example of a shard set, its documents, and their raw records.

    Args:
        console: The console to print to.
        shards: The stored shard set.
        index: The zero-based index of the example in the split.
        split: "train" or "held-out".
        raw_lines: The maximum number of lines of each raw record to show.

    Raises:
        InputError: If the split is unknown, or there is no such example.
    """
    shard_set, traces = trace_number(shards, index, split)
    example = shard_set[index]
    masks = get_example_masks(shard_set, example)
    console.print(render_example(example, read_vocabulary_for(shards), masks, find_label_kind(shards.manifest)))
    for item in traces:
        console.print(render_document(item.trace.role, item.trace.document, item.raw, raw_lines))


def print_document_trace(console: Console, shards: Artifact, id_hex: str) -> None:
    """Print a document of a corpus, its raw record, the indices of its examples, and models' predictions for it.

    Args:
        console: The console to print to.
        shards: The stored shard set with the examples. Its corpus must contain the document.
        id_hex: The document's id as 32 hexadecimal digits.

    Raises:
        InputError: If the id is malformed, or the corpus has no such document.
    """
    document, examples = trace_document(shards, id_hex)
    console.print(render_document("document", document, read_raw_record(shards.place, document)))
    for split, numbers in examples.items():
        listed = ", ".join(map(str, numbers[:50])) or "none"
        more = f" and {len(numbers) - 50} more" if len(numbers) > 50 else ""
        console.print(f"{split} examples: {listed}{more}")
    for folder, answer in find_answers(shards.place, document).items():
        console.print(f"{folder}: {answer}", markup=False)
