"""The sizes of the text of a source: those of a sample after judging, scaled to the whole.

The records of the sample are judged by the recipe's own steps and settings, in this process. Two steps need statistics
of the source, which are not taken: repeated lines stay, and of a selection the share that it keeps is counted.

Cost: judging the sample, some two million characters, and counting its words.
"""

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from corpora.judging.batches import Judged, judge_records
from corpora.judging.documents import in_batches
from corpora.judging.inputs import read_inputs
from corpora.schema import text_bytes
from corpora.store.manifest import Manifest
from flows.recipes.recipe import SourceEntry
from flows.run.estimates.sampling import SourceSample
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.counts import count_by, merge_counts
from tokenizers_train.words.table import WordCounts

RULE = BertWords(lowercase=True)
FIRST = 6  # records that are judged before the others, so that no time includes what is loaded at the first call
WORDS_POWER = 0.58
WORD_CHARACTERS = 6  # at most for a word: some languages have no spaces


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSizes:
    """The sizes of documents.

    documents:    how many; distinct: how many different texts; dropped: records that are none
    text_bytes:   of their texts; packed_bytes: of the same as a store packs them
    words:        with punctuation, as BERT cuts them; a long word counts as several
    """

    documents: float = 0.0
    distinct: float = 0.0
    dropped: float = 0.0
    text_bytes: float = 0.0
    packed_bytes: float = 0.0
    words: float = 0.0

    def times(self, factor: float) -> "TextSizes":
        """Return the sizes of so many times as much."""
        return TextSizes(**{name: factor * size for name, size in asdict(self).items()})

    @staticmethod
    def added(sizes: Iterable["TextSizes"]) -> "TextSizes":
        """Return the sizes of all together."""
        together = Counter[str]()
        for some in sizes:
            together.update(asdict(some))
        return TextSizes(**together)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSample:
    """A source, by what its sample is after judging.

    outcomes: of all records, as in the ledger of documents
    sizes:    of all documents
    counts:   of the words of the sample, which has text_bytes of text
    seconds:  processor time of reading and judging the source
    """

    sample: SourceSample
    outcomes: Mapping[str, int]
    sizes: TextSizes
    counts: WordCounts
    text_bytes: int
    seconds: float


def judge_sample(entry: SourceEntry, sample: SourceSample) -> JudgedSample:
    """Judge the sample of a source, and scale it to the whole."""
    settings, inputs, records = entry.documents, read_inputs(entry.documents), [*sample.sampled]

    def judge(batch: list) -> Judged:  # type: ignore[type-arg]
        return judge_records(batch, entry.source.name, settings, inputs)

    judge(records[:FIRST])
    began = time.process_time()
    judged = [judge(batch) for batch in in_batches(records)]
    spent = time.process_time() - began
    texts = pa.chunked_array([each.documents.column("text") for each in judged], pa.large_string()).combine_chunks()
    counts, size = count_by(RULE, texts), text_bytes(texts)
    selected = settings.selection.share if settings.selection.questions else 1.0
    by_record = sample.records / max(1, len(records))
    by_text = sample.characters / max(1, sample.sampled_characters)
    words = max(pc.sum(counts["count"]).as_py() or 0, _characters(texts) / WORD_CHARACTERS)
    outcomes = Counter({"documents": len(texts)})
    outcomes.update(f"dropped: {reason}" for each in judged for reason in each.reasons)
    return JudgedSample(
        sample=sample,
        outcomes={outcome: round(count * by_record) for outcome, count in outcomes.items()},
        sizes=TextSizes(
            documents=len(texts) * by_record * selected,
            distinct=len(texts.unique()) * by_record * selected,
            dropped=sample.records - len(texts) * by_record * selected,
            text_bytes=size * by_text * selected,
            packed_bytes=_packed(texts) * by_text * selected,
            words=words * by_text * selected,
        ),
        counts=counts,
        text_bytes=size,
        seconds=sample.reading_seconds + spent * by_text,
    )


def _characters(texts: pa.Array) -> int:
    return int(pc.sum(pc.utf8_length(texts)).as_py() or 0)


def _packed(texts: pa.Array) -> int:
    """Return how many bytes texts take as files of the store pack them."""
    return len(pa.compress("".join(texts.to_pylist()).encode(), "zstd", asbytes=True))


def words_per_mb(samples: Sequence[JudgedSample]) -> float:
    """Return how many different words a MB of the sampled texts has; more text has more by the power WORDS_POWER."""
    text_bytes = sum(judged.text_bytes for judged in samples)
    words: int = merge_counts(judged.counts for judged in samples).num_rows if text_bytes else 0
    return words / math.pow(max(1, text_bytes) / 1e6, WORDS_POWER)


def sizes_in_store(documents: Sequence[Manifest], sampled: TextSizes) -> TextSizes:
    """Return the sizes of documents that the store has: what is not counted there is as in a sample of the source."""
    rows = sum(manifest.rows("documents") for manifest in documents)
    text_bytes = sum(manifest.ledger.figures.get("text bytes", 0) for manifest in documents)
    like = sampled.times(text_bytes / max(1.0, sampled.text_bytes))
    return replace(like, documents=rows, distinct=rows * sampled.distinct / max(1.0, sampled.documents))
