"""Masks for masked language modelling: which tokens the model must guess, and what it sees in their place.

Devlin et al. 2018, section 3.1: a share of the tokens is chosen; of those, 80% become [MASK], 10% a random
token, 10% stay. The label of a chosen position is the token that is there, so it is not stored.

The masks of an example are a function of (seed, epoch, example id, its ids) and of the settings: the same in
any batch, in any order, on any worker. A static mask is the mask of the epoch with the copy's number.

Where this differs from the authors' script: the number of masks is a share of the tokens that can be chosen,
not of the length with [CLS] and [SEP] (rounded half to even: 19 in 128 tokens as there, 76 in 512 for 77);
random tokens are never special ones; special tokens inside the text ([UNK]) are not chosen; a word does not
reach across a [SEP]. As there, a whole word that would exceed the number is skipped, so an example of long
words can have fewer masks than its number, or none.

Cost: 0.4 microseconds an example of 128 tokens, 1.9 of 512; for whole words 0.8 and 2.8 (one x86-64 core).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Bytes, Ids, Int64s, UInt16s, UInt32s, UInt64s
from corpora.store.randomness import below, draw, stream
from corpora.store.settings import check_choice, check_range
from shards.masks.kernels import REPLACEMENTS, draw_all

LONGEST_MASKED = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskSettings:
    """What determines the masks.

    kind:            `dynamic`, drawn for every epoch as examples are read, `static`, stored with them, or `none`
    unit:            `token`, or `whole-word`: a word's pieces together
    rate:            share of an example's tokens that the model must guess; at least one token
    mask_share:      of those, the share that becomes [MASK]
    random_share:    of those, the share that becomes a random token; the rest stay as they are
    max_predictions: bound on the masks of an example; None for no bound
    """

    kind: str = "dynamic"
    unit: str = "token"
    rate: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    max_predictions: int | None = None
    seed: int = 42

    def __post_init__(self) -> None:
        check_choice("shards.masking.kind", self.kind, ("dynamic", "static", "none"))
        check_choice("shards.masking.unit", self.unit, ("token", "whole-word"))
        check_range("shards.masking.rate", self.rate, 1e-6, 1)
        check_range("shards.masking.mask_share", self.mask_share, 0, 1)
        check_range("shards.masking.random_share", self.random_share, 0, 1)
        check_range(
            "shards.masking.mask_share + shards.masking.random_share", self.mask_share + self.random_share, 0, 1
        )
        if self.max_predictions is not None:
            check_range("shards.masking.max_predictions", self.max_predictions, 1, LONGEST_MASKED)
        check_range("shards.masking.seed", self.seed, 0, (1 << 64) - 1)


class VocabularyLike(Protocol):
    """What masks must know of a vocabulary; the manifest of the shards knows it too."""

    @property
    def size(self) -> int: ...

    @property
    def special_ids(self) -> Mapping[str, int]: ...


class ShardVocabulary(NamedTuple):
    """What a shard set knows of its vocabulary: how many tokens it has, and the ids of special ones by role."""

    size: int
    special_ids: Mapping[str, int]


class MaskVocabulary(NamedTuple):
    """A vocabulary as the kernels need it."""

    is_special: Bytes  # [vocabulary], 1 for ids that are neither chosen nor put in as random
    ordinary: UInt32s  # [ordinary ids], the other ids, ascending
    mask_id: int


class Masks(NamedTuple):
    """Masks of n examples."""

    positions: UInt16s  # flat, ascending in every example, counted from its first token
    offsets: Int64s  # [n + 1], into positions
    replacements: Ids  # flat, what the model sees; in the type of the ids


def vocabulary_facts(vocabulary: VocabularyLike) -> MaskVocabulary:
    """The tables of a vocabulary whose `special_ids` name "mask" and all other special tokens."""
    is_special = np.zeros(vocabulary.size, np.uint8)
    is_special[list(vocabulary.special_ids.values())] = 1
    ordinary = np.flatnonzero(is_special == 0).astype(np.uint32)
    assert len(ordinary), "a vocabulary of special tokens"
    return MaskVocabulary(is_special, ordinary, vocabulary.special_ids["mask"])


def draw_masks(
    ids: Ids,
    offsets: Int64s,
    word_starts: Bytes,
    example_ids: UInt64s,
    epoch: npt.ArrayLike,
    settings: MaskSettings,
    vocabulary: MaskVocabulary,
) -> Masks:
    """The masks of n examples.

    `ids` and `word_starts` are flat, `offsets` int64 [n + 1] cuts them; `epoch` is one number, or one an
    example (for static masks the copy's). `word_starts` is read for whole words only.
    """
    if settings.kind == "none":
        return Masks(np.empty(0, np.uint16), np.zeros_like(offsets), np.empty(0, ids.dtype))
    lengths = np.diff(offsets)
    assert len(example_ids) == len(lengths) and len(ids) == len(word_starts)
    longest = int(lengths.max(initial=0))
    assert longest <= LONGEST_MASKED, longest
    cap = settings.max_predictions or LONGEST_MASKED
    most = int(np.minimum(np.maximum(np.rint(lengths * settings.rate), 1), cap).sum())
    masks = Masks(np.empty(most + 1, np.uint16), np.zeros_like(offsets), np.empty(most + 1, ids.dtype))
    keys = stream(settings.seed, "mask", epoch, example_ids)
    mask_bound, random_bound = _share_bounds(settings)
    draw_all(
        ids, offsets, word_starts, keys, settings.unit == "whole-word", float(settings.rate), cap,
        mask_bound, random_bound, vocabulary.is_special, vocabulary.ordinary, vocabulary.mask_id, longest,
        masks.positions, masks.offsets, masks.replacements,
    )  # fmt: skip
    total = int(masks.offsets[-1])
    return Masks(masks.positions[:total], masks.offsets, masks.replacements[:total])


def _share_bounds(settings: MaskSettings) -> tuple[int, int]:
    """A 32-bit number below the first means [MASK], below the second a random token (shares to 2^-32)."""
    shares = settings.mask_share, settings.mask_share + settings.random_share
    return round(shares[0] * 2**32), round(shares[1] * 2**32)


def masked_places(offsets: Int64s, masks: Masks) -> Int64s:
    """Where the masked tokens are in the flat ids; `ids[masked_places(...)]` are the labels."""
    return np.repeat(offsets[:-1], np.diff(masks.offsets)) + masks.positions


def apply_masks(ids: Ids, offsets: Int64s, masks: Masks) -> Ids:
    """What the model sees: a copy of the flat ids with the replacements put in."""
    seen = ids.copy()
    seen[masked_places(offsets, masks)] = masks.replacements
    return seen


def masks_plain(
    ids: Ids,
    offsets: Int64s,
    word_starts: Bytes,
    example_ids: UInt64s,
    epoch: int,
    settings: MaskSettings,
    vocabulary: MaskVocabulary,
) -> Masks:
    """What `draw_masks` gives, in plain Python."""
    positions: list[list[int]] = []
    replacements: list[int] = []
    dtype: npt.DTypeLike = ids.dtype
    for (start, end), example_id in zip(pairwise(offsets.tolist()), example_ids.tolist(), strict=True):
        key = int(stream(settings.seed, "mask", epoch, example_id))
        row = ids[start:end].tolist()
        chosen = _plain_positions(row, word_starts[start:end].tolist(), key, settings, vocabulary)
        positions.append(chosen)
        replacements += [_plain_replacement(row[place], place, key, settings, vocabulary) for place in chosen]
    return Masks(
        positions=np.array([place for row in positions for place in row], np.uint16),
        offsets=np.cumsum([0, *map(len, positions)], dtype=np.int64),
        replacements=np.array(replacements, dtype),
    )


def _plain_positions(
    row: list[int], word_starts: list[int], key: int, settings: MaskSettings, vocabulary: MaskVocabulary
) -> list[int]:
    """The positions to guess in one example, ascending."""
    places = [place for place, token in enumerate(row) if not vocabulary.is_special[token]]
    if settings.kind == "none" or not places:
        return []
    wanted = max(1, round(len(places) * settings.rate))
    if settings.max_predictions is not None:
        wanted = min(wanted, settings.max_predictions)
    if settings.unit == "token":
        return _plain_sample(places, wanted, key)
    words: list[list[int]] = []
    for place in places:
        if word_starts[place] or not words or words[-1][-1] != place - 1:
            words.append([])
        words[-1].append(place)
    return _plain_words(words, wanted, key)


def _plain_sample(places: list[int], wanted: int, key: int) -> list[int]:
    """`wanted` of the places, every set as probable: Floyd's method (Bentley, Floyd 1987)."""
    chosen: set[int] = set()
    for counter, last in enumerate(range(len(places) - wanted, len(places))):
        drawn = int(below(key, counter, last + 1))
        chosen.add(last if drawn in chosen else drawn)
    return [places[index] for index in sorted(chosen)]


def _plain_words(words: list[list[int]], wanted: int, key: int) -> list[int]:
    """Whole words in random order (Fisher, Yates) up to `wanted` tokens; a word that exceeds is skipped."""
    words, chosen = list(words), list[int]()
    for index in range(len(words)):
        other = index + int(below(key, index, len(words) - index))
        words[index], words[other] = words[other], words[index]
        if len(chosen) + len(words[index]) <= wanted:
            chosen += words[index]
    return sorted(chosen)


def _plain_replacement(token: int, place: int, key: int, settings: MaskSettings, vocabulary: MaskVocabulary) -> int:
    """What the model sees: the upper half of a draw chooses the kind, the lower half the random token."""
    upper, lower = divmod(int(draw(key, REPLACEMENTS + place)), 2**32)
    mask_bound, random_bound = _share_bounds(settings)
    if upper < mask_bound:
        return vocabulary.mask_id
    if upper < random_bound:  # of V ordinary ids, each is drawn with 1/V to a relative error below V / 2^32
        return int(vocabulary.ordinary[lower * len(vocabulary.ordinary) >> 32])
    return token
