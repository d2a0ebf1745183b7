"""The data card: a README with a head for `datasets` and the Hugging Face hub, and a text for people.

The text is `data_card.jinja`, which shares `sections.jinja` with the card of a model; a test runs the code in it. This
module has what the templates ask for: rows of tables, and names and texts from outside in an escaped form.

Promise: every number comes from a ledger (the counts in a manifest), a manifest, the run's record or the rows that were
written; the clock is not read. CommonMark and GitHub's Markdown read what `escape_markdown` returns as the text itself:
no link, no tag, no table cell, one line. A YAML parser reads what `to_yaml` returns as the original value.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import pyarrow as pa
from jinja2 import Environment, FunctionLoader, StrictUndefined

from corpora.sources.contract import RawFile
from corpora.store.damage import find_digest
from corpora.store.ledger import Account
from corpora.store.manifest import Manifest
from flows.export.cards.licenses import NOT_STATED, to_license_tags
from flows.export.exported import ExportContent, Provenance, format_share, sort_by_count
from flows.recipes.lock import Lock
from flows.recipes.privacy import to_one_line, to_printable, without_folders
from flows.run.record.counts_text import describe_rows, format_count, name_parent
from flows.run.record.figures import DUPLICATE_REASONS
from flows.run.record.ledger_balance import format_bytes, list_copy_accounts, sum_records

MAX_CHARACTERS = 200
_MARKUP = re.compile(r"([\\`*_{}\[\]()#!|~$])")
_PLAIN_SCALAR = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_RESERVED_SCALARS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))
_UNPRINTABLE = re.compile("[^\x09\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def escape_markdown(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Escape Markdown in a text so that it is shown unchanged, on one line. Longer texts are truncated.

    Args:
        text: The text to escape.
        limit: Maximum number of characters before escaping.

    >>> escape_markdown("a|b <i> www.example.org")
    'a\\\\|b &lt;i&gt; www&#46;example.org'
    """
    shown = to_one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = _MARKUP.sub(r"\\\1", shown)
    return re.sub(r"://", "&#58;//", re.sub(r"(?i)\b(www)\.", r"\1&#46;", shown)).replace("@", "&#64;")


def format_code(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Format a text as Markdown inline code, with as many backticks as necessary. Longer texts are truncated.

    Args:
        text: The text to format.
        limit: Maximum number of characters of the text.

    >>> format_code("a`b"), format_code("a|b")
    ('``a`b``', '`a\\\\|b`')
    """
    shown = to_one_line(text, limit) or " "
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    gap = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{ticks}{gap}{shown}{gap}{ticks}".replace("|", "\\|")


def format_code_block(text: str, language: str = "") -> str:
    """Format a multi-line text as a Markdown code block, with a fence that does not occur in the text.

    Args:
        text: The text to format.
        language: Language name for syntax highlighting; may be "".
    """
    lines = [to_printable(line.replace("\t", "    ")) for line in text.splitlines()]
    ticks = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    return "\n".join([f"{ticks}{language}", *lines, ticks])


def to_yaml(value: str | int | float | bool | None) -> str:
    """Format a value as a YAML scalar. Strings are quoted if necessary.

    >>> to_yaml("name"), to_yaml("a: b"), to_yaml(2.5)
    ('name', '"a: b"', '2.5')
    """
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN_SCALAR.fullmatch(value) and value.lower() not in _RESERVED_SCALARS:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda character: f"\\U{ord(character[0]):08x}", quoted)


EXAMPLE_FOLDER = "path/of/this/folder"  # in the code of the card
MAX_ROWS = 200  # of a table whose length the data decide
MAX_LICENSES = 20  # of one source


def render_data_card(content: ExportContent) -> str:
    """Render the data card of an export as Markdown, with a YAML header for the Hugging Face Hub."""
    return build_environment().get_template("data_card.jinja").render(content=content, folder=EXAMPLE_FOLDER)


def summarize_content(content: ExportContent) -> str:
    """Return the first paragraph of the data card as one line."""
    sections: Any = build_environment().get_template("sections.jinja").module
    return " ".join(sections.what_it_is(content).splitlines())


@cache
def build_environment() -> Environment:
    """Build the Jinja environment for data cards and model cards, with its filters. The result is cached."""
    environment = Environment(
        loader=FunctionLoader(lambda name: (files("flows.export.cards") / name).read_text(encoding="utf-8")),
        autoescape=False,  # of HTML; what comes from outside goes through plain, code or scalar
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(FILTERS)
    environment.globals.update(most_rows=MAX_ROWS, most_licenses=MAX_LICENSES, not_stated=NOT_STATED)
    return environment


def build_source_rows(content: ExportContent) -> list[dict[str, Any]]:
    """Build the table of input data: one dictionary for each source and generation (the raw files that one run added).

    The keys are "name", "kind" (of the source), "generation" (a string), "files" (a phrase), "bytes" (None if unknown),
    "records", "dropped" and "documents" (numbers). Rows are sorted by name and generation.
    """
    rows = []
    for manifest in content.parsed:
        account, raw_files = sum_records([manifest]), content.provenance.find_raw_files(manifest)
        rows.append(
            {
                "name": manifest.name,
                "kind": str(manifest.settings.get("source", {}).get("kind", "")),
                "generation": _find_generation(content.provenance, manifest),
                "files": name_parent(next(parent for parent in manifest.parents if parent.role == "raw")),
                "bytes": sum(file.size_bytes for file in raw_files) if raw_files else None,
                "records": account.total,
                "dropped": account.sum_outcomes("dropped"),
                "documents": manifest.count_rows("documents"),
            }
        )
    return sorted(rows, key=lambda row: (row["name"], row["generation"]))


def _find_generation(provenance: Provenance, documents: Manifest) -> str:
    """Return the number of the generation that documents were parsed from, as a string, or "" if it is unknown.

    A generation is the raw files that one run added.

    Args:
        provenance: The provenance of the exported artifact.
        documents: Manifest (description) of the documents.
    """
    parents = provenance.verdicts.parents if provenance.verdicts is not None else ()
    labels = (p.label for p in parents if (p.role, p.fingerprint) == ("documents", documents.fingerprint))
    return next(labels, "").removeprefix("generation ")


def build_token_rows(content: ExportContent) -> list[tuple[tuple[str, str, str], list[int]]] | None:
    """Count the tokenized documents and their tokens by source, generation and split.

    A generation is the raw files that one run added.

    Returns:
        Pairs of (source, generation, split) and [number of documents, number of tokens], sorted; None if the store no
        longer has the tokenized documents.
    """
    if content.tokenised is None:
        return None
    sums: dict[tuple[str, str, str], list[int]] = {}
    chosen = content.provenance.manifest.settings.get("sources") or ()
    for part in content.tokenised.parts:
        source = part.labels.get("source", "several")
        for split in ("train", "held-out") if not chosen or source in (*chosen, "several") else ():
            counts = sums.setdefault((source, part.labels.get("generation", ""), split), [0, 0])
            counts[0] += part.ledger.figures.get(f"{split} documents", 0)
            counts[1] += part.ledger.figures.get(f"{split} tokens", 0)
    return sorted((of, counts) for of, counts in sums.items() if any(counts))


def list_outcomes(account: Account, prefix: str) -> list[tuple[str, int]]:
    """List the outcomes of records whose names start with `prefix`, most frequent first, at most MAX_ROWS.

    Args:
        account: Record counts: the records read, and the number with each outcome.
        prefix: Prefix of the outcomes to list, such as "dropped: ".

    Returns:
        Pairs of the outcome, without the prefix, and its count.
    """
    outcomes = {name.removeprefix(prefix): n for name, n in account.outcomes.items() if name.startswith(prefix)}
    return list(sort_by_count(outcomes).items())[:MAX_ROWS]


def list_locked_files(lock: Lock) -> list[tuple[str, int, RawFile]]:
    """List all raw files in a lock file as (source, generation, file) tuples.

    The generation is the one-based number of the run that added the file.
    """
    return [
        (name, number, file)
        for number, generation in enumerate(lock.generations, 1)
        for name, group in sorted(generation.items())
        for file in group
    ]


def to_feature_type(field: pa.Field) -> tuple[str, str]:
    """Return the type of a column for the library `datasets`, as a pair of a key ("list" or "dtype") and a type name.

    >>> to_feature_type(pa.field("a", pa.list_(pa.uint16()))), to_feature_type(pa.field("b", pa.float32()))
    (('list', 'uint16'), ('dtype', 'float32'))
    """
    is_list = pa.types.is_list(field.type)
    kind = field.type.value_type if is_list else field.type
    floats = {pa.float32(): "float32", pa.float64(): "float64"}
    return "list" if is_list else "dtype", floats.get(kind, str(kind))


def read_description(field: pa.Field) -> str:
    """Return the description in an Arrow field's metadata; "" if there is none."""
    text: bytes = (field.metadata or {}).get(b"description", b"")
    return text.decode()


FILTERS: Mapping[str, Callable[..., Any]] = {
    "code": format_code,
    "copy_accounts": list_copy_accounts,
    "counted": format_count,
    "digest": lambda lock: find_digest(lock.to_bytes()),
    "duplicates_in": lambda account: sum(account.outcomes.get(f"removed: {name}", 0) for name in DUPLICATE_REASONS),
    "feature": to_feature_type,
    "fenced": format_code_block,
    "json": lambda value: json.dumps(value, ensure_ascii=False),
    "license_tags": to_license_tags,
    "locked_files": list_locked_files,
    "masked_kinds": lambda settings: [kind for kind in ("email", "ip", "phone") if settings.get(kind)],
    "meaning": read_description,
    "number": lambda value: f"{value:,}",
    "outcomes_of": list_outcomes,
    "plain": escape_markdown,
    "rows_in_words": describe_rows,
    "scalar": to_yaml,
    "share": format_share,
    "size": format_bytes,
    "source_rows": build_source_rows,
    "token_rows": build_token_rows,
    "unquoted": lambda text: text[1:-1],
    "without_folders": without_folders,
}
