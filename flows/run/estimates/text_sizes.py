"""The size of the text of a source: that of a sample after judging, scaled to all raw files.

The records of the sample are judged by the recipe's own steps and settings, in this process. Two steps need statistics
of the whole source, which are not computed here: repeated lines stay, and a selection is assumed to keep its share.

Cost: judging the sample and counting its words.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from corpora.judging.batches import judge_records
from corpora.judging.documents import iter_batches
from corpora.judging.inputs import read_inputs
from corpora.sources.contract import SLICE_BYTES, RawFile
from flows.recipes.guessed_fields import with_guessed_names
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe, SourceEntry
from flows.run.estimates.sampling import MAX_SAMPLE_SECONDS, SourceSample, sample_source
from flows.run.plan_run import PlannedStage
from flows.run.source_stages import list_readable
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.counts import count_words

WORD_RULE = BertWords(lowercase=True)
WARM_UP_RECORDS = 6  # judged before the others, so that no time includes what is loaded at the first call
WORDS_POWER = 0.58
MAX_WORD_CHARACTERS = 6  # at most for a word: some languages have no spaces


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSizes:
    """The total size of some documents.

    Attributes:
        documents: Number of documents.
        text_bytes: Size of their texts in UTF-8.
        packed_bytes: Size of their texts when compressed as in a store.
        words: Number of words and punctuation marks according to BERT's splitting rules. A long word counts as several.
        measured: CPU time, in seconds, for reading and filtering the documents.
    """

    documents: float = 0.0
    text_bytes: float = 0.0
    packed_bytes: float = 0.0
    words: float = 0.0
    measured: float = 0.0

    def scale(self, factor: float) -> "TextSizes":
        """Return a copy with all sizes multiplied by a factor."""
        return TextSizes(**{name: factor * size for name, size in asdict(self).items()})

    @staticmethod
    def add_all(sizes: Iterable["TextSizes"]) -> "TextSizes":
        """Add up sizes field by field. The result for no sizes is all zeros."""
        return TextSizes(**sum((Counter(asdict(some)) for some in sizes), Counter()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """The size of a source's text, extrapolated from a filtered sample to all its raw files.

    Attributes:
        source: Name of the source.
        sample: The sample before filtering.
        outcomes: Estimated number of records by outcome, as in the record counts of a run.
        whole: Sizes of all documents.
        new: Sizes of the documents that are not in the store yet.
        fitted: CPU time, in seconds, for computing the statistics of the new documents.
        parts: Estimated number of parts (file sets that are built independently).
        words_per_mb: Number of distinct words in one MB of text. It grows with the text's size to the power of
            WORDS_POWER.
    """

    source: str
    sample: SourceSample
    outcomes: Mapping[str, int]
    whole: TextSizes
    new: TextSizes
    fitted: float
    parts: int
    words_per_mb: float


def judge_sources(recipe: Recipe, lock: Lock, planned: Sequence[PlannedStage]) -> list[SourceText]:
    """Sample and filter each source that has raw files on this machine, and extrapolate its text sizes.

    Args:
        recipe: The recipe.
        lock: The recipe's lock (the raw files of each run).
        planned: What a run would do with each stage. This shows which documents are already in the store.

    Raises:
        FileFault: If a raw file cannot be divided into slices.
    """
    texts, states = list[SourceText](), defaultdict[str, list[str]](list)
    for stage in planned:
        states[stage.stage].append(stage.state)
    for entry in recipe.sources:
        old, new = _split_files(entry, lock, states[f"documents/{entry.source.name}"])
        there = [file for file in new or old if file.path and file.size_bytes]
        if there:
            source = with_guessed_names(entry.source, lock.guessed, len(lock.generations))
            sample = sample_source(source, there, MAX_SAMPLE_SECONDS / len(recipe.sources))
            old_bytes, new_bytes = (sum(file.size_bytes for file in files) for files in (old, new))
            texts.append(_judge_sample(entry, sample, old_bytes, new_bytes))
    return texts


def _split_files(entry: SourceEntry, lock: Lock, states: Sequence[str]) -> tuple[list[RawFile], list[RawFile]]:
    """Return a source's raw files in two lists: those with documents already in the store, and the others.

    Args:
        entry: The source.
        lock: The recipe's lock (the raw files of each run).
        states: Planned state of parsing the source in each generation (the raw files that one run added), such as
            "reuse".
    """
    generations = [files for generation in lock.generations if (files := list_readable(lock, entry, generation))]
    settled = 0 if "follows" in states else len(generations) - sum(state != "reuse" for state in states)
    old, new = generations[:settled], generations[settled:]
    return [file for files in old for file in files], [file for files in new for file in files]


def _judge_sample(entry: SourceEntry, sample: SourceSample, old_bytes: int, new_bytes: int) -> SourceText:
    """Filter a source's sample, and extrapolate its text sizes to all raw files.

    Args:
        entry: The source and its filter settings.
        sample: Records of the source.
        old_bytes: Size of the raw files with documents in the store.
        new_bytes: Size of the other raw files.
    """
    settings, inputs, records = entry.documents, read_inputs(entry.documents), [*sample.sampled]
    judge_records(records[:WARM_UP_RECORDS], entry.source.name, settings, inputs)
    began = time.process_time()
    judged = [judge_records(batch, entry.source.name, settings, inputs) for batch in iter_batches(records)]
    spent = time.process_time() - began
    texts = pa.chunked_array([each.documents.column("text") for each in judged], pa.large_string()).combine_chunks()
    text = "".join(texts.to_pylist())
    data, counts = text.encode(), count_words(WORD_RULE, texts)
    selected = settings.selection.share if settings.selection.questions else 1.0
    by_record = sample.records / max(1, len(records))
    by_text = sample.characters / max(1, sum(len(record.text) for record in records))
    outcomes = Counter({"documents": len(texts)})
    outcomes.update(f"dropped: {reason}" for each in judged for reason in each.reasons)
    sizes = TextSizes(
        documents=len(texts) * by_record * selected,
        text_bytes=len(data) * by_text * selected,
        packed_bytes=len(pa.compress(data, "zstd", asbytes=True)) * by_text * selected,
        words=max(pc.sum(counts["count"]).as_py() or 0, len(text) / MAX_WORD_CHARACTERS) * by_text * selected,
        measured=sample.reading_seconds + spent * by_text,
    )
    new = sizes.scale(new_bytes / sample.raw_bytes)
    return SourceText(
        source=entry.source.name,
        sample=sample,
        outcomes={outcome: round(count * by_record) for outcome, count in outcomes.items()},
        whole=sizes.scale((old_bytes + new_bytes) / sample.raw_bytes),
        new=new,
        fitted=new.measured * min(1.0, settings.repeated_lines.sample_bytes / sample.raw_bytes),
        parts=math.ceil((old_bytes + new_bytes) / max(SLICE_BYTES, settings.part_bytes)),
        words_per_mb=counts.num_rows / math.pow(max(1, len(data)) / 1e6, WORDS_POWER),
    )
