"""The stage `measures`: how a trained vocabulary cuts the words of its corpus, and how smaller and larger ones would.

    counts ─┐
            ├─► every distinct word encoded once ─► figures of all, of each source, of each size; pieces; split words
    vocabulary ─┘

One part, because words of all sources are encoded together. It holds three tables: `measures` (figures, one row for the
corpus, for each source and for each size of vocabulary that the counts could fill), `pieces` (how often each entry of
the vocabulary occurs) and `splits` (the words on which most tokens are spent). Source weights decide what the smaller
and larger vocabularies are trained on, and never what is measured: every occurrence counts once.

Promise: the figures of sizes are those of the vocabularies that training to each size would give, from one training.
Both algorithms that learn merges add pieces in one order, whatever the size: a smaller WordPiece vocabulary is the
beginning of a larger one, and so are the pieces and merges of a byte-level BPE one, with <mask> at its end. So one
encoder serves all sizes (`Encoder.with_size`); `truncate_vocabulary` makes the vocabulary that it stands for. Unigram
begins with too many pieces and prunes them, so its vocabularies are not nested: for it there are no sizes.

Cost: a training to the largest size, one encoder, and for each size the words that it cuts into more: 2 s of CPU time
for 75,799 distinct words and ten sizes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

import pyarrow as pa

from corpora.generic_types import Json
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, ManifestAddress, Part
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.settings import bind_settings
from corpora.store.stage import PartPlan, Stage, read_library_versions, read_manifest_at
from corpora.store.tables import read_table
from tokenizers_train.build import read_counts, read_vocabulary, train_vocabulary
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.measures.measure import (
    Measures,
    count_pieces,
    encode_again,
    encode_counted_words,
    find_most_split,
    find_unknown_id,
    measure_sources,
    measure_words,
)
from tokenizers_train.vocabularies.settings import BYTE_BPE, WORDPIECE, VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_bert_vocabulary, build_roberta_vocabulary
from tokenizers_train.words.counts import merge_counts
from tokenizers_train.words.table import WordCounts

MEASURED_SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 24_000, 32_000, 48_000, 64_000)
NESTED_ALGORITHMS = (WORDPIECE, BYTE_BPE)


def select_nested_sizes(
    largest: Vocabulary, settings: VocabularySettings, sizes: Sequence[int] = MEASURED_SIZES
) -> list[int]:
    """Return the sizes of the smaller vocabularies that can be cut from a large one, in ascending order.

    The last size, which is always included, is the size of `largest` or the maximum of `sizes`, whichever is lower. Any
    other size must leave room for at least one merged token.

    Args:
        largest: A vocabulary trained with the maximum of `sizes` and `settings.size` as its size.
        settings: The settings that it was trained with.
        sizes: The sizes to choose from.
    """
    min_size = count_tokens_before_merges(largest, settings)
    return sorted({*(size for size in sizes if min_size < size < largest.size), min(largest.size, max(sizes))})


def count_tokens_before_merges(vocabulary: Vocabulary, settings: VocabularySettings) -> int:
    """Return the number of tokens that precede the first merged token of a vocabulary trained with these settings.

    In byte-level BPE, special tokens at the end of the vocabulary are counted too.
    """
    if vocabulary.algorithm == BYTE_BPE:
        return vocabulary.size - len(vocabulary.merges)
    reserved = len(vocabulary.special_ids) + settings.unused
    rest = enumerate(vocabulary.tokens[reserved:], reserved)
    return next((id for id, token in rest if len(token.removeprefix("##")) > 1), vocabulary.size)


def truncate_vocabulary(vocabulary: Vocabulary, settings: VocabularySettings, size: int) -> Vocabulary:
    """Return the vocabulary that training would have produced with a maximum of `size` tokens.

    Returns `vocabulary` itself if it is not larger than `size`.

    Args:
        vocabulary: A WordPiece or byte-level BPE vocabulary trained by this package.
        settings: The settings that it was trained with.
        size: Maximum number of tokens, at least `count_tokens_before_merges`.
    """
    if size >= vocabulary.size:
        return vocabulary
    if vocabulary.algorithm == WORDPIECE:
        return build_bert_vocabulary(
            vocabulary.tokens[:size],
            lowercase=bool(settings.lowercase),
            strip_accents=settings.strip_accents,
            max_word_length=settings.max_word_length,
            additional=settings.special_tokens,
        )
    num_last = 1 + len(settings.special_tokens)
    tokens = (*vocabulary.tokens[: size - num_last], *vocabulary.tokens[-num_last:])
    merges = vocabulary.merges[: len(vocabulary.merges) - (vocabulary.size - size)]
    return build_roberta_vocabulary(tokens, merges, settings.special_tokens)


def measure_sizes(
    training: WordCounts, measured: WordCounts, settings: VocabularySettings, sizes: Sequence[int] = MEASURED_SIZES
) -> list[tuple[int, Measures]]:
    """Train the largest vocabulary and compute the statistics of each size returned by `select_nested_sizes`.

    Args:
        training: Word counts to train on, weighted by source.
        measured: Word counts to compute the statistics on.
        settings: Settings of the vocabulary.
        sizes: Vocabulary sizes to choose from.

    Returns:
        (size, statistics) pairs in ascending order. Empty for Unigram, because its smaller vocabularies are not part of
        larger ones.

    Raises:
        InputError: If there are no words to train on.
    """
    if settings.algorithm not in NESTED_ALGORITHMS:
        return []
    largest = train_vocabulary(training, replace(settings, size=max(*sizes, settings.size)))
    encoder, figures = Encoder(largest), []
    pieces = encode_counted_words(encoder, measured)
    for size in reversed(select_nested_sizes(largest, settings, sizes)):
        pieces = encode_again(encoder.with_size(size), pieces, size)
        figures.append((size, measure_words(pieces, find_unknown_id(largest), size)))
    return figures[::-1]


MEASURES_VERSION = 1

MAX_SPLIT_WORDS = 200  # kept of a corpus

MEASURE_NAMES = tuple(field.name for field in fields(Measures))
MEASURES_SCHEMA = pa.schema(
    [
        pa.field("scope", pa.string(), nullable=False),  # corpus, source or size
        pa.field("name", pa.string(), nullable=False),  # of the source; empty otherwise
        pa.field("size", pa.int64(), nullable=False),  # of the vocabulary that was measured
        *(pa.field(name, pa.int64(), nullable=False) for name in MEASURE_NAMES),
    ]
)
PIECES_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)
SPLITS_SCHEMA = pa.schema(
    [
        pa.field("word", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("ids", pa.list_(pa.int64()), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuresJob:
    """The vocabulary to measure and the word counts to measure it on."""

    vocabulary: ManifestAddress
    counts: ManifestAddress


def plan_measures(vocabulary: Manifest, counts: Manifest) -> Stage:
    """Plan the stage that measures a vocabulary on word counts.

    Args:
        vocabulary: Manifest of the vocabulary.
        counts: Manifest of the word counts, which must be counted with the vocabulary's word rule.
    """
    contents: list[Json] = [[_get_source(part), part.content] for part in counts.parts]
    return Stage(
        kind="measures",
        name=vocabulary.name,
        build_version=MEASURES_VERSION,
        settings=vocabulary.settings,
        parents=(counts.as_parent(), vocabulary.as_parent()),
        libraries=read_library_versions("tokenizers"),
        parts=(
            PartPlan(
                name="measures",
                key=[vocabulary.content, contents],
                job=MeasuresJob(vocabulary=vocabulary.address, counts=counts.address),
            ),
        ),
        build=build_measures_part,
    )


def build_measures_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Measure a vocabulary on all words, on each source and at other sizes, and write the tables.

    Args:
        writer: Writes the tables "measures", "pieces" and "splits".
        plan: The plan of the part. Its `job` is a `MeasuresJob`.

    Returns:
        The number of words that are one token, several tokens or unknown, as a ledger.

    Raises:
        Damaged: If a file is missing, damaged or was changed.
    """
    job: MeasuresJob = plan.job
    manifest, counts = read_manifest_at(writer.place, job.vocabulary), read_manifest_at(writer.place, job.counts)
    vocabulary = read_vocabulary(writer.place, manifest)
    sources = iter_source_counts(writer.place, counts)
    whole = merge_counts(read_counts(writer.place, counts.stage_folder, counts.parts))
    unknown_id = find_unknown_id(vocabulary)
    pieces = encode_counted_words(Encoder(vocabulary), whole)
    corpus = measure_words(pieces, unknown_id, vocabulary.size)
    rows = [_build_row("corpus", "", vocabulary.size, corpus)]
    for name, figures in measure_sources(pieces, unknown_id, vocabulary.size, sources).items():
        rows.append(_build_row("source", name, vocabulary.size, figures))
    rows += [
        _build_row("size", "", size, figures)
        for size, figures in measure_other_sizes(writer.place, manifest, counts, whole)
    ]
    splits = [asdict(split) for split in find_most_split(pieces, MAX_SPLIT_WORDS)]
    totals = count_pieces(pieces, vocabulary.size)
    with writer.create_table("measures", MEASURES_SCHEMA) as sink:
        sink.write(pa.Table.from_pylist(rows, MEASURES_SCHEMA))
    with writer.create_table("pieces", PIECES_SCHEMA) as sink:
        sink.write(pa.table([pa.array(range(vocabulary.size), pa.int64()), pa.array(totals)], schema=PIECES_SCHEMA))
    with writer.create_table("splits", SPLITS_SCHEMA) as sink:
        sink.write(pa.Table.from_pylist(splits, SPLITS_SCHEMA))
    return _build_ledger(corpus, counts)


def _build_ledger(corpus: Measures, counts: Manifest) -> Ledger:
    """Account for each counted word as a single token, as several tokens, or as unknown.

    Args:
        corpus: The statistics of all words.
        counts: The manifest of the word counts, which has the total number of words.
    """
    split = corpus.words - corpus.whole_words - corpus.unknown_words
    outcomes = {"one piece": corpus.whole_words, "several pieces": split, "unknown": corpus.unknown_words}
    account = Account(unit="words", total=counts.ledger.figures.get("words", 0), outcomes=outcomes)
    return Ledger(accounts=(account,), figures={"tokens": corpus.tokens, "unknown tokens": corpus.unknown_tokens})


def _build_row(scope: str, name: str, size: int, figures: Measures) -> dict[str, Json]:
    return {"scope": scope, "name": name, "size": size, **asdict(figures)}


def _get_source(part: Part) -> str:
    """Return the source of a part, or "" if the part belongs to several sources."""
    return part.labels.get("source", "")


def iter_source_counts(place: Place, counts: Manifest) -> Iterator[tuple[str, WordCounts]]:
    """Yield the name and the merged word counts of each source, sorted by name.

    Parts that belong to several sources are merged under the name "".

    Raises:
        Damaged: During iteration, if a table is missing, damaged or was changed.
    """
    parts: dict[str, list[Part]] = {}
    for part in counts.parts:
        parts.setdefault(_get_source(part), []).append(part)
    for name in sorted(parts):
        yield name, merge_counts(read_counts(place, counts.stage_folder, parts[name]))


def measure_other_sizes(
    place: Place, vocabulary: Manifest, counts: Manifest, whole: WordCounts
) -> list[tuple[int, Measures]]:
    """Compute the statistics that vocabularies of the sizes in MEASURED_SIZES, trained in the same way, would have.

    They are trained on `counts`, weighted by source, and measured on `whole`.

    Args:
        place: The store.
        vocabulary: Manifest of the vocabulary, which has the training settings and the weights.
        counts: Manifest of the word counts.
        whole: The unweighted word counts of all parts.

    Returns:
        (size, statistics) pairs in ascending order, as from `measure_sizes`. Empty if the vocabulary was not trained by
        this package, or is a Unigram vocabulary.
    """
    if all(parent.role not in ("counts", "totals") for parent in vocabulary.parents):
        return []
    settings = dict(vocabulary.settings)
    by_source: Mapping[str, float] = settings.pop("weights", {})
    weights = [by_source.get(_get_source(part), 1.0) for part in counts.parts]
    is_unweighted = len({*weights}) < 2
    training = whole if is_unweighted else merge_counts(read_counts(place, counts.stage_folder, counts.parts), weights)
    return measure_sizes(training, whole, bind_settings(VocabularySettings, settings, "vocabulary"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMeasures:
    """The measures of a vocabulary as read from the store.

    Attributes:
        corpus: Statistics of all words.
        sources: Statistics of each source.
        sizes: Statistics of each vocabulary size, in ascending order.
        counts: How often each token occurs, by id.
        splits: Rows of the table `splits` with the keys word, count and ids.
    """

    corpus: Measures
    sources: Mapping[str, Measures]
    sizes: Mapping[int, Measures]
    counts: Sequence[int]
    splits: Sequence[Mapping[str, Json]]


def read_measures(place: Place, manifest: Manifest) -> StoredMeasures:
    """Read the measures of a vocabulary from the tables of an artifact.

    Raises:
        Damaged: If a table is missing, damaged or was changed.
    """
    rows = [
        row for batch in read_table(place, manifest, "measures", MEASURES_SCHEMA.names) for row in batch.to_pylist()
    ]
    measured = [(row, Measures(**{name: row[name] for name in MEASURE_NAMES})) for row in rows]
    return StoredMeasures(
        corpus=next(figures for row, figures in measured if row["scope"] == "corpus"),
        sources={row["name"]: figures for row, figures in measured if row["scope"] == "source"},
        sizes={row["size"]: figures for row, figures in measured if row["scope"] == "size"},
        counts=[
            count
            for batch in read_table(place, manifest, "pieces", ("count",))
            for count in batch.column("count").to_pylist()
        ],
        splits=[
            row for batch in read_table(place, manifest, "splits", SPLITS_SCHEMA.names) for row in batch.to_pylist()
        ],
    )
