"""Eight bytes at a time: what is done to all of them is what is meant for each."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpora.kernels.arrays import Bytes, UInt16s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import (
    add_stripe,
    below_bits,
    equal_bits,
    find_first_flag,
    flag_ascii_marks,
    flag_digits,
    flag_letters,
    flag_non_alphanumeric,
    flag_spaces,
    high_product,
    keep_bytes,
    load8,
    load8_at,
    load_tail,
    load_up_to,
    lower_word,
    mask_before,
    store8,
    trailing_zeros,
    word_bits,
)

EIGHT = st.binary(min_size=8, max_size=8)


@kernel
def loaded(data: Bytes, index: int) -> np.uint64:
    return load8(data, index)


@kernel
def loaded_at(address: int, index: int) -> np.uint64:
    return load8_at(address, index)


@kernel
def product_above(one: np.uint64, other: np.uint64) -> np.uint64:
    return high_product(one, other)


@kernel
def with_stripe(lanes: UInt64s, data: Bytes, index: int, keys: Bytes, key_index: int) -> None:
    add_stripe(lanes, data, index, keys, key_index)


@kernel
def stored(array: UInt16s, index: int, value: np.uint64) -> None:
    store8(array, index, value)


@kernel
def zeros_below(value: np.uint64) -> int:
    return trailing_zeros(value)


@kernel
def bits_of(data: Bytes, index: int, byte: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    return word_bits(data, index), equal_bits(data, index, byte), below_bits(data, index, byte)


@settings(deadline=None)
@given(st.binary(min_size=64, max_size=80), st.integers(0, 255), st.data())
@example(bytes(range(0x20, 0x60)), ord("A"), None)
@example(bytes(range(0x60, 0xA0)), 0x80, None)
def test_bits_of_64_bytes(data: bytes, byte: int, drawn: st.DataObject | None) -> None:
    index = 0 if drawn is None else drawn.draw(st.integers(0, len(data) - 64))
    found = bits_of(np.frombuffer(data, np.uint8), index, byte)
    asked = (lambda each: chr(each).isascii() and chr(each).isalnum(), byte.__eq__, byte.__gt__)
    for bits, holds in zip(found, asked, strict=True):
        assert [int(bits) >> at & 1 for at in range(64)] == [holds(each) for each in data[index : index + 64]]


def word(data: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(data, "little"))


def bytes_of(value: int) -> bytes:
    return int(value).to_bytes(8, "little")


@settings(deadline=None)
@given(st.binary(min_size=8, max_size=40), st.data())
def test_loads_from_an_address(data: bytes, draw: st.DataObject) -> None:
    array, index = np.frombuffer(data, np.uint8), draw.draw(st.integers(0, len(data) - 8))
    assert bytes_of(int(loaded_at(array.ctypes.data, index))) == data[index : index + 8]


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
@example(2**64 - 1, 2**64 - 1)
def test_the_upper_half_of_a_product(one: int, other: int) -> None:
    assert int(product_above(np.uint64(one), np.uint64(other))) == one * other >> 64


@settings(deadline=None)
@given(st.binary(min_size=80, max_size=80), st.integers(0, 16), st.binary(min_size=80, max_size=80), st.integers(0, 16))
def test_a_stripe_is_added_lane_by_lane(data: bytes, index: int, keys: bytes, key_index: int) -> None:
    before = np.arange(8, dtype=np.uint64) << np.uint64(61)
    lanes = before.copy()
    with_stripe(lanes, np.frombuffer(data, np.uint8), index, np.frombuffer(keys, np.uint8), key_index)
    values = np.frombuffer(data, np.uint64, 8, index)
    for lane, key in enumerate(np.frombuffer(keys, np.uint64, 8, key_index).tolist()):
        keyed = int(values[lane]) ^ key
        product = (keyed >> 32) * (keyed & 0xFFFFFFFF)
        assert int(lanes[lane]) == (int(before[lane]) + int(values[lane ^ 1]) + product) % 2**64


@settings(deadline=None)
@given(st.binary(min_size=8, max_size=40), st.data())
def test_loads_at_every_place(data: bytes, draw: st.DataObject) -> None:
    array = np.frombuffer(data, np.uint8)
    index = draw.draw(st.integers(0, len(data) - 8))
    assert bytes_of(loaded(array, index)) == data[index : index + 8]


@settings(deadline=None)
@given(st.binary(max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_the_tail_stops_at_the_end(data: bytes, index: int, end: int) -> None:
    array = np.frombuffer(data, np.uint8)
    expected = data[min(index, len(data)) : min(end, len(data), index + 8)]
    for load in (load_tail, load_up_to):
        assert bytes_of(load(array, min(index, len(data)), min(end, len(data)))) == expected.ljust(8, b"\0")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_a_store_counts_in_elements_and_writes_eight_bytes(dtype: npt.DTypeLike) -> None:
    array = np.zeros(20, dtype)
    stored(array, 3, word(bytes(range(1, 9))))
    size = array.itemsize
    assert array.tobytes() == (bytes(3 * size) + bytes(range(1, 9))).ljust(20 * size, b"\0")


def test_zeros_are_counted() -> None:
    assert [zeros_below(np.uint64(1 << bit)) for bit in range(64)] == [*range(64)]
    assert zeros_below(np.uint64(0)) == 64
    assert zeros_below(np.uint64(0x8080008000000000)) == 39


@settings(deadline=None)
@given(EIGHT, st.integers(0, 9))
def test_low_bytes_are_kept(data: bytes, num_bytes: int) -> None:
    assert bytes_of(keep_bytes(word(data), num_bytes)) == data[:num_bytes].ljust(8, b"\0")


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=8, max_size=8))
def test_the_first_flag_is_found(flagged: list[bool]) -> None:
    flags, first = word(bytes(0x80 * flag for flag in flagged)), [*flagged, True].index(True)
    assert find_first_flag(flags) == first
    if first < 8:
        assert bytes_of(mask_before(flags)) == (b"\xff" * first).ljust(8, b"\0")


def check_questions(data: bytes) -> None:
    def flags(told: Callable[[bytes], bool]) -> bytes:
        return bytes(0x80 if told(data[at : at + 1]) else 0 for at in range(len(data)))

    assert bytes_of(flag_non_alphanumeric(word(data))) == flags(lambda byte: not byte.isalnum())
    assert bytes_of(flag_ascii_marks(word(data))) == flags(lambda byte: byte.isascii() and not byte.isalnum())
    assert bytes_of(flag_letters(word(data))) == flags(bytes.isalpha)
    assert bytes_of(flag_digits(word(data))) == flags(bytes.isdigit)
    assert bytes_of(flag_spaces(word(data))) == flags(bytes.isspace)
    assert bytes_of(lower_word(word(data))) == data.lower()


@settings(deadline=None)
@given(EIGHT)
@example(b"@AZ[`az{")
@example(b"/09:\x80\xc1\xda\xff")
def test_questions_about_eight_bytes(data: bytes) -> None:
    check_questions(data)


def test_every_byte_beside_every_other() -> None:
    for low in range(256):
        for high in (*range(0, 256, 5), 0x7F, 0x80, 0xFF):
            check_questions(bytes([low, high, low, low, high, high, low, high]))
