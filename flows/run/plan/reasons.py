"""Reasons why a stage is reused or built: the difference between the request and the store's nearest artifact.

New data (other raw files, a parent that changed) and a new version (of the build or of a library) are kept
apart: the first is why one runs a pipeline, the second is a choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corpora.store.damage import Damaged
from corpora.store.manifest import Json, Manifest
from corpora.store.stage import Stage, Survey
from flows.run.record.counts_text import parent_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Holds the differences from an artifact in the store: settings, versions, raw files, or stages before it."""

    settings: tuple[str, ...]
    versions: tuple[str, ...]
    raw: tuple[str, ...]
    stages: tuple[str, ...]

    def __str__(self) -> str:
        named = {
            "settings": self.settings,
            "new version": self.versions,
            "new data": self.raw,
            "follows": self.stages,
        }
        return "; ".join(f"{what}: {', '.join(items)}" for what, items in named.items() if items)

    @property
    def weight(self) -> int:
        """The number of differences."""
        return len(self.settings) + len(self.versions) + len(self.raw) + len(self.stages)


def explain(stage: Stage, survey: Survey, faults: Sequence[Damaged] = ()) -> str:
    """Explain in one line why this stage is reused, finished, repaired or built.

    faults: the damage that keeps it from being whole
    """
    if survey.manifest is not None:
        return "nothing it depends on has changed"
    named = ", ".join(f"{fault.path.removeprefix(f'{stage.folder}/')}: {fault.what}" for fault in faults[:3])
    if survey.damaged:
        parts = f"files are missing or damaged in parts {', '.join(survey.damaged[:3])}"
        return f"{parts} ({named})" if named else parts
    if faults:
        return f"damaged ({named}); resumes from {len(survey.done)} finished parts"
    differences = [difference(stage, other) for other in survey.others]
    reason = str(min(differences, key=lambda d: d.weight)) if differences else "new"
    if survey.done and not survey.pointed:
        return f"{reason}; resumes from {len(survey.done)} finished parts"
    if survey.pointed:
        return f"{reason}; {survey.pointed} parts stay as they are"
    return reason


def difference(stage: Stage, other: Manifest) -> Difference:
    """Compare a stage with an existing artifact of the same kind and name."""
    versions = [
        f"{name} {other.libraries.get(name, 'none')} -> {version}"
        for name, version in {**dict.fromkeys(other.libraries, "none"), **stage.libraries}.items()
        if other.libraries.get(name) != version
    ]
    if stage.build_version != other.build_version:
        versions.append(f"build {other.build_version} -> {stage.build_version}")
    changed = [parent for parent in stage.parents if parent not in other.parents]
    stages = [f"{parent.role}/{parent.name}" for parent in changed if parent.role != "raw"]
    return Difference(
        settings=tuple(changed_settings(other.settings, stage.settings)),
        versions=tuple(versions),
        raw=tuple(parent_name(parent) for parent in changed if parent.role == "raw"),
        stages=tuple(dict.fromkeys(stages)),
    )


def changed_settings(before: Json, after: Json, path: str = "") -> list[str]:
    """List the dotted keys whose values differ, with both values.

    >>> changed_settings({"a": {"b": 1}}, {"a": {"b": 2}})
    ['a.b 1 -> 2']
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = sorted({*before, *after})
        return [
            change
            for key in keys
            for change in changed_settings(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
        ]
    return [] if before == after else [f"{path} {_short(before)} -> {_short(after)}"]


def _short(value: Json) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
