"""The terminal's view of a run, an artifact, an example, a document: rich renderables, made from values.

Promises: text from documents is shown as text (no markup or control character of it acts on the terminal),
every output is bounded and names what it leaves out, and what color shows is also shown by words or signs, so a
pipe or a terminal without color loses nothing. Nothing here reads a store.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from corpora.schema import Document, DroppedDocument
from corpora.store.manifest import Manifest
from flows.command.preview import Passed, Preview
from flows.command.terminal.output import console
from flows.command.terminal.tables import plain_table
from flows.recipes.privacy import to_one_line, to_printable
from flows.recipes.tables import iter_settings
from flows.report.masked_example import ShownToken, example_in_words, shown_tokens, stored_masks
from flows.run.record.counts_text import describe_rows, format_count, name_parent
from flows.run.record.ledger_balance import Accounts, build_accounts, format_bytes, list_losses, sum_bytes
from shards.masks.masking import Masks
from shards.schema import Example
from tokenizers_train.vocabularies.vocabulary import Vocabulary

LINES = 20  # of many documents, shown
ROWS = 20
REASONS = 8  # why documents were dropped, in the ledger of a run
MOST_TOKENS = 512
MOST_BYTES, MOST_LINES = 1_500, 40
BAR_WIDTH = 36
SEGMENT_STYLES = ("cyan", "yellow")
TITLE, EXCERPT, VALUE = 60, 240, 100  # characters


def show_ledger(manifests: Sequence[Manifest]) -> RenderableType:
    """Return the ledger of a run in a few lines: how many are left after each stage, and the losses, by reason."""
    accounts = build_accounts(manifests)
    headline = Text(" → ").join(_headline(unit, counts) for unit, counts in accounts.headline.items())
    lost = list_losses(accounts.steps)
    lines: list[RenderableType] = [headline, *_bars(lost[:REASONS])]
    return Group(*lines, *_more(len(lost), REASONS, "reasons"), _balance(accounts))


def _headline(unit: str, counts: Mapping[str, int]) -> Text:
    """Return the count of a unit: `37 kept`, or of several artifacts `300 (notes) and 70 (letters) examples`."""
    each = (Text.assemble((f"{count:,}", "bold"), f" ({name})" if name else "") for name, count in counts.items())
    return Text(" and ").join(each).append(f" {unit}")


def _balance(accounts: Accounts) -> Text:
    """Return one line where everything balances, else every line that does not."""
    if accounts.wrong:
        return Text("\n".join(f"✗ {line}" for line in accounts.wrong), "bold red")
    number = len(accounts.steps) + len(accounts.edges)
    return Text(f"✓ nothing is unaccounted for ({number} balances checked)", "green")


def _bars(counts: Sequence[tuple[str, int]]) -> list[Text]:
    """Return one line for each name: name, count, a bar as a share of the largest count."""
    most = max((count for _, count in counts), default=1)
    widest = max((len(name) for name, _ in counts), default=0)
    digits = len(f"{most:,}")
    room = min(BAR_WIDTH, max(1, console.width - widest - digits - 6))
    return [
        Text.assemble(f"  {name:{widest}}  {count:>{digits},}  ", ("█" * _bar(count, most, room), "blue"))
        for name, count in counts
    ]


def _bar(count: int, most: int, room: int) -> int:
    """Return the cells of a bar: none for zero, at least one for more, `room` for the most."""
    return max(int(count > 0), round(room * count / max(1, most)))


def _more(number: int, shown: int, what: str) -> list[Text]:
    """Return a line with the number of those left out; none where all are shown."""
    return [Text(f"  … {number - shown:,} more {what}", "dim")] if number > shown else []


def show_manifest(manifest: Manifest) -> RenderableType:
    """Return an artifact: its names, what it was made from and with, its ledger, its tables and sizes."""
    head = Text.assemble((manifest.folder, "bold"), f"\ncontent      {manifest.content}")
    head.append(f"\nbuild        {manifest.build_version}, {format_count(len(manifest.parts), 'part')}, ")
    head.append(f"{format_bytes(sum_bytes(manifest))}")
    libraries = ", ".join(f"{name} {version}" for name, version in manifest.libraries.items())
    head.append(f"\nlibraries    {libraries}" if libraries else "")
    for parent in manifest.parents[:ROWS]:
        head.append(f"\nmade from    {parent.role}/{to_one_line(name_parent(parent), TITLE)} {parent.fingerprint}")
    sections: list[RenderableType] = [
        head,
        *_more(len(manifest.parents), ROWS, "parents"),
        _tables(manifest),
        _ledger(manifest),
    ]
    for title, values in (("setting", manifest.settings), ("fact", manifest.facts)):
        pairs = [(key, str(value)) for key, value in iter_settings(values)]
        if pairs:
            sections += [_two_columns(title, pairs[: 3 * ROWS]), *_more(len(pairs), 3 * ROWS, f"{title}s")]
    return Group(*sections)


def _tables(manifest: Manifest) -> Table:
    table = plain_table("table", "rows", "size", "content")
    called = describe_rows(manifest)
    for name, content in manifest.tables.items():
        files = (file for part in manifest.parts for file in part.files if file.table == name)
        size = format_bytes(sum(file.size_bytes for file in files))
        table.add_row(Text(name), Text(called[name]), Text(size), Text(f"{content.digest:032x}"[:16]))
    return table


def _ledger(manifest: Manifest) -> Table:
    table = plain_table("ledger", "count")
    for account in manifest.ledger.accounts:
        table.add_row(Text(account.unit, "bold"), Text(f"{account.total:,}", "bold"))
        for name, count in sorted(account.outcomes.items(), key=lambda item: (-item[1], item[0])):
            table.add_row(Text(f"  {name}"), Text(f"{count:,}"))
    for name, count in manifest.ledger.figures.items():
        table.add_row(Text(f"({name})", "dim"), Text(f"{count:,}", "dim"))
    return table


def _two_columns(title: str, pairs: Iterable[tuple[str, str]]) -> Table:
    table = plain_table(title, "value")
    table.columns[1].justify = "left"
    for name, value in pairs:
        table.add_row(Text(name), Text(to_one_line(value, VALUE)))
    return table


def show_example(
    example: Example, vocabulary: Vocabulary, masks: Masks | None = None, labels: str | None = "next-sentence"
) -> Text:
    """Return one example: segments in two colors, each masked token as the model sees it, with what it must guess.

    masks: of this one example; by default those stored with it. labels: what the labels of its shard set mean
    """
    tokens = shown_tokens(example, vocabulary, masks if masks is not None else stored_masks(example))
    guessed = sum(token.kind not in ("plain", "special") for token in tokens)
    title = example_in_words(example, labels)
    text = Text.assemble((title, "bold"), f"; {format_count(len(tokens), 'token')}, {guessed} to guess\n")
    if example.boundary < len(tokens):
        text.append("A", SEGMENT_STYLES[0]).append(": ")
    for place, token in enumerate(tokens[:MOST_TOKENS]):
        if place == example.boundary:
            text.append("\n").append("B", SEGMENT_STYLES[1]).append(": ")
        text.append_text(_token_text(token)).append(" ")
    for line in _more(len(tokens), MOST_TOKENS, "tokens"):
        text.append("\n").append_text(line)
    return text


def _token_text(token: ShownToken) -> Text:
    """Return a token; a masked one reversed, followed by the original: `[MASK]→the`, `dog→the`, `the→=`."""
    style = SEGMENT_STYLES[token.segment]
    if token.kind in ("plain", "special"):
        return Text(to_one_line(token.text, TITLE), "dim" if token.kind == "special" else style)
    guess = "=" if token.kind == "kept" else to_one_line(token.text, TITLE)
    return Text.assemble((to_one_line(token.seen, TITLE), f"reverse {style}"), (f"→{guess}", f"bold {style}"))


def show_trace(role: str, document: Document, raw: bytes | None, lines: int = MOST_LINES) -> RenderableType:
    """Return a document and the first lines of the raw record it came from; raw: None where its file is gone."""
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
        head.append(f"\n  {name:9} {to_one_line(value, 3 * TITLE)}" if value else "")
    text = Text.assemble(("\n  text      ", "dim"), to_one_line(document.text, EXCERPT))
    return Group(head.append_text(text), raw_text(raw, lines))


def raw_text(raw: bytes | None, most: int) -> Text:
    """Return the beginning of a raw record, line by line, and where it was cut."""
    if raw is None:
        return Text("  the raw file is not on this machine", "dim")
    lines = raw[:MOST_BYTES].splitlines(keepends=True)[:most]
    rest = len(raw) - sum(map(len, lines))
    text = Text.assemble((f"  raw record, {len(raw):,} bytes:", "dim"))
    for line in lines:
        text.append("\n  │ ", "dim").append(to_printable(line.rstrip(b"\r\n").decode("utf-8", "replace").expandtabs()))
    return text.append(f"\n  … cut here; {rest:,} more bytes" if rest else "", "dim")


def show_dropped(rows: Iterable[DroppedDocument]) -> RenderableType:
    """Return the first dropped rows: step and reason, where the record is, how it begins. Reads one row more."""
    first = list(islice(rows, ROWS + 1))
    rest = [Text("  … and more", "dim")] if len(first) > ROWS else []
    return Group(*(_dropped_text(row) for row in first[:ROWS]), *rest)


def _dropped_text(row: DroppedDocument) -> Text:
    detail = f" ({to_one_line(row.detail, VALUE)})" if row.detail else ""
    text = Text.assemble(
        (f"{row.step}: {row.reason}", "red"), detail, "  ", (to_one_line(row.title or "", TITLE), "bold")
    )
    if row.survivor is not None:
        text.append(f"\n  stays: {row.survivor.hex()}, similarity {row.similarity:.3f}")
    text.append(f"\n  {to_one_line(str(row.locator), 2 * VALUE)}", "dim")
    return text.append(f"\n  {to_one_line(row.excerpt, EXCERPT)}" if row.excerpt else "")


def show_lines(batches: Iterable[pa.RecordBatch]) -> RenderableType:
    """Return the lines that are in most documents of a source, and in how many of the sample each is."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    rows.sort(key=lambda row: (-row["documents"], row["line"]))
    text = Text(
        f"{format_count(len(rows), 'line')} in many documents of the sample, removed; in how many documents each is:",
        "dim",
    )
    for row in rows[:LINES]:
        text.append(f"\n  {row['documents']:>8,}  ", "dim").append(to_one_line(row["line"], EXCERPT))
    return text


def show_preview(preview: Preview) -> RenderableType:
    """Return a record as its source gives it, after every step, and where it ends."""
    kept = preview.verdict == "kept"
    head = Text.assemble(
        (to_one_line(preview.title or "(no title)", TITLE), "bold"),
        "  ",
        (to_one_line(preview.verdict, VALUE), "green" if kept else "red"),
        (f"\n  {to_one_line(preview.where, 2 * VALUE)}", "dim"),
    )
    width = max(len(step.step) for step in (*preview.steps, Passed(step="parsed")))
    head.append(f"\n  {'parsed':{width}}", "dim").append(f" {to_one_line(preview.parsed, 2 * EXCERPT)}")
    for step in preview.steps:
        head.append(f"\n  {step.step:{width}}", "dim")
        if step.drop:
            head.append(f" dropped: {to_one_line(step.drop, VALUE)}", "red")
        elif step.text is None:
            head.append(" as it was", "dim")
        else:
            head.append(f" {to_one_line(step.text, 2 * EXCERPT)}")
    return head.append("\n")
