"""Training examples as people see them: each token with its segment, its mask, and the original token.

The masks are those that training sees: stored ones of a static shard set, or those of the first epoch, drawn by the
plain reference implementation: loading the compiled kernel takes longer than drawing a few examples.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from corpora.store.manifest import Manifest
from shards.masks.masking import Masks
from shards.masks.plain import draw_masks_plain, with_rate_at
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import read_mask_settings, read_mask_vocabulary
from shards.schema import Example
from tokenizers_train.vocabularies.vocabulary import Vocabulary

LABEL_MEANINGS = {  # the meaning of a label of 0, and of 1
    "next-sentence": ("B follows A", "B is from another document"),
    "sentence-order": ("A and B in order", "A and B swapped"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownToken:
    """A token of an example, as displayed.

    Attributes:
        text: The original token.
        seen: The token that the model receives.
        segment: 0 for the first segment, 1 for the second.
        kind: "plain", "special", "masked" (replaced by the mask token), "swapped" (replaced by another token) or "kept"
            (to be predicted, but unchanged).
    """

    text: str
    seen: str
    segment: int
    kind: str


def find_label_kind(shards: Manifest) -> str | None:
    """Return the kind of labels in a shard set, such as "next-sentence", or None if the examples have no labels."""
    labels: str | None = shards.facts["labels"]
    return labels


def describe_example(example: Example, label_kind: str | None) -> str:
    """Describe the meaning of an example's label, or the number of its segments if it has no label.

    Args:
        example: The example.
        label_kind: The result of `find_label_kind`.
    """
    if example.label is None:
        return "one segment" if example.boundary == len(example.ids) else "two segments"
    words = LABEL_MEANINGS.get(str(label_kind))
    return words[example.label] if words else f"{label_kind}: {example.label}"


def get_stored_masks(example: Example) -> Masks:
    """Return the masks that are stored with an example. They are empty if masks are drawn during training."""
    offsets = np.array([0, len(example.mask_positions)], np.int64)
    return Masks(example.mask_positions, offsets, example.mask_ids)


def get_example_masks(shard_set: ShardSet, example: Example) -> Masks:
    """Return the masks with which training first sees an example: the stored masks, or those drawn in epoch 0.

    If the mask rate changes during training, the rate of the first step is used.

    Args:
        shard_set: The shard set that contains the example.
        example: The example.
    """
    if shard_set.manifest.facts["masking"] == "static":
        return get_stored_masks(example)
    return draw_masks_plain(
        example.ids,
        np.array([0, len(example.ids)], np.int64),
        example.word_starts.astype(np.uint8),
        np.array([example.example_id], np.uint64),
        0,
        with_rate_at(read_mask_settings(shard_set), 0, 0),
        read_mask_vocabulary(shard_set),
    )


def list_shown_tokens(example: Example, vocabulary: Vocabulary, masks: Masks) -> list[ShownToken]:
    """List the tokens of an example in order, with the given masks applied, as they are displayed.

    Args:
        example: The example.
        vocabulary: The vocabulary. It is used to format the tokens.
        masks: The masks of this example only.
    """
    seen = dict(zip(masks.positions.tolist(), masks.replacements.tolist(), strict=True))
    special_ids = vocabulary.special_ids
    return [
        ShownToken(
            text=vocabulary.format_token(id),
            seen=vocabulary.format_token(seen.get(place, id)),
            segment=int(place >= example.boundary),
            kind=_classify_token(id, seen.get(place), special_ids),
        )
        for place, id in enumerate(example.ids.tolist())
    ]


def _classify_token(id: int, seen: int | None, special_ids: Mapping[str, int]) -> str:
    """Return the kind of a token: "plain", "special", "masked", "swapped" or "kept", as defined in `ShownToken`.

    Args:
        id: The original token id.
        seen: The token id that the model receives; None if the token is not to be predicted.
        special_ids: The ids of the special tokens, by name ("mask", "unk", ...).
    """
    if seen is None:
        return "special" if id in special_ids.values() else "plain"
    if seen == special_ids["mask"]:
        return "masked"
    return "kept" if seen == id else "swapped"


def sample_examples(shard_set: ShardSet, number: int) -> list[tuple[int, Example]]:
    """Return up to `number` evenly spaced examples of a shard set, as (index, example) pairs.

    Deleted examples are skipped.
    """
    live = np.flatnonzero(shard_set.is_live)
    if not len(live):
        return []
    places = np.unique(np.linspace(0, len(live) - 1, number).astype(np.int64))
    return [(int(live[place]), shard_set[int(live[place])]) for place in places]
