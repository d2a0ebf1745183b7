"""The estimator: figures for each stage to be built, scaled from the rehearsal of a sample."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from corpora.errors import InputError
from corpora.store.manifest import Manifest, Part
from flows.recipes.recipe import Recipe
from flows.run.estimates import work
from flows.run.estimates.figures import StageEstimate
from flows.run.estimates.rehearsal import Built, Rehearsal
from flows.run.estimates.sampling import SourceSample
from flows.run.plan.plan import Planned
from flows.run.record.example_shares import warnings_of
from flows.run.record.ledger_balance import num_tokens
from tokenizers_train.vocabularies.settings import VocabularySettings
from trainer.jobs.phases import settle_unchecked
from trainer.jobs.repeats import SetRead, refuse_repeats, repeat_warning, train_examples

OF_SOURCE = ("documents", "signatures")


WORDS_POWER = 0.58
UNSEEN = 0.05  # more tokens for a text whose words were not counted for the vocabulary
FEW_COPIES = 2  # with so few, the estimate counts half


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """Holds what the store has of a source already: documents, and bytes of their texts."""

    documents: int = 0
    text_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Factors from a sample to its source: for what is to be built, and including what the store holds."""

    documents: float = 0.0
    text: float = 0.0
    all_documents: float
    all_text: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """Holds the size of a whole stage, and the cost of its own work."""

    documents: float | None = None
    tokens: float | None = None
    disk_bytes: float
    cpu_seconds: float


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """Estimates every stage from these inputs.

    older:      what the store holds of each source; resampled: the sources that need no building
    from_start: whether later stages have nothing to continue from
    """

    recipe: Recipe
    planned: Sequence[Planned]
    samples: Mapping[str, SourceSample]
    rehearsal: Rehearsal
    older: Mapping[str, Older]
    resampled: frozenset[str]
    workers: int
    from_start: bool

    @cached_property
    def judged(self) -> dict[str, Manifest]:
        """The documents of the sample, by source."""
        return {built.manifest.name: built.manifest for built in self.rehearsal.of("documents")}

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """The scale of each source, by its name."""
        return {
            name: scale_of(self.samples[name], judged, self.older.get(name, Older()), name in self.resampled)
            for name, judged in self.judged.items()
        }

    @property
    def documents(self) -> float:
        """The number of all documents before duplicates are removed, including those of older artifacts."""
        return sum(made.rows("documents") * self.scales[name].all_documents for name, made in self.judged.items())

    @cached_property
    def kept(self) -> dict[str, float]:
        """By source, the share of the sample's kept documents that the whole keeps: it has more copies."""
        shares = {}
        for corpus in self.rehearsal.of("corpora"):
            left = {_source(part): part.rows("documents") for part in corpus.manifest.parts}
            for name, made in self.judged.items():
                rows, kept = made.rows("documents"), left.get(name, 0)
                share = kept_share(rows * self.scales[name].all_documents, rows, rows - kept)
                shares[name] = share * rows / kept if kept else 0.0
        return shares

    @cached_property
    def text(self) -> float:
        """The whole's text as a multiple of the sample's."""
        return self._times(lambda scale: scale.all_text)

    @cached_property
    def new_text(self) -> float:
        """The text to be worked on as a multiple of the sample's."""
        return self.text if self.from_start else self._times(lambda scale: scale.text)

    def _times(self, factor: Callable[[Scale], float]) -> float:
        sizes = {name: made.ledger.figures.get("text bytes", 0) for name, made in self.judged.items()}
        sampled = sum(sizes.values())
        return sum(size * factor(self.scales[name]) for name, size in sizes.items()) / sampled if sampled else 0.0

    @property
    def _new_share(self) -> float:
        return self.new_text / self.text if self.text else 0.0

    def stages(self) -> list[StageEstimate]:
        """Estimate each stage that is to be built, once for all its generations."""
        wanted = dict.fromkeys(entry.stage for entry in self.planned if entry.state != "reuse")
        built = {each.manifest.stage_folder: each for each in self.rehearsal.built}
        estimates = []
        for stage in wanted:
            kind, _, name = stage.partition("/")
            rehearsed = built.get(stage) or self._other(kind)
            if kind == "models":
                estimates.append(self._model(stage))
            elif rehearsed is not None:
                estimates.append(self._stage(stage, kind, name, rehearsed))
        return estimates

    def _other(self, kind: str) -> Built | None:
        """Return a stage of a kind that represents one of another name."""
        return None if kind in (*OF_SOURCE, "counts") else next(iter(self.rehearsal.of(kind)), None)

    def _stage(self, stage: str, kind: str, name: str, built: Built) -> StageEstimate:
        left = self._left(stage)
        whole = self._of_source(name, kind, built) if kind in OF_SOURCE else self._of_corpus(kind, name, built)
        missing = sum(entry.missing for entry in self.planned if entry.stage == stage)
        parts = missing or sum(entry.missing for entry in self.planned if entry.stage.startswith("documents/")) or 1
        cpu = whole.cpu_seconds * left + work.load_seconds(kind, self.workers, parts)
        return StageEstimate(
            stage=stage,
            documents=None if whole.documents is None else round(whole.documents),
            tokens=None if whole.tokens is None else round(whole.tokens),
            disk_bytes=round(whole.disk_bytes * left),
            memory_bytes=self._memory(kind, name),
            cpu_seconds=round(cpu, 2),
            seconds=round(work.seconds_of(kind, cpu, self.workers, parts), 2),
        )

    def _left(self, stage: str) -> float:
        """The share of a stage's parts that is not built yet."""
        entries = [
            entry for entry in self.planned if entry.stage == stage and entry.state in ("go on", "mend", "build")
        ]
        parts, missing = sum(entry.parts for entry in entries), sum(entry.missing for entry in entries)
        generations = stage.partition("/")[0] in OF_SOURCE
        return missing / parts if parts and (generations or not self.new_text) else 1.0

    def _of_source(self, name: str, kind: str, built: Built) -> _Whole:
        scale = self.scales[name]
        reading = self.samples[name].reading_seconds if kind == "documents" else 0.0
        return _Whole(
            documents=built.manifest.rows(kind) * scale.documents,
            disk_bytes=built.size_bytes * (scale.text if kind == "documents" else scale.documents),
            cpu_seconds=built.seconds * scale.text + reading,
        )

    def _of_corpus(self, kind: str, name: str, built: Built) -> _Whole:
        """Scale a stage of all sources, as if everything that can be new were to be built."""
        if kind == "verdicts":
            more = self.documents / max(1, built.manifest.rows("verdicts"))
            return _Whole(
                documents=self.documents, disk_bytes=built.size_bytes * more, cpu_seconds=built.seconds * more
            )
        if kind in ("vocabularies", "measures"):
            more = self._words / max(1.0, self._sampled_words)
            grown = self._vocabulary_growth(name, more) if kind == "vocabularies" else 1.0
            return _Whole(disk_bytes=built.size_bytes * grown, cpu_seconds=built.seconds * more)
        if kind == "counts":
            repeated = self._part_text ** (WORDS_POWER - 1)  # larger parts have fewer words for each byte
            return _Whole(
                disk_bytes=built.size_bytes * self.new_text * repeated, cpu_seconds=built.seconds * self.new_text
            )
        if kind == "shards":
            more = self._tokens_factor(name)
            tokens = built.manifest.ledger.figures.get("example tokens", 0) * more
            new = more * self._new_share
            return _Whole(tokens=tokens, disk_bytes=built.size_bytes * new, cpu_seconds=built.seconds * new)
        return self._part_by_part(kind, name, built)

    def _part_by_part(self, kind: str, name: str, built: Built) -> _Whole:
        """Scale corpora and tokens, which have a part for each source."""
        documents = tokens = disk = 0.0
        unseen = self._unseen(name) if kind == "tokens" else 1.0
        for part in built.manifest.parts:
            factor, source = self._factor(part), _source(part)
            rows = part.rows("documents" if kind == "corpora" else "tokens")
            documents += rows * self.scales[source].all_documents * self.kept.get(source, 1.0)
            disk += sum(file.size_bytes for file in part.files) * factor
            tokens += num_tokens([part]) * factor if kind == "tokens" else 0.0
        return _Whole(
            documents=documents,
            tokens=tokens * unseen if kind == "tokens" else None,
            disk_bytes=disk * unseen * self._new_share,
            cpu_seconds=built.seconds * self.new_text,
        )

    def _factor(self, part: Part) -> float:
        source = _source(part)
        return self.scales[source].all_text * self.kept.get(source, 1.0)

    @property
    def _part_text(self) -> float:
        """The text in a part of the whole as a multiple of that in a part of the sample.

        A much smaller part has few documents, each of which has fewer words than the law of texts says.
        """
        parts = sum(entry.parts for entry in self.planned if entry.stage.startswith("documents/"))
        return max(0.2, self.text * len(self.scales) / max(1, parts))

    @cached_property
    def _sampled_words(self) -> float:
        return float(max((built.manifest.rows("counts") for built in self.rehearsal.of("counts")), default=0))

    @property
    def _words(self) -> float:
        """The number of different words in the whole."""
        return distinct_words(self._sampled_words, self.text)

    def _vocabulary_growth(self, name: str, words: float) -> float:
        """Return the growth of a vocabulary whose sample had too few words. words: times as many in the whole"""
        settings = self._vocabularies[name]
        made = next(built.manifest for built in self.rehearsal.of("vocabularies") if built.manifest.name == name)
        if not isinstance(settings, VocabularySettings):
            return 1.0
        return min(settings.size, made.rows("tokens") * words) / max(1, made.rows("tokens"))

    @cached_property
    def _vocabularies(self) -> dict[str, object]:
        """The settings of vocabularies, by the names of their artifacts."""
        return {self.recipe.artifact_name(entry.name): entry.settings for entry in self.recipe.vocabularies}

    def _tokens_factor(self, shards: str) -> float:
        """Return the tokens of the whole as a multiple of the sample's, for the sources of a shard set."""
        [entry] = [entry for entry in self.recipe.shards if self.recipe.artifact_name(entry.name) == shards]
        vocabulary = self.recipe.artifact_name(entry.vocabulary)
        made = [built.manifest for built in self.rehearsal.of("tokens") if built.manifest.name == vocabulary]
        read = [
            part
            for part in (made[0].parts if made else ())
            if not entry.settings.sources or _source(part) in entry.settings.sources
        ]
        sampled, whole = num_tokens(read), sum(num_tokens([part]) * self._factor(part) for part in read)
        return self._unseen(vocabulary) * whole / sampled if sampled else 0.0

    def _unseen(self, vocabulary: str) -> float:
        """Return the factor by which a vocabulary makes more tokens of text that it was not trained on."""
        trained = isinstance(self._vocabularies[vocabulary], VocabularySettings) and self.text > 1
        return 1 + UNSEEN * (1 - 1 / self.text) if trained else 1.0

    def _memory(self, kind: str, name: str) -> int:
        settings = self._vocabularies.get(name)
        algorithm = settings.algorithm if isinstance(settings, VocabularySettings) else "wordpiece"
        raw_bytes = sum(sample.raw_bytes for sample in self.samples.values())
        return work.memory_of(kind, self.workers, self.documents, self._words, algorithm, raw_bytes)

    def _model(self, stage: str) -> StageEstimate:
        assert self.recipe.model is not None
        [used] = {entry.vocabulary for entry in self.recipe.shards if entry.name in self.recipe.model.shards}
        made = {built.manifest.name: built.manifest for built in self.rehearsal.of("vocabularies")}
        vocabulary = made.get(self.recipe.artifact_name(used))
        size = vocabulary.rows("tokens") if vocabulary is not None else 30_000
        return work.training_of(stage, self.recipe.model, self.recipe, size, self._held())

    def warnings(self) -> list[str]:
        """Return what the sample says of stages to be built: examples without much of the text, text read too often."""
        wanted = {entry.stage for entry in self.planned if entry.state != "reuse"}
        made = {built.manifest.stage_folder: built.manifest for built in self.rehearsal.of("shards")}
        lines = [f"Of the sample, {line}" for folder in made if folder in wanted for line in warnings_of(made[folder])]
        entry = self.recipe.model
        if entry is None or f"models/{self.recipe.name}" not in {e.stage for e in self.planned if e.state == "follows"}:
            return lines
        names = [f"shards/{self.recipe.artifact_name(name)}" for names in entry.phases for name in names]
        if not made.keys() >= set(names):
            return lines
        try:
            settled = settle_unchecked(entry.training, [made[name] for name in names])
            reads = [self._scaled(read, entry.training.phase[read.phase - 1].epochs) for read in settled.reads()]
            lines.append(repeat_warning(reads, entry.settings.objective_settings.kind))
            refuse_repeats(reads, entry.training)
        except InputError as error:  # the run says the same where the whole is like the sample
            lines.append(f"It is likely that the training is refused. {error}")
        return [*filter(None, lines)]

    def _scaled(self, read: SetRead, epochs: float | None) -> SetRead:
        """Return what is read of the whole of a set, where that is of the sample. epochs: the length of the phase"""
        more = self._tokens_factor(read.name)
        slots = round(read.slots * more) if epochs is not None else read.slots
        return replace(read, slots=slots, examples=max(1, round(read.examples * more)))

    def _held(self) -> dict[str, float]:
        """Return the tokens to train on of each shard set, by its name in the recipe."""
        names = {self.recipe.artifact_name(entry.name): entry.name for entry in self.recipe.shards}
        return {
            names[built.manifest.name]: train_examples(built.manifest)[1] * self._tokens_factor(built.manifest.name)
            for built in self.rehearsal.of("shards")
        }


def _source(part: Part) -> str:
    """Return the source of a part of a corpus, or of its tokens."""
    return part.labels.get("source", "")


def scale_of(sample: SourceSample, judged: Manifest, older: Older, resampled: bool) -> Scale:
    """Return the scale of a source.

    judged: the documents of its sample; resampled: whether that is of files that the store has documents of
    """
    rows, text = max(1, judged.rows("documents")), max(1, judged.ledger.figures.get("text bytes", 0))
    if resampled:
        return Scale(all_documents=older.documents / rows, all_text=older.text_bytes / text)
    documents = sample.records / max(1, len(sample.sampled))
    characters = sample.sampled_characters
    more = sample.characters / characters if characters else documents
    return Scale(
        documents=documents,
        text=more,
        all_documents=documents + older.documents / rows,
        all_text=more + older.text_bytes / text,
    )


def kept_share(documents: float, sampled: int, removed: int) -> float:
    """Estimate the share of documents that are not a copy of another, from a sample.

    removed: copies in the sample, each taken to be one of two

    >>> kept_share(1_000, 1_000, 100)
    0.9
    >>> round(kept_share(10_000, 1_000, 50), 2), kept_share(10_000, 1_000, 0)
    (0.52, 1.0)
    """
    if not sampled:
        return 1.0
    distinct = sampled - removed
    seen = distinct / sampled
    if documents <= sampled or not removed:
        return seen
    alone = max(0, sampled - 2 * removed)
    estimated = sampled * distinct / (sampled - alone + alone * sampled / documents) / documents
    weight = removed / (removed + FEW_COPIES)
    return weight * min(seen, estimated) + (1 - weight) * seen


def distinct_words(sampled: float, text: float) -> float:
    """Estimate how many different words a text has, from a sample of it. text: times as large

    >>> distinct_words(1_000, 1.0), round(distinct_words(1_000, 100.0))
    (1000.0, 14454)
    """
    return sampled * math.pow(max(1.0, text), WORDS_POWER)
