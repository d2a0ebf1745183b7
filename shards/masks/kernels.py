"""The kernels of the masks: places are chosen, then what the model sees in them.

Promise: the masks of `shards.masks.plain`, which is their definition; what an example gets depends on its key, its
rate and its tokens alone. Cost: see `shards.masks.masking`; room for one example is set aside once a call.

What is chosen is kept as bits, 64 places to a word, and so found in ascending order without a sort or a look at what
is not chosen. A drawn 64-bit word is two numbers of 32 bits, the lower half first; of n things each is drawn with
1/n to a relative error below n / 2^32.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Float64s, Ids, Int64s, Integer, UInt32s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import trailing_zeros
from corpora.store.randomness import draw_one, fold_one, uniform_one

# Where the draws of an example begin: counters of its stream.
CHOICES = 0  # of places, and of the order of units
LENGTHS = 1 << 33  # of n-grams
PLANES = 1 << 34  # + 32 a word of 64 units: which of them are chosen, each by itself
REPLACEMENTS = 1 << 35  # + a place: its kind, and its random token
WEIGHTS = 1 << 36  # + a place: whether a random token stands for itself or for its alias
COUNT = 1 << 37  # the number of masks, where it is drawn
SIDES = 1 << 38  # + the number of a unit in its order: where it loses words

TOKENS, WORDS, SPANS = 0, 1, 2  # units; n-grams are as words, but longer; a span is seen as one
EXACT, PROBABLE, INDEPENDENT = 0, 1, 2  # counts

_FEW = 6  # runs of special ids

_LOW_32 = np.uint64(0xFFFFFFFF)
_0, _1, _5, _6, _32, _63 = (np.uint64(number) for number in (0, 1, 5, 6, 32, 63))
_ALL = ~_0
_LENGTHS, _REPLACEMENTS, _WEIGHTS, _SIDES = (np.uint64(c) for c in (LENGTHS, REPLACEMENTS, WEIGHTS, SIDES))


@kernel
def put_all(
    ids: Ids,
    offsets: Int64s,
    word_starts: Bytes,
    example_ids: UInt64s,
    epochs: Int64s,
    rates: Float64s,
    root: np.uint64,
    rules: Int64s,
    lengths: UInt64s,
    is_special: Bytes,
    special_runs: UInt32s,
    ordinary: UInt32s,
    weights: UInt64s,
    aliases: UInt32s,
    masked: Int64s,
    targets: Ids,
    mask_offsets: Int64s,
) -> None:
    """Put the masks into `ids`, and fill the last three. rules: unit, count, cap, bounds of the kinds, mask id"""
    unit, count, cap = rules[0], rules[1], rules[2]
    longest = 0
    for example in range(len(example_ids)):
        longest = max(longest, offsets[example + 1] - offsets[example])
    chosen, heads = np.zeros((longest >> 6) + 1, np.uint64), np.zeros((longest >> 6) + 1, np.uint64)
    room = longest + 1 if unit != TOKENS else 1
    bounds, units = np.empty(2 * room, np.uint64), np.empty((3, room), np.uint64)
    total = 0
    for example in range(len(example_ids)):
        first, end = offsets[example], offsets[example + 1]
        row, rate = ids[first:end], rates[example]
        key = fold_one(fold_one(root, np.uint64(epochs[example])), example_ids[example])
        if unit == TOKENS:
            if count == INDEPENDENT:
                _choose_independent(row, is_special, rate, cap, key, chosen)
            else:
                num = len(row) - _num_special(row, is_special, special_runs)
                _choose_tokens(row, is_special, num, _wanted(num, rate, count, cap, key), key, chosen)
        else:
            num_units, num = _units_of(row, word_starts[first:end], is_special, lengths, key, bounds, units)
            if count == INDEPENDENT:
                num_units, num = _keep_independent(units, num_units, bounds, rate, key)
                wanted = min(num, cap)
            else:
                wanted = _wanted(num, rate, count, cap, key)
            _choose_units(units, num_units, bounds, wanted, key, chosen, heads)
        total = _put(
            row, first, key, unit == SPANS, rules, ordinary, weights, aliases, chosen, heads, masked, targets, total
        )
        mask_offsets[example + 1] = total


@kernel
def _num_special(row: Ids, is_special: Bytes, special_runs: UInt32s) -> int:
    """Count the special tokens of a row: by the few runs of their ids, which takes vectors, or one by one."""
    num = np.uint32(0)
    if len(special_runs) > _FEW:
        for place in range(len(row)):
            num += is_special[row[place]]
    else:
        for run in range(len(special_runs)):
            num += _num_between(row, special_runs[run, 0], special_runs[run, 1])
    return np.int64(num)  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def _num_between(row: Ids, first: np.uint32, span: np.uint32) -> np.uint32:
    """Count the ids in [first, first + span]."""
    num = np.uint32(0)
    for place in range(len(row)):
        num = np.uint32(num + np.uint32(np.uint32(row[place] - first) <= span))
    return num


@kernel
def _wanted(num: int, rate: float, count: int, cap: int, key: np.uint64) -> int:
    """Return the number of `num` tokens to be chosen."""
    if num == 0:
        return 0
    if count == EXACT:
        return min(max(1, int(np.rint(num * rate))), num, cap)
    return min(int(num * rate + uniform_one(key, COUNT)), num, cap)


@kernel
def _choose_tokens(row: Ids, is_special: Bytes, num: int, wanted: int, key: np.uint64, chosen: UInt64s) -> None:
    """Set the bits of `wanted` of the `num` ordinary tokens: places are drawn until there are enough.

    Of more than half of them those are drawn that are left out, so that few draws fail.
    """
    leave = 2 * wanted > num
    left = num - wanted if leave else wanted
    length, counter = np.uint64(len(row)), CHOICES
    while left > 0:
        word = draw_one(key, counter)
        counter += 1
        left -= _take(row, is_special, ((word & _LOW_32) * length) >> _32, chosen)
        if left > 0:
            left -= _take(row, is_special, ((word >> _32) * length) >> _32, chosen)
    if leave:
        for place in range(len(row)):
            chosen[place >> 6] ^= np.uint64(1 - is_special[row[place]]) << (np.uint64(place) & _63)


@kernel
def _take(row: Ids, is_special: Bytes, place: np.uint64, chosen: UInt64s) -> int:
    """Set the bit of a place; 1 where it was free, 0 where it was not, or is a special token's."""
    block, bit = place >> _6, place & _63
    free = (~(chosen[block] >> bit) & _1) & (np.uint64(is_special[row[place]]) ^ _1)
    chosen[block] |= free << bit
    return np.int64(free)  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def _choose_independent(row: Ids, is_special: Bytes, rate: float, cap: int, key: np.uint64, chosen: UInt64s) -> None:
    """Set the bits of ordinary tokens, each by itself; of more than `cap` some are drawn and taken out again."""
    num: Integer = 0
    for block in range((len(row) + 63) >> 6):
        bits = _drawn_below(rate, key, block)
        while bits != _0:
            bit = np.uint64(trailing_zeros(bits))
            bits &= bits - _1
            place = (block << 6) + np.int64(bit)
            if place < len(row) and is_special[row[place]] == 0:
                chosen[block] |= _1 << bit
                num += 1
    length, counter = np.uint64(len(row)), 2 * CHOICES  # which counts halves
    while num > cap:
        word = draw_one(key, counter >> 1)
        half = word >> _32 if counter & 1 else word & _LOW_32
        counter += 1
        place = np.int64((half * length) >> _32)
        bit = np.uint64(place) & _63
        num -= np.int64((chosen[place >> 6] >> bit) & _1)
        chosen[place >> 6] &= ~(_1 << bit)


@kernel
def _drawn_below(rate: float, key: np.uint64, block: Integer) -> np.uint64:
    """64 bits, each set with probability `rate` (to 2^-32): where a number of 32 bits is below the rate's.

    Bit i of the k-th word drawn is the k-th highest bit of number i. Words are drawn until every number is decided,
    eight for most rates.
    """
    bound = np.uint64(np.rint(rate * 4294967296.0))
    if bound >> _32:
        return _ALL
    below, open_yet = _0, _ALL
    for turn in range(32):
        plane = draw_one(key, PLANES + block * 32 + turn)
        if (bound >> np.uint64(31 - turn)) & _1:
            below |= open_yet & ~plane
            open_yet &= plane
        else:
            open_yet &= ~plane
        if open_yet == _0:
            break
    return below


@kernel
def _units_of(
    row: Ids, word_starts: Bytes, is_special: Bytes, lengths: UInt64s, key: np.uint64, bounds: UInt64s, units: UInt64s
) -> tuple[int, int]:
    """Write the first word and the end of every unit, none across a special token: numbers of `bounds`.

    There a word is the place where it begins, and after the last one of a stretch of words is the place where it ends.
    lengths: a number of 32 bits not below the k-th of these means more than k words
    Returns the number of units, and that of ordinary tokens.
    """
    num_bounds = num_units = _0
    begin, specials = _0, units[2]
    num: Integer = 0
    num_specials = _places_of_specials(row, is_special, specials)
    for stretch in range(num_specials + 1):
        end = specials[stretch]
        if begin < end:
            num += np.int64(end - begin)
            first = num_bounds
            bounds[num_bounds] = begin
            num_bounds += _1
            for place in range(begin + _1, end):
                bounds[num_bounds] = place  # stays where a word begins here; else the next one writes over it
                num_bounds += np.uint64(word_starts[place] != 0)
            bounds[num_bounds] = end
            num_units = _cut(first, num_bounds, lengths, key, units, num_units)
            num_bounds += _1
        begin = end + _1
    return np.int64(num_units), num  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def _places_of_specials(row: Ids, is_special: Bytes, places: UInt64s) -> int:
    """Write the places of special tokens, and the row's length; return their number."""
    num = _0
    for place in range(np.uint64(len(row))):
        places[num] = place
        num += np.uint64(is_special[row[place]])
    places[num] = len(row)
    return np.int64(num)  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def _cut(
    first: np.uint64, end: np.uint64, lengths: UInt64s, key: np.uint64, units: UInt64s, num_units: np.uint64
) -> np.uint64:
    """Cut the words from `first` to before `end` into units of drawn lengths; return their number so far."""
    if len(lengths) == 0:
        for word in range(first, end):
            units[0, num_units], units[1, num_units] = word, word + _1
            num_units += _1
        return num_units
    while first < end:
        half = draw_one(key, _LENGTHS + (num_units >> _1)) >> ((num_units & _1) << _5) & _LOW_32
        length = _1
        for bound in lengths:
            length += np.uint64(half >= bound)
        units[0, num_units] = first
        first = min(first + length, end)
        units[1, num_units] = first
        num_units += _1
    return num_units


@kernel
def _keep_independent(units: UInt64s, num_units: int, bounds: UInt64s, rate: float, key: np.uint64) -> tuple[int, int]:
    """Keep units, each by itself; return their number, and the number of their tokens."""
    kept, num, bits = _0, _0, _0
    for unit in range(np.uint64(num_units)):
        if unit & _63 == _0:
            bits = _drawn_below(rate, key, np.int64(unit >> _6))
        first, end = units[0, unit], units[1, unit]
        units[0, kept], units[1, kept] = first, end
        keep = bits & _1
        bits >>= _1
        kept += keep
        num += keep * (bounds[end] - bounds[first])
    return np.int64(kept), np.int64(num)  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def _choose_units(
    units: UInt64s, num_units: int, bounds: UInt64s, wanted: int, key: np.uint64, chosen: UInt64s, heads: UInt64s
) -> None:
    """Set the bits of units in random order (Fisher, Yates), and of their first places in `heads`.

    One that has more tokens than are left loses its last words or its first, as drawn, so that none of its places is
    chosen more often than others; where one word has more, it is skipped.
    """
    left, num = np.uint64(wanted), np.uint64(num_units)
    for index in range(num):
        if left == _0:
            break
        half = draw_one(key, index >> _1) >> ((index & _1) << _5) & _LOW_32
        other = index + ((half * (num - index)) >> _32)
        first, end = units[0, other], units[1, other]
        units[0, other], units[1, other] = units[0, index], units[1, index]
        if bounds[end] - bounds[first] > left and end > first + _1:
            from_first = draw_one(key, _SIDES + index) & _1
            while bounds[end] - bounds[first] > left and end > first + _1:
                first += from_first
                end -= from_first ^ _1
        begin, stop = bounds[first], bounds[end]
        if stop - begin <= left:
            heads[begin >> _6] |= _1 << (begin & _63)
            for place in range(begin, stop):
                chosen[place >> _6] |= _1 << (place & _63)
            left -= stop - begin


@kernel
def _put(
    row: Ids,
    first: int,
    key: np.uint64,
    as_one: bool,
    rules: Int64s,
    ordinary: UInt32s,
    weights: UInt64s,
    aliases: UInt32s,
    chosen: UInt64s,
    heads: UInt64s,
    masked: Int64s,
    targets: Ids,
    total: int,
) -> int:
    """Put into the chosen places what the model sees, and clear the bits; return the masked places by then.

    Without branches where the outcome is drawn: which kind comes next cannot be guessed.
    """
    mask_bound, random_bound, mask_id = np.uint64(rules[3]), np.uint64(rules[4]), np.uint32(rules[5])
    num, kind, to = np.uint64(len(ordinary)), _0, np.uint64(total)
    for block in range((len(row) + 63) >> 6):
        bits, head_bits = chosen[block], heads[block]
        chosen[block] = heads[block] = _0
        while bits != _0:
            bit = np.uint64(trailing_zeros(bits))
            bits &= bits - _1
            place = (np.uint64(block) << _6) | bit
            word = draw_one(key, _REPLACEMENTS + place)
            if not as_one or (head_bits >> bit) & _1:
                kind = word >> _32
            index = ((word & _LOW_32) * num) >> _32
            drawn = ordinary[index]
            if len(weights) and draw_one(key, _WEIGHTS + place) >> _32 >= weights[index]:
                drawn = aliases[index]
            token = row[place]
            seen = np.uint32(drawn) if kind < random_bound else np.uint32(token)
            masked[to] = first + np.int64(place)
            targets[to] = token
            row[place] = mask_id if kind < mask_bound else seen
            to += _1
    return np.int64(to)  # type: ignore[return-value]  # compiled code knows int as int64
