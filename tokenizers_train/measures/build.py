"""The stage `measures`: what a trained vocabulary makes of the words of its corpus.

    counts ─┐
            ├─► every distinct word encoded once ─► figures of all, of each source, of each size; pieces; split words
    vocabulary ─┘

One part, because words of all sources are encoded together. It holds three tables: `measures` (figures, one row for
the corpus, for each source and for each size of vocabulary that the counts could fill), `pieces` (how often each
entry of the vocabulary occurs) and `splits` (the words on which most tokens are spent). Source weights decide what
the smaller and larger vocabularies are trained on, and never what is measured: every occurrence counts once.

Cost: a training to the largest size and ten encodings of the distinct words: 2 s of CPU time for 75,799 of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import pyarrow as pa

from corpora.generic_types import Json
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, ManifestAddress, Part
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.settings import bind
from corpora.store.stage import PartPlan, Stage, library_versions, manifest_at
from corpora.store.tables import read_table
from tokenizers_train.build import read_counts, read_vocabulary
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.measures.measure import (
    Measures,
    cut_words,
    measure,
    measure_sources,
    most_split,
    piece_counts,
    unknown_id,
)
from tokenizers_train.measures.sizes import measure_sizes
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.words.counts import merge_counts
from tokenizers_train.words.table import WordCounts

MEASURES_VERSION = 1

SPLIT_WORDS = 200  # kept of a corpus

MEASURE_NAMES = tuple(field.name for field in fields(Measures))
MEASURES = pa.schema(
    [
        pa.field("scope", pa.string(), nullable=False),  # corpus, source or size
        pa.field("name", pa.string(), nullable=False),  # of the source; empty otherwise
        pa.field("size", pa.int64(), nullable=False),  # of the vocabulary that was measured
        *(pa.field(name, pa.int64(), nullable=False) for name in MEASURE_NAMES),
    ]
)
PIECES = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)
SPLITS_TABLE = pa.schema(
    [
        pa.field("word", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("ids", pa.list_(pa.int64()), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuresJob:
    """A vocabulary and counts of its words."""

    vocabulary: ManifestAddress
    counts: ManifestAddress


def plan_measures(vocabulary: Manifest, counts: Manifest) -> Stage:
    """The stage that measures one vocabulary on words counted by its own rule, most often those it was trained on."""
    contents: list[Json] = [[_source(part), part.content] for part in counts.parts]
    return Stage(
        kind="measures",
        name=vocabulary.name,
        build_version=MEASURES_VERSION,
        settings=vocabulary.settings,
        parents=(counts.as_parent(), vocabulary.as_parent()),
        libraries=library_versions("tokenizers"),
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
    """Measure the vocabulary on all words, on each source's, and the sizes that it might have had."""
    job: MeasuresJob = plan.job
    trained, counts = manifest_at(writer.place, job.vocabulary), manifest_at(writer.place, job.counts)
    vocabulary = read_vocabulary(writer.place, trained)
    sources = counts_by_source(writer.place, counts)
    whole = merge_counts(read_counts(writer.place, counts.stage_folder, counts.parts))
    unknown = unknown_id(vocabulary)
    pieces = cut_words(Encoder(vocabulary), whole)
    corpus = measure(pieces, unknown, vocabulary.size)
    rows = [_row("corpus", "", vocabulary.size, corpus)]
    for name, figures in measure_sources(pieces, unknown, vocabulary.size, sources).items():
        rows.append(_row("source", name, vocabulary.size, figures))
    rows += [_row("size", "", size, figures) for size, figures in other_sizes(writer.place, trained, counts, whole)]
    splits = [asdict(split) for split in most_split(pieces, SPLIT_WORDS)]
    totals = piece_counts(pieces, vocabulary.size)
    with writer.table("measures", MEASURES) as sink:
        sink.write(pa.Table.from_pylist(rows, MEASURES))
    with writer.table("pieces", PIECES) as sink:
        sink.write(pa.table([pa.array(range(vocabulary.size), pa.int64()), pa.array(totals)], schema=PIECES))
    with writer.table("splits", SPLITS_TABLE) as sink:
        sink.write(pa.Table.from_pylist(splits, SPLITS_TABLE))
    return _ledger(corpus, counts)


def _ledger(corpus: Measures, counts: Manifest) -> Ledger:
    """Every word that was counted is one piece, several, or has an unknown one."""
    split = corpus.words - corpus.whole_words - corpus.unknown_words
    outcomes = {"one piece": corpus.whole_words, "several pieces": split, "unknown": corpus.unknown_words}
    account = Account(unit="words", total=counts.ledger.figures.get("words", 0), outcomes=outcomes)
    return Ledger(accounts=(account,), figures={"tokens": corpus.tokens, "unknown tokens": corpus.unknown_tokens})


def _row(scope: str, name: str, size: int, figures: Measures) -> dict[str, Json]:
    return {"scope": scope, "name": name, "size": size, **asdict(figures)}


def _source(part: Part) -> str:
    """The source of a part of counts; empty for what a generation changed of several."""
    return part.labels.get("source", "")


def counts_by_source(place: Place, counts: Manifest) -> Iterator[tuple[str, WordCounts]]:
    """Yield each source with its counts, by name; "" for the parts that are not of one source."""
    parts: dict[str, list[Part]] = {}
    for part in counts.parts:
        parts.setdefault(_source(part), []).append(part)
    for name in sorted(parts):
        yield name, merge_counts(read_counts(place, counts.stage_folder, parts[name]))


def other_sizes(place: Place, vocabulary: Manifest, counts: Manifest, whole: WordCounts) -> list[tuple[int, Measures]]:
    """The figures of the sizes that a vocabulary might have had; none of one that was brought and not trained here.

    whole: the counts of all parts, unweighted
    """
    if all(parent.role not in ("counts", "totals") for parent in vocabulary.parents):
        return []
    settings = dict(vocabulary.settings)
    by_source: Mapping[str, float] = settings.pop("weights", {})
    weights = [by_source.get(_source(part), 1.0) for part in counts.parts]
    alike = len({*weights}) < 2
    training = whole if alike else merge_counts(read_counts(place, counts.stage_folder, counts.parts), weights)
    return measure_sizes(training, whole, bind(VocabularySettings, settings, "vocabulary"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measures that the stage stored of a vocabulary.

    sources: by name; sizes: by size, ascending; counts: how often each id occurs
    """

    corpus: Measures
    sources: Mapping[str, Measures]
    sizes: Mapping[int, Measures]
    counts: Sequence[int]
    splits: Sequence[Mapping[str, Json]]


def read_measures(place: Place, manifest: Manifest) -> Measured:
    """Read what a measures artifact holds."""
    rows = [row for batch in read_table(place, manifest, "measures", MEASURES.names) for row in batch.to_pylist()]
    measured = [(row, Measures(**{name: row[name] for name in MEASURE_NAMES})) for row in rows]
    return Measured(
        corpus=next(figures for row, figures in measured if row["scope"] == "corpus"),
        sources={row["name"]: figures for row, figures in measured if row["scope"] == "source"},
        sizes={row["size"]: figures for row, figures in measured if row["scope"] == "size"},
        counts=[
            count
            for batch in read_table(place, manifest, "pieces", ("count",))
            for count in batch.column("count").to_pylist()
        ],
        splits=[
            row for batch in read_table(place, manifest, "splits", SPLITS_TABLE.names) for row in batch.to_pylist()
        ],
    )
