"""The names of the figures that a run of a recipe has, as far as they are known before it: what a bound may name.

`flows.run.record.figures` counts them. A name that ends in `: ` or a space stands for all that begin so: what they go
on with is known only from the data.
"""

from collections.abc import Iterator, Sequence

from corpora.duplicates.verdicts import REMOVAL_REASONS
from corpora.errors import InputError
from corpora.judging.batches import NO_TABLE, STEPS
from corpora.judging.steps.language import KNOWN, UNKNOWN
from corpora.judging.steps.rules import DETAILS
from flows.recipes.model_and_tasks import TaskEntry

UNKNOWN_LANGUAGE = "unknown"
OF_SOURCES = ("raw files", "raw records", "documents", "text bytes", "mean bytes a document")
OF_CORPUS = ("raw files left out", "kept", "removed", "removed share", "duplicates", "duplicate share")
EDITS = ("lines repaired in part", "damaged records", "lines removed: ", "masked: ", "meets ", NO_TABLE)
OF_TOKENS = ("tokens", "mean tokens a document", "tokens a word")  # of each source, too
OF_VOCABULARIES = ("vocabulary", "unknown token share", "median tokens a document")
OF_SHARDS = (
    *("examples", "example tokens", "mean tokens an example", "median tokens an example", "fill"),
    *("truncated token share", "left over token share", "cut sentence share", "without partner share"),
    *("lost neighbour share", "random share", "swapped share"),
    *("label deviation", "surface accuracy", "surface accuracy at least"),
)
OF_MODEL = (
    *("parameters", "training steps", "training loss", "held-out loss", "held-out unigram entropy"),
    *("held-out accuracy", "held-out accuracy on rarer words", "held-out pair accuracy"),
)


def figure_names(
    *,
    sources: Sequence[str],
    vocabularies: Sequence[str],
    shards: Sequence[str],
    tasks: Sequence[TaskEntry],
    steps: Sequence[str],
    has_model: bool,
) -> Iterator[str]:
    """Yield the names of the figures of a recipe, those that people ask for first. steps: kinds of steps of its own."""
    yield from (*OF_SOURCES, "dropped", "dropped share", *OF_CORPUS)
    yield from OF_MODEL if has_model else ()
    for entry in tasks:
        yield from task_figures(entry, several=len(tasks) > 1)
    for name in shards:
        yield from (_titled(what, name, shards) for what in OF_SHARDS)
    for name in vocabularies:
        titled = [_titled(what, name, vocabularies) for what in (*OF_TOKENS, *OF_VOCABULARIES)]
        yield from titled
        yield from (f"{what}: {source}" for what in titled[: len(OF_TOKENS)] for source in sources)
    yield from (f"{what}: {source}" for what in OF_SOURCES for source in sources)
    yield from (f"dropped share ({source})" for source in sources if len(sources) > 1)
    yield from EDITS
    for what in ("dropped", "dropped share"):
        yield from (f"{what}: rules: {reason}" for reason in DETAILS)
        judging = (step.name for step in STEPS if step.name != "rules")
        yield from (f"{what}: {step}: " for step in ("parse", *judging, *steps))
    yield from (f"{what}: {reason}" for what in ("removed", "removed share") for reason in REMOVAL_REASONS)
    for source in ("", *(sources if len(sources) > 1 else ())):
        what = f"language share ({source})" if source else "language share"
        yield from (f"{what}: {language}" for language in (*sorted(KNOWN), UNKNOWN, UNKNOWN_LANGUAGE))


def _titled(what: str, name: str, names: Sequence[str]) -> str:
    return f"{what} ({name})" if len(names) > 1 else what


def task_figures(entry: TaskEntry, several: bool) -> Iterator[str]:
    """Yield the names of the figures of a task; if its files are not there to look at, how they begin."""
    try:
        suite = entry.suite()
    except InputError:  # its file is missed when the run begins
        yield "task "
        return
    called = entry.name if several and entry.name else suite.name
    for task in suite.tasks:
        of = f"task {called if len(suite.tasks) == 1 else f'{called} {task.name}'}"
        for split in task.splits:
            within = "" if split.averaged else f" in {split.name}"
            yield from (f"{of}: {metric}{within}" for metric in split.metrics)
            gain = f"{of}: gain in {split.metrics[0]}{within}"
            yield from (gain, *([f"{gain} over the baseline"] if entry.settings.baseline else []))
