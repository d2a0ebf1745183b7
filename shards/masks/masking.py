"""Masks for masked language modelling: which tokens the model must guess, and what it sees in their place.

Devlin et al. 2018, section 3.1: a share of the tokens is chosen; of those, 80% become [MASK], 10% a random token, 10%
stay. The label of a chosen position is the token at that place, so it is not stored.

The masks of an example are a function of (seed, epoch, example id, its ids), of the rate and of the settings: the same
in any batch, in any order, on any worker. A static mask is the mask of the epoch with the copy's number.

What is chosen together is a token; a word; an n-gram of words, n of them with probability proportional to 1/n (Lan et
al. 2019, section 3.1); or a span, an n-gram of a length drawn from the geometric distribution with p = 0.2 that is cut
off at ten words (Joshi et al. 2019, section 3.1: 3.8 words in the mean), in which all tokens are replaced alike. Words
are cut into n-grams before any is chosen: so none overlaps another, and tokens near a [SEP] are not chosen more rarely
than others, as they are if an n-gram is put at a drawn place. Words come from the word starts that are stored with the
tokens, so they are whole for WordPiece, byte-level BPE and Unigram alike.

Differences from the authors' script: the number of masks is a share of the tokens that can be chosen, not of the length
with [CLS] and [SEP] (rounded half to even: 19 in 128 tokens as there, 76 in 512 for 77); random tokens are never
special ones; special tokens inside the text ([UNK]) are not chosen; a word does not reach across a [SEP]. As there, a
whole word that would exceed the number is skipped, so an example of long words can have fewer masks than its number, or
none. An n-gram that would exceed it loses words at an end until it fits.

The rate may change with the epoch or the step. The epoch is the example's own. The step is the number of the slot
divided by the examples of a step, so what a slot holds is a function of the slot only, for any reader, with any number
of processes. Held-out examples are always read at the last rate, so that losses of two steps compare.

Cost: see `mask_tokens`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Float64s, Ids, Int64s, UInt16s, UInt32s, UInt64s
from corpora.store.randomness import compute_root
from corpora.store.settings import check_choice, check_range, later_field
from shards.masks.kernels import EXACT, INDEPENDENT, PROBABILISTIC, SPANS, TOKENS, WORDS, mask_examples

Point = tuple[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSchedule:
    """How the mask rate changes during training. It starts from `MaskSettings.rate`.

    points: `[[4, 0.15]]`: from epoch or step 4 on the rate is 0.15; in ascending order
    by:     `epoch`, or `step`: a step is `batch` examples of these shards
    shape:  `constant`: the rate jumps at each point; `linear`: it changes linearly between points
    batch:  examples per step, as in the training phase that reads these shards; only with `step`
    """

    points: tuple[Point, ...]
    by: str = "epoch"
    shape: str = "constant"
    batch: int | None = None

    def __post_init__(self) -> None:
        table = "shards.masking.schedule"
        check_choice(f"{table}.by", self.by, ("epoch", "step"))
        check_choice(f"{table}.shape", self.shape, ("constant", "linear"))
        for number, (at, rate) in enumerate(self.points):
            check_range(f"{table}.points[{number}][0]", at, 1, 1 << 62)
            check_range(f"{table}.points[{number}][1]", rate, 1e-6, 1)
        if not self.points or any(at >= later for (at, _), (later, _) in pairwise(self.points)):
            raise InputError(
                f"{table}.points = {[list(point) for point in self.points]} must be points in ascending order, "
                "as in [[4, 0.15]]."
            )
        if (self.by == "step") != (self.batch is not None):
            raise InputError(
                f"{table}.batch = {self.batch} does not go with by = {self.by!r}: a rate by the step needs the "
                "examples of a step, and one by the epoch has none."
            )
        check_range(f"{table}.batch", self.batch or 1, 1, 1 << 32)

    def compute_rate(self, initial_rate: float, epoch_or_step: int) -> float:
        """Return the mask rate at an epoch or step.

        Args:
            initial_rate: Rate at the start of the schedule.
            epoch_or_step: Zero-based epoch or step, depending on `by`.
        """
        previous, rate = 0, initial_rate
        for at, later in self.points:
            if epoch_or_step < at:
                progress = (epoch_or_step - previous) / (at - previous) if self.shape == "linear" else 0.0
                return rate + (later - rate) * progress
            previous, rate = at, later
        return rate

    def compute_rates(self, initial_rate: float, epochs: Int64s, slots: Int64s) -> Float64s:
        """Return the mask rate of each example according to this schedule: float64 [examples].

        Args:
            initial_rate: Rate at the start of the schedule.
            epochs: int64 [examples], the epoch in which each example is read.
            slots: int64 [examples], the position in the training order at which each example is read.
        """
        epochs_or_steps = epochs if self.batch is None else slots // self.batch
        unique, inverse = np.unique(epochs_or_steps, return_inverse=True)
        return np.array([self.compute_rate(initial_rate, each) for each in unique.tolist()])[inverse]


MAX_MASKED_LENGTH = (1 << 16) - 1
UNIT_CODES = {"token": TOKENS, "whole-word": WORDS, "n-gram": WORDS, "span": SPANS}
COUNT_CODES = {"exact": EXACT, "probabilistic": PROBABILISTIC, "independent": INDEPENDENT}
DEFAULT_MAX_WORDS = {"n-gram": 3, "span": 10}
TOKENS_PER_CHUNK = 1 << 17  # of a call that copies ids
SPAN_GEOMETRIC_P = 0.2  # Joshi et al. 2019


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskSettings:
    """Which tokens are masked, and how. These are the keys of `[shards.masking]` in a recipe.

    kind:            `dynamic`: drawn for each epoch when examples are read; `static`: drawn once and stored; or `none`:
                     then every other key but `seed` must be left out
    unit:            what is masked together: `token`; `whole-word`: all tokens of a word; `n-gram`: several words, as
                     in ALBERT; `span`: several words that are all replaced in the same way, as in SpanBERT
    rate:            share of an example's tokens, not counting special tokens, that the model must guess
    mask_share:      share of the masked tokens that become [MASK]
    random_share:    share of the masked tokens that become a random token; the rest stay as they are
    random:          `uniform`: every random token has the same probability; `frequency`: it is drawn as often as it
                     occurs in the text
    max_predictions: maximum number of masks per example; None: no maximum
    count:           how many tokens are masked: `exact`: the rounded share, at least one; `probabilistic`: the share,
                     rounded up or down at random; `independent`: each token, word or n-gram is chosen independently.
                     Words that would exceed the number are skipped, so an example of long words can get fewer masks
    longest:         maximum number of words in an n-gram or span; None: 3 for n-grams, 10 for spans
    schedule:        how the rate changes with the epoch or the step; None: it is constant
    """

    kind: str = "dynamic"
    unit: str = "token"
    rate: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    max_predictions: int | None = None
    count: str = later_field("exact")
    longest: int | None = later_field(None)
    random: str = later_field("uniform")
    schedule: RateSchedule | None = field(default=None, metadata={"neutral": None})
    seed: int = 42

    def __post_init__(self) -> None:
        check_choice("shards.masking.kind", self.kind, ("dynamic", "static", "none"))
        check_choice("shards.masking.unit", self.unit, tuple(UNIT_CODES))
        check_range("shards.masking.rate", self.rate, 1e-6, 1)
        check_range("shards.masking.mask_share", self.mask_share, 0, 1)
        check_range("shards.masking.random_share", self.random_share, 0, 1)
        check_range(
            "shards.masking.mask_share + shards.masking.random_share", self.mask_share + self.random_share, 0, 1
        )
        if self.max_predictions is not None:
            check_range("shards.masking.max_predictions", self.max_predictions, 1, MAX_MASKED_LENGTH)
        check_choice("shards.masking.count", self.count, tuple(COUNT_CODES))
        check_choice("shards.masking.random", self.random, ("uniform", "frequency"))
        if self.longest is not None:
            check_range("shards.masking.longest", self.longest, 1, 100)
            if self.unit not in DEFAULT_MAX_WORDS:
                raise InputError(
                    f"shards.masking.longest means nothing to unit = {self.unit!r}: leave it out, or choose "
                    f"{' or '.join(map(repr, DEFAULT_MAX_WORDS))}."
                )
        check_range("shards.masking.seed", self.seed, 0, (1 << 64) - 1)
        if self.kind == "static" and self.schedule is not None:
            raise InputError(
                'shards.masking.schedule means nothing to kind = "static": static masks are drawn once. '
                "Leave it out, or choose dynamic masks."
            )
        if self.kind == "none":
            self._check_others_unset()

    def _check_others_unset(self) -> None:
        """Check that only `kind` and `seed` are set, because nothing is masked.

        Raises:
            InputError: Another setting differs from its default.
        """
        for setting in fields(self):
            if setting.name not in ("kind", "seed") and getattr(self, setting.name) != setting.default:
                raise InputError(f'shards.masking.{setting.name} means nothing to kind = "none": leave it out.')

    def compute_rates(self, epochs: Int64s, slots: Int64s) -> float | Float64s:
        """Return the mask rate of each example: float64 [examples], or a single number if there is no schedule.

        Args:
            epochs: int64 [examples], the epoch in which each example is read.
            slots: int64 [examples], the position in the training order at which each example is read.
        """
        return self.rate if self.schedule is None else self.schedule.compute_rates(self.rate, epochs, slots)

    @property
    def held_out_settings(self) -> "MaskSettings":
        """Settings for held-out examples, with a constant mask rate: the final rate of the schedule."""
        if self.schedule is None:
            return self
        return replace(self, rate=self.schedule.points[-1][1], schedule=None)


class VocabularyLike(Protocol):
    """What masking needs to know about a vocabulary: its size, and the ids of special tokens by role ("mask", ...)."""

    @property
    def size(self) -> int:
        """Number of tokens of the vocabulary."""
        ...

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Ids of the special tokens by role, such as "mask"."""
        ...


class ShardVocabulary(NamedTuple):
    """The size and special tokens of a vocabulary, as stored with a shard set."""

    size: int
    special_ids: Mapping[str, int]


class MaskVocabulary(NamedTuple):
    """Vocabulary tables for the masking kernels, built by `build_mask_vocabulary`."""

    is_special: Bytes  # [vocabulary], 1 for ids that are neither chosen nor put in as random
    special_ranges: UInt32s  # [runs, 2], of consecutive ids that are special: the first, and how many follow it
    ordinary: UInt32s  # [ordinary ids], the other ids, ascending
    mask_id: int
    weights: UInt64s = np.zeros(0, np.uint64)  # [ordinary ids] if random ids are drawn by weight: see `weighted`
    aliases: UInt32s = np.zeros(0, np.uint32)


class Masks(NamedTuple):
    """The masks of n examples: the masked positions, and the ids that the model sees there."""

    positions: UInt16s  # flat, ascending in every example, counted from its first token
    offsets: Int64s  # [n + 1], into positions
    replacements: Ids  # flat, what the model sees; in the type of the ids


class MaskedTokens(NamedTuple):
    """The M masked tokens of n examples: their positions, and their original ids."""

    flat_positions: Int64s  # [M], in the flat ids, ascending
    targets: Ids  # [M], the original tokens
    offsets: Int64s  # [n + 1], into the two: an example's own


class KernelSettings(NamedTuple):
    """Mask settings encoded as numbers for the kernels.

    Attributes:
        codes: int64 [6], see `codes` of `shards.masks.kernels.mask_examples`.
        length_bounds: uint64, from `to_length_bounds`.
        root: Random key from which the key of each example is derived.
    """

    codes: Int64s
    length_bounds: UInt64s
    root: np.uint64


def build_mask_vocabulary(vocabulary: VocabularyLike) -> MaskVocabulary:
    """Build the vocabulary tables for the masking kernels.

    Args:
        vocabulary: Its `special_ids` must contain the role "mask" and all other special tokens, because every other
            token may be masked or used as a random replacement.

    Raises:
        KeyError: There is no special token with the role "mask".
    """
    is_special = np.zeros(vocabulary.size, np.uint8)
    is_special[list(vocabulary.special_ids.values())] = 1
    ordinary = np.flatnonzero(is_special == 0).astype(np.uint32)
    assert len(ordinary), "a vocabulary of special tokens"
    range_ends = np.flatnonzero(np.diff(np.concatenate([[0], is_special, [0]]).astype(np.int8))).reshape(-1, 2)
    ranges = np.stack([range_ends[:, 0], range_ends[:, 1] - 1 - range_ends[:, 0]], axis=1).astype(np.uint32)
    return MaskVocabulary(is_special, ranges, ordinary, vocabulary.special_ids["mask"])


def with_frequencies(vocabulary: MaskVocabulary, counts: Int64s) -> MaskVocabulary:
    """Return a vocabulary that draws random replacement tokens in proportion to their frequency.

    The alias method (Walker 1977, Vose 1991) is used. The probabilities are exact to within 2^-32. If no ordinary token
    occurs, the vocabulary is returned unchanged. This takes one microsecond per token.

    Args:
        vocabulary: The vocabulary.
        counts: int64 [vocabulary], how often each token occurs. Counts of special tokens are ignored.
    """
    scaled_counts = [count * len(vocabulary.ordinary) for count in counts[vocabulary.ordinary].tolist()]
    mean = sum(scaled_counts) // len(scaled_counts)
    if mean == 0:
        return vocabulary
    weights, aliases = [1 << 32] * len(scaled_counts), vocabulary.ordinary.copy()
    poor = [index for index, share in enumerate(scaled_counts) if share < mean]
    rich = [index for index, share in enumerate(scaled_counts) if share >= mean]
    while poor:
        index, giver = poor.pop(), rich[-1]
        weights[index], aliases[index] = (scaled_counts[index] << 32) // mean, vocabulary.ordinary[giver]
        scaled_counts[giver] -= mean - scaled_counts[index]
        if scaled_counts[giver] < mean:
            poor.append(rich.pop())
    return vocabulary._replace(weights=np.array(weights, np.uint64), aliases=aliases)


def mask_tokens(
    ids: Ids,
    offsets: Int64s,
    word_starts: Bytes,
    example_ids: UInt64s,
    epoch: npt.ArrayLike,
    settings: MaskSettings,
    vocabulary: MaskVocabulary,
    rate: npt.ArrayLike | None = None,
) -> MaskedTokens:
    """Mask n examples in place: overwrite the chosen tokens in `ids` with what the model sees.

    The cost per example of 115 tokens in batches of 256 is 0.21 microseconds; for whole words 0.43, for spans 0.52, for
    n-grams 0.63 (one x86-64 core, shared at the time).

    Args:
        ids: uint16 or uint32 [tokens], the concatenated ids of all examples. They are modified in place.
        offsets: int64 [n + 1], the start of each example in `ids`.
        word_starts: uint8 [tokens], 1 if the token begins a word. It may be empty if single tokens are masked.
        example_ids: uint64 [n], the id of each example.
        epoch: The epoch, or one per example: [n]. For static masks, the copy.
        settings: Mask settings.
        vocabulary: Vocabulary tables, from `build_mask_vocabulary`.
        rate: The mask rate, or one per example: [n]. Default: the rate of the settings, without their schedule.

    Returns:
        The positions of the masked tokens and their original ids. They are empty if the settings' kind is `none`.
    """
    num = len(example_ids)
    assert num == len(offsets) - 1, "every example has a length"
    if settings.kind == "none":
        return MaskedTokens(np.zeros(0, np.int64), ids[:0], np.zeros_like(offsets))
    assert settings.unit == "token" or len(word_starts) == len(ids), "words have starts"
    codes, length_bounds, root = _encode_settings(settings, vocabulary.mask_id)
    rates = np.full(num, settings.rate if rate is None else rate)
    max_rate = settings.rate if rate is None else float(rates.max(initial=0))
    max_masks = len(ids) if settings.count == "independent" else int(len(ids) * max_rate) + 2 * num
    positions, targets, mask_offsets = (
        np.empty(max_masks, np.int64),
        np.empty(max_masks, ids.dtype),
        np.zeros(num + 1, np.int64),
    )
    epochs = np.full(num, epoch, np.int64)
    mask_examples(
        ids, offsets, word_starts, example_ids, epochs, rates, root, codes, length_bounds, vocabulary.is_special,
        vocabulary.special_ranges, vocabulary.ordinary, vocabulary.weights, vocabulary.aliases, positions, targets,
        mask_offsets,
    )  # fmt: skip
    total = int(mask_offsets[-1])
    return MaskedTokens(positions[:total], targets[:total], mask_offsets)


def draw_masks(
    ids: Ids,
    offsets: Int64s,
    word_starts: Bytes,
    example_ids: UInt64s,
    epoch: npt.ArrayLike,
    settings: MaskSettings,
    vocabulary: MaskVocabulary,
    rate: npt.ArrayLike | None = None,
) -> Masks:
    """Return the masks of n examples without changing `ids`.

    To stay in the processor's cache, the examples are masked in chunks of about `TOKENS_PER_CHUNK` tokens.

    Args:
        ids: uint16 or uint32 [tokens], the concatenated ids of all examples.
        offsets: int64 [n + 1], the start of each example in `ids`.
        word_starts: uint8 [tokens], 1 if the token begins a word. It may be empty if single tokens are masked.
        example_ids: uint64 [n], the id of each example.
        epoch: The epoch, or one per example: [n]. For static masks, the copy.
        settings: Mask settings.
        vocabulary: Vocabulary tables, from `build_mask_vocabulary`.
        rate: The mask rate, or one per example: [n]. Default: the rate of the settings, without their schedule.

    Returns:
        The masked positions, and the ids that the model sees there.

    Raises:
        AssertionError: An example has more than `MAX_MASKED_LENGTH` tokens.
    """
    num = len(example_ids)
    assert num == len(offsets) - 1, "every example has a length"
    assert int(np.diff(offsets).max(initial=0)) <= MAX_MASKED_LENGTH, "positions have 16 bits"
    epochs, rates = np.broadcast_to(epoch, num), np.broadcast_to(settings.rate if rate is None else rate, num)
    step = max(1, TOKENS_PER_CHUNK * num // max(1, len(ids)))
    chunks: list[tuple[UInt16s, Int64s, Ids]] = []
    for first in range(0, max(1, num), step):
        rows = slice(first, first + step)
        chunk_offsets = offsets[first : first + step + 1]
        tokens = slice(chunk_offsets[0], chunk_offsets[-1])
        chunk = (ids[tokens], chunk_offsets - chunk_offsets[0], word_starts[tokens], example_ids[rows], epochs[rows])
        chunks.append(_draw_chunk(*chunk, settings, vocabulary, rates[rows]))
    positions, counts, replacements = (np.concatenate(column) for column in zip(*chunks, strict=True))
    return Masks(positions, np.concatenate([[0], np.cumsum(counts)]), replacements)


def _draw_chunk(
    ids: Ids,
    offsets: Int64s,
    word_starts: Bytes,
    example_ids: UInt64s,
    epochs: npt.ArrayLike,
    settings: MaskSettings,
    vocabulary: MaskVocabulary,
    rates: npt.ArrayLike,
) -> tuple[UInt16s, Int64s, Ids]:
    """Draw the masks of a few examples on a copy of their ids, for `draw_masks`.

    The arguments are those of `draw_masks`, with one epoch and one rate per example.

    Returns:
        The positions of the masked tokens within their examples, the number of masks of each example, and the ids that
        the model sees at these positions.
    """
    seen = ids.copy()
    positions, _, mask_offsets = mask_tokens(
        seen, offsets, word_starts, example_ids, epochs, settings, vocabulary, rates
    )
    counts = np.diff(mask_offsets)
    return (positions - np.repeat(offsets[:-1], counts)).astype(np.uint16), counts, seen[positions]


@lru_cache(64)
def _encode_settings(settings: MaskSettings, mask_id: int) -> KernelSettings:
    """Encode settings as numbers for the kernels.

    The result is cached, because a loader needs it for every batch.

    Args:
        settings: The settings.
        mask_id: Id of the [MASK] token.
    """
    cap = settings.max_predictions or MAX_MASKED_LENGTH
    codes = (UNIT_CODES[settings.unit], COUNT_CODES[settings.count], cap, *to_kind_bounds(settings), mask_id)
    return KernelSettings(np.array(codes, np.int64), to_length_bounds(settings), compute_root(settings.seed, "mask"))


def to_kind_bounds(settings: MaskSettings) -> tuple[int, int]:
    """Compute the two thresholds that a 32-bit random number is compared with to decide how to replace a chosen token.

    If the number is below the first threshold, the token becomes [MASK]. If it is below the second, the token becomes a
    random token. Otherwise the token is left unchanged. The probabilities are exact to within 2^-32. The thresholds are
    integers from 0 to 2^32.
    """
    shares = settings.mask_share, settings.mask_share + settings.random_share
    return round(shares[0] * 2**32), round(shares[1] * 2**32)


def to_length_bounds(settings: MaskSettings) -> UInt64s:
    """Compute the thresholds that a 32-bit random number is compared with to choose the length of an n-gram.

    The result is uint64 [longest - 1].

    The n-gram has more than k words if the number is at least the k-th threshold. The probabilities are exact to within
    2^-32.
    """
    return np.round(np.cumsum(compute_length_shares(settings))[:-1] * 2**32).astype(np.uint64)


def compute_length_shares(settings: MaskSettings) -> Float64s:
    """Return the probabilities of n-grams of 1, 2, ... words: float64 [longest]."""
    words = np.arange(1, (settings.longest or DEFAULT_MAX_WORDS.get(settings.unit, 1)) + 1)
    weights = (1 - SPAN_GEOMETRIC_P) ** words if settings.unit == "span" else 1 / words
    return np.asarray(weights / weights.sum())


def to_flat_positions(offsets: Int64s, masks: Masks) -> Int64s:
    """Convert positions within examples to positions in the concatenated ids: int64 [masks].

    Args:
        offsets: int64 [n + 1], the start of each example in the ids.
        masks: The masks of the examples.
    """
    return np.repeat(offsets[:-1], np.diff(masks.offsets)) + masks.positions
