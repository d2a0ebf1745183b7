"""Estimates of the stages of a run, from the sizes of its texts: what each has to work on, by the table of rates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from flows.recipes.recipe import Recipe, ShardsEntry
from flows.run.estimates.figures import StageEstimate
from flows.run.estimates.rates import ON_ALL_CORES, cost_of, hands_of, memory_of, seconds_of
from flows.run.estimates.text_sizes import WORDS_POWER, TextSizes
from flows.run.estimates.work import answers_of, tasks_of, training_of
from flows.run.pipeline import OF_MANY_PARTS, STAGES
from flows.run.plan.plan import Planned
from tokenizers_train.vocabularies.settings import VocabularySettings
from trainer.jobs.repeats import HELPS, MOST_EPOCHS

OF_SOURCE = ("fits", "documents", "signatures")
OF_ALL = tuple(kind for kind in STAGES if kind not in (*OF_SOURCE, *OF_MANY_PARTS))
CONTINUED = ("corpora", "counts", "tokens", "shards")  # stages that work on what is new, if there is older text
DOCUMENTS = {**dict.fromkeys((*OF_SOURCE, "verdicts"), "documents"), "corpora": "distinct", "tokens": "distinct"}
TOKENS = {"tokens": "tokens", "shards": "example_tokens"}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """The documents of a source: new ones, to be read and judged in some seconds, and those that the store holds.

    fitted: the share of the new ones that statistics are taken from
    parts:  about how many all of them have
    """

    source: str
    new: TextSizes
    held: TextSizes
    seconds: float
    fitted: float
    parts: int


@dataclass(frozen=True, kw_only=True)
class RunEstimator:
    """Estimates every stage from these inputs.

    words_per_mb: different words in a MB of text
    raw_bytes:    of all files
    unanswered:   by the names of [[task]], the share of the documents that no released model has answered
    """

    recipe: Recipe
    planned: Sequence[Planned]
    texts: Sequence[SourceText]
    words_per_mb: float
    raw_bytes: int
    workers: int
    unanswered: Mapping[str, float]

    def stages(self) -> list[StageEstimate]:
        """Estimate each stage that is to be built, once for all its generations; without a document only the first."""
        wanted = dict.fromkeys(entry.stage for entry in self.planned if entry.state != "reuse")
        kinds = (*OF_SOURCE, *(OF_ALL if self.whole.documents else ()))
        return [self._learning(stage) or self._of_text(stage) for stage in wanted if stage.partition("/")[0] in kinds]

    @cached_property
    def whole(self) -> TextSizes:
        """The sizes of all documents."""
        return self._sizes_of(())

    def _sizes_of(self, sources: Sequence[str]) -> TextSizes:
        """Return the sizes of the documents of some sources; none: of all."""
        some = [text for text in self.texts if not sources or text.source in sources]
        return TextSizes.added(sizes for text in some for sizes in (text.new, text.held))

    @cached_property
    def _new(self) -> TextSizes:
        return TextSizes.added(text.new for text in self.texts)

    @cached_property
    def _parts(self) -> int:
        return max(1, sum(text.parts for text in self.texts))

    def _missing(self, stage: str) -> int:
        return sum(entry.missing for entry in self.planned if entry.stage == stage)

    def _different_words(self, text_bytes: float) -> float:
        return self.words_per_mb * math.pow(text_bytes / 1e6, WORDS_POWER)

    @cached_property
    def _vocabularies(self) -> dict[str, tuple[float, str]]:
        """The size and the algorithm of each vocabulary, by the name of its artifact."""
        most = max(1.0, PIECES * self._different_words(self.whole.text_bytes))
        return {
            self.recipe.artifact_name(entry.name): (min(entry.settings.size, most), entry.settings.algorithm)
            if isinstance(entry.settings, VocabularySettings)
            else (USUAL_SIZE, "wordpiece")
            for entry in self.recipe.vocabularies
        }

    def _tokens(self, vocabulary: str, sources: Sequence[str] = ()) -> float:
        """Return the tokens of the documents of some sources; none: of all."""
        (size, _), some = self._vocabularies[vocabulary], self._sizes_of(sources)
        kept = some.distinct / max(1.0, some.documents)
        return kept * some.words * tokens_per_word(size, self._different_words(self.whole.text_bytes))

    def _examples(self, entry: ShardsEntry) -> dict[str, float]:
        """Return the tokens of a shard set's examples, and how many examples there are."""
        settings = entry.settings
        tokens = self._tokens(self.recipe.artifact_name(entry.vocabulary), settings.sources)
        tokens *= settings.copies * EXAMPLE_TOKENS.get(settings.input, USUAL_TOKENS)
        static = tokens if settings.masking.kind == "static" else 0.0
        return {"example_tokens": tokens, "static_tokens": static, "examples": tokens / (FILL * settings.length)}

    def _amounts(self, kind: str, name: str) -> dict[str, float]:
        """Return what a stage has to work on, in the units of the rates."""
        sizes, parts, more = self.whole, self._parts, dict[str, float]()
        if kind in OF_SOURCE:
            mine = [text for text in self.texts if text.source == name]
            sizes = TextSizes.added(text.new for text in mine)
            parts = self._missing(f"documents/{name}") or sum(text.parts for text in mine)
            share = sum(text.fitted for text in mine) if kind == "fits" else 1
            more = {"measured": share * sum(text.seconds for text in mine)}
        if kind == "tokens":
            more = {"tokens": self._tokens(name)}
        if kind == "shards":
            [entry] = [entry for entry in self.recipe.shards if self.recipe.artifact_name(entry.name) == name]
            more = self._examples(entry)
        counted = self._parts * self._different_words(sizes.text_bytes / self._parts)
        pieces, _ = self._vocabularies.get(name, (0.0, ""))
        return {"stage": 1, "parts": parts, "counted": counted, "pieces": pieces, **asdict(sizes), **more}

    def _left(self, stage: str, kind: str) -> float:
        """Return the share of a stage that is to be built: of its parts, else of the text that it continues."""
        parts = sum(entry.parts for entry in self.planned if entry.stage == stage and entry.state != "reuse")
        if parts:
            return self._missing(stage) / parts
        return self._new.text_bytes / self.whole.text_bytes if kind in CONTINUED and self._new.text_bytes else 1.0

    def _of_text(self, stage: str) -> StageEstimate:
        kind, _, name = stage.partition("/")
        amounts, left, parts = self._amounts(kind, name), self._left(stage, kind), self._missing(stage) or self._parts
        _, algorithm = self._vocabularies.get(name, (0.0, "wordpiece"))
        amounts["workers"] = hands_of(kind, self.workers, parts)
        seconds, disk_bytes = cost_of(kind, amounts, algorithm)
        cpu = seconds * left
        words = self._different_words(self.whole.text_bytes)
        return StageEstimate(
            stage=stage,
            documents=round(amounts[DOCUMENTS[kind]]) if kind in DOCUMENTS else None,
            tokens=round(amounts[TOKENS[kind]]) if kind in TOKENS else None,
            disk_bytes=round(disk_bytes * left),
            memory_bytes=memory_of(kind, self.workers, self.whole.documents, words, algorithm, self.raw_bytes),
            cpu_seconds=round(cpu, 2),
            seconds=round(seconds_of(kind, cpu, self.workers, parts), 2),
        )

    @cached_property
    def _to_train_on(self) -> dict[str, float]:
        """The tokens of each shard set that are not held out, by its name in the recipe."""
        kept = 1 - self.recipe.held_out.share
        return {entry.name: kept * self._examples(entry)["example_tokens"] for entry in self.recipe.shards}

    def _learning(self, stage: str) -> StageEstimate | None:
        """Estimate a stage that a process of the trainer builds; None for another one."""
        kind, _, name = stage.partition("/")
        model = self.recipe.model
        if kind not in ON_ALL_CORES or model is None:
            return None
        [used] = {entry.vocabulary for entry in self.recipe.shards if entry.name in model.shards}
        size, _ = self._vocabularies[self.recipe.artifact_name(used)]
        if kind == "models":
            return training_of(stage, model, self.recipe, size, self._to_train_on)
        [entry] = [entry for entry in self.recipe.tasks if self.recipe.artifact_name(entry.name) == name]
        if kind == "tasks":
            return tasks_of(stage, entry, model, size)
        asked = self._sizes_of(entry.settings.sources).times(self.unanswered[entry.name])
        return answers_of(stage, entry, model, size, asked)

    def warnings(self, stages: Sequence[StageEstimate]) -> list[str]:
        """Return a line if a training that is to come reads its text more often than is known to help."""
        model = self.recipe.model
        read = [stage.tokens or 0 for stage in stages if stage.stage.startswith("models/")]
        if model is None or not read:
            return []
        held = sum(self._to_train_on[e.name] / e.settings.copies for e in self.recipe.shards if e.name in model.shards)
        passes = read[0] / max(1.0, held)
        line = f"The training reads its text about {passes:,.0f} times, and {HELPS} are known to help."
        refused = f" Above {MOST_EPOCHS:,} it is refused, unless max_epochs in [training] allows it."
        return [line + (refused if passes > MOST_EPOCHS else "")] if passes > HELPS else []
