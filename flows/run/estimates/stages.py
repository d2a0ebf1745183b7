"""Estimates of the stages of a run, from the sizes of its texts: what each has to work on, by the tables of rates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from flows.recipes.recipe import Recipe, ShardsEntry
from flows.run.estimates.figures import StageEstimate
from flows.run.estimates.rates import BATCH_BYTES, BATCH_TIMES, ON_ALL_CORES, estimate_of
from flows.run.estimates.text_sizes import WORDS_POWER, SourceText, TextSizes
from flows.run.estimates.work import answers_of, tasks_of, training_of
from flows.run.pipeline import OF_MANY_PARTS, STAGES
from flows.run.plan.plan import Planned
from tokenizers_train.vocabularies.settings import VocabularySettings
from trainer.jobs.repeats import HELPS_MASKED, HELPS_NEXT, MOST_EPOCHS

OF_SOURCE = ("fits", "documents", "signatures")
CONTINUED = ("corpora", "counts", "tokens", "shards")  # stages that work on what is new, if there is older text
USUAL_SIZE = 30_000  # of a vocabulary that is brought
EXAMPLE_TOKENS = {"segment-pair": 1.36}  # for a token of the documents; others USUAL_TOKENS. It takes segments twice
USUAL_TOKENS = 1.02
PIECES = 3  # at most, of a different word
FILL = 0.87  # of an example's places


def tokens_per_word(size: float, words: float) -> float:
    """Return how many tokens a vocabulary of a size makes of a word. words: how many different ones the text has

    Measured on novels and on the five sources: 2,000 pieces 1.55, 4,000 of byte-level BPE 1.39, 8,000 1.06 to 1.13.

    >>> [round(tokens_per_word(size, 200_000), 2) for size in (2_000, 8_000, 30_000)]
    [1.5, 1.22, 1.09]
    >>> tokens_per_word(8_000, 8_000)
    1.0
    """
    return 1 + 0.5 * math.pow(2_000 / size, 0.6) * min(1.0, max(0.0, words / size - 1) / 6)


class RunEstimator:
    """Estimates every stage of a run from the texts of its sources.

    raw_bytes:  of all files
    unanswered: by the names of [[task]], the share of the documents that no released model has answered
    """

    def __init__(
        self,
        recipe: Recipe,
        planned: Sequence[Planned],
        texts: Sequence[SourceText],
        raw_bytes: int,
        workers: int,
        unanswered: Mapping[str, float],
    ) -> None:
        self._recipe, self._planned, self._texts, self._unanswered = recipe, planned, texts, unanswered
        self._running = {"workers": workers, "batch_bytes": min(workers * BATCH_BYTES, BATCH_TIMES * raw_bytes)}
        self._parts = max(1, sum(text.parts for text in texts))
        self.whole = self._sizes_of(())
        self._vocabularies = {recipe.artifact_name(entry.name): entry.settings for entry in recipe.vocabularies}
        self._shards = {recipe.artifact_name(entry.name): entry for entry in recipe.shards}
        kept = 1 - recipe.held_out.share
        self._to_train_on = {entry.name: kept * self._example_tokens(entry) for entry in recipe.shards}

    def stages(self) -> list[StageEstimate]:
        """Estimate each stage that is to be built, once for all its generations; without a document only the first."""
        kinds = [kind for kind in STAGES if kind not in OF_MANY_PARTS] if self.whole.documents else OF_SOURCE
        wanted = dict.fromkeys(entry.stage for entry in self._planned if entry.state != "reuse")
        return [self._estimate(stage) for stage in wanted if stage.partition("/")[0] in kinds]

    def _sizes_of(self, sources: Sequence[str]) -> TextSizes:
        """Return the sizes of the documents of some sources; none: of all."""
        return TextSizes.added(text.whole for text in self._texts if not sources or text.source in sources)

    def _different_words(self, parts: int = 1) -> float:
        """Return how many different words each of so many parts has, added up."""
        per_mb = max((text.words_per_mb for text in self._texts), default=0.0)
        return parts * per_mb * math.pow(self.whole.text_bytes / parts / 1e6, WORDS_POWER)

    def _size(self, vocabulary: str) -> float:
        """Return how many pieces a vocabulary has, by the name of its artifact; 0 if there is none of the name."""
        settings = self._vocabularies.get(vocabulary)
        if isinstance(settings, VocabularySettings):
            return min(settings.size, max(1.0, PIECES * self._different_words()))
        return 0.0 if settings is None else USUAL_SIZE

    def _tokens(self, vocabulary: str, sources: Sequence[str] = ()) -> float:
        """Return the tokens of the documents of some sources; none: of all."""
        return self._sizes_of(sources).words * tokens_per_word(self._size(vocabulary), self._different_words())

    def _example_tokens(self, entry: ShardsEntry) -> float:
        """Return the tokens of the examples of a shard set."""
        tokens = self._tokens(self._recipe.artifact_name(entry.vocabulary), entry.settings.sources)
        return tokens * entry.settings.copies * EXAMPLE_TOKENS.get(entry.settings.input, USUAL_TOKENS)

    def _estimate(self, stage: str) -> StageEstimate:
        """Estimate a stage by what it has to work on, in the units of the rates."""
        kind, _, name = stage.partition("/")
        if kind in ON_ALL_CORES:
            return estimate_of(stage, {"stage": 1, **self._learning(kind, name)})
        entries = [entry for entry in self._planned if entry.stage == stage and entry.state != "reuse"]
        parts, missing = sum(entry.parts for entry in entries), sum(entry.missing for entry in entries)
        amounts = {"stage": 1, "pieces": self._size(name), **self._running, **asdict(self.whole), "parts": self._parts}
        amounts |= {"different": self._different_words(), "counted": self._different_words(self._parts)}
        for text in (text for text in self._texts if kind in OF_SOURCE and text.source == name):
            amounts |= {**asdict(text.new), "fitted": text.fitted, "parts": parts or text.parts}
        if kind == "tokens":
            amounts["tokens"] = self._tokens(name)
        if kind == "shards":
            settings, tokens = self._shards[name].settings, self._example_tokens(self._shards[name])
            static = tokens if settings.masking.kind == "static" else 0.0
            amounts |= {"tokens": tokens, "masked": static, "examples": tokens / (FILL * settings.length)}
        left = missing / parts if parts else self._new_share if kind in CONTINUED else 1.0
        return estimate_of(stage, amounts, getattr(self._vocabularies.get(name), "algorithm", ""), left)

    @property
    def _new_share(self) -> float:
        """The share of the text that is new; 1 if none is."""
        return sum(text.new.text_bytes for text in self._texts) / max(1.0, self.whole.text_bytes) or 1.0

    def _learning(self, kind: str, name: str) -> dict[str, float]:
        """Return what a stage has to work on that a process of the trainer builds."""
        model = self._recipe.model
        assert model is not None
        [used] = {entry.vocabulary for entry in self._recipe.shards if entry.name in model.shards}
        size = self._size(self._recipe.artifact_name(used))
        if kind == "models":
            return training_of(model, self._recipe, size, self._to_train_on)
        [entry] = [entry for entry in self._recipe.tasks if self._recipe.artifact_name(entry.name) == name]
        if kind == "tasks":
            return tasks_of(entry, model, size)
        asked = self._sizes_of(entry.settings.sources).times(self._unanswered[entry.name])
        return answers_of(entry, model, size, asked)

    def warnings(self, stages: Sequence[StageEstimate]) -> list[str]:
        """Return a line if a training that is to come reads its text more often than is known to help."""
        model = self._recipe.model
        read = [stage.tokens or 0 for stage in stages if stage.stage.startswith("models/")]
        if model is None or not read:
            return []
        shards = [entry for entry in self._recipe.shards if entry.name in model.shards]
        held = sum(self._to_train_on[entry.name] / entry.settings.copies for entry in shards)
        passes = read[0] / max(1.0, held)
        helps = HELPS_NEXT if model.settings.objective_settings.kind == "next" else HELPS_MASKED
        line = f"The training reads its text about {passes:,.0f} times, and {helps} are known to help."
        refused = f" Above {MOST_EPOCHS:,} it is refused, unless max_epochs in [training] allows it."
        return [line + (refused if passes > MOST_EPOCHS else "")] if passes > helps else []
