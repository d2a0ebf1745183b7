"""Earlier generations are settled if nothing of them has to be looked at: the store has their corpus and documents
whole.

A generation is the raw files that one run added. The fingerprints of its artifacts are known without the store, because
each is made of settings and of the fingerprints before it. So one listing finds the newest earlier corpus that exists,
and a run plans only the generations after it. The manifests of the settled ones are read if later stages need their
counts, and no rows.

If anything is not in order (a file that is gone or damaged, another setting, another file of an old generation),
nothing is settled: the run goes through all stages, as the first one did, and finds and repairs it.

Cost: a listing of the corpora, one of each source's documents, and a manifest for each source of a settled generation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from corpora.build import Generation, plan_corpus
from corpora.duplicates.build import plan_signatures, plan_verdicts
from corpora.duplicates.candidates import Input
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, Stage, find_complete_stage, read_complete_manifests, read_manifest
from corpora.tombstones import Tombstones
from flows.recipes.recipe import Recipe, SourceEntry

NumberedSources = Sequence[tuple[int, SourceEntry]]  # the sources of all generations, with the generation's number


@dataclass(frozen=True, kw_only=True)
class SettledGenerations:
    """The settled generations (the raw files that one run added). Their results are reused without checking files.

    Attributes:
        number: Number of settled generations, counted from the first.
        documents: Manifests (descriptions) of the parsed documents, one for each source of each generation.
        signatures: Stages that computed the documents' signatures (for finding duplicates), in the same order, without
            parts.
        verdicts: Stages that made the deduplication decisions (which documents are kept), one for each generation,
            without parts.
        corpora: Stages that built the corpora, one for each generation, without parts.
    """

    number: int = 0
    documents: Sequence[Manifest] = ()
    signatures: Sequence[Stage] = ()
    verdicts: Sequence[Stage] = ()
    corpora: Sequence[Stage] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of all these results in the store. Each comes after the results that it was built from."""
        stages = (*self.signatures, *self.verdicts, *self.corpora)
        return tuple(each.folder for each in self.documents) + tuple(stage.folder for stage in stages)


NOTHING_SETTLED = SettledGenerations()


def find_settled(
    place: Place,
    recipe: Recipe,
    sources: NumberedSources,
    before: int,
    documents_of: Callable[[int, SourceEntry], Stage],
    tombstones: Tombstones,
) -> SettledGenerations:
    """Find the generations (raw files that one run added) with documents and a corpus that are complete in the store.

    Args:
        place: The store.
        recipe: The recipe.
        sources: Pairs of a generation number and a source, for all generations.
        before: Number of the newest generation. This generation is never settled.
        documents_of: Function that plans the stage that parses a source in a generation, without parts (file sets).
        tombstones: The documents to delete.

    Returns:
        All generations up to the newest one that is complete, or NOTHING_SETTLED if there is none.
    """
    sources = [(number, entry) for number, entry in sources if number < before]
    documents = [documents_of(number, entry) for number, entry in sources]
    promised = [stage.build_placeholder() for stage in documents]
    signatures = [plan_signatures(manifest, recipe.duplicates) for manifest in promised]
    inputs = build_inputs(sources, promised, [stage.build_placeholder() for stage in signatures])
    verdicts, corpora = list[Stage](), list[Stage]()
    for number in range(1, before):
        until_now = [item for item in inputs if item.generation <= number]
        until = tombstones.as_of(number)
        verdicts.append(plan_verdicts(recipe.name, until_now, recipe.duplicates, recipe.held_out, until))
        judged = [_build_generation(n, inputs, stage.build_placeholder()) for n, stage in enumerate(verdicts, 1)]
        corpora.append(plan_corpus(place, recipe.name, judged, with_parts=False))
    found = find_complete_stage(place, corpora[::-1])
    if found is None:
        return NOTHING_SETTLED
    number = corpora.index(found[0]) + 1
    inside = sum(n <= number for n, _ in sources)
    shown = read_complete_manifests(place, documents[:inside])
    if shown is None:
        return NOTHING_SETTLED
    return SettledGenerations(
        number=number,
        documents=shown,
        signatures=signatures[:inside],
        verdicts=verdicts[:number],
        corpora=corpora[:number],
    )


def read_settled_inputs(
    place: Place, settled: SettledGenerations, sources: NumberedSources, documents: Sequence[Manifest]
) -> tuple[tuple[Input, ...], list[Generation]]:
    """Read what later generations need from the settled ones (whose results are reused without checking files).

    Args:
        place: The store.
        settled: The settled generations.
        sources: Pairs of a generation number and a source, for all generations.
        documents: Manifests (descriptions) of the parsed documents of each pair, in the same order.

    Returns:
        The inputs of the deduplication decisions (documents and their signatures), and the settled generations with
        their decisions.

    Raises:
        Damaged: If a manifest is missing or damaged.
    """
    signatures = read_published(place, settled.signatures)
    inputs = build_inputs(sources[: len(signatures)], documents[: len(signatures)], signatures)
    judged = read_published(place, settled.verdicts)
    return inputs, [_build_generation(number, inputs, verdicts) for number, verdicts in enumerate(judged, 1)]


def read_published(place: Place, stages: Sequence[Stage]) -> list[Manifest]:
    """Read the manifests (stored descriptions) of stages that are complete in the store, in the order of the stages.

    Raises:
        Damaged: If a manifest is missing or damaged.
    """
    manifests = []
    for stage in stages:
        manifest = read_manifest(place, stage.folder)
        if manifest is None:
            raise Damaged(f"{stage.folder}/{MANIFEST}", "it is gone")
        manifests.append(manifest)
    return manifests


def read_judged_documents(place: Place, verdicts: Manifest) -> list[Manifest]:
    """Return the manifests of parsed documents that were deduplicated together, in the order of the deduplication.

    Documents that are no longer in the store are omitted.

    Args:
        place: The store.
        verdicts: Manifest of the deduplication decisions (which documents are kept).
    """
    parents = (parent for parent in verdicts.parents if parent.role == "documents")
    found = (read_manifest(place, parent.folder) for parent in parents)
    return [manifest for manifest in found if manifest is not None]


def build_inputs(
    sources: NumberedSources, documents: Sequence[Manifest], signatures: Sequence[Manifest]
) -> tuple[Input, ...]:
    """Build the inputs of deduplication: documents and their signatures, with generation and source priority.

    Args:
        sources: Pairs of a generation number and a source.
        documents, signatures: Manifests (stored descriptions) for each pair, in the same order.
    """
    return tuple(
        Input(generation=number, priority=entry.priority, documents=parsed, signatures=sketched)
        for (number, entry), parsed, sketched in zip(sources, documents, signatures, strict=True)
    )


def _build_generation(number: int, inputs: Sequence[Input], verdicts: Manifest) -> Generation:
    return Generation(
        number=number, inputs=tuple(item for item in inputs if item.generation <= number), verdicts=verdicts
    )
