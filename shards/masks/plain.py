"""The definition of masks: what `shards.masks.kernels` computes, in plain Python, example by example."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Bytes, Ids, Int64s, UInt64s
from corpora.store.randomness import compute_keys, draw, draw_uniform
from shards.masks.kernels import ALIASES, CHOICES, LENGTHS, MASK_COUNTS, PLANES, REPLACEMENTS, TRIM_SIDES
from shards.masks.masking import (
    MAX_MASKED_LENGTH,
    Masks,
    MaskSettings,
    MaskVocabulary,
    to_kind_bounds,
    to_length_bounds,
)

Positions = list[int]
Units = list[list[Positions]]  # a unit's words, a word's places


def draw_masks_plain(
    ids: Ids,
    offsets: Int64s,
    word_starts: Bytes,
    example_ids: UInt64s,
    epoch: int,
    settings: MaskSettings,
    vocabulary: MaskVocabulary,
) -> Masks:
    """Reference implementation of `shards.masks.masking.draw_masks` for one epoch, for tests.

    Args:
        ids: [tokens], the concatenated ids of all examples. They are not changed.
        offsets: int64 [n + 1], the start of each example in `ids`.
        word_starts: uint8 [tokens], 1 if the token begins a word.
        example_ids: uint64 [n], the id of each example.
        epoch: The epoch of all examples.
        settings: Mask settings. A schedule is ignored.
        vocabulary: Vocabulary tables, from `build_mask_vocabulary`.

    Returns:
        The masked positions, and the ids that the model sees there.
    """
    positions: list[Positions] = []
    replacements: list[int] = []
    dtype: npt.DTypeLike = ids.dtype
    for (start, end), example_id in zip(pairwise(offsets.tolist()), example_ids.tolist(), strict=True):
        key = int(compute_keys(settings.seed, "mask", epoch, example_id))
        row = ids[start:end].tolist()
        units = (
            []
            if settings.kind == "none"
            else _choose_units(row, word_starts[start:end].tolist(), key, settings, vocabulary)
        )
        places = sorted(place for unit in units for place in unit)
        heads = {place: min(unit) if settings.unit == "span" else place for unit in units for place in unit}
        positions.append(places)
        replacements += [
            _draw_replacement(row[place], place, heads[place], key, settings, vocabulary) for place in places
        ]
    return Masks(
        positions=np.array([place for row in positions for place in row], np.uint16),
        offsets=np.cumsum([0, *map(len, positions)], dtype=np.int64),
        replacements=np.array(replacements, dtype),
    )


def with_rate_at(settings: MaskSettings, epoch: int, slot: int) -> MaskSettings:
    """Return the settings with the schedule replaced by the rate that it has at an epoch or step.

    Args:
        settings: The settings, which are returned unchanged if they have no schedule.
        epoch: Zero-based epoch.
        slot: Position in the training order, from which the step is computed.
    """
    if settings.schedule is None:
        return settings
    epoch_or_step = epoch if settings.schedule.batch is None else slot // settings.schedule.batch
    return replace(settings, rate=settings.schedule.compute_rate(settings.rate, epoch_or_step), schedule=None)


def _choose_units(
    row: list[int], word_starts: list[int], key: int, settings: MaskSettings, vocabulary: MaskVocabulary
) -> list[Positions]:
    """Choose the tokens to mask in one example.

    Args:
        row: The ids of the example.
        word_starts: For each of them, 1 if the token begins a word.
        key: Random key of the example.
        settings: Mask settings, without a schedule.
        vocabulary: Vocabulary tables, from `build_mask_vocabulary`.

    Returns:
        The positions of each unit (token, word or n-gram), as indices into `row`.
    """
    maskable = [place for place, token in enumerate(row) if not vocabulary.is_special[token]]
    cap = settings.max_predictions or MAX_MASKED_LENGTH
    num_masks = min(_draw_mask_count(len(maskable), key, settings), len(maskable), cap)
    if settings.unit == "token" and settings.count == "independent":
        return [[place] for place in _keep_positions(len(row), maskable, settings.rate, cap, key)]
    if settings.unit == "token":
        return [[place] for place in _draw_positions(len(row), maskable, num_masks, key)]
    units = _group_into_units(_group_into_words(maskable, word_starts), key, settings)
    if settings.count == "independent":
        units = [unit for number, unit in enumerate(units) if _is_chosen(settings.rate, key, number)]
        num_masks = min(sum(len(word) for unit in units for word in unit), cap)
    return _draw_units(units, num_masks, key)


def _draw_mask_count(num: int, key: int, settings: MaskSettings) -> int:
    """Return the number of tokens to mask out of `num`, before any maximum is applied.

    `key` is the random key of the example.
    """
    if settings.count == "probabilistic":
        return int(num * settings.rate + float(draw_uniform(key, MASK_COUNTS)))
    return max(1, round(num * settings.rate))


def _iter_draws(key: int, first_counter: int) -> Iterator[int]:
    """Yield an endless stream of 32-bit random numbers, derived from `key`.

    They are the lower and then the upper half of each 64-bit word from counter `first_counter` on.
    """
    for counter in count(first_counter):
        upper, lower = divmod(int(draw(key, counter)), 2**32)
        yield lower
        yield upper


def _draw_positions(length: int, maskable: Positions, num_masks: int, key: int) -> Positions:
    """Draw `num_masks` of the maskable positions uniformly at random.

    Positions are drawn until enough are found. If more than half are to be masked, the positions to leave out are drawn
    instead.

    Args:
        length: Number of all tokens of the example, including special tokens.
        maskable: The positions to choose from.
        num_masks: Number of positions to draw.
        key: Random key of the example.
    """
    leaves_out, chosen, free = 2 * num_masks > len(maskable), set[int](), set(maskable)
    draws = _iter_draws(key, CHOICES)
    while len(chosen) < (len(maskable) - num_masks if leaves_out else num_masks):
        position = next(draws) * length >> 32
        chosen |= {position} & free
    return sorted(free - chosen) if leaves_out else sorted(chosen)


def _keep_positions(length: int, maskable: Positions, rate: float, cap: int, key: int) -> Positions:
    """Keep each maskable position with probability `rate`. If more than `cap` are kept, drop some at random.

    `length` is the number of all tokens of the example, including special tokens, and `key` its random key.
    """
    chosen = {place for place in maskable if _is_chosen(rate, key, place)}
    draws = _iter_draws(key, CHOICES)
    while len(chosen) > cap:
        chosen.discard(next(draws) * length >> 32)
    return sorted(chosen)


def _is_chosen(rate: float, key: int, number: int) -> bool:
    """Return whether the 32-bit random number with the index `number` is below `rate` * 2^32.

    Its bits are stored in 32 words of the random stream of `key`, one bit in each, the highest first.
    """
    word, bit_index = divmod(number, 64)
    bits = (int(draw(key, PLANES + word * 32 + index)) >> bit_index & 1 for index in range(32))
    return sum(bit << 31 - index for index, bit in enumerate(bits)) < round(rate * 2**32)


def _group_into_words(positions: Positions, word_starts: list[int]) -> list[Positions]:
    """Group the positions of ordinary tokens into words. A word begins at each word start and after each special token.

    `positions` must be ascending. `word_starts` is 1 for each token of the example that begins a word.
    """
    words: list[Positions] = []
    for position in positions:
        if word_starts[position] or not words or words[-1][-1] != position - 1:
            words.append([])
        words[-1].append(position)
    return words


def _group_into_units(words: list[Positions], key: int, settings: MaskSettings) -> Units:
    """Group words into n-grams of random lengths. No n-gram extends across a special token.

    `words` lists the positions of each word, and `key` is the random key of the example.
    """
    length_bounds, draws = to_length_bounds(settings).tolist(), _iter_draws(key, LENGTHS)
    units: Units = []
    num_words = 0
    for word in words:
        if units and len(units[-1]) < num_words and units[-1][-1][-1] == word[0] - 1:
            units[-1].append(word)
        else:
            draw = next(draws)
            num_words = 1 + sum(draw >= bound for bound in length_bounds)
            units.append([word])
    return units


def _draw_units(units: Units, num_masks: int, key: int) -> list[Positions]:
    """Draw units in random order (a Fisher-Yates shuffle) until they have `num_masks` tokens in total.

    A unit with more tokens than are still needed is shortened by whole words, at a randomly chosen end. If a single
    word is still too long, it is skipped.

    Args:
        units: The units to draw from, each a list of words.
        num_masks: Maximum number of tokens to choose.
        key: Random key of the example.

    Returns:
        The positions of each unit, in the order in which the units were drawn.
    """
    units, draws = list(units), _iter_draws(key, CHOICES)
    chosen: list[Positions] = []
    missing = num_masks
    for index in range(len(units)):
        if missing == 0:
            break
        other = index + (next(draws) * (len(units) - index) >> 32)
        units[index], units[other] = units[other], units[index]
        words = units[index]
        while len(words) > 1 and sum(map(len, words)) > missing:
            words = words[1:] if int(draw(key, TRIM_SIDES + index)) & 1 else words[:-1]
        if sum(map(len, words)) <= missing:
            chosen.append([position for word in words for position in word])
            missing -= len(chosen[-1])
    return chosen


def _draw_replacement(
    token: int, position: int, head: int, key: int, settings: MaskSettings, vocabulary: MaskVocabulary
) -> int:
    """Return the id that the model sees at a masked position.

    The upper half of the random number at `head` decides between [MASK], a random token and the token itself. The lower
    half of the random number at `position` chooses the random token.

    Args:
        token: The original id at the position.
        position: Index of the token in its example.
        head: The first position of the unit, or `position` if each token is replaced independently.
        key: Random key of the example.
        settings: Mask settings.
        vocabulary: Vocabulary tables, from `build_mask_vocabulary`.
    """
    kind, lower = int(draw(key, REPLACEMENTS + head)) >> 32, int(draw(key, REPLACEMENTS + position)) % 2**32
    mask_bound, random_bound = to_kind_bounds(settings)
    if kind < mask_bound:
        return vocabulary.mask_id
    if kind >= random_bound:
        return token
    index = (
        lower * len(vocabulary.ordinary) >> 32
    )  # of V ordinary ids each with 1/V, to a relative error below V / 2^32
    if len(vocabulary.weights) and int(draw(key, ALIASES + position)) >> 32 >= int(vocabulary.weights[index]):
        return int(vocabulary.aliases[index])
    return int(vocabulary.ordinary[index])
