"""What an export has in it, as its card and its metadata tell it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from flows.export.counts import DocumentCounts
from flows.export.files import ExportedFile, FileFormat
from flows.export.licenses import NOT_STATED
from flows.export.provenance import Provenance
from flows.export.rows import PUBLISHED

VALIDATION = PUBLISHED["held-out"]


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Rows in files, what they were made from, and what is told of them.

    name:      of the artifact
    format:    of the files of rows
    files:     those of rows, split by split in order
    extra:     the other files but the card and the metadata
    units:     by split, how many tokens (of examples) or bytes of text (of documents) its rows have
    documents: the live documents behind them; None where the corpus is gone
    """

    provenance: Provenance
    format: FileFormat
    schema: pa.Schema
    files: tuple[ExportedFile, ...]
    extra: tuple[ExportedFile, ...]
    units: Mapping[str, int]
    documents: DocumentCounts | None

    @property
    def name(self) -> str:
        """The artifact's name."""
        return self.provenance.manifest.name

    @property
    def has_examples(self) -> bool:
        """Whether rows are examples; else they are documents."""
        return self.provenance.manifest.kind == "shards"

    @property
    def splits(self) -> list[str]:
        """Those that have rows, as they are published."""
        return list(dict.fromkeys(file.split for file in self.files))

    def of_split(self, split: str) -> list[ExportedFile]:
        """The files of a split."""
        return [file for file in self.files if file.split == split]

    def rows(self, split: str) -> int:
        """The rows of a split."""
        return sum(file.rows for file in self.of_split(split))

    @cached_property
    def languages(self) -> dict[str, int]:
        """Documents by language, the most frequent first; "" where none is known."""
        return most_first({of[0]: n for of, n in self.documents.by("language").items()}) if self.documents else {}

    @cached_property
    def licenses(self) -> dict[str, dict[str, int]]:
        """By source, how many documents are under which licence, as it is stated; the most frequent first."""
        found: dict[str, dict[str, int]] = {}
        for (source, license), number in self.documents.by("source", "license").items() if self.documents else ():
            named = license or self.stated_licenses.get(source) or NOT_STATED
            counts = found.setdefault(source, {})
            counts[named] = counts.get(named, 0) + number
        return {source: most_first(counts) for source, counts in found.items()}

    @cached_property
    def stated_licenses(self) -> dict[str, str]:
        """By source, the licence that the recipe states."""
        recipe = self.provenance.recipe
        return {e.source.name: e.license for e in recipe.sources if e.license} if recipe is not None else {}


def most_first(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts, the greatest first; equal ones in order of their names."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def share(part: int, whole: int) -> str:
    """A part of a whole in percent.

    >>> share(1, 8), share(0, 0)
    ('12.50 %', '-')
    """
    return f"{100 * part / whole:.2f} %" if whole else "-"


def first(items: Sequence[str], most: int) -> list[str]:
    """The first of some things, and how many more there are.

    >>> first(["a", "b", "c"], 2)
    ['a', 'b', '... and 1 more']
    """
    return [*items[:most], *([f"... and {len(items) - most:,} more"] if len(items) > most else [])]
