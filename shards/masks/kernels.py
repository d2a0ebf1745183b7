"""The kernels of the masks: positions are chosen, then what the model sees there.

Promise: the masks of `shards.masks.plain`, which is their definition; what an example gets depends only on its key, its
rate and its tokens. Cost: see `shards.masks.masking`; room for one example is set aside once a call.

What is chosen is kept as bits, 64 positions to a word, and so found in ascending order without a sort or a look at what
is not chosen. A drawn 64-bit word is two numbers of 32 bits, the lower half first; of n things each is drawn with 1/n
to a relative error below n / 2^32.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Float64s, Ids, Int64s, Integer, UInt32s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import trailing_zeros
from corpora.store.randomness import draw_one, draw_uniform_one, fold_one

# Where the draws of an example begin: counters of its stream.
CHOICES = 0  # of places, and of the order of units
LENGTHS = 1 << 33  # of n-grams
PLANES = 1 << 34  # + 32 a word of 64 units: which of them are chosen, each by itself
REPLACEMENTS = 1 << 35  # + a place: its kind, and its random token
ALIASES = 1 << 36  # + a place: whether a random token stands for itself or for its alias
MASK_COUNTS = 1 << 37  # the number of masks, if it is drawn
TRIM_SIDES = 1 << 38  # + the number of a unit in its order: where it loses words

TOKENS, WORDS, SPANS = 0, 1, 2  # units; n-grams are as words, but longer; a span is seen as one
EXACT, PROBABILISTIC, INDEPENDENT = 0, 1, 2  # counts

_MAX_RANGES_TO_SCAN = 6  # runs of special ids

_LOW_32 = np.uint64(0xFFFFFFFF)
_0, _1, _5, _6, _32, _63 = (np.uint64(number) for number in (0, 1, 5, 6, 32, 63))
_ALL_BITS = ~_0
_LENGTHS, _REPLACEMENTS, _ALIASES, _TRIM_SIDES = (np.uint64(c) for c in (LENGTHS, REPLACEMENTS, ALIASES, TRIM_SIDES))


@kernel
def mask_examples(
    ids: Ids,
    offsets: Int64s,
    word_starts: Bytes,
    example_ids: UInt64s,
    epochs: Int64s,
    rates: Float64s,
    root: np.uint64,
    codes: Int64s,
    length_bounds: UInt64s,
    is_special: Bytes,
    special_ranges: UInt32s,
    ordinary: UInt32s,
    weights: UInt64s,
    aliases: UInt32s,
    positions: Int64s,
    targets: Ids,
    mask_offsets: Int64s,
) -> None:
    """Mask n examples in place, with settings encoded as numbers. This is the compiled part of `mask_tokens`.

    The chosen tokens in `ids` are overwritten with what the model sees.

    Args:
        ids: uint16 or uint32 [tokens], the concatenated ids of all examples. They are modified in place.
        offsets: int64 [n + 1], the start of each example in `ids`.
        word_starts: uint8 [tokens], 1 if the token begins a word. It may be empty if single tokens are masked.
        example_ids: uint64 [n], the id of each example.
        epochs: int64 [n], the epoch of each example.
        rates: float64 [n], the mask rate of each example.
        root: Random key from which the key of each example is derived.
        codes: int64 [6]: unit, count, maximum number of masks per example, the two bounds of `to_kind_bounds`, id of
            [MASK].
        length_bounds: uint64, thresholds for the random length of an n-gram, from `to_length_bounds`.
        is_special, special_ranges, ordinary, weights, aliases: Vocabulary tables, the fields of `MaskVocabulary`.
        positions: int64, filled with the positions of the masked tokens in `ids`. It must be large enough for all
            masks.
        targets: Filled with the original tokens. It must be as long as `positions`.
        mask_offsets: int64 [n + 1], filled with the start of each example's masks in `positions`. The first entry must
            be 0.
    """
    unit, count, cap = codes[0], codes[1], codes[2]
    max_length = 0
    for example in range(len(example_ids)):
        max_length = max(max_length, offsets[example + 1] - offsets[example])
    chosen, heads = np.zeros((max_length >> 6) + 1, np.uint64), np.zeros((max_length >> 6) + 1, np.uint64)
    max_words = max_length + 1 if unit != TOKENS else 1
    bounds, units = np.empty(2 * max_words, np.uint64), np.empty((3, max_words), np.uint64)
    total = 0
    for example in range(len(example_ids)):
        start, end = offsets[example], offsets[example + 1]
        row, rate = ids[start:end], rates[example]
        key = fold_one(fold_one(root, np.uint64(epochs[example])), example_ids[example])
        if unit == TOKENS:
            if count == INDEPENDENT:
                _choose_independent(row, is_special, rate, cap, key, chosen)
            else:
                num = len(row) - _count_special_tokens(row, is_special, special_ranges)
                _choose_tokens(row, is_special, num, _draw_mask_count(num, rate, count, cap, key), key, chosen)
        else:
            num_units, num = _build_units(row, word_starts[start:end], is_special, length_bounds, key, bounds, units)
            if count == INDEPENDENT:
                num_units, num = _keep_independent(units, num_units, bounds, rate, key)
                num_masks = min(num, cap)
            else:
                num_masks = _draw_mask_count(num, rate, count, cap, key)
            _choose_units(units, num_units, bounds, num_masks, key, chosen, heads)
        total = _replace_chosen(
            row, start, key, unit == SPANS, codes, ordinary, weights, aliases, chosen, heads, positions, targets, total
        )
        mask_offsets[example + 1] = total


@kernel
def _count_special_tokens(row: Ids, is_special: Bytes, special_ranges: UInt32s) -> int:
    """Count the special tokens of one example.

    If the special ids form few ranges, all tokens are compared with each range, because the compiler vectorizes this.

    Args:
        row: The ids of the example.
        is_special: uint8 [vocabulary], 1 for special tokens.
        special_ranges: The same tokens as ranges of ids: see `MaskVocabulary`.
    """
    num = np.uint32(0)
    if len(special_ranges) > _MAX_RANGES_TO_SCAN:
        for position in range(len(row)):
            num += is_special[row[position]]
    else:
        for number in range(len(special_ranges)):
            num += _count_ids_in_range(row, special_ranges[number, 0], special_ranges[number, 1])
    return np.int64(num)  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def _count_ids_in_range(row: Ids, first: np.uint32, span: np.uint32) -> np.uint32:
    """Count the ids of one example, `row`, that are in [first, first + span], both ends included."""
    num = np.uint32(0)
    for position in range(len(row)):
        num = np.uint32(num + np.uint32(np.uint32(row[position] - first) <= span))
    return num


@kernel
def _draw_mask_count(num: int, rate: float, count: int, cap: int, key: np.uint64) -> int:
    """Compute the number of tokens to mask, which is `rate` times `num`, either rounded or randomly rounded up or down.

    Args:
        num: Number of ordinary tokens of the example.
        rate: Share of these tokens to mask.
        count: EXACT to round to the nearest integer, but at least to 1 unless `num` is 0. For other values, the product
            is randomly rounded up or down.
        cap: Maximum of the result, which is at most `num` as well.
        key: Random key of the example.
    """
    if num == 0:
        return 0
    if count == EXACT:
        return min(max(1, int(np.rint(num * rate))), num, cap)
    return min(int(num * rate + draw_uniform_one(key, MASK_COUNTS)), num, cap)


@kernel
def _choose_tokens(row: Ids, is_special: Bytes, num: int, num_masks: int, key: np.uint64, chosen: UInt64s) -> None:
    """Set the bits of `num_masks` of the `num` ordinary tokens, chosen uniformly at random.

    Positions are drawn until enough are found. If more than half are to be masked, the positions to leave out are drawn
    instead, so that few draws hit a position that is already taken.

    Args:
        row: The ids of the example.
        is_special: uint8 [vocabulary], 1 for special tokens.
        num: Number of ordinary tokens in `row`.
        num_masks: Number of tokens to choose, at most `num`.
        key: Random key of the example.
        chosen: uint64, the output: one bit per token, lowest bit first. It must be initialized to zeros.
    """
    leaves_out = 2 * num_masks > num
    missing = num - num_masks if leaves_out else num_masks
    length, counter = np.uint64(len(row)), CHOICES
    while missing > 0:
        word = draw_one(key, counter)
        counter += 1
        missing -= _choose_if_free(row, is_special, ((word & _LOW_32) * length) >> _32, chosen)
        if missing > 0:
            missing -= _choose_if_free(row, is_special, ((word >> _32) * length) >> _32, chosen)
    if leaves_out:
        for position in range(len(row)):
            chosen[position >> 6] ^= np.uint64(1 - is_special[row[position]]) << (np.uint64(position) & _63)


@kernel
def _choose_if_free(row: Ids, is_special: Bytes, position: np.uint64, chosen: UInt64s) -> int:
    """Set the bit of a position in `chosen`, unless it is already set or the token is special.

    Args:
        row: The ids of the example.
        is_special: uint8 [vocabulary], 1 for special tokens.
        position: Index in `row`.
        chosen: uint64, one bit per token, lowest bit first. Changed in place.

    Returns:
        1 if this call set the bit, otherwise 0.
    """
    word, bit = position >> _6, position & _63
    is_free = (~(chosen[word] >> bit) & _1) & (np.uint64(is_special[row[position]]) ^ _1)
    chosen[word] |= is_free << bit
    return np.int64(is_free)  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def _choose_independent(row: Ids, is_special: Bytes, rate: float, cap: int, key: np.uint64, chosen: UInt64s) -> None:
    """Choose each ordinary token with probability `rate`, and set its bit.

    If more than `cap` tokens are chosen, some are dropped at random.

    Args:
        row: The ids of the example.
        is_special: uint8 [vocabulary], 1 for special tokens.
        rate: Probability of each token.
        cap: Maximum number of tokens to choose.
        key: Random key of the example.
        chosen: uint64, the output: one bit per token, lowest bit first. It must be initialized to zeros.
    """
    num: Integer = 0
    for block in range((len(row) + 63) >> 6):
        bits = _draw_bits(rate, key, block)
        while bits != _0:
            bit = np.uint64(trailing_zeros(bits))
            bits &= bits - _1
            position = (block << 6) + np.int64(bit)
            if position < len(row) and is_special[row[position]] == 0:
                chosen[block] |= _1 << bit
                num += 1
    length, counter = np.uint64(len(row)), 2 * CHOICES  # which counts halves
    while num > cap:
        word = draw_one(key, counter >> 1)
        half = word >> _32 if counter & 1 else word & _LOW_32
        counter += 1
        position = np.int64((half * length) >> _32)
        bit = np.uint64(position) & _63
        num -= np.int64((chosen[position >> 6] >> bit) & _1)
        chosen[position >> 6] &= ~(_1 << bit)


@kernel
def _draw_bits(rate: float, key: np.uint64, block: Integer) -> np.uint64:
    """Return 64 bits, each set with probability `rate` (to within 2^-32).

    A bit is set if its 32-bit random number is below `rate` * 2^32. Bit i of the k-th word drawn is the k-th highest
    bit of number i, so one word advances all 64 comparisons. Words are drawn until every comparison is decided, which
    takes about eight.

    Args:
        rate: Probability of each bit.
        key: Random key of the example.
        block: Zero-based index of these 64 bits. Each block has its own part of the random stream.
    """
    bound = np.uint64(np.rint(rate * 4294967296.0))
    if bound >> _32:
        return _ALL_BITS
    is_below, undecided = _0, _ALL_BITS
    for number in range(32):
        plane = draw_one(key, PLANES + block * 32 + number)
        if (bound >> np.uint64(31 - number)) & _1:
            is_below |= undecided & ~plane
            undecided &= plane
        else:
            undecided &= ~plane
        if undecided == _0:
            break
    return is_below


@kernel
def _build_units(
    row: Ids, word_starts: Bytes, is_special: Bytes, lengths: UInt64s, key: np.uint64, bounds: UInt64s, units: UInt64s
) -> tuple[int, int]:
    """Group the words of one example into units (words, n-grams or spans) that are masked together.

    No unit contains a special token.

    Args:
        row: The ids of the example.
        word_starts: uint8 [tokens of the example], 1 if the token begins a word.
        is_special: uint8 [vocabulary], 1 for special tokens.
        lengths: uint64, thresholds for the random length of an n-gram, from `to_length_bounds`.
        key: Random key of the example.
        bounds: uint64, filled with the start of each word as an index into `row` and, after the last word before a
            special token, also its end.
        units: uint64 [3, words], filled with the first word and the end word of each unit, as indices into `bounds`.
            The third row is scratch memory.

    Returns:
        The number of units, and the number of ordinary tokens.
    """
    num_bounds = num_units = _0
    start, special_positions = _0, units[2]
    num: Integer = 0
    num_specials = _find_special_positions(row, is_special, special_positions)
    for stretch in range(num_specials + 1):
        end = special_positions[stretch]
        if start < end:
            num += np.int64(end - start)
            first = num_bounds
            bounds[num_bounds] = start
            num_bounds += _1
            for position in range(start + _1, end):
                bounds[num_bounds] = position  # stays where a word begins here; else the next one writes over it
                num_bounds += np.uint64(word_starts[position] != 0)
            bounds[num_bounds] = end
            num_units = _split_words_into_units(first, num_bounds, lengths, key, units, num_units)
            num_bounds += _1
        start = end + _1
    return np.int64(num_units), num  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def _find_special_positions(row: Ids, is_special: Bytes, positions: UInt64s) -> int:
    """Write the positions of the special tokens of one example, followed by the length of the example.

    Args:
        row: The ids of the example.
        is_special: uint8 [vocabulary], 1 for special tokens.
        positions: uint64 [at least len(row) + 1], filled with indices into `row`, ascending.

    Returns:
        The number of special tokens.
    """
    num = _0
    for position in range(np.uint64(len(row))):
        positions[num] = position
        num += np.uint64(is_special[row[position]])
    positions[num] = len(row)
    return np.int64(num)  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def _split_words_into_units(
    first: np.uint64, end: np.uint64, lengths: UInt64s, key: np.uint64, units: UInt64s, num_units: np.uint64
) -> np.uint64:
    """Split consecutive words into units of random lengths and append the units.

    Args:
        first: Index in `bounds` (see `_build_units`) of the first word.
        end: Index in `bounds` after the last word.
        lengths: uint64, thresholds for the random length of a unit, from `to_length_bounds`. If it is empty, every unit
            is one word.
        key: Random key of the example.
        units: uint64 [3, words], the output array. The first word and the end word of each unit are written from column
            `num_units` on.
        num_units: Number of units before the call.

    Returns:
        The number of units after the call.
    """
    if len(lengths) == 0:
        for word in range(first, end):
            units[0, num_units], units[1, num_units] = word, word + _1
            num_units += _1
        return num_units
    while first < end:
        draw = draw_one(key, _LENGTHS + (num_units >> _1)) >> ((num_units & _1) << _5) & _LOW_32
        length = _1
        for bound in lengths:
            length += np.uint64(draw >= bound)
        units[0, num_units] = first
        first = min(first + length, end)
        units[1, num_units] = first
        num_units += _1
    return num_units


@kernel
def _keep_independent(units: UInt64s, num_units: int, bounds: UInt64s, rate: float, key: np.uint64) -> tuple[int, int]:
    """Keep each unit with probability `rate`, and move the kept units to the front of `units`.

    Args:
        units: Units from `_build_units`, which are changed in place.
        num_units: Number of units.
        bounds: Word bounds from `_build_units`.
        rate: Probability of each unit.
        key: Random key of the example.

    Returns:
        The number of units kept, and the number of their tokens.
    """
    num_kept, num, bits = _0, _0, _0
    for unit in range(np.uint64(num_units)):
        if unit & _63 == _0:
            bits = _draw_bits(rate, key, np.int64(unit >> _6))
        first, end = units[0, unit], units[1, unit]
        units[0, num_kept], units[1, num_kept] = first, end
        keep = bits & _1
        bits >>= _1
        num_kept += keep
        num += keep * (bounds[end] - bounds[first])
    return np.int64(num_kept), np.int64(num)  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def _choose_units(
    units: UInt64s, num_units: int, bounds: UInt64s, num_masks: int, key: np.uint64, chosen: UInt64s, heads: UInt64s
) -> None:
    """Choose units in random order (a Fisher-Yates shuffle) until `num_masks` tokens are chosen, and set their bits.

    A unit with more tokens than are still needed is shortened by whole words, at a randomly chosen end, so that no
    position is chosen more often than others. If a single word is still too long, it is skipped.

    Args:
        units: Units from `_build_units`, which are reordered in place.
        num_units: Number of units.
        bounds: Word bounds from `_build_units`.
        num_masks: Maximum number of tokens to choose.
        key: Random key of the example.
        chosen: uint64, the output: one bit per token, lowest bit first, set for all tokens of the chosen units. It must
            be initialized to zeros.
        heads: uint64, the output: one bit per token, set for the first token of each chosen unit. It must be
            initialized to zeros.
    """
    missing, num = np.uint64(num_masks), np.uint64(num_units)
    for index in range(num):
        if missing == _0:
            break
        draw = draw_one(key, index >> _1) >> ((index & _1) << _5) & _LOW_32
        other = index + ((draw * (num - index)) >> _32)
        first, end = units[0, other], units[1, other]
        units[0, other], units[1, other] = units[0, index], units[1, index]
        if bounds[end] - bounds[first] > missing and end > first + _1:
            drops_first = draw_one(key, _TRIM_SIDES + index) & _1
            while bounds[end] - bounds[first] > missing and end > first + _1:
                first += drops_first
                end -= drops_first ^ _1
        start, stop = bounds[first], bounds[end]
        if stop - start <= missing:
            heads[start >> _6] |= _1 << (start & _63)
            for position in range(start, stop):
                chosen[position >> _6] |= _1 << (position & _63)
            missing -= stop - start


@kernel
def _replace_chosen(
    row: Ids,
    start: int,
    key: np.uint64,
    has_shared_kind: bool,
    codes: Int64s,
    ordinary: UInt32s,
    weights: UInt64s,
    aliases: UInt32s,
    chosen: UInt64s,
    heads: UInt64s,
    positions: Int64s,
    targets: Ids,
    num_masked: int,
) -> int:
    """Overwrite the chosen tokens of one example with what the model sees. Return the total number of masks so far.

    The bits in `chosen` and `heads` are cleared. There are no branches on random numbers, because the processor cannot
    predict them.

    Args:
        row: The ids of the example, which are modified in place.
        start: Position of the example in the concatenated ids.
        key: Random key of the example.
        has_shared_kind: Whether all tokens of a unit are replaced in the same way: by [MASK], by random tokens, or not
            at all.
        codes: int64 [6], settings as numbers, see `mask_examples`.
        ordinary, weights, aliases: Tables for random replacements, fields of `MaskVocabulary`.
        chosen: The bits of the tokens to mask.
        heads: The bits of the first token of each unit.
        positions: int64, filled with the positions of the masked tokens in the concatenated ids, written from index
            `num_masked` on.
        targets: The output array for the original tokens, written from index `num_masked` on.
        num_masked: Number of masks of the previous examples.
    """
    mask_bound, random_bound, mask_id = np.uint64(codes[3]), np.uint64(codes[4]), np.uint32(codes[5])
    num, kind, written = np.uint64(len(ordinary)), _0, np.uint64(num_masked)
    for block in range((len(row) + 63) >> 6):
        bits, head_bits = chosen[block], heads[block]
        chosen[block] = heads[block] = _0
        while bits != _0:
            bit = np.uint64(trailing_zeros(bits))
            bits &= bits - _1
            position = (np.uint64(block) << _6) | bit
            word = draw_one(key, _REPLACEMENTS + position)
            if not has_shared_kind or (head_bits >> bit) & _1:
                kind = word >> _32
            index = ((word & _LOW_32) * num) >> _32
            random_id = ordinary[index]
            if len(weights) and draw_one(key, _ALIASES + position) >> _32 >= weights[index]:
                random_id = aliases[index]
            token = row[position]
            seen = np.uint32(random_id) if kind < random_bound else np.uint32(token)
            positions[written] = start + np.int64(position)
            targets[written] = token
            row[position] = mask_id if kind < mask_bound else seen
            written += _1
    return np.int64(written)  # type: ignore[return-value]  # compiled code knows int as int64
