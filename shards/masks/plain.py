"""The definition of masks: what `shards.masks.kernels` computes, in plain Python, example by example."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Bytes, Ids, Int64s, UInt64s
from corpora.store.randomness import draw, stream, uniform
from shards.masks.kernels import CHOICES, COUNT, LENGTHS, PLANES, REPLACEMENTS, SIDES, WEIGHTS
from shards.masks.masking import LONGEST_MASKED, Masks, MaskSettings, MaskVocabulary, length_bounds, share_bounds

Places = list[int]
Units = list[list[Places]]  # a unit's words, a word's places


def masks_plain(
    ids: Ids,
    offsets: Int64s,
    word_starts: Bytes,
    example_ids: UInt64s,
    epoch: int,
    settings: MaskSettings,
    vocabulary: MaskVocabulary,
) -> Masks:
    """Return what `shards.masks.masking.draw_masks` gives."""
    positions: list[Places] = []
    replacements: list[int] = []
    dtype: npt.DTypeLike = ids.dtype
    for (start, end), example_id in zip(pairwise(offsets.tolist()), example_ids.tolist(), strict=True):
        key = int(stream(settings.seed, "mask", epoch, example_id))
        row = ids[start:end].tolist()
        units = (
            [] if settings.kind == "none" else _chosen(row, word_starts[start:end].tolist(), key, settings, vocabulary)
        )
        places = sorted(place for unit in units for place in unit)
        heads = {place: min(unit) if settings.unit == "span" else place for unit in units for place in unit}
        positions.append(places)
        replacements += [_replacement(row[place], place, heads[place], key, settings, vocabulary) for place in places]
    return Masks(
        positions=np.array([place for row in positions for place in row], np.uint16),
        offsets=np.cumsum([0, *map(len, positions)], dtype=np.int64),
        replacements=np.array(replacements, dtype),
    )


def settings_at(settings: MaskSettings, epoch: int, slot: int) -> MaskSettings:
    """The settings with the rate of an epoch and slot."""
    if settings.schedule is None:
        return settings
    place = epoch if settings.schedule.batch is None else slot // settings.schedule.batch
    return replace(settings, rate=settings.schedule.rate_at(settings.rate, place), schedule=None)


def _chosen(
    row: list[int], word_starts: list[int], key: int, settings: MaskSettings, vocabulary: MaskVocabulary
) -> list[Places]:
    """The places to guess in one example, unit by unit."""
    places = [place for place, token in enumerate(row) if not vocabulary.is_special[token]]
    cap = settings.max_predictions or LONGEST_MASKED
    wanted = min(_wanted(len(places), key, settings), len(places), cap)
    if settings.unit == "token" and settings.count == "independent":
        return [[place] for place in _kept(len(row), places, settings.rate, cap, key)]
    if settings.unit == "token":
        return [[place] for place in _sample(len(row), places, wanted, key)]
    units = _units(_words(places, word_starts), key, settings)
    if settings.count == "independent":
        units = [unit for number, unit in enumerate(units) if _is_below(settings.rate, key, number)]
        wanted = min(sum(len(word) for unit in units for word in unit), cap)
    return _take_units(units, wanted, key)


def _wanted(num: int, key: int, settings: MaskSettings) -> int:
    """Return the number of `num` tokens to be chosen, before any bound."""
    if settings.count == "probabilistic":
        return int(num * settings.rate + float(uniform(key, COUNT)))
    return max(1, round(num * settings.rate))


def _halves(key: int, first: int) -> Iterator[int]:
    """The numbers of 32 bits of an example's stream from a counter on: of each word the lower half first."""
    for counter in count(first):
        upper, lower = divmod(int(draw(key, counter)), 2**32)
        yield lower
        yield upper


def _sample(length: int, places: Places, wanted: int, key: int) -> Places:
    """`wanted` of the places, every set as probable: places are drawn until there are enough.

    Of more than half of them those are drawn that are left out.
    """
    leave, taken, free = 2 * wanted > len(places), set[int](), set(places)
    drawn = _halves(key, CHOICES)
    while len(taken) < (len(places) - wanted if leave else wanted):
        place = next(drawn) * length >> 32
        taken |= {place} & free
    return sorted(free - taken) if leave else sorted(taken)


def _kept(length: int, places: Places, rate: float, cap: int, key: int) -> Places:
    """Keep each of the places by itself; of more than `cap` some are drawn and taken out again."""
    kept = {place for place in places if _is_below(rate, key, place)}
    drawn = _halves(key, CHOICES)
    while len(kept) > cap:
        kept.discard(next(drawn) * length >> 32)
    return sorted(kept)


def _is_below(rate: float, key: int, number: int) -> bool:
    """True if a number of 32 bits, those at one place of 32 words that are drawn, is below the rate's share."""
    block, place = divmod(number, 64)
    drawn = (int(draw(key, PLANES + block * 32 + turn)) >> place & 1 for turn in range(32))
    return sum(bit << 31 - turn for turn, bit in enumerate(drawn)) < round(rate * 2**32)


def _words(places: Places, word_starts: list[int]) -> list[Places]:
    """The words of the ordinary places: one begins at a word start and after a special token."""
    words: list[Places] = []
    for place in places:
        if word_starts[place] or not words or words[-1][-1] != place - 1:
            words.append([])
        words[-1].append(place)
    return words


def _units(words: list[Places], key: int, settings: MaskSettings) -> Units:
    """Words cut into n-grams of drawn lengths, none across a special token."""
    bounds, drawn = length_bounds(settings).tolist(), _halves(key, LENGTHS)
    units: Units = []
    wanted = 0
    for word in words:
        if units and len(units[-1]) < wanted and units[-1][-1][-1] == word[0] - 1:
            units[-1].append(word)
        else:
            number = next(drawn)
            wanted = 1 + sum(number >= bound for bound in bounds)
            units.append([word])
    return units


def _take_units(units: Units, wanted: int, key: int) -> list[Places]:
    """Units in random order (Fisher, Yates) up to `wanted` tokens.

    One that has more than are left loses its last words or its first, as drawn; where one word has more, it is skipped.
    """
    units, drawn = list(units), _halves(key, CHOICES)
    taken: list[Places] = []
    left = wanted
    for index in range(len(units)):
        if left == 0:
            break
        other = index + (next(drawn) * (len(units) - index) >> 32)
        units[index], units[other] = units[other], units[index]
        words = units[index]
        while len(words) > 1 and sum(map(len, words)) > left:
            words = words[1:] if int(draw(key, SIDES + index)) & 1 else words[:-1]
        if sum(map(len, words)) <= left:
            taken.append([place for word in words for place in word])
            left -= len(taken[-1])
    return taken


def _replacement(
    token: int, place: int, head: int, key: int, settings: MaskSettings, vocabulary: MaskVocabulary
) -> int:
    """Return what the model sees: the upper half of its head's draw gives the kind, the lower of its own the token."""
    kind, lower = int(draw(key, REPLACEMENTS + head)) >> 32, int(draw(key, REPLACEMENTS + place)) % 2**32
    mask_bound, random_bound = share_bounds(settings)
    if kind < mask_bound:
        return vocabulary.mask_id
    if kind >= random_bound:
        return token
    index = (
        lower * len(vocabulary.ordinary) >> 32
    )  # of V ordinary ids each with 1/V, to a relative error below V / 2^32
    if len(vocabulary.weights) and int(draw(key, WEIGHTS + place)) >> 32 >= int(vocabulary.weights[index]):
        return int(vocabulary.aliases[index])
    return int(vocabulary.ordinary[index])
