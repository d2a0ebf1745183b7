"""`cloze inspect`: what is in an artifact: its manifest, and samples of what it has."""

import json
from collections.abc import Iterable
from itertools import islice
from typing import Annotated

import pyarrow as pa
from cyclopts import Parameter
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from corpora.schema import DROPPED, DroppedDocument, iter_dropped
from corpora.store.manifest import Manifest
from corpora.store.tables import read_table
from flows.command import arguments
from flows.command.terminal import (
    EXCERPT_WIDTH,
    TITLE_WIDTH,
    VALUE_WIDTH,
    build_table,
    console,
    format_left_out,
    print_json,
)
from flows.command.trace import render_example
from flows.recipes.privacy import to_one_line
from flows.recipes.tables import iter_settings
from flows.report.masked_example import (
    find_label_kind,
    get_example_masks,
)
from flows.run.addresses import Artifact, find_artifacts, read_vocabulary_for
from flows.run.record.counts_text import describe_rows, format_count, name_parent
from flows.run.record.ledger_balance import format_bytes, sum_bytes
from flows.run.record.task_scores import iter_scores
from shards.build import SPLITS
from shards.reading.files.shard_set import ShardSet
from tokenizers_train.build import read_vocabulary

MAX_LINES = 20  # of many documents, shown
MAX_ROWS = 20
MAX_EXAMPLES = 3
MAX_TOKENS = 200


def inspect(
    address: Annotated[str, Parameter(help="An artifact's folder or short id, a store, or a release: STORE@NAME.")],
    *,
    as_json: arguments.AsJson = False,
) -> None:
    """Show what is in an artifact: ledger, samples, masks in color.

    For a store, or a folder in it, show the ledger of each artifact.
    """
    artifacts = find_artifacts(address)
    if as_json:
        print_json([json.loads(artifact.manifest.to_bytes()) for artifact in artifacts])
        return
    for artifact in artifacts:
        print_artifact(console, artifact, detailed=len(artifacts) == 1)


def render_manifest(manifest: Manifest) -> RenderableType:
    """Render an artifact's description (manifest): its name, parents, settings, record counts, tables and sizes."""
    head = Text.assemble((manifest.folder, "bold"), f"\ncontent      {manifest.content}")
    head.append(f"\nbuild        {manifest.build_version}, {format_count(len(manifest.parts), 'part')}, ")
    head.append(f"{format_bytes(sum_bytes(manifest))}")
    libraries = ", ".join(f"{name} {version}" for name, version in manifest.libraries.items())
    head.append(f"\nlibraries    {libraries}" if libraries else "")
    for parent in manifest.parents[:MAX_ROWS]:
        head.append(
            f"\nmade from    {parent.role}/{to_one_line(name_parent(parent), TITLE_WIDTH)} {parent.fingerprint}"
        )
    sections: list[RenderableType] = [
        head,
        *format_left_out(len(manifest.parents), MAX_ROWS, "parents"),
        _build_tables_table(manifest),
        _build_ledger_table(manifest),
    ]
    for title, values in (("setting", manifest.settings), ("fact", manifest.facts)):
        pairs = [(key, str(value)) for key, value in iter_settings(values)]
        if pairs:
            sections += [
                _build_two_column_table(title, pairs[: 3 * MAX_ROWS]),
                *format_left_out(len(pairs), 3 * MAX_ROWS, f"{title}s"),
            ]
    return Group(*sections)


def _build_tables_table(manifest: Manifest) -> Table:
    """Build a terminal table that lists the tables of an artifact, with their row counts, sizes and digests."""
    table = build_table("table", "rows", "size", "content")
    called = describe_rows(manifest)
    for name, content in manifest.tables.items():
        files = (file for part in manifest.parts for file in part.files if file.table == name)
        size = format_bytes(sum(file.size_bytes for file in files))
        table.add_row(Text(name), Text(called[name]), Text(size), Text(f"{content.digest:032x}"[:16]))
    return table


def _build_ledger_table(manifest: Manifest) -> Table:
    """Build a terminal table of an artifact's metrics and record counts (records read, and records by outcome)."""
    table = build_table("ledger", "count")
    for account in manifest.ledger.accounts:
        table.add_row(Text(account.unit, "bold"), Text(f"{account.total:,}", "bold"))
        for name, count in sorted(account.outcomes.items(), key=lambda item: (-item[1], item[0])):
            table.add_row(Text(f"  {name}"), Text(f"{count:,}"))
    for name, count in manifest.ledger.figures.items():
        table.add_row(Text(f"({name})", "dim"), Text(f"{count:,}", "dim"))
    return table


def _build_two_column_table(title: str, pairs: Iterable[tuple[str, str]]) -> Table:
    """Build a terminal table of names and values. Each value is truncated to one line.

    Args:
        title: The header of the first column.
        pairs: The names and values.
    """
    table = build_table(title, "value")
    table.columns[1].justify = "left"
    for name, value in pairs:
        table.add_row(Text(name), Text(to_one_line(value, VALUE_WIDTH)))
    return table


def render_dropped(rows: Iterable[DroppedDocument]) -> RenderableType:
    """Render the first MAX_ROWS dropped documents with the step, the reason, the record's location, and an excerpt.

    Reads at most MAX_ROWS + 1 rows.
    """
    first = list(islice(rows, MAX_ROWS + 1))
    rest = [Text("  … and more", "dim")] if len(first) > MAX_ROWS else []
    return Group(*(_format_dropped(row) for row in first[:MAX_ROWS]), *rest)


def _format_dropped(row: DroppedDocument) -> Text:
    detail = f" ({to_one_line(row.detail, VALUE_WIDTH)})" if row.detail else ""
    text = Text.assemble(
        (f"{row.step}: {row.reason}", "red"), detail, "  ", (to_one_line(row.title or "", TITLE_WIDTH), "bold")
    )
    if row.survivor is not None:
        text.append(f"\n  stays: {row.survivor.hex()}, similarity {row.similarity:.3f}")
    text.append(f"\n  {to_one_line(str(row.locator), 2 * VALUE_WIDTH)}", "dim")
    return text.append(f"\n  {to_one_line(row.excerpt, EXCERPT_WIDTH)}" if row.excerpt else "")


def render_lines(batches: Iterable[pa.RecordBatch]) -> RenderableType:
    """Render at most MAX_LINES of the repeated lines that were removed, the most frequent first.

    Each line is shown with the number of sampled documents that contain it.

    Args:
        batches: The rows of the stored table of repeated lines, with the columns `documents` and `line`.
    """
    rows = [row for batch in batches for row in batch.to_pylist()]
    rows.sort(key=lambda row: (-row["documents"], row["line"]))
    text = Text(
        f"{format_count(len(rows), 'line')} in many documents of the sample, removed; in how many documents each is:",
        "dim",
    )
    for row in rows[:MAX_LINES]:
        text.append(f"\n  {row['documents']:>8,}  ", "dim").append(to_one_line(row["line"], EXCERPT_WIDTH))
    return text


def print_artifact(console: Console, artifact: Artifact, detailed: bool) -> None:
    """Print the description (manifest) of a stored stage result and, optionally, samples of its contents.

    Args:
        console: Where to print.
        artifact: The stored stage result.
        detailed: True to also print samples. The artifact's files are read only for this.
    """
    console.print(render_manifest(artifact.manifest))
    if not detailed:
        return
    place, manifest = artifact.place, artifact.manifest
    for table in ("dropped", "removed"):
        if manifest.count_rows(table):
            console.print(render_dropped(iter_dropped(read_table(place, manifest, table, DROPPED.names))))
    if manifest.count_rows("lines"):
        console.print(render_lines(read_table(place, manifest, "lines", ("documents", "line"))))
    if manifest.kind == "tasks":
        for score in iter_scores(place, manifest):
            console.print(f"{score.name}: {score.value:.4g} {score.unit}", markup=False)
    if manifest.kind == "vocabularies":
        vocabulary = read_vocabulary(place, manifest)
        console.print(" ".join(map(vocabulary.format_token, range(min(MAX_TOKENS, vocabulary.size)))), markup=False)
    if manifest.kind == "shards":
        vocabulary = read_vocabulary_for(artifact)
        for split in SPLITS:
            shard_set = ShardSet(place, manifest, split)
            for index in range(min(MAX_EXAMPLES, len(shard_set))):
                example = shard_set[index]
                masks = get_example_masks(shard_set, example)
                console.print(render_example(example, vocabulary, masks, find_label_kind(manifest)))
