"""A run as its report sees it: its record, and the artifacts of it that the store still has."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from flows.recipes.lock import Lock
from flows.recipes.privacy import Privacy
from flows.run.record import ledger_balance as accounts
from flows.run.record.figures import Figures, get_figures, read_stored_manifests
from flows.run.record.ledger_balance import LengthSample, sample_lengths
from flows.run.record.run_record import RunRecord
from tokenizers_train.build import read_vocabulary
from tokenizers_train.vocabularies.vocabulary import Vocabulary

View = dict[str, Any]  # what a template reads, by name


@dataclass(frozen=True)
class RunView:
    """A pipeline run, with everything that its report reads from the store.

    Values are read when first used, and cached.

    Attributes:
        place: The store.
        record: Record (stored description) of the run.
        privacy: How texts are shown: "text", "hashed" or "none".
        lock: The raw files that the run read, from its lock file; empty if their names must not be shown.
    """

    place: Place
    record: RunRecord
    privacy: Privacy
    lock: Lock = field(default_factory=Lock)

    @cached_property
    def manifests(self) -> list[Manifest]:
        """The manifests (descriptions) of the run's stage results, in the order in which the run built or reused them.

        Raises:
            Damaged: If a manifest is damaged.
        """
        return read_stored_manifests(self.place, self.record)

    @property
    def made(self) -> list[Manifest]:
        """The manifests (descriptions) of the results of this run's stages, except those of earlier generations.

        A generation is the raw files that one run added.
        """
        own = {stage.folder for stage in self.record.stages}
        return [manifest for manifest in self.manifests if manifest.folder in own]

    @cached_property
    def parsed(self) -> list[Manifest]:
        """The manifests (descriptions) of the parsed documents, one for each source and generation.

        A generation is the raw files that one run added. All generations of a source that are already complete in the
        store are merged into one manifest.
        """
        groups: dict[tuple[str, str], list[Manifest]] = {}
        for manifest in accounts.filter_kind(self.manifests, "documents"):
            groups.setdefault((manifest.name, self.name_generation(manifest)), []).append(manifest)
        return [_merge_generations(manifests) for manifests in groups.values()]

    def find_newest(self, kind: str) -> Manifest | None:
        """Return the manifest of the run's newest stage result of a kind, such as "models", or None if it has none."""
        return accounts.find_newest(self.manifests, kind)

    def find_by_name(self, kind: str) -> dict[str, Manifest]:
        """Return the manifests (descriptions) of the newest stage results of a kind, by name in the recipe.

        The name is "" if there is only one.

        Args:
            kind: The kind, such as "models".
        """
        return accounts.find_newest_by_name(self.manifests, kind)

    @cached_property
    def figures(self) -> Figures | None:
        """The metrics of the run by name, or None if the store no longer has all of its stage results.

        Raises:
            Damaged: If a file of the store is damaged.
        """
        return get_figures(self.place, self.record)

    @cached_property
    def generations(self) -> dict[str, str]:
        """The generation of each stage result, such as "generation 2", by folder of the result.

        A generation is the raw files that one run added. Empty if there is only one generation.
        """
        labels: dict[str, str] = {}
        for manifest in accounts.filter_kind(self.manifests, "verdicts"):
            labelled = [parent for parent in manifest.parents if parent.label]
            labels |= {parent.folder: parent.label for parent in labelled}
            labels[manifest.folder] = labelled[-1].label if labelled else ""
        for manifest in accounts.filter_kind(self.manifests, "corpora"):
            labels[manifest.folder] = f"generation {manifest.facts['generations']}"
        corpora = [folder for folder in self.record.settled if folder.startswith("corpora/")]
        if len(corpora) > 1:
            labels |= dict.fromkeys(self.record.settled, f"generations 1 to {len(corpora)}")
        return labels if len({*labels.values()}) > 1 else {}

    def name_generation(self, manifest: Manifest) -> str:
        """Return a description of the generation that a stage result belongs to, such as "generation 2".

        A generation is the raw files that one run added. The description is "" if there is only one generation.
        """
        return self.generations.get(manifest.folder, "")

    @cached_property
    def _vocabularies(self) -> dict[str, Vocabulary]:
        """The run's vocabularies, by the fingerprint (identity) of the stage result that contains them."""
        artifacts = accounts.filter_kind(self.manifests, "vocabularies")
        return {manifest.fingerprint: read_vocabulary(self.place, manifest) for manifest in artifacts}

    def find_vocabulary(self, manifest: Manifest) -> Vocabulary | None:
        """Return the vocabulary that a stage result is or was built with, or None if the store no longer has it.

        Args:
            manifest: Manifest (description) of the stage result.
        """
        fingerprints = [manifest.fingerprint, *(parent.fingerprint for parent in manifest.parents)]
        return next((self._vocabularies[name] for name in fingerprints if name in self._vocabularies), None)

    @cached_property
    def token_samples(self) -> dict[str, LengthSample]:
        """Samples of document lengths and counts of unknown tokens, by folder of the tokenized documents.

        Raises:
            Damaged: If a file of the store is damaged.
        """
        wanted = [(tokens, self.find_vocabulary(tokens)) for tokens in self.find_by_name("tokens").values()]
        return {
            tokens.folder: sample_lengths(self.place, tokens, "tokens", vocabulary.special_ids["unk"])
            for tokens, vocabulary in wanted
            if vocabulary is not None and tokens.count_rows("tokens")
        }


def _merge_generations(manifests: Sequence[Manifest]) -> Manifest:
    """Merge manifests (descriptions of stage results) into one manifest with all parts (files) and parents."""
    parents = dict.fromkeys(parent for manifest in manifests for parent in manifest.parents)
    parts = [part for manifest in manifests for part in manifest.parts]
    return replace(manifests[0], parts=tuple(parts), parents=tuple(parents)) if manifests[1:] else manifests[0]
