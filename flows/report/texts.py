"""The texts in a report: dropped rows, duplicates side by side, examples under their masks.

Promise: whatever comes from a document, its title, its place or a vocabulary goes through `privacy.Privacy`, here or
in the template as `shown` and `where`, so with "hashed" or "none" no word of any text is on the page.
"""

from collections.abc import Collection
from typing import Any

from corpora.store.manifest import Manifest
from flows.report import samples
from flows.report.drawing.differences import TextDifferences, compare
from flows.report.drawing.examples import (
    ShownToken,
    example_in_words,
    example_masks,
    labels_of,
    sample_examples,
    shown_tokens,
)
from flows.report.run import RunView
from flows.run.record import ledger_balance as accounts
from shards.reading.files.shard_set import ShardSet
from shards.schema import Example
from tokenizers_train.vocabularies.vocabulary import Vocabulary

SAMPLES_OF_A_REASON = 3
DUPLICATES = 8
EXAMPLES = 2  # of a shard set
HIDDEN = "▪"  # in place of a token whose text may not be shown

View = dict[str, Any]  # what the template reads, by name


def reason_groups(run: RunView) -> list[View]:
    """Return reasons with samples, grouped by artifact: what each source dropped, what the corpus left out."""
    parsed = [
        (_dropped_from(run, manifest), samples.reasons_of(run.place, manifest, "dropped", SAMPLES_OF_A_REASON))
        for manifest in accounts.of_kind(run.manifests, "documents")
    ]
    corpus = run.newest("corpora")
    removed = samples.reasons_of(run.place, corpus, "removed", SAMPLES_OF_A_REASON) if corpus is not None else []
    return [
        {"title": title, "reasons": reasons}
        for title, reasons in [*parsed, ("Removed from the corpus", removed)]
        if reasons
    ]


def _dropped_from(run: RunView, manifest: Manifest) -> str:
    """Return the title of what a source dropped, with its generation where there are several."""
    generation = run.generation(manifest)
    return f"Dropped from {manifest.name}{f', {generation}' if generation else ''}"


def pair_views(run: RunView) -> list[View]:
    """Return duplicates next to their survivors, with the words that only one of the two has."""
    verdicts = run.newest("verdicts")
    pairs = samples.duplicate_pairs(run.place, verdicts, DUPLICATES) if verdicts is not None else []
    return [_pair_view(pair) for pair in pairs]


def _pair_view(pair: samples.DuplicatePair) -> View:
    compared = compare(pair.removed.text, pair.survivor.text)
    return {
        "reason": pair.reason,
        "similarity": f"{pair.similarity:.3f}",
        "differences": _differences(compared),
        "sides": [
            {"role": "removed", "document": pair.removed, "pieces": compared.left},
            {"role": "stays", "document": pair.survivor, "pieces": compared.right},
        ],
    }


def _differences(compared: TextDifferences) -> str:
    """Return how two texts differ, in numbers."""
    if compared.is_same:
        return "word for word the same"
    removed, stays = compared.own
    difference = f"{removed:,} words only in the one that was removed, {stays:,} only in the one that stays"
    return f"{difference}, in as much as was compared" if compared.partial else difference


def example_views(run: RunView) -> list[View]:
    """Return a few training examples of each shard set, each token with its segment and mask."""
    views = []
    for name, shards in run.of_each("shards").items():
        vocabulary = run.vocabulary_of(shards)
        if vocabulary is None:
            continue
        shard_set = ShardSet(run.place, shards)
        chosen = sample_examples(shard_set, EXAMPLES)
        if chosen:
            views.append(
                {
                    "name": name,
                    "masking": shards.settings["masking"],
                    "mask": vocabulary.special_tokens["mask"],
                    "has_pairs": any(example.boundary < len(example.ids) for _, example in chosen),
                    "is_packed": any(len(example.documents) > 1 for _, example in chosen),
                    "examples": [_example_view(run, shard_set, vocabulary, *numbered) for numbered in chosen],
                }
            )
    return views


def _example_view(run: RunView, shard_set: ShardSet, vocabulary: Vocabulary, number: int, example: Example) -> View:
    tokens = shown_tokens(example, vocabulary, example_masks(shard_set, example))
    text = " ".join(token.text for token in tokens)
    readable, specials = run.privacy.samples == "text", frozenset(vocabulary.special_tokens.values())
    return {
        "number": number,
        "label": example_in_words(example, labels_of(shard_set.manifest)),
        "length": len(tokens),
        "masked": sum(token.kind not in ("plain", "special") for token in tokens),
        "documents": [document.hex() for document in example.documents],
        "digest": run.privacy.show(text) if run.privacy.samples == "hashed" else "",
        "tokens": [_token_view(token, readable, specials) for token in tokens],
    }


def _token_view(token: ShownToken, readable: bool, specials: Collection[str]) -> View:
    """Return a token for the template; where text may not be shown, only special tokens are."""
    text, seen = (piece if readable or piece in specials else HIDDEN for piece in (token.text, token.seen))
    return {"text": text, "seen": seen, "segment": "ab"[token.segment], "kind": token.kind}
