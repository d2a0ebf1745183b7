"""The estimator: what each stage that is to be built comes to, scaled from the rehearsal of a sample."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from corpora.store.manifest import Manifest, Part
from flows.recipes.recipe import Recipe
from flows.run.estimates import limits, scaling, work
from flows.run.estimates.figures import StageEstimate
from flows.run.estimates.limits import KeptRange
from flows.run.estimates.rehearsal import Built, Rehearsal
from flows.run.estimates.sampling import SourceSample
from flows.run.estimates.scaling import Older, Scale
from flows.run.planning import Planned
from flows.run.rule_limits import template_hint
from tokenizers_train.vocabularies.settings import VocabularySettings
from trainer.jobs.phases import train_examples

Recorded = Mapping[str, tuple[float, float]]  # kind of stage -> seconds that were estimated of it, and that it took
MOST_DROPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """What a stage holds, and what its own work takes."""

    documents: float | None = None
    tokens: float | None = None
    disk_bytes: float
    cpu_seconds: float


def _tokens(part: Part) -> int:
    return sum(part.ledger.figures.get(f"{split} tokens", 0) for split in ("train", "held-out"))


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """What all stages are estimated from.

    older:     what the store holds of each source; resampled: the sources of which nothing is to be built
    new_share: by source, of its text the share that is to be built
    """

    recipe: Recipe
    planned: Sequence[Planned]
    samples: Mapping[str, SourceSample]
    rehearsal: Rehearsal
    older: Mapping[str, Older]
    resampled: frozenset[str]
    workers: int
    from_start: bool
    recorded: Recorded = field(default_factory=dict)

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """Of each part of the rehearsal."""
        return scaling.scales_of(self.rehearsal, self.older, self.resampled)

    @cached_property
    def documents(self) -> float:
        """Those of the whole before duplicates are looked for, those of older artifacts included."""
        return sum(self._all.values())

    @cached_property
    def kept(self) -> dict[str, float]:
        """By part, of the documents that the sample keeps, how many the whole does: more of it are copies.

        Stratum by stratum, for one may be sampled a hundred times as densely as another.
        """
        rows = {f"{name}/{part.name}": part.rows("documents") for name, part in self._parts("documents")}
        left = {scaling.part_key(part): part.rows("documents") for _, part in self._parts("corpora")}
        shares: dict[str, float] = {}
        for halves in self.rehearsal.halves:
            sampled, kept, singles, whole = (
                sum(counts.get(part, 0) for part in halves)
                for counts in (rows, left, self.rehearsal.singles, self._all)
            )
            share = scaling.kept_share(whole, int(sampled), int(sampled - kept), int(singles))
            shares |= dict.fromkeys(halves, share * sampled / kept if kept else 0.0)
        return shares

    @cached_property
    def _sampled(self) -> dict[str, int]:
        """By part, the characters of its stratum that were sampled."""
        return {part: stratum.sampled_characters for part, stratum in self.rehearsal.strata.items()}

    @cached_property
    def _all(self) -> dict[str, float]:
        """By part, the documents of the whole before duplicates are looked for."""
        keys = {f"{name}/{part.name}": part.rows("documents") for name, part in self._parts("documents")}
        return {key: rows * self.scales[key].all_documents for key, rows in keys.items()}

    @cached_property
    def text(self) -> float:
        """How many times as much text the whole has as the sample."""
        sampled, whole = self._text(lambda scale: 1.0), self._text(lambda scale: scale.all_text)
        return whole / sampled if sampled else 0.0

    @cached_property
    def new_text(self) -> float:
        """How many times as much text is new as the sample has; all of it where later stages have nothing to go on."""
        if self.from_start:
            return self.text
        sampled, new = self._text(lambda scale: 1.0), self._text(lambda scale: scale.text)
        return new / sampled if sampled else 0.0

    def _text(self, factor: Callable[[Scale], float]) -> float:
        return sum(
            part.ledger.figures.get("text bytes", 0) * factor(self.scales[f"{name}/{part.name}"])
            for name, part in self._parts("documents")
        )

    def _parts(self, kind: str) -> Iterable[tuple[str, Part]]:
        return ((built.manifest.name, part) for built in self.rehearsal.of(kind) for part in built.manifest.parts)

    def stages(self) -> list[StageEstimate]:
        """An estimate of each stage that is to be built, once for its generations."""
        wanted = [*dict.fromkeys(entry.stage for entry in self.planned if entry.state != "reuse")]
        built = {each.manifest.stage_folder: each for each in self.rehearsal.built}
        found = []
        for stage in wanted:
            kind, _, name = stage.partition("/")
            if kind == "models":
                found.append(self._model(stage))
            elif (rehearsed := built.get(stage) or self._other(kind)) is not None:
                found.append(self._stage(stage, kind, name, rehearsed))
        return found

    def _other(self, kind: str) -> Built | None:
        """The stage of a kind that stands for another name, as counts do for all vocabularies that cut alike."""
        return None if kind in ("documents", "signatures", "counts") else next(iter(self.rehearsal.of(kind)), None)

    def _stage(self, stage: str, kind: str, name: str, built: Built) -> StageEstimate:
        left = self._left(stage)
        of_source = kind in ("documents", "signatures")
        whole = self._of_source(name, kind, built) if of_source else self._of_corpus(kind, name, built)
        parts = self._num_parts(stage)
        cpu = whole.cpu_seconds * left + work.load_seconds(kind, self.workers, parts)
        seconds = work.corrected(kind, work.seconds_of(kind, cpu, self.workers, parts), [*self._recorded(kind)])
        return StageEstimate(
            stage=stage,
            documents=None if whole.documents is None else round(whole.documents),
            tokens=None if whole.tokens is None else round(whole.tokens),
            disk_bytes=round(whole.disk_bytes * left),
            memory_bytes=self._memory(kind, name),
            cpu_seconds=round(cpu, 2),
            seconds=round(seconds, 2),
        )

    def _recorded(self, kind: str) -> Iterable[tuple[float, float]]:
        return (self.recorded[kind],) if kind in self.recorded else ()

    def _left(self, stage: str) -> float:
        """The share of a stage's parts that is not built yet."""
        entries = [
            entry for entry in self.planned if entry.stage == stage and entry.state in ("go on", "mend", "build")
        ]
        parts, missing = sum(entry.parts for entry in entries), sum(entry.missing for entry in entries)
        generations = stage.startswith(("documents/", "signatures/"))
        return missing / parts if parts and (generations or not self.new_text) else 1.0

    def _num_parts(self, stage: str) -> float:
        missing = sum(entry.missing for entry in self.planned if entry.stage == stage)
        documents = sum(entry.missing for entry in self.planned if entry.stage.startswith("documents/"))
        return float(missing or documents or 1)

    def _of_source(self, name: str, kind: str, built: Built) -> _Whole:
        documents = disk = text = sampled = 0.0
        files = self._files(name) / len(built.manifest.parts)
        for part in built.manifest.parts:
            key = f"{name}/{part.name}"
            scale, characters = self.scales[key], self._sampled[key]
            documents += part.rows(kind) * scale.documents
            for table in built.manifest.tables:
                more = scale.text if table == "documents" else scale.documents
                disk += built.disk_bytes(part, table, more, files)
            text, sampled = text + characters * scale.text, sampled + characters
        cpu = built.cpu_seconds(text / sampled, files * len(built.manifest.parts)) if sampled else 0.0
        reading = self.samples[name].reading_seconds if kind == "documents" else 0.0
        return _Whole(documents=documents, disk_bytes=disk, cpu_seconds=cpu + reading)

    def _of_corpus(self, kind: str, name: str, built: Built) -> _Whole:
        """A stage of all sources, as if all of it were to be built that can be new."""
        size = float(sum(file.size_bytes for part in built.manifest.parts for file in part.files))
        if kind == "verdicts":
            return self._verdicts(built)
        if kind in ("vocabularies", "measures"):
            grown = size * self._vocabulary_growth(name) if kind == "vocabularies" else size
            return _Whole(disk_bytes=grown, cpu_seconds=built.cpu_seconds(self._words / max(1.0, self._sampled_words)))
        if kind == "counts":
            repeated = scaling.distinct_words(1.0, 1.0, self._part_text) / self._part_text
            return _Whole(
                documents=self._counted(built.manifest),
                disk_bytes=size * self.new_text * repeated,
                cpu_seconds=built.cpu_seconds(self.new_text, self._files() * self._new_share),
            )
        if kind == "shards":
            tokens = sum(part.ledger.figures.get("example tokens", 0) for part in built.manifest.parts)
            more = self._tokens_factor(name)
            new = more * self._new_share
            return _Whole(tokens=tokens * more, disk_bytes=size * new, cpu_seconds=built.cpu_seconds(new))
        return self._part_by_part(kind, name, built)

    def _verdicts(self, built: Built) -> _Whole:
        more = self.documents / max(1, built.manifest.rows("verdicts"))
        disk = sum(built.disk_bytes(part, "verdicts", more) for part in built.manifest.parts)
        return _Whole(documents=self.documents, disk_bytes=disk, cpu_seconds=built.cpu_seconds(more))

    def _part_by_part(self, kind: str, name: str, built: Built) -> _Whole:
        """Corpora and tokens: each part of the sample stands for others of its stratum."""
        documents, tokens, disk, files = 0.0, 0.0, 0.0, self._files() / len(built.manifest.parts)
        unseen = self._unseen(name) if kind == "tokens" else 1.0
        for part in built.manifest.parts:
            factor = self._factor(part)
            documents += part.rows("documents" if kind == "corpora" else "tokens") * self._documents_factor(part)
            disk += sum(built.disk_bytes(part, table, factor, files) for table in built.manifest.tables)
            tokens += _tokens(part) * factor
        return _Whole(
            documents=documents,
            tokens=tokens * unseen if kind == "tokens" else None,
            disk_bytes=disk * unseen * self._new_share,
            cpu_seconds=built.cpu_seconds(self.new_text, self._files() * self._new_share),
        )

    @property
    def _new_share(self) -> float:
        return self.new_text / self.text if self.text else 0.0

    def _files(self, source: str | None = None) -> float:
        """The parts of the documents of a source, or of all, which are those of later stages, too."""
        kind = f"documents/{source}" if source is not None else "documents/"
        found = [
            entry for entry in self.planned if entry.stage == kind or (source is None and entry.stage.startswith(kind))
        ]
        return float(sum(entry.parts for entry in found) or 1)

    def _factor(self, part: Part) -> float:
        return scaling.scale_of(part, self.scales).all_text * self.kept.get(scaling.part_key(part), 1.0)

    def _documents_factor(self, part: Part) -> float:
        return self._documents_factor_of(scaling.part_key(part))

    def _documents_factor_of(self, key: str) -> float:
        scale = self.scales.get(key)
        return (scale.all_documents if scale is not None else 1.0) * self.kept.get(key, 1.0)

    def _counted(self, counts: Manifest) -> float:
        return sum(
            part.ledger.account("documents").outcomes.get("counted", 0) * self._documents_factor(part)
            for part in counts.parts
        )

    @property
    def _part_text(self) -> float:
        """How many times as much text a part of the whole has as one of the sample."""
        parts = sum(entry.parts for entry in self.planned if entry.stage.startswith("documents/"))
        return max(1.0, self.text * len(self.rehearsal.strata) / max(1, parts))

    @cached_property
    def _sampled_words(self) -> float:
        return float(max((built.manifest.rows("counts") for built in self.rehearsal.of("counts")), default=0))

    @property
    def _words(self) -> float:
        """Different words of the whole."""
        return scaling.distinct_words(self._sampled_words, 1.0, self.text)

    def _vocabulary_growth(self, name: str) -> float:
        """A sample may have too few words for as many tokens as are asked for."""
        settings = {self.recipe.artifact_name(entry.name): entry.settings for entry in self.recipe.vocabularies}[name]
        made = next(built.manifest for built in self.rehearsal.of("vocabularies") if built.manifest.name == name)
        if not isinstance(settings, VocabularySettings):
            return 1.0
        wanted = min(settings.size, made.rows("tokens") * self._words / max(1.0, self._sampled_words))
        return wanted / max(1, made.rows("tokens"))

    def _tokens_factor(self, shards: str) -> float:
        """How many times as many tokens the whole has as the sample, of the sources of a shard set."""
        [entry] = [entry for entry in self.recipe.shards if self.recipe.artifact_name(entry.name) == shards]
        vocabulary = self.recipe.artifact_name(entry.vocabulary)
        made = [built.manifest for built in self.rehearsal.of("tokens") if built.manifest.name == vocabulary]
        sampled, whole = 0.0, 0.0
        for part in made[0].parts if made else ():
            if entry.settings.sources and part.labels.get("source") not in entry.settings.sources:
                continue
            tokens = _tokens(part)
            sampled, whole = sampled + tokens, whole + tokens * self._factor(part)
        return self._unseen(vocabulary) * whole / sampled if sampled else 0.0

    def _unseen(self, vocabulary: str) -> float:
        names = {self.recipe.artifact_name(entry.name): entry.name for entry in self.recipe.vocabularies}
        share = 1 / self.text if self.text else 1.0
        return scaling.unseen_factor(self.rehearsal.unseen.get(names[vocabulary], 1.0), share)

    def _memory(self, kind: str, name: str) -> int:
        algorithms = {self.recipe.artifact_name(e.name): e.settings for e in self.recipe.vocabularies}
        settings = algorithms.get(name)
        algorithm = settings.algorithm if isinstance(settings, VocabularySettings) else "wordpiece"
        raw_bytes = sum(sample.raw_bytes for sample in self.samples.values())
        return work.memory_of(kind, self.workers, self.documents, self._words, algorithm, raw_bytes)

    def _model(self, stage: str) -> StageEstimate:
        assert self.recipe.model is not None
        [used] = {entry.vocabulary for entry in self.recipe.shards if entry.name in self.recipe.model.shards}
        made = {built.manifest.name: built.manifest for built in self.rehearsal.of("vocabularies")}
        vocabulary = made.get(self.recipe.artifact_name(used))
        size = vocabulary.rows("tokens") if vocabulary is not None else 30_000
        training = work.training_of(self.recipe.model, self.recipe, round(size), self._held())
        return StageEstimate(
            stage=stage,
            tokens=training.tokens,
            disk_bytes=training.disk_bytes,
            memory_bytes=training.memory_bytes,
            cpu_seconds=round(training.cpu_seconds, 2),
            seconds=round(training.cpu_seconds / work.cores() + work.STAGE_SECONDS, 2),
        )

    def _held(self) -> dict[str, float]:
        """Tokens to train on of each shard set, as the recipe calls it."""
        names = {self.recipe.artifact_name(entry.name): entry.name for entry in self.recipe.shards}
        return {
            names[built.manifest.name]: train_examples(built.manifest)[1] * self._tokens_factor(built.manifest.name)
            for built in self.rehearsal.of("shards")
        }

    def copies(self) -> KeptRange:
        """How many documents are no copies, by what a sample can see of them; each stratum has its own density."""
        rows = {f"{name}/{part.name}": part.rows("documents") for name, part in self._parts("documents")}
        left = {scaling.part_key(part): part.rows("documents") for _, part in self._parts("corpora")}
        ranges = []
        for halves in self.rehearsal.halves:
            sampled, kept = (sum(counts.get(part, 0) for part in halves) for counts in (rows, left))
            whole = sum(self._all.get(part, 0.0) for part in halves)
            estimated = sum(left.get(part, 0) * self._documents_factor_of(part) for part in halves)
            ranges.append(limits.kept_range(whole, sampled, sampled - kept, estimated))
        low, estimated, high = (sum(getattr(one, name) for one in ranges) for name in ("low", "estimated", "high"))
        return KeptRange(low=low, estimated=estimated, high=high)

    def ranges(self, stages: Sequence[StageEstimate]) -> dict[str, list[int]]:
        """By stage and measure, from where to where a figure may be for copies that the sample cannot see."""
        found = self.copies()
        figures = (
            (f"{stage.stage} {measure}", getattr(stage, measure))
            for stage in stages
            for measure in ("documents", "tokens")
            if stage.stage.startswith(("corpora/", "tokens/", "shards/"))
        )
        return {name: found.around(value) for name, value in figures if value} if found.is_wide else {}

    def stops(self) -> list[str]:
        """What would stop the run: rules over their bounds, and the template that fits the texts better."""
        said = []
        for entry in self.recipe.sources:
            name = entry.source.name
            parts = [
                (part, self.scales[f"{name}/{part.name}"].documents)
                for source, part in self._parts("documents")
                if source == name
            ]
            rules = [r for r in limits.rules_that_stop(name, parts, entry.documents) if r.stops]
            if rules:
                texts = [r.text for stratum in self.samples[name].strata for r in stratum.sampled if r.drop is None]
                said += [*map(str, rules), *filter(None, [template_hint(texts, name)])]
        return said

    def drops(self) -> dict[str, int]:
        """Documents that steps drop, by source and reason, the most frequent first."""
        found: dict[str, float] = {}
        for name, part in self._parts("documents"):
            for outcome, count in part.ledger.account("records").outcomes.items():
                if outcome.startswith("dropped"):
                    reason = f"{name}: {outcome.removeprefix('dropped: ')}"
                    found[reason] = found.get(reason, 0.0) + count * self.scales[f"{name}/{part.name}"].documents
        most = sorted(found.items(), key=lambda item: -item[1])[:MOST_DROPS]
        return {reason: round(count) for reason, count in most if round(count)}
