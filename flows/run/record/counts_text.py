"""Formats counts, durations and times for people.

Words for the rows of a table come from here, so that nobody takes a table for what its name suggests: `tokens` has one
row for each document, `revisions` one for each dropped record that has a key.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from corpora.store.manifest import Manifest, Parent
from flows.run.stage_kinds import STAGES

# The word for a row, if it is not that of the table; a kind of stage may have its own (`stage_kinds.py`).
_ROWS: Mapping[str, str | tuple[str, str]] = {
    "dropped": "dropped record",
    "removed": "removed document",
    "deleted": "deleted document",
    "lines": "repeated line",
    "cut": "least score",
    "revisions": ("revision of a dropped record", "revisions of dropped records"),
    "counts": "different word",
    "splits": ("word with its pieces", "words with their pieces"),
    "surfaces": ("look that examples have", "looks that examples have"),
    "frequencies": "counted token",
    "judged": "judged run",
    "templates": "unknown template",
    "metrics": ("measured step or evaluation", "measured steps and evaluations"),
}

# Tables that say more of what the others hold, or nothing that an operator asks for.
MINOR_TABLES = (
    *("surfaces", "frequencies", "judged", "revisions", "templates"),
    *("files", "signatures", "verdicts", "measures", "pieces", "splits", "metrics", "scores"),
)


def format_count(number: int, one: str, many: str = "") -> str:
    """Format a number followed by its unit.

    Args:
        number: The number.
        one: Singular of the unit.
        many: Plural of the unit; by default the singular with an "s".

    >>> format_count(1, "raw file"), format_count(2_000, "raw file"), format_count(2, "copy", "copies")
    ('1 raw file', '2,000 raw files', '2 copies')
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def join_words(items: Sequence[str]) -> str:
    """Join items with commas and "and". `items` must not be empty.

    >>> join_words(["2 files"]), join_words(["2 files", "1 run", "3 releases"])
    ('2 files', '2 files, 1 run and 3 releases')
    """
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def format_seconds(seconds: float) -> str:
    """Format a duration, given in seconds, with a suitable unit.

    >>> format_seconds(7.3), format_seconds(600), format_seconds(7325)
    ('7.3 s', '10 min', '2 h 02 min')
    """
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60:,} h {minutes % 60:02} min"


def describe_progress(stage: str, progress: Mapping[str, Any]) -> str:
    """Describe the progress of a pipeline stage. Values that are None are omitted.

    Args:
        stage: Kind and name of the stage, as in "tokens/small". " steps" is appended if training steps are counted
            instead of parts (file sets).
        progress: The result of `StageProgress.to_json`, with the keys `built`, `parts`, `rate` (per second) and
            `seconds_left`. The last two may be None.

    >>> describe_progress("tokens/small", {"built": 3, "parts": 9, "rate": 0.5, "seconds_left": 12})
    '3 of 9 parts, 0.5 a second, 12.0 s left of this stage'
    >>> describe_progress("models/small steps", {"built": 0, "parts": 1000, "rate": None, "seconds_left": None})
    '0 of 1,000 steps'
    """
    what = "steps" if stage.endswith(" steps") else "parts"
    count = f"{progress['built']:,} of {progress['parts']:,} {what}"
    rate, left = progress.get("rate"), progress.get("seconds_left")
    if rate is None or left is None:
        return count
    pace = f"{rate:g} a second" if rate >= 0.1 else f"{rate * 60:.3g} a minute"
    return f"{count}, {pace}, {format_seconds(left)} left of this stage"


def format_moment(text: str) -> str:
    """Format an ISO 8601 time as a readable time in UTC. Other strings are returned unchanged.

    >>> format_moment("2026-11-23T00:12:36+00:00"), format_moment("then")
    ('2026-11-23 00:12:36 UTC', 'then')
    """
    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        return text


def choose_row_words(kind: str, table: str) -> tuple[str, str]:
    """Return the singular and the plural word for the rows of a table.

    Args:
        kind: Kind of the artifact (stored result of a pipeline stage) that contains the table.
        table: Name of the table.

    >>> choose_row_words("tokens", "tokens"), choose_row_words("vocabularies", "tokens")
    (('document', 'documents'), ('token', 'tokens'))
    """
    one = STAGES[kind].rows.get(table) or _ROWS.get(table, table.removesuffix("s"))
    return one if isinstance(one, tuple) else (one, f"{one}s")


def name_parent(parent: Parent) -> str:
    """Return a readable name for a parent (an input of an artifact): its name or, for raw files, their number.

    >>> name_parent(Parent(role="raw", name="1 files", fingerprint=""))
    '1 file'
    """
    return format_count(int(parent.name.removesuffix(" files")), "file") if parent.role == "raw" else parent.name


def describe_rows(manifest: Manifest) -> dict[str, str]:
    """Return the row count of each table of an artifact with its unit, such as "5 documents", by table name.

    For a tokens artifact (stored token ids), the text for the table `tokens` also includes the number of tokens.

    Args:
        manifest: Description of the artifact.
    """
    texts = {
        table: format_count(content.rows, *choose_row_words(manifest.kind, table))
        for table, content in manifest.tables.items()
    }
    if manifest.kind == "tokens":
        figures = manifest.ledger.figures
        tokens = sum(count for name, count in figures.items() if name in ("train tokens", "held-out tokens"))
        texts["tokens"] += f", {format_count(tokens, 'token')}"
    return texts
