"""The data card: README.md, whose head `datasets` and Hugging Face's hub read, and whose text is for people.

Its text is `data_card.jinja`, which shares `sections.jinja` with the card of a model; a test runs the code in it. This
file has what the templates ask for: rows of tables, and names and texts from outside in a form that acts on nothing.

Promise: every number comes from a ledger, a manifest, the run's record or the rows that were written; the clock is
not read.

Texts in Markdown and YAML that act on nothing: a name may have any character, and stays a name.

Promise: CommonMark and GitHub's Markdown read what `plain` returns as the text itself: no link, no tag, no cell of
its own, one line. A YAML parser reads what `scalar` returns as the original value.
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
from flows.export.cards.licenses import NOT_STATED, license_tags
from flows.export.exported import Exported, Provenance, most_first, share
from flows.recipes.lock import Lock
from flows.recipes.privacy import to_one_line, to_printable, without_folders
from flows.run.record.counts_text import describe_rows, format_count, name_parent
from flows.run.record.figures import DUPLICATE_REASONS
from flows.run.record.ledger_balance import format_bytes, list_copy_accounts, sum_records

CHARACTERS = 200
_ACTING = re.compile(r"([\\`*_{}\[\]()#!|~$])")
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_TAKEN = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))
_UNPRINTABLE = re.compile("[^\x09\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def plain(text: str, limit: int = CHARACTERS) -> str:
    """Return a text on one line, as Markdown that shows it as it is.

    >>> plain("a|b <i> www.example.org")
    'a\\\\|b &lt;i&gt; www&#46;example.org'
    """
    shown = to_one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = _ACTING.sub(r"\\\1", shown)
    return re.sub(r"://", "&#58;//", re.sub(r"(?i)\b(www)\.", r"\1&#46;", shown)).replace("@", "&#64;")


def code(text: str, limit: int = CHARACTERS) -> str:
    """Return a short text as code: with as many backticks around it as it needs.

    >>> code("a`b"), code("a|b")
    ('``a`b``', '`a\\\\|b`')
    """
    shown = to_one_line(text, limit) or " "
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    gap = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{ticks}{gap}{shown}{gap}{ticks}".replace("|", "\\|")


def fenced(text: str, language: str = "") -> str:
    """Return a text of lines in a block of code that it cannot end."""
    lines = [to_printable(line.replace("\t", "    ")) for line in text.splitlines()]
    ticks = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    return "\n".join([f"{ticks}{language}", *lines, ticks])


def scalar(value: str | int | float | bool | None) -> str:
    """Return a text or a number as the value of a key in YAML.

    >>> scalar("name"), scalar("a: b"), scalar(2.5)
    ('name', '"a: b"', '2.5')
    """
    if not isinstance(value, str):
        return json.dumps(value)
    if _BARE.fullmatch(value) and value.lower() not in _TAKEN:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda character: f"\\U{ord(character[0]):08x}", quoted)


FOLDER = "path/of/this/folder"  # in the code of the card
MOST_ROWS = 200  # of a table whose length the data decide
MOST_LICENSES = 20  # of one source


def card(content: Exported) -> str:
    """Return the card of an export."""
    return templates().get_template("data_card.jinja").render(content=content, folder=FOLDER)


def description(content: Exported) -> str:
    """Return the first lines of the card."""
    sections: Any = templates().get_template("sections.jinja").module
    return " ".join(sections.what_it_is(content).splitlines())


@cache
def templates() -> Environment:
    """Return the templates of this folder, with what they may ask for."""
    environment = Environment(
        loader=FunctionLoader(lambda name: (files("flows.export.cards") / name).read_text(encoding="utf-8")),
        autoescape=False,  # of HTML; what comes from outside goes through plain, code or scalar
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(FILTERS)
    environment.globals.update(most_rows=MOST_ROWS, most_licenses=MOST_LICENSES, not_stated=NOT_STATED)
    return environment


def source_rows(content: Exported) -> list[dict[str, Any]]:
    """Return a row for everything that came in, by source and generation."""
    rows = []
    for manifest in content.parsed:
        account, raw_files = sum_records([manifest]), content.provenance.raw_files(manifest)
        rows.append(
            {
                "name": manifest.name,
                "kind": str(manifest.settings.get("source", {}).get("kind", "")),
                "generation": _generation(content.provenance, manifest),
                "files": name_parent(next(parent for parent in manifest.parents if parent.role == "raw")),
                "bytes": sum(file.size_bytes for file in raw_files) if raw_files else None,
                "records": account.total,
                "dropped": account.sum_outcomes("dropped"),
                "documents": manifest.count_rows("documents"),
            }
        )
    return sorted(rows, key=lambda row: (row["name"], row["generation"]))


def _generation(provenance: Provenance, documents: Manifest) -> str:
    """Return the generation that documents came with."""
    parents = provenance.verdicts.parents if provenance.verdicts is not None else ()
    named = (p.label for p in parents if (p.role, p.fingerprint) == ("documents", documents.fingerprint))
    return next(named, "").removeprefix("generation ")


def token_rows(content: Exported) -> list[tuple[tuple[str, str, str], list[int]]] | None:
    """Return documents and tokens by source, generation and split, as tokenised; None where that is unknown."""
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


def outcomes_of(account: Account, prefix: str) -> list[tuple[str, int]]:
    """Return the outcomes with a prefix, without it, the most frequent first."""
    outcomes = {name.removeprefix(prefix): n for name, n in account.outcomes.items() if name.startswith(prefix)}
    return list(most_first(outcomes).items())[:MOST_ROWS]


def locked_files(lock: Lock) -> list[tuple[str, int, RawFile]]:
    """Return every raw file of a lock, with its source and generation."""
    return [
        (name, number, file)
        for number, generation in enumerate(lock.generations, 1)
        for name, group in sorted(generation.items())
        for file in group
    ]


def feature(field: pa.Field) -> tuple[str, str]:
    """Return a column's type as `datasets` writes it: the key, and the name.

    >>> feature(pa.field("a", pa.list_(pa.uint16()))), feature(pa.field("b", pa.float32()))
    (('list', 'uint16'), ('dtype', 'float32'))
    """
    listed = pa.types.is_list(field.type)
    kind = field.type.value_type if listed else field.type
    floats = {pa.float32(): "float32", pa.float64(): "float64"}
    return "list" if listed else "dtype", floats.get(kind, str(kind))


def meaning(field: pa.Field) -> str:
    """Return what a column means; "" if it has no meaning in its metadata."""
    text: bytes = (field.metadata or {}).get(b"description", b"")
    return text.decode()


FILTERS: Mapping[str, Callable[..., Any]] = {
    "code": code,
    "copy_accounts": list_copy_accounts,
    "counted": format_count,
    "digest": lambda lock: find_digest(lock.to_bytes()),
    "duplicates_in": lambda account: sum(account.outcomes.get(f"removed: {name}", 0) for name in DUPLICATE_REASONS),
    "feature": feature,
    "fenced": fenced,
    "json": lambda value: json.dumps(value, ensure_ascii=False),
    "license_tags": license_tags,
    "locked_files": locked_files,
    "masked_kinds": lambda settings: [kind for kind in ("email", "ip", "phone") if settings.get(kind)],
    "meaning": meaning,
    "number": lambda value: f"{value:,}",
    "outcomes_of": outcomes_of,
    "plain": plain,
    "rows_in_words": describe_rows,
    "scalar": scalar,
    "share": share,
    "size": format_bytes,
    "source_rows": source_rows,
    "token_rows": token_rows,
    "unquoted": lambda text: text[1:-1],
    "without_folders": without_folders,
}
