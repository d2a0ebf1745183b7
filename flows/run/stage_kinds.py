"""The kinds of stages, each described once: names, words, costs, and what a release takes of it.

A new kind has a row here and a place on the page of the run (`pipeline.py`). Plan, estimates, clean-up, trace, report,
the list of runs, releases, export and verification go through this table.

Rates were measured on two shared cores of an AMD EPYC (x86-64), Python 3.11, on 30 and 150 MB of novels and on folders
of 1 to 60 MB in one process (2026-11-28). Another machine may take half of the time or twice as long. Memory was
measured with `cloze run` (2026-11-22). A plan has to be right within a factor of two, so small terms are left out.

Units of rates: those of `TextSizes`; "stage", one, however small; "workers"; "parts" of documents; "different" words of
the text, and "counted", those of each part; "pieces" of a vocabulary; "tokens"; "fitted", seconds that statistics take;
of models "parameters", "flops", "steps", "answered" rows and "model_bytes" of memory.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flows.recipes.recipe import Recipe
    from tokenizers_train.words.counts import WordRule

Amounts = Mapping[str, float]
Rates = Mapping[str, Amounts]  # by the algorithm of the vocabulary; "" for all others
WordRules = Mapping[str, "WordRule"]
Names = Callable[["Recipe", WordRules], Iterable[str]]

WORKER_BYTES = 330_000_000  # the code that a worker has loaded
WORKER_MEMORY = {"workers": WORKER_BYTES}
MEMORY_WITH_WORDS = {**WORKER_MEMORY, "different": 400}


@dataclass(frozen=True, kw_only=True)
class StageKind:
    """Everything that other modules need to know about the pipeline stages of one kind.

    Attributes:
        group: Name of the group that the stages belong to, in the progress of a run and as a tag of their tasks.
        names: Function that returns the names of the recipe's sources or tables that have an artifact (stored result)
            of this kind. By default, there is one.
        has_many: True if only a corpus of hundreds of parts has this stage, so that plans do not list it.
        is_planned_from: True if the next stage is planned from the rows of the artifact, not only from its manifest.
        rows: The word for a row (or its singular and plural) by table name, if it differs from the table name.
        steps: Titles of steps in the record counts of a run, by a regular expression for the unit that is counted. The
            expression's groups are inserted into the title. The group `unit`, if present, becomes the step's unit.
        seconds, disk_bytes, memory_bytes, scratch_bytes: Rates of CPU time, disk space, memory (in addition to the
            command itself), and temporary files.
        is_alone: True if the stage is built by a single process that uses all cores.
        is_per_source: True if there is a stage for each source.
        is_per_generation: True if there is a stage for each generation (the raw files that one run added).
        grows: True if a new generation adds parts to the stage, so that only these parts have a cost. They are built in
            parallel.
        counts: Which of "documents" and "tokens" a plan counts.
        memory_remedy: Advice if memory is too small; "" for the default (fewer workers, fewer files or a larger
            machine).
        is_released: True if releases include the artifact.
        folder: Folder of the artifact in an exported release. If it ends with a slash, the artifact's name is appended.
            "" if the artifact is not exported.
        has_answers: True if the files are Parquet files with a row for each document, identified by `id`. `cloze trace`
            displays them.
    """

    group: str
    names: Names = lambda recipe, rules: [""]
    has_many: bool = False
    is_planned_from: bool = False
    rows: Mapping[str, str | tuple[str, str]] = field(default_factory=dict)
    steps: Mapping[str, str] = field(default_factory=dict)
    seconds: Rates = field(default_factory=dict)
    disk_bytes: Rates = field(default_factory=dict)
    memory_bytes: Amounts = field(default_factory=lambda: WORKER_MEMORY)
    scratch_bytes: Amounts = field(default_factory=dict)
    is_alone: bool = False
    is_per_source: bool = False
    is_per_generation: bool = False
    grows: bool = False
    counts: tuple[str, ...] = ()
    memory_remedy: str = ""
    is_released: bool = False
    folder: str = ""
    has_answers: bool = False

    def list_artifact_names(self, recipe: "Recipe", rules: WordRules) -> list[str]:
        """Return the names of the artifacts (stored results) of this kind that a run of a recipe builds.

        Args:
            recipe: The recipe.
            rules: The word counting rules, by vocabulary name. Vocabularies without a known rule are omitted.
        """
        names = self.names(recipe, rules)
        return [*names] if self.is_per_source else [*map(recipe.name_artifact, names)]


STAGES: dict[str, StageKind] = {  # in the order in which a run builds them
    "fits": StageKind(
        group="data",
        names=lambda recipe, rules: [e.source.name for e in recipe.sources if e.documents.needs_statistics],
        seconds={"": {"fitted": 1}},
        is_per_source=True,
        counts=("documents",),
    ),
    "documents": StageKind(
        group="data",
        names=lambda recipe, rules: [entry.source.name for entry in recipe.sources],
        steps={"records": "Parse, clean and filter"},
        seconds={"": {"measured": 1, "workers": 0.15}},
        disk_bytes={"": {"packed_bytes": 1, "documents": 60, "parts": 7_000}},
        is_per_source=True,
        counts=("documents",),
    ),
    "signatures": StageKind(
        group="data",
        names=lambda recipe, rules: [entry.source.name for entry in recipe.sources],
        seconds={"": {"stage": 0.01, "text_bytes": 8e-9}},
        disk_bytes={"": {"documents": 500, "parts": 3_000}},
        is_per_source=True,
        counts=("documents",),
    ),
    "verdicts": StageKind(
        group="data",
        is_per_generation=True,
        is_planned_from=True,
        steps={"documents": "Revisions, forgets and duplicates"},
        seconds={"": {"stage": 0.01, "documents": 7e-6}},
        disk_bytes={"": {"stage": 1_100, "documents": 17}},
        memory_bytes={**WORKER_MEMORY, "documents": 150},
        scratch_bytes={
            "documents": 310,
            "text_bytes": 0.4,
        },  # of shingles, if a quarter of the documents has them there
        counts=("documents",),
        memory_remedy="Duplicates are searched among all documents at once: use fewer, or a larger machine.",
    ),
    "corpora": StageKind(
        group="data",
        is_per_generation=True,
        is_planned_from=True,
        seconds={"": {"text_bytes": 2e-9, "parts": 5e-3}},
        disk_bytes={"": {"documents": 40, "parts": 5_000}},
        grows=True,
        counts=("documents",),
        is_released=True,
    ),
    "counts": StageKind(
        group="vocabulary",
        # counted once for all vocabularies that count alike: the first of each rule
        names=lambda recipe, rules: {rule: name for name, rule in reversed([*rules.items()])}.values(),
        seconds={"": {"stage": 0.01, "text_bytes": 1.3e-8}},
        disk_bytes={"": {"counted": 5}, "unigram": {"counted": 11}},
        grows=True,
    ),
    "totals": StageKind(group="vocabulary", has_many=True),
    "vocabularies": StageKind(
        group="vocabulary",
        names=lambda recipe, rules: [entry.name for entry in recipe.vocabularies],
        is_planned_from=True,
        seconds={
            "": {"stage": 0.03, "counted": 2.5e-7, "pieces": 3e-6},
            "byte-bpe": {"stage": 0.03, "counted": 5e-7, "pieces": 9e-6},
            "unigram": {"stage": 0.05, "counted": 1.1e-5},
        },
        disk_bytes={"": {"pieces": 36}, "byte-bpe": {"pieces": 95}, "unigram": {"pieces": 71}},
        memory_bytes=MEMORY_WITH_WORDS,
        is_released=True,
        folder="tokenizer",
    ),
    "measures": StageKind(
        group="vocabulary",
        names=lambda recipe, rules: rules,
        seconds={"": {"stage": 0.2, "counted": 1.5e-6}, "byte-bpe": {"stage": 0.3, "counted": 5e-6}},
        disk_bytes={"": {"stage": 12_000, "pieces": 1.6}},
        memory_bytes=MEMORY_WITH_WORDS,
    ),
    "tokens": StageKind(
        group="shards",
        names=lambda recipe, rules: dict.fromkeys(entry.vocabulary for entry in recipe.shards),
        rows={"tokens": "document"},
        steps={"documents": "Tokenise{name}"},
        seconds={"": {"text_bytes": 1.9e-8, "parts": 4e-3}, "byte-bpe": {"text_bytes": 3.5e-8}},
        disk_bytes={"": {"tokens": 1.5}},
        grows=True,
        counts=("documents", "tokens"),
    ),
    "merges": StageKind(group="shards", has_many=True),
    "shards": StageKind(
        group="shards",
        names=lambda recipe, rules: [entry.name for entry in recipe.shards],
        steps={r"(?P<unit>tokens) of (?P<which>copy \d+)": "Build examples{name}, {which}"},
        seconds={"": {"stage": 0.01, "tokens": 4e-8}},
        disk_bytes={"": {"tokens": 3}},
        grows=True,
        counts=("tokens",),
        is_released=True,
    ),
    "models": StageKind(
        group="train",
        names=lambda recipe, rules: [""] if recipe.model is not None else [],
        steps={"slots": "Read examples in training{name}"},
        seconds={"": {"stage": 6, "flops": 2.5e-11, "steps": 0.01}},
        disk_bytes={"": {"parameters": 20}},
        memory_bytes={"model_bytes": 1},
        is_alone=True,
        counts=("tokens",),
        memory_remedy="Set training.micro_batch (or micro_batch_tokens) lower, or take a smaller model.size or "
        "shards.length.",
        is_released=True,
        folder="encoder",
    ),
    "tasks": StageKind(
        group="tasks",
        names=lambda recipe, rules: [entry.name for entry in recipe.tasks],
        rows={"answers": "answered example"},
        steps={r"(?P<which>\S+) (?P<unit>.+)": "Read labelled {unit} for {which}{name}"},
        seconds={"": {"stage": 6, "flops": 2.5e-11, "steps": 0.01, "documents": 1e-4}},
        disk_bytes={"": {"parameters": 4, "pieces": 36, "answered": 40}},
        memory_bytes={"model_bytes": 1, "documents": 600},
        is_alone=True,
        counts=("documents", "tokens"),
        memory_remedy="Set micro_batch or max_length of its [[task]] lower, or take a smaller model.size.",
        is_released=True,
        folder="heads/",
    ),
    "answers": StageKind(
        group="tasks",
        names=lambda recipe, rules: [entry.name for entry in recipe.tasks if entry.settings.answers],
        rows={"answers": ("file of answers", "files of answers")},
        steps={"documents": "Answer new documents{name}"},
        seconds={"": {"stage": 6, "flops": 2.5e-11, "text_bytes": 4e-7}},
        disk_bytes={"": {"stage": 2_000, "answered": 40}},
        memory_bytes={"model_bytes": 1},
        is_alone=True,
        counts=("documents", "tokens"),
        memory_remedy="Take a smaller model.size, or name fewer sources in its [[task]].",
        is_released=True,
        folder="answers/",
        has_answers=True,
    ),
}


def get_stage_index(kind: str) -> int:
    """Return the zero-based position of a kind among a run's stages. Raises ValueError if the kind is unknown."""
    return [*STAGES].index(kind)
