"""A run as its report sees it: the record, and the artifacts that it names, as far as the store has them."""

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
    """One run. `lock`: names its raw files; an empty one where they must not be named."""

    place: Place
    record: RunRecord
    privacy: Privacy
    lock: Lock = field(default_factory=Lock)

    @cached_property
    def manifests(self) -> list[Manifest]:
        """The manifests in the order in which the run made or reused them, each once."""
        return read_stored_manifests(self.place, self.record)

    @property
    def made(self) -> list[Manifest]:
        """The manifests of its own stages, without those of settled generations."""
        own = {stage.folder for stage in self.record.stages}
        return [manifest for manifest in self.manifests if manifest.folder in own]

    @cached_property
    def parsed(self) -> list[Manifest]:
        """The documents of each source and generation; all settled generations of a source are one."""
        groups: dict[tuple[str, str], list[Manifest]] = {}
        for manifest in accounts.filter_kind(self.manifests, "documents"):
            groups.setdefault((manifest.name, self.name_generation(manifest)), []).append(manifest)
        return [_merge_generations(manifests) for manifests in groups.values()]

    def find_newest(self, kind: str) -> Manifest | None:
        """Return the last artifact of a kind."""
        return accounts.find_newest(self.manifests, kind)

    def find_by_name(self, kind: str) -> dict[str, Manifest]:
        """Return the last artifact of each name of a kind, by the name in the recipe; "" if there is only one."""
        return accounts.find_newest_by_name(self.manifests, kind)

    @cached_property
    def figures(self) -> Figures | None:
        """The figures of the run; None where the store no longer has all its artifacts. Raises Damaged."""
        return get_figures(self.place, self.record)

    @cached_property
    def generations(self) -> dict[str, str]:
        """The generation that each artifact came with, by its folder; none where all are of the first."""
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
        """Return the suffix of an artifact's name that tells it from those of other generations."""
        return self.generations.get(manifest.folder, "")

    @cached_property
    def _vocabularies(self) -> dict[str, Vocabulary]:
        """By fingerprint of their artifacts."""
        artifacts = accounts.filter_kind(self.manifests, "vocabularies")
        return {manifest.fingerprint: read_vocabulary(self.place, manifest) for manifest in artifacts}

    def find_vocabulary(self, manifest: Manifest) -> Vocabulary | None:
        """Return the vocabulary that an artifact is, or was made with; None where the store no longer has it."""
        named = [manifest.fingerprint, *(parent.fingerprint for parent in manifest.parents)]
        return next((self._vocabularies[name] for name in named if name in self._vocabularies), None)

    @cached_property
    def token_samples(self) -> dict[str, LengthSample]:
        """Lengths of tokenised documents, and unknown tokens among them, by the token artifact's folder."""
        wanted = [(tokens, self.find_vocabulary(tokens)) for tokens in self.find_by_name("tokens").values()]
        return {
            tokens.folder: sample_lengths(self.place, tokens, "tokens", vocabulary.special_ids["unk"])
            for tokens, vocabulary in wanted
            if vocabulary is not None and tokens.count_rows("tokens")
        }


def _merge_generations(manifests: Sequence[Manifest]) -> Manifest:
    """Return documents of one source as if they were of one generation: with the parts and the parents of all."""
    parents = dict.fromkeys(parent for manifest in manifests for parent in manifest.parents)
    parts = [part for manifest in manifests for part in manifest.parts]
    return replace(manifests[0], parts=tuple(parts), parents=tuple(parents)) if manifests[1:] else manifests[0]
