"""A rehearsal: the stages of a recipe, built from a sample of its sources in a temporary folder.

Documents are judged by the recipe's own steps and settings, and every later stage is what it would be, but small:
the sample of a source is one file, and one part.

Cost: a run of the sample in one process, without an orchestrator. A few records run first, so that no figure includes
what is loaded and compiled at the first call.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from corpora.errors import InputError
from corpora.sources.contract import RawFile, Record, Slice, Source, Tally
from corpora.store.manifest import Manifest, fingerprint
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe, SourceEntry
from flows.run.estimates.sampling import SourceSample
from flows.run.pipeline import run_recipe
from flows.signals import scratch_folder
from tokenizers_train.vocabularies.settings import BroughtVocabulary

FIRST = 6  # records of each source, in the run before the one that is timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A stage of the rehearsal, and the processor time that it took."""

    manifest: Manifest
    seconds: float

    @property
    def size_bytes(self) -> int:
        """The size of its files."""
        return sum(file.size_bytes for part in self.manifest.parts for file in part.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The results of the sample. ended: why it ended early, else "" """

    built: tuple[Built, ...] = ()
    ended: str = ""

    def of(self, kind: str) -> list[Built]:
        """The stages of a kind."""
        return [built for built in self.built if built.manifest.kind == kind]


class SampledSource:
    """A source like another, but with one raw file, whose records were read before."""

    def __init__(self, inner: Source, sampled: Sequence[Record]) -> None:
        self._inner, self._sampled = inner, sampled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def slices(self, file: RawFile) -> list[Slice]:
        """Return the one file as one slice, and so one part."""
        return [Slice(file=file, start=0, stop=file.size_bytes)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of the sample."""
        for record in self._sampled:
            tally.records += 1
            yield record


def rehearse(recipe: Recipe, samples: Mapping[str, SourceSample], trained: Mapping[str, Path]) -> Rehearsal:
    """Build what a recipe asks for, except its model, from samples of its sources, by their names.

    trained: the folders of vocabularies that are trained already, by their names in the recipe
    """
    if not any(sample.sampled for sample in samples.values()):
        return Rehearsal(ended="No record of the sample can be read.")
    brought = tuple(
        replace(entry, settings=BroughtVocabulary(path=str(trained[entry.name]))) if entry.name in trained else entry
        for entry in recipe.vocabularies
    )
    small = replace(recipe, model=None, vocabularies=brought, path=None)
    with scratch_folder(prefix="cloze-plan-") as folder:
        few = {name: replace(sample, sampled=sample.sampled[:FIRST]) for name, sample in samples.items()}
        _run(small, few, Place(str(folder / "first")))  # so that nothing is loaded or compiled later
        return _run(small, samples, Place(str(folder / "store")))


def _run(recipe: Recipe, samples: Mapping[str, SourceSample], place: Place) -> Rehearsal:
    sampled = replace(recipe, sources=tuple(_sampled(entry, samples[entry.source.name]) for entry in recipe.sources))
    files = {name: (_file(name),) for name in samples}
    built: list[Built] = []
    ended = ""

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        for stage in stages:
            began = time.process_time()
            manifest = build_stage(place, stage)
            built.append(Built(manifest=manifest, seconds=time.process_time() - began))
        return [each.manifest for each in built[len(built) - len(stages) :]]

    try:
        run_recipe(place, sampled, Lock(generations=(files,)), perform)
    except InputError as error:  # nothing is left to continue with
        ended = str(error)
    return Rehearsal(built=tuple(built), ended=ended)


def _sampled(entry: SourceEntry, sample: SourceSample) -> SourceEntry:
    """Return a source whose records are those of the sample; no bound ends its run."""
    unbound = replace(entry.documents, max_damaged_share=1.0, max_rule_share=1.0)
    return replace(entry, source=cast(Source, SampledSource(entry.source, sample.sampled)), documents=unbound)


def _file(source: str) -> RawFile:
    return RawFile(name="sample", sha256=fingerprint(sample=source), size_bytes=1, path=os.devnull)
