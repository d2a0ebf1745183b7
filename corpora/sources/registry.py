"""The kinds of sources by name, and a source made from a recipe's `[[source]]` table.

A kind is a frozen dataclass that satisfies `Source`; its fields are the table's keys.
"""

from collections.abc import Mapping
from typing import Any

from corpora.errors import InputError
from corpora.sources.bookcorpus import BookCorpusSource
from corpora.sources.cc_news import CcNewsSource
from corpora.sources.files import FilesSource
from corpora.sources.openwebtext import OpenWebTextSource
from corpora.sources.python_docs import PythonDocsSource
from corpora.sources.source import Source
from corpora.sources.stories import StoriesSource
from corpora.sources.wikipedia import WikipediaSource
from corpora.store.manifest import Json
from corpora.store.settings import bind, check_choice

SOURCES: dict[str, Any] = {
    source.kind: source
    for source in (
        BookCorpusSource,
        CcNewsSource,
        FilesSource,
        OpenWebTextSource,
        PythonDocsSource,
        StoriesSource,
        WikipediaSource,
    )
}


def make_source(table: Mapping[str, Json]) -> Source:
    """The source that a table describes. Raises InputError: unknown kind or key, missing key, wrong type.

    >>> make_source({"kind": "files", "name": "tickets", "path": "raw/tickets"}).name
    'tickets'
    """
    kind = table.get("kind")
    if kind is None:
        raise InputError(f"A [[source]] has no `kind`. Set it to one of {', '.join(sorted(SOURCES))}.")
    check_choice("source.kind", kind, tuple(sorted(SOURCES)))
    keys = {key: value for key, value in table.items() if key != "kind"}
    source: Source = bind(SOURCES[kind], keys, f"source ({kind})")
    return source
