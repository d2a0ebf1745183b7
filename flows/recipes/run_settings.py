"""Settings of a run that decide no bytes and are in no fingerprint: `[bounds]`, `engine`, `[notify]`, `[release]` and
`[retention]`.

    [bounds]
    documents = { min = 1000, fall = 0.1 }
    "dropped share: *" = { rise_by = 0.05 }
    "held-out loss" = { max = 4.0, rise = 0.02 }
    "task sentiment: accuracy" = { min = 0.8, worse = 0.05 }

Bounds are limits for the figures of a run, for themselves and against the run before. A run that crosses one completes,
and is marked. `iter_figure_names` lists the names that a bound may have, as far as they are known before the run
(`flows.run.record.figures` counts the figures). A name that ends in `: ` or a space stands for all names that begin so,
because the rest is known only from the data.

The engine builds the parts of a recipe's stages: processes of this machine, or the workers of a Dask scheduler.

`[notify]` names an environment variable that holds an address, and not the address itself, because a recipe is copied
into its store and its report.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from corpora.duplicates.verdicts import REMOVAL_REASONS
from corpora.errors import InputError
from corpora.judging.batches import NO_TABLE_PREFIX, STEPS
from corpora.judging.steps.language import KNOWN_LANGUAGES, UNKNOWN
from corpora.judging.steps.rules import DETAILS
from corpora.store.settings import PORT, bind_settings, check_choice, check_range, parse_toml, suggest
from flows.recipes.model_and_tasks import TaskEntry
from flows.recipes.tables import apply_override, check_name


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSettings:
    """Limits of one figure. The key of the table is the name of the figure, in which `*` stands for any text.

    A run that crosses a bound still completes, but it is marked: it is Drifted in the UI, exits with code 1, and sends
    a notice (if `[notify]` is set). At least one limit must be given.

    min:     the smallest value that is allowed
    max:     the largest value that is allowed
    fall:    how far the figure may fall compared with the previous run, as a share of its previous value
    rise:    how far the figure may rise compared with the previous run, as a share of its previous value
    fall_by: how far the figure may fall, in its own unit; for a share (`duplicate share`), 0.05 is five points
    rise_by: how far the figure may rise, in its own unit
    worse:   for the score of a task: it crosses the bound if it is lower than before, and the p-value of a paired test
             on the same examples is below this value, such as 0.05
    """

    min: float | None = None
    max: float | None = None
    fall: float | None = None
    rise: float | None = None
    fall_by: float | None = None
    rise_by: float | None = None
    worse: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The limits of one metric of a run, set in the recipe's `[bounds]` table.

    Attributes:
        figure: Name of the metric. `*` stands for any text, so that the limits can apply to several metrics.
        settings: The limits.
    """

    figure: str
    settings: BoundSettings

    def is_for(self, name: str) -> bool:
        """Return True if the limits apply to the metric with this name."""
        pattern = ".*".join(map(re.escape, self.figure.split("*")))
        return re.fullmatch(pattern, name, re.DOTALL) is not None

    def can_be_for(self, name: str) -> bool:
        """Return True if the limits can apply to a metric with this name. A name ending in a space is a prefix."""
        if not name.endswith(" "):
            return self.is_for(name)
        head, star, _ = self.figure.partition("*")
        return head.startswith(name) or bool(star and name.startswith(head))


def check_bound_names(bounds: Sequence[Bound], names: Callable[[], Iterable[str]]) -> None:
    """Check that each bound (the limits of a metric) applies to at least one metric of the recipe's runs.

    Args:
        bounds: The recipe's bounds.
        names: Function that returns the names of the metrics. A name ending in a space stands for all names with that
            prefix.

    Raises:
        InputError: If a bound applies to no metric. The message suggests the most similar name.
    """
    for bound in bounds:
        if not any(map(bound.can_be_for, names())):
            known = (f"{name}*" if name.endswith(" ") else name for name in names())
            raise InputError(
                f'bounds."{bound.figure}" is of a figure that no run of this recipe has: {suggest(bound.figure, known)}'
            )


def read_bounds(table: Mapping[str, Any]) -> tuple[Bound, ...]:
    """Read the limits of metrics from a recipe's `[bounds]` table, in the order of the table.

    Args:
        table: The limits, tables such as {"min": 1000}, by name of the metric.

    Raises:
        InputError: If a limit is unknown or not a valid number.
    """
    return tuple(_read_bound(figure, section) for figure, section in table.items())


def _read_bound(figure: str, section: Any) -> Bound:
    where = f'bounds."{figure}"'
    if not isinstance(section, Mapping) or not section:
        keys = ", ".join(field.name for field in fields(BoundSettings))
        raise InputError(
            f"{where} = {section!r} must be a table of bounds ({keys}), as in {{ min = 1000, fall = 0.1 }}."
        )
    settings = bind_settings(BoundSettings, section, where)
    for field in fields(BoundSettings):
        value = getattr(settings, field.name)
        moves = field.name not in ("min", "max")
        if value is not None and not (isfinite(value) and (value >= 0 or not moves)):
            further = " from 0 up: it is how much the figure may move" if moves else ""
            raise InputError(f"{where}.{field.name} = {value} must be a number{further}.")
    if settings.min is not None and settings.max is not None and settings.min > settings.max:
        raise InputError(f"{where}: min = {settings.min:g} is more than max = {settings.max:g}.")
    return Bound(figure=figure, settings=settings)


LOCAL_ENGINE = "local"
_CLUSTER = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


def parse_engine(engine: Any) -> str:
    """Check a recipe's `engine` setting and return it.

    Raises:
        InputError: If the value is neither "local" nor the address of a Dask scheduler.

    >>> parse_engine("local"), parse_engine("tcp://scheduler:8786")
    ('local', 'tcp://scheduler:8786')
    """
    match = _CLUSTER.fullmatch(engine) if isinstance(engine, str) else None
    if engine == LOCAL_ENGINE or (match is not None and PORT.is_valid(int(match[3]))):
        return str(engine)
    shown = "a text of another form" if isinstance(engine, str) and "@" in engine else repr(engine)
    raise InputError(
        f'engine = {shown} is not an engine: use "{LOCAL_ENGINE}", for worker processes here, or the address of a Dask '
        'scheduler, as in "tcp://scheduler:8786" ("tls://..." where the cluster has certificates).'
    )


NOTIFY_EVENTS = ("failure", "stall", "bounds", "damage", "approval")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """Notifications about a run that fails, stalls, crosses a bound or skips damage, and about waiting releases.

    webhook:         the name of an environment variable that contains the address: an http URL, to which a JSON object
                     is posted, or another address that Apprise supports (mailto://, slack://)
    command:         a program and its arguments; it reads the same JSON object from its standard input
    on:              the events to report: failure, stall, bounds, damage, approval
    stall_seconds:   a run stalls if it finishes no part, record or training step for this long
    command_seconds: how long the command may take
    """

    webhook: str = ""
    command: tuple[str, ...] = ()
    on: tuple[str, ...] = NOTIFY_EVENTS
    stall_seconds: float = 3600.0
    command_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.webhook and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.webhook):
            raise InputError(
                "notify.webhook must be the name of an environment variable that holds the address, as in "
                'webhook = "CLOZE_WEBHOOK": an address may be a secret, and a recipe is copied into its store.'
            )
        if self.command and not self.command[0]:
            raise InputError("notify.command begins with an empty text: name a program, then its arguments.")
        for event in self.on:
            check_choice("notify.on", event, NOTIFY_EVENTS)
        check_range("notify.stall_seconds", self.stall_seconds, 1.0, 1e7)
        check_range("notify.command_seconds", self.command_seconds, 0.1, 600.0)

    @property
    def is_enabled(self) -> bool:
        """True if there is a webhook or a command, and at least one event to report."""
        return bool((self.webhook or self.command) and self.on)


def parse_notify_settings(text: str, overrides: Mapping[str, str]) -> NotifySettings:
    """Read the `[notify]` settings of a recipe that is otherwise invalid, so that its failure can be reported.

    Only the lines of this table are parsed. If they are invalid as well, the result is the default settings, which
    notify nobody.

    Args:
        text: The recipe's text.
        overrides: Settings of `--set`. Only keys that begin with "notify." are applied.

    >>> parse_notify_settings("[shards" + chr(10) + "[notify]" + chr(10) + "webhook = 'HOOK'", {}).webhook
    'HOOK'
    """
    section = re.search(r"^\[notify\].*?(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    try:
        table = parse_toml(section[0] if section else "")
        for key, value in overrides.items():
            if key.startswith("notify."):
                apply_override(table, key, value)
        return bind_settings(NotifySettings, table.get("notify", {}), "notify")
    except ValueError:
        return NotifySettings()


RESERVED = "@:?&#"  # of the addresses of releases and stores


def check_release_name(key: str, name: str) -> None:
    """Check that a string can be the name of a release.

    Args:
        key: The setting or option that contains the name, for messages.
        name: The name.

    Raises:
        InputError: If the name is not valid for a folder (see `check_name`), contains a reserved character, or begins
            or ends with a space.
    """
    check_name(key, name)
    if set(name) & set(RESERVED) or name != name.strip():
        raise InputError(f"{key} = {name!r}: the name of a release has none of {RESERVED}, and no space at its ends.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSettings:
    """Automatic release of a run, like `cloze release`, if its files are undamaged and its bounds hold.

    A run that crosses a bound, compared with the current release of the name, is not released. A person can decide to
    release it with `cloze release`.

    name: the name under which complete runs are released; if empty, no run is released automatically
    """

    name: str = ""

    def __post_init__(self) -> None:
        if self.name:
            check_release_name("release.name", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How long the records of runs that have ended are kept.

    runs:         how many of the recipe's newest records and reports its store keeps; those of the last ten completed
                  runs are always kept
    history_days: how many days the orchestrator's database keeps runs under `cloze serve` and `cloze ui`
    """

    runs: int = 500
    history_days: float = 30.0

    def __post_init__(self) -> None:
        check_range("retention.runs", self.runs, 1, 1e9)
        check_range("retention.history_days", self.history_days, 0.1, 36_500)


UNKNOWN_LANGUAGE = "unknown"
SOURCE_FIGURES = ("raw files", "raw records", "documents", "text bytes", "mean bytes a document")
CORPUS_FIGURES = ("raw files left out", "kept", "removed", "removed share", "duplicates", "duplicate share")
EDIT_FIGURES = ("lines repaired in part", "damaged records", "lines removed: ", "masked: ", "meets ", NO_TABLE_PREFIX)
TOKEN_FIGURES = ("tokens", "mean tokens a document", "tokens a word")  # of each source, too
VOCABULARY_FIGURES = ("vocabulary", "unknown token share", "median tokens a document")
SHARD_FIGURES = (
    *("examples", "example tokens", "mean tokens an example", "median tokens an example", "fill"),
    *("truncated token share", "left over token share", "cut sentence share", "without partner share"),
    *("lost neighbour share", "random share", "swapped share"),
    *("label deviation", "surface accuracy", "surface accuracy at least"),
)
MODEL_FIGURES = (
    *("parameters", "training steps", "training loss", "held-out loss", "held-out unigram entropy"),
    *("held-out accuracy", "held-out accuracy on rarer words", "held-out pair accuracy"),
)


def iter_figure_names(
    *,
    sources: Sequence[str],
    vocabularies: Sequence[str],
    shards: Sequence[str],
    tasks: Sequence[TaskEntry],
    steps: Sequence[str],
    has_model: bool,
) -> Iterator[str]:
    """Yield the names of the metrics that a run of a recipe will have, starting with the most important one.

    A name that ends in `: ` or a space stands for all names with that prefix.

    Args:
        sources, vocabularies, shards: Names of these tables in the recipe.
        tasks: The `[[task]]` tables.
        steps: Kinds of the recipe's `[[step]]` tables.
        has_model: True if the recipe trains a model.
    """
    yield from (*SOURCE_FIGURES, "dropped", "dropped share", *CORPUS_FIGURES)
    yield from MODEL_FIGURES if has_model else ()
    for entry in tasks:
        yield from iter_task_figures(entry, several=len(tasks) > 1)
    for name in shards:
        yield from (_add_name(what, name, shards) for what in SHARD_FIGURES)
    for name in vocabularies:
        titled = [_add_name(what, name, vocabularies) for what in (*TOKEN_FIGURES, *VOCABULARY_FIGURES)]
        yield from titled
        yield from (f"{what}: {source}" for what in titled[: len(TOKEN_FIGURES)] for source in sources)
    yield from (f"{what}: {source}" for what in SOURCE_FIGURES for source in sources)
    yield from (f"dropped share ({source})" for source in sources if len(sources) > 1)
    yield from EDIT_FIGURES
    for what in ("dropped", "dropped share"):
        yield from (f"{what}: rules: {reason}" for reason in DETAILS)
        judging = (step.name for step in STEPS if step.name != "rules")
        yield from (f"{what}: {step}: " for step in ("parse", *judging, *steps))
    yield from (f"{what}: {reason}" for what in ("removed", "removed share") for reason in REMOVAL_REASONS)
    for source in ("", *(sources if len(sources) > 1 else ())):
        what = f"language share ({source})" if source else "language share"
        yield from (f"{what}: {language}" for language in (*sorted(KNOWN_LANGUAGES), UNKNOWN, UNKNOWN_LANGUAGE))


def _add_name(what: str, name: str, names: Sequence[str]) -> str:
    return f"{what} ({name})" if len(names) > 1 else what


def iter_task_figures(entry: TaskEntry, several: bool) -> Iterator[str]:
    """Yield the names of a task's metrics, such as "task labels: accuracy".

    If the task's files are missing, the metrics are unknown, and only the prefix "task " is yielded.

    Args:
        entry: The `[[task]]` table.
        several: True if the recipe has several tasks, so that metric names include the task's name in the recipe.
    """
    try:
        suite = entry.load_suite()
    except InputError:  # its file is missed when the run begins
        yield "task "
        return
    called = entry.name if several and entry.name else suite.name
    for task in suite.tasks:
        prefix = f"task {called if len(suite.tasks) == 1 else f'{called} {task.name}'}"
        for split in task.splits:
            suffix = "" if split.averaged else f" in {split.name}"
            yield from (f"{prefix}: {metric}{suffix}" for metric in split.metrics)
            gain = f"{prefix}: gain in {split.metrics[0]}{suffix}"
            yield from (gain, *([f"{gain} over the baseline"] if entry.settings.baseline else []))
