"""Estimates a run: a sample of its sources is judged, and the cost of every stage follows from its sizes by rates.

`estimate_run` is the page to read. Each stage that a plan does not find whole has an estimate. One that exists already
has none, but its contents count for those after it. Nothing is built.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from corpora.judging.documents import find_rules_over_limit
from corpora.store.places.place import Place
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe, ShardsEntry, VocabularyEntry
from flows.run.estimates.capacity import get_scratch_folder
from flows.run.estimates.stage_estimates import (
    START_SECONDS,
    WATCHED_START_SECONDS,
    Estimates,
    StageEstimate,
    estimate_stage,
)
from flows.run.estimates.text_sizes import WORDS_POWER, SourceText, TextSizes, judge_sources
from flows.run.estimates.work import compute_answer_work, compute_task_work, compute_training_work
from flows.run.faults.rule_limits import describe_empty_source, suggest_template
from flows.run.inputs.start_model import with_start_model
from flows.run.plan_run import PlannedStage
from flows.run.record.ledger_balance import format_bytes
from flows.run.record.releases import find_last_answered
from flows.run.stage_kinds import STAGES
from tokenizers_train.vocabularies.settings import VocabularySettings
from trainer.job import MAX_HELPFUL_PASSES, MAX_PASSES

DEFAULT_VOCABULARY_SIZE = 30_000  # of a vocabulary that is brought
MIN_SCRATCH_BYTES = 1_000_000_000  # bytes that are worth a line
MAX_PIECES = 3  # at most, of a different word
EXAMPLE_TOKENS = 1.2  # tokens of examples for one of the documents: 1.0, but 1.4 of pairs of segments


def estimate_run(place: Place, recipe: Recipe, lock: Lock, planned: Sequence[PlannedStage], workers: int) -> Estimates:
    """Estimate the cost of each pipeline stage that a run would build. Reads a sample of the raw files; writes nothing.

    Args:
        place: The store.
        recipe: The recipe.
        lock: The recipe's lock (the raw files of each run), with the files' current paths.
        planned: What the run would do with each stage.
        workers: Number of worker processes.

    Raises:
        FileFault: If raw files cannot be divided into slices.
        InputError: If a labeled file is missing.
    """
    wanted = [entry for entry in planned if entry.state != "reuse"]
    if not wanted:
        return Estimates(stages=(), workers=workers)
    recipe, _ = with_start_model(recipe, lock)
    texts = judge_sources(recipe, lock, planned)
    run = _RunSizes(place=place, recipe=recipe, lock=lock, wanted=wanted, texts=texts, workers=workers)
    names = {entry.stage: STAGES[entry.stage.partition("/")[0]] for entry in wanted}
    # Stages that only many parts have cost next to nothing.
    kinds = {stage: kind for stage, kind in names.items() if not kind.has_many}
    stages = [run.estimate(stage) for stage, kind in kinds.items() if kind.is_per_source or run.whole.documents]
    return Estimates(
        stages=tuple(stages),
        basis=(*describe_basis(texts), *run.list_warnings(stages), *describe_scratch(stages, place)),
        stops=tuple(_iter_stops(recipe, texts)),
        start_cpu_seconds=WATCHED_START_SECONDS if recipe.model is not None else START_SECONDS,
        workers=workers,
        raw_bytes=lock.raw_bytes,
    )


@dataclass(frozen=True, kw_only=True)
class _RunSizes:
    """The sizes of the data that a run's stages process. The costs of the stages are estimated from them.

    Attributes:
        place: The store.
        recipe: The recipe, with the settings of the model that training starts from.
        lock: The recipe's lock (the raw files of each run).
        wanted: The stages that are not reused from the store.
        texts: The sampled text of each source.
        workers: Number of worker processes.
    """

    place: Place
    recipe: Recipe
    lock: Lock
    wanted: Sequence[PlannedStage]
    texts: Sequence[SourceText]
    workers: int

    @cached_property
    def whole(self) -> TextSizes:
        """The total sizes of all documents."""
        return self._add_sizes(())

    # What is asked for each stage is looked up: a recipe may have a thousand sources, and some stages of each.

    @cached_property
    def _to_build(self) -> Mapping[str, tuple[int, int]]:
        """The number of all parts (output file sets) and of missing parts, by stage, such as "shards/news"."""
        parts: dict[str, tuple[int, int]] = {}
        for entry in self.wanted:
            before, missing = parts.get(entry.stage, (0, 0))
            parts[entry.stage] = before + entry.parts, missing + entry.missing
        return parts

    @cached_property
    def _text_of(self) -> Mapping[str, SourceText]:
        """The sampled text of each source, by source name."""
        return {text.source: text for text in self.texts}

    @cached_property
    def _amounts(self) -> Mapping[str, float]:
        """The amounts of data that a stage may process, by unit, such as "text_bytes"."""
        parts = max(1, sum(text.parts for text in self.texts))
        words = {"different": self._count_words(), "counted": self._count_words(parts)}
        return {"stage": 1, "workers": self.workers, "parts": parts, **asdict(self.whole), **words}

    @cached_property
    def _new_share(self) -> float:
        """The share of the text that is not in the store yet, from 0 to 1."""
        return sum(text.new.text_bytes for text in self.texts) / max(1.0, self.whole.text_bytes)

    @cached_property
    def _words_per_mb(self) -> float:
        return max((text.words_per_mb for text in self.texts), default=0.0)

    @cached_property
    def _vocabularies(self) -> Mapping[str, VocabularyEntry]:
        """The recipe's vocabularies, by artifact name."""
        return {self.recipe.name_artifact(entry.name): entry for entry in self.recipe.vocabularies}

    def estimate(self, stage: str) -> StageEstimate:
        """Estimate the cost of a stage.

        Args:
            stage: Kind and name of the stage, such as "shards/news".
        """
        kind, _, name = stage.partition("/")
        described = STAGES[kind]
        if described.is_alone:
            return estimate_stage(stage, {"stage": 1, **self._compute_work(kind, name)})
        parts, missing = self._to_build[stage]
        amounts = {**self._amounts}
        if described.is_per_source and (text := self._text_of.get(name)):
            amounts |= {**asdict(text.new), "fitted": text.fitted, "parts": parts or text.parts}
        algorithm = ""
        if vocabulary := self._vocabularies.get(name):
            amounts |= {"pieces": self._count_pieces(vocabulary.name), "tokens": self._count_tokens(vocabulary.name)}
            algorithm = getattr(vocabulary.settings, "algorithm", "")
        for shards in self.recipe.shards if kind == "shards" else ():
            if self.recipe.name_artifact(shards.name) == name:
                amounts["tokens"] = self._count_example_tokens(shards)
        left = missing / parts if parts else (described.grows and self._new_share) or 1.0
        return estimate_stage(stage, amounts, algorithm, left)

    def _add_sizes(self, sources: Sequence[str]) -> TextSizes:
        """Sum the document sizes of the given sources, or of all sources if `sources` is empty."""
        return TextSizes.add_all(text.whole for text in self.texts if not sources or text.source in sources)

    def _count_words(self, parts: int = 1) -> float:
        """Estimate the number of distinct words in each of `parts` equal parts of the text, and return the sum."""
        return parts * self._words_per_mb * math.pow(self.whole.text_bytes / parts / 1e6, WORDS_POWER)

    def _count_pieces(self, vocabulary: str) -> float:
        """Estimate the size of one of the recipe's vocabularies, in pieces (tokens)."""
        settings = self._vocabularies[self.recipe.name_artifact(vocabulary)].settings
        size = settings.size if isinstance(settings, VocabularySettings) else DEFAULT_VOCABULARY_SIZE
        return min(size, max(1.0, MAX_PIECES * self._count_words()))

    def _count_tokens(self, vocabulary: str, sources: Sequence[str] = ()) -> float:
        """Estimate the number of tokens in the documents of some sources, or of all sources if `sources` is empty.

        The formula fits the tokens per word that were measured on novels and the five sources: 1.55 with 2,000 pieces,
        1.39 with 4,000 pieces of byte-level BPE, 1.06 to 1.13 with 8,000, and 1 with as many pieces as distinct words.

        Args:
            vocabulary: Name of the vocabulary's table in the recipe.
            sources: Names of sources.
        """
        size = self._count_pieces(vocabulary)
        missing = min(1.0, max(0.0, self._count_words() / size - 1) / 6)
        return self._add_sizes(sources).words * (1 + 0.5 * math.pow(2_000 / size, 0.6) * missing)

    def _count_example_tokens(self, entry: ShardsEntry) -> float:
        """Estimate the number of tokens in the examples of a shard set."""
        return EXAMPLE_TOKENS * entry.settings.copies * self._count_tokens(entry.vocabulary, entry.settings.sources)

    def _count_training_tokens(self) -> dict[str, float]:
        """Estimate the number of training tokens (not held out) of each shard set, by its name in the recipe."""
        return {e.name: (1 - self.recipe.held_out.share) * self._count_example_tokens(e) for e in self.recipe.shards}

    def _compute_work(self, kind: str, name: str) -> dict[str, float]:
        """Compute the amount of work for pretraining, fine-tuning or making predictions, as {unit: amount}.

        The units are those of `compute_training_work`, `compute_task_work` and `compute_answer_work`.

        Args:
            kind: "models", "tasks" or "answers".
            name: Name of the stage's artifact (stored result).
        """
        model = self.recipe.model
        assert model is not None
        [used] = {entry.vocabulary for entry in self.recipe.shards if entry.name in model.shards}
        if kind == "models":
            return compute_training_work(model, self.recipe, self._count_pieces(used), self._count_training_tokens())
        [entry] = [entry for entry in self.recipe.tasks if self.recipe.name_artifact(entry.name) == name]
        if kind == "tasks":
            return compute_task_work(entry, model, self._count_pieces(used))
        # Of the raw files, those whose documents no released model has answered.
        since = find_last_answered(
            self.place, self.recipe.name, name, entry.settings.answers, len(self.lock.generations)
        )
        unanswered = replace(self.lock, generations=self.lock.generations[since:]).raw_bytes
        asked = self._add_sizes(entry.settings.sources).scale(unanswered / max(1, self.lock.raw_bytes))
        return compute_answer_work(entry, model, self._count_pieces(used), asked)

    def list_warnings(self, stages: Sequence[StageEstimate]) -> list[str]:
        """Return a list with a warning if training repeats its text more than MAX_HELPFUL_PASSES times, otherwise [].

        Args:
            stages: The estimates of all stages.
        """
        model = self.recipe.model
        read = [stage.tokens or 0 for stage in stages if stage.stage.startswith("models/")]
        if model is None or not read:
            return []
        shards = [entry for entry in self.recipe.shards if entry.name in model.shards]
        tokens = self._count_training_tokens()
        passes = read[0] / max(1.0, sum(tokens[entry.name] / entry.settings.copies for entry in shards))
        line = f"The training reads its text about {passes:,.0f} times, and {MAX_HELPFUL_PASSES} are known to help."
        refused = f" Above {MAX_PASSES:,} it is refused, unless max_epochs in [training] allows it."
        return [line + (refused if passes > MAX_PASSES else "")] if passes > MAX_HELPFUL_PASSES else []


def describe_basis(texts: Sequence[SourceText]) -> Iterable[str]:
    """Yield lines about what the estimates are based on, and how accurate they are."""
    sampled, records = sum(len(text.sample.sampled) for text in texts), sum(text.sample.records for text in texts)
    yield f"Estimated from {sampled:,} of about {round(records):,} records, judged by the recipe's own steps."
    if short := [text.source for text in texts if text.sample.cut_short]:
        yield f"The sample of {', '.join(short)} was cut short because reading it took long."
    yield "Copies are not looked for: without them fewer documents and tokens may be left."
    yield "Times, except those of documents, follow rates of another machine: this one may take half or twice as long."


def describe_scratch(stages: Sequence[StageEstimate], place: Place) -> Iterable[str]:
    """Yield a line about the size and folder of temporary files, if a stage needs more than MIN_SCRATCH_BYTES.

    Args:
        stages: The estimates of the run's stages.
        place: The store. It determines where temporary files are written.
    """
    most = max((stage.scratch_bytes for stage in stages), default=0)
    if most > MIN_SCRATCH_BYTES:
        yield f"While duplicates are found, about {format_bytes(most)} of scratch are in {get_scratch_folder(place)}."


def _iter_stops(recipe: Recipe, texts: Sequence[SourceText]) -> Iterable[str]:
    """Yield lines that explain why a run would stop, one for each filter rule that drops too much of a source.

    A line may suggest another recipe template. If no document of any source is left, there is a line for each source.

    Args:
        recipe: The recipe.
        texts: The filtered sample of each source.
    """
    settings = {entry.source.name: entry.documents for entry in recipe.sources}
    some_left = any(text.whole.documents for text in texts)
    for text in texts:
        rules = [
            rule for rule in find_rules_over_limit(text.source, text.outcomes, settings[text.source]) if rule.stops
        ]
        yield from map(str, rules)
        if rules:
            kept = [record.text for record in text.sample.sampled if record.drop is None]
            yield from filter(None, [suggest_template(kept, text.source)])
        if not some_left:
            yield describe_empty_source(text.source, text.outcomes)
