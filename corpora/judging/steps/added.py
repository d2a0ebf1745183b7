"""Steps of your own, which are applied to a source's records in addition to Cloze's steps.

A step is a small frozen dataclass that a package of yours names under the entry point `cloze.steps`; its fields are the
keys of a recipe's `[[step]]` table. It sees a batch of texts, changes them, and says which are dropped and why; every
drop is counted under the step's kind. It must be a pure function of each row of the batch, because records may be
divided into batches in any way. Its settings, its `version` and its package's version enter the fingerprint of every
source that it is applied to, so a new version rebuilds those documents.

    [project.entry-points."cloze.steps"]
    shouting = "my_package:ShoutingStep"
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import ClassVar, NamedTuple, Protocol

import pyarrow as pa

from corpora.entry_points import describe_package, load_entry_point
from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.sources.contract import Drop, Record
from corpora.store.settings import bind_settings, check_choice, convert_value, suggest, to_settings_json

STEPS_GROUP = "cloze.steps"
PLACES = ("parse", "clean", "rules")  # an added step comes directly after one of these


class Applied(NamedTuple):
    """The result of a step for a batch: the new texts (large_string without nulls), and a Drop or None for each row."""

    texts: pa.Array
    drops: Sequence[Drop | None]


class AddedStep(Protocol):
    """The interface of a judging step from another package: a frozen dataclass with the step's settings as fields.

    `kind` is the step's name in recipes. Increase `version` whenever the output of the step changes.
    """

    kind: ClassVar[str]
    version: ClassVar[int]

    def apply(self, texts: pa.Array, records: Sequence[Record]) -> Applied:
        """Apply the step to a batch.

        Args:
            texts: The current texts, a large_string column without nulls.
            records: The records as their source read them, one for each row of `texts`.

        Returns:
            The new texts, one for each given text, and a Drop (for rows to drop) or None for each.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEntry:
    """A `[[step]]` of a recipe.

    after:   "parse", "clean" or "rules": the step directly after which this step is applied
    sources: names of the sources to which the step is applied; empty: all
    package: name and version of the package that provides the step
    """

    step: AddedStep
    after: str
    sources: tuple[str, ...]
    package: str

    def to_json(self) -> dict[str, Json]:
        """Return everything that affects the output of the step, as a JSON object for fingerprints.

        Its keys are "kind", "version", "package", "after" and "settings".
        """
        own = {"kind": self.step.kind, "version": self.step.version, "package": self.package, "after": self.after}
        return {**own, "settings": to_settings_json(self.step)}


def make_step(table: Mapping[str, Json]) -> StepEntry:
    """Create the step described by a `[[step]]` table of a recipe.

    Raises:
        InputError: If no installed package has a step of that kind, `after` is not a valid step name, a key is unknown
            or missing, or a value has the wrong type.
    """
    kind, after = table.get("kind"), table.get("after", "rules")
    points = {point.name: point for point in entry_points(group=STEPS_GROUP)}
    if not isinstance(kind, str) or kind not in points:
        raise InputError(
            f"[[step]] kind = {kind!r}: no installed package has a step of that name under the entry point "
            f"{STEPS_GROUP!r}: {suggest(str(kind), sorted(points))} Or install its package into the environment "
            "that runs Cloze."
        )
    check_choice("step.after", str(after), PLACES)
    sources = convert_value(table.get("sources", []), tuple[str, ...], "step.sources")
    keys = {key: value for key, value in table.items() if key not in ("kind", "after", "sources")}
    step: AddedStep = bind_settings(load_entry_point(points[kind]), keys, f"step ({kind})")
    return StepEntry(step=step, after=str(after), sources=sources, package=describe_package(points[kind]))


def apply_step(entry: StepEntry, texts: pa.Array, records: Sequence[Record]) -> Applied:
    """Apply a step from another package to a batch, and check its result.

    Args:
        entry: The step.
        texts: The current texts, a large_string column without nulls.
        records: The records, one for each row.

    Raises:
        InputError: If the step returns a different number of rows, a column of another type or with nulls, or text that
            is not valid UTF-8.
    """
    applied = entry.step.apply(texts, records)
    if len(applied.texts) != len(texts) or len(applied.drops) != len(texts):
        what = f"{len(applied.texts)} texts and {len(applied.drops)} drops for {len(texts)} records"
    elif applied.texts.type != pa.large_string() or applied.texts.null_count:
        what = f"texts of type {applied.texts.type} with {applied.texts.null_count} nulls instead of large_string"
    else:
        what = _find_text_fault(applied.texts)
    if what:
        message = f"The step {entry.step.kind!r} ({entry.package}) returned {what}. That is a fault in its package."
        raise InputError(message)
    return applied


def _find_text_fault(texts: pa.Array) -> str:
    """Return "" if a text column is valid UTF-8, otherwise a phrase such as "bytes that are no text (...)"."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        return f"bytes that are no text ({error})"
    return ""
