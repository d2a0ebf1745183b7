"""The shipped samples, each read by its source and judged once."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from source_reading import read

from corpora import samples
from corpora.judging.batches import JudgedBatch, judge_records
from corpora.judging.documents import iter_batches
from corpora.judging.settings import DocumentsSettings
from corpora.sources.books.source import BookCorpusSource
from corpora.sources.contract import Source
from corpora.sources.openwebtext import OpenWebTextSource
from corpora.sources.stories import StoriesSource
from corpora.sources.web.source import CcNewsSource
from corpora.sources.wiki.source import WikipediaSource

SAMPLES = Path(samples.__file__).parent
SOURCES: dict[str, Source] = {
    "books": BookCorpusSource(path=str(SAMPLES / "books")),
    "cc_news": CcNewsSource(path=str(SAMPLES / "cc_news")),
    "openwebtext": OpenWebTextSource(path=str(SAMPLES / "openwebtext")),
    "stories": StoriesSource(path=str(SAMPLES / "stories")),
    "wikipedia": WikipediaSource(path=str(SAMPLES / "wikipedia")),
}


@cache
def judged(name: str) -> JudgedBatch:
    """A sample after all steps of the documents stage."""
    source, records = SOURCES[name], read(SOURCES[name])
    [batch] = iter_batches(records)
    return judge_records(batch, source.name, DocumentsSettings())


@cache
def documents(name: str) -> list[dict[str, Any]]:
    """The rows of the documents of a sample."""
    return list(judged(name).documents.to_pylist())


@cache
def dropped(name: str) -> list[dict[str, Any]]:
    """The rows of what was dropped of a sample."""
    return list(judged(name).dropped.to_pylist())


def five_grams(text: str) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return [tuple(words[i : i + 5]) for i in range(len(words) - 4)]
