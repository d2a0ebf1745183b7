"""A rehearsal: the stages of a recipe, built from a sample of its sources in a folder that is removed again.

So documents are judged by the recipe's own steps and settings, and every later stage is what it would be, but small.
Each stratum of a sample is two files, of every other record, so that a vocabulary trained on the one half can be
measured on the other: what it would make of texts that it has not seen.

Cost: that of a run of the sample in one process, without an orchestrator, and twice of a few records: once so that what
is loaded and compiled at the first call is in no figure, and once for what a stage takes that has nearly nothing to do.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import cast

import pyarrow as pa

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.contract import RawFile, Record, Slice, Source, Tally
from corpora.store.manifest import Json, Manifest, Part, fingerprint
from corpora.store.places import Place
from corpora.store.stage import Stage, build_stage
from corpora.store.tables import open_table
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe, SourceEntry, VocabularyEntry
from flows.run.estimates.sampling import SourceSample, Stratum
from flows.run.pipeline import run_recipe
from flows.stopping import scratch_folder
from tokenizers_train.build import read_vocabulary, train_vocabulary
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.measures.measure import cut_words
from tokenizers_train.vocabularies.settings import BroughtVocabulary, VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.counts import merge_counts
from tokenizers_train.words.table import COUNTS, WordCounts

HALVES = 2
PART_BYTES = 1 << 40  # every file of the sample is a part
FIRST = 3  # records of each half, in the run before the one that is timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A stage of the rehearsal, and the processor time that it took.

    start: of that, what it takes however little it has to do
    heads: by table, bytes of each file that are there however few rows it has
    """

    manifest: Manifest
    seconds: float
    start: float = 0.0
    heads: Mapping[str, float] = field(default_factory=dict)

    def cpu_seconds(self, more: float, parts: float | None = None) -> float:
        """Processor time of the whole, which has `more` times as much to do in so many parts; by default as many."""
        start = min(self.start, self.seconds)
        times = 1.0 if parts is None else parts / max(1, len(self.manifest.parts))
        return start * times + (self.seconds - start) * more

    def disk_bytes(self, part: Part, table: str, more: float, files: float = 1.0) -> float:
        """Bytes of a part's table in the whole, which has `more` times as many rows in so many files."""
        size = sum(file.size_bytes for file in part.files if file.table == table)
        head = min(self.heads.get(table, 0.0), size)
        return (size - head) * more + head * files


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What came of the sample. strata: by the part of the documents that was made of it, as `SOURCE/PART`

    singles: by part, the documents that no other one of the sample is a copy of
    unseen: by vocabulary, how many times as many tokens it makes of texts that it was not trained on
    ended:  why it ended early, else ""
    """

    built: tuple[Built, ...]
    strata: Mapping[str, Stratum]
    unseen: Mapping[str, float] = field(default_factory=dict)
    singles: Mapping[str, int] = field(default_factory=dict)
    ended: str = ""

    @property
    def halves(self) -> list[list[str]]:
        """The parts of each stratum."""
        found: dict[int, list[str]] = {}
        for part, stratum in self.strata.items():
            found.setdefault(id(stratum), []).append(part)
        return list(found.values())

    def of(self, kind: str) -> list[Built]:
        """The stages of a kind."""
        return [built for built in self.built if built.manifest.kind == kind]


@dataclass(frozen=True, kw_only=True)
class SampledSource:
    """A source of records that were read before, a file for each group of them."""

    inner: Source
    groups: Mapping[str, Sequence[Record]]

    @property
    def kind(self) -> str:
        """That of the source that they are of."""
        return self.inner.kind

    @property
    def version(self) -> int:
        """That of the source that they are of."""
        return self.inner.version

    @property
    def libraries(self) -> tuple[str, ...]:
        """Those of the source that they are of."""
        return self.inner.libraries

    @property
    def name(self) -> str:
        """That of the source that they are of."""
        return self.inner.name

    def settings(self) -> dict[str, Json]:
        """Those of the source that they are of."""
        return self.inner.settings()

    def files(self) -> list[tuple[str, Path]]:
        """There are none on disk."""
        return []

    def slices(self, file: RawFile) -> list[Slice]:
        """Each file is one, and a part."""
        return [Slice(file=file, start=0, stop=file.size_bytes)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """The records of a group."""
        for record in self.groups[piece.file.name]:
            tally.records += 1
            yield record

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Not asked for."""
        raise InputError(f"{locator} is a record of a sample.")


def rehearse(recipe: Recipe, samples: Mapping[str, SourceSample], there: Mapping[str, Path]) -> Rehearsal:
    """Build what a recipe asks for, but its model, from samples of its sources, by their names.

    there: by their names in the recipe, vocabularies that are trained already
    """
    if not any(stratum.sampled for sample in samples.values() for stratum in sample.strata):
        return Rehearsal(built=(), strata={}, ended="No record of the sample can be read.")
    with scratch_folder(prefix="cloze-plan-") as folder:
        few = {name: _few(sample) for name, sample in samples.items()}
        _run(recipe, few, there, Place(str(folder / "first")))  # so that nothing is loaded or compiled later
        little = _run(recipe, few, there, Place(str(folder / "few")))
        whole = _run(recipe, samples, there, Place(str(folder / "store")))
        before = {built.manifest.stage_folder: built for built in little.built}
        return replace(whole, built=tuple(_beside(before.get(b.manifest.stage_folder), b) for b in whole.built))


def _beside(few: Built | None, many: Built) -> Built:
    """A stage with what it takes of bytes and time without a row: by those of few rows and of many."""
    start = few.seconds if few is not None else 0.0
    return replace(many, start=start, heads=_heads(few.manifest if few is not None else None, many.manifest))


def _heads(few: Manifest | None, many: Manifest) -> dict[str, float]:
    """By table, the bytes of a file without rows: by those of few rows and of many."""
    heads = {}
    for table in many.tables if few is not None else ():
        assert few is not None
        (little, rows), (much, more) = _mean(few, table), _mean(many, table)
        slope = (much - little) / (more - rows) if more > rows else 0.0
        heads[table] = max(0.0, min(much, little - slope * rows))
    return heads


def _mean(manifest: Manifest, table: str) -> tuple[float, float]:
    """Bytes and rows of a table, of a part."""
    size = sum(file.size_bytes for part in manifest.parts for file in part.files if file.table == table)
    return size / max(1, len(manifest.parts)), manifest.rows(table) / max(1, len(manifest.parts))


def _few(sample: SourceSample) -> SourceSample:
    """A sample of the first records of each stratum."""
    strata = (replace(stratum, sampled=stratum.sampled[: HALVES * FIRST]) for stratum in sample.strata)
    return replace(sample, strata=tuple(strata))


def _run(recipe: Recipe, samples: Mapping[str, SourceSample], there: Mapping[str, Path], place: Place) -> Rehearsal:
    entries = tuple(_sampled(entry, samples[entry.source.name]) for entry in recipe.sources)
    small = replace(recipe, sources=entries, model=None, vocabularies=_known(recipe, there), path=None)
    files = {entry.source.name: _files(entry.source) for entry in entries}
    built: list[Built] = []
    ended = ""

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        for stage in stages:
            began = time.process_time()
            manifest = build_stage(place, stage)
            built.append(Built(manifest=manifest, seconds=time.process_time() - began))
        return [each.manifest for each in built[len(built) - len(stages) :]]

    try:
        run_recipe(place, small, Lock(generations=(files,)), perform)
    except InputError as error:  # nothing is left to go on with
        ended = str(error)
    found = Rehearsal(built=tuple(built), strata=_strata(samples), ended=ended)
    return replace(found, unseen=_unseen(place, small, found), singles=_singles(place, found))


def _sampled(entry: SourceEntry, sample: SourceSample) -> SourceEntry:
    """A source whose records are those of the sample; no bound ends its run."""
    groups = {
        f"{number:04d}-{half}": stratum.sampled[half::HALVES]
        for number, stratum in enumerate(sample.strata)
        for half in range(HALVES)
    }
    source = SampledSource(inner=entry.source, groups=groups)
    unbound = replace(entry.documents, part_bytes=1, max_damaged_share=1.0, max_rule_share=1.0)
    # What others have of their class it has of the source that it stands for.
    return replace(entry, source=cast(Source, source), documents=unbound)


def _files(source: Source) -> tuple[RawFile, ...]:
    sampled = cast(SampledSource, source)
    return tuple(
        RawFile(name=name, sha256=fingerprint(sample=[source.name, name]), size_bytes=PART_BYTES, path="sample")
        for name in sampled.groups
    )


def _strata(samples: Mapping[str, SourceSample]) -> dict[str, Stratum]:
    """The strata by the parts that are made of them, in the order of their files."""
    return {
        f"{name}/{HALVES * number + half:05d}": stratum
        for name, sample in samples.items()
        for number, stratum in enumerate(sample.strata)
        for half in range(HALVES)
    }


def _known(recipe: Recipe, there: Mapping[str, Path]) -> tuple[VocabularyEntry, ...]:
    return tuple(
        replace(entry, settings=BroughtVocabulary(path=str(there[entry.name]))) if entry.name in there else entry
        for entry in recipe.vocabularies
    )


def _unseen(place: Place, recipe: Recipe, found: Rehearsal) -> dict[str, float]:
    """For each vocabulary that is trained: its tokens of the second halves, trained on the first, to those it makes."""
    trained = {built.manifest.name: built.manifest for built in found.of("vocabularies")}
    ratios = {}
    for entry in recipe.vocabularies:
        name = recipe.artifact_name(entry.name)
        settings = entry.settings
        if not isinstance(settings, VocabularySettings) or name not in trained:
            continue
        counts = next((built.manifest for built in found.of("counts") if _counted_for(trained[name], built)), None)
        if counts is None:
            continue
        first, second = (_half(place, counts, half) for half in range(HALVES))
        if first.num_rows and second.num_rows:
            seen = _tokens(read_vocabulary(place, trained[name]), second)
            ratios[entry.name] = _tokens(train_vocabulary(first, settings), second) / max(1, seen)
    return ratios


def _counted_for(vocabulary: Manifest, counts: Built) -> bool:
    return any(parent.fingerprint == counts.manifest.fingerprint for parent in vocabulary.parents)


def _half(place: Place, counts: Manifest, half: int) -> WordCounts:
    """The counts of every first or second half."""
    parts = [part for part in counts.parts if int(part.name.rpartition("-")[2]) % HALVES == half]
    batches = (open_table(place, counts.stage_folder, part, "counts", COUNTS.names) for part in parts)
    return merge_counts([pa.Table.from_batches(list(batch), COUNTS) for batch in batches])


def _tokens(vocabulary: Vocabulary, counts: WordCounts) -> int:
    """Of all the words that were counted."""
    pieces = cut_words(Encoder(vocabulary), counts)
    return int(pieces.counts @ pieces.lengths)


def _singles(place: Place, found: Rehearsal) -> dict[str, int]:
    """By part of the documents, how many of them no other one of the sample is a copy of."""
    if not (verdicts := found.of("verdicts")):
        return {}
    manifest = verdicts[0].manifest
    columns = open_table(place, manifest.stage_folder, manifest.parts[0], "verdicts", ("id", "survivor"))
    rows = [row for batch in columns for row in batch.to_pylist()]
    met = {row[name] for row in rows if row["survivor"] is not None for name in ("id", "survivor")}
    parts = [
        (f"{b.manifest.name}/{p.name}", p.rows("documents")) for b in found.of("documents") for p in b.manifest.parts
    ]
    ids = iter([row["id"] for row in rows])
    return {part: sum(id not in met for id in islice(ids, number)) for part, number in parts}
