"""How kernels are compiled: references are counted if they have to be, and constants make no further forms."""

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import boolean, int64
from numba.core.errors import TypingError
from numba.core.runtime import _nrt_python, rtsys

from corpora.kernels import compiling
from corpora.kernels.arrays import Int64s, copy_values
from corpora.kernels.compiling import kernel
from corpora.kernels.dispatching import Kernel

CALLS = 300


class Pair(NamedTuple):
    """Two arrays in one argument."""

    left: Int64s
    right: Int64s


# Kernels that only borrow their arrays


@kernel
def total_of(values: Int64s) -> int:
    total = 0
    for value in values:
        total += value
    return total


@kernel
def total_of_parts(values: Int64s) -> int:
    head, tail = values[:3], values[3:]
    return total_of(head) - total_of(tail)


@kernel
def total_of_rows(values: Int64s) -> int:
    rows, total = values.reshape(2, -1).shape[0], 0
    for row in range(rows):
        total += row
    return total


@kernel
def total_of_pair(values: Int64s) -> int:
    pair = Pair(values, values[1:])
    left, right = pair
    return len(pair.left) + total_of(left) + total_of(right)


@kernel
def put_number(values: Int64s) -> int:
    values[1:3] = 7
    copy_values(values[:2], values[2:4])
    return int(values[2])


@kernel
def sorted_inside(values: Int64s) -> int:
    return int(largest_of_copy(values)) + 1  # what it calls allocates, and gives back a number


# Kernels that hold an array that is theirs to give back


@kernel
def largest_of_copy(values: Int64s) -> int:
    return int(np.sort(values)[-1])


@kernel
def made(values: Int64s) -> Int64s:
    return np.arange(len(values)) + values


@kernel
def given_back(values: Int64s) -> Int64s:
    return values


@kernel
def part_given_back(values: Int64s) -> Int64s:
    return values[2:]


@kernel
def pair_given_back(values: Int64s) -> Pair:
    return Pair(values, values[1:])


@kernel
def of_what_is_made(values: Int64s) -> int:
    return total_of(made(values))


@kernel
def of_what_is_given_back(values: Int64s) -> int:
    return total_of(part_given_back(values))


@kernel
def of_a_copy(values: Int64s) -> int:
    return total_of(values.copy())


@kernel
def of_a_choice(values: Int64s) -> int:
    return total_of(values[values > 3])


@kernel
def of_a_list(values: Int64s) -> int:
    listed = [int(value) for value in values]
    return len(listed)


@kernel
def slice_assigned(values: Int64s) -> int:
    values[:2] = values[2:4]
    return int(values[0])


@kernel
def rows_of(values: Int64s) -> int:
    total = 0
    for row in values.reshape(2, -1):
        total += len(row)
    return total


BORROWING = (total_of, total_of_parts, total_of_pair, put_number)
COUNTED = (
    largest_of_copy, made, given_back, part_given_back, pair_given_back, of_what_is_made, of_what_is_given_back,
    of_a_copy, of_a_choice, of_a_list, slice_assigned, rows_of, total_of_rows,
)  # fmt: skip
CALLING_COUNTED = (sorted_inside,)


def compiled(function: Any, folder: Path, values: Int64s) -> tuple[Kernel, str]:
    """A kernel compiled from nothing, and its code as LLVM writes it."""
    made_here = Kernel(function.py_func, folder, "a digest", lambda change: None)
    made_here(values)
    [form] = made_here._forms.values()
    return made_here, str(form.library.get_llvm_str())


def numbers(found: Any) -> list[Any]:
    """What a kernel gave back, as Python's own numbers."""
    return [each.tolist() for each in found] if isinstance(found, tuple) else np.asarray(found).tolist()


@pytest.mark.parametrize("function", [*BORROWING, *COUNTED, *CALLING_COUNTED], ids=lambda each: each.__name__)
def test_nothing_leaks_and_nothing_is_freed_twice(function: Any, tmp_path: Path) -> None:
    """Fails if a kernel that holds an array of its own counts no references, or one is not given back."""
    values = np.arange(8)
    called, code = compiled(function, tmp_path, values.copy())
    if function not in CALLING_COUNTED:
        assert ("NRT_" in code) == (function in COUNTED)
    _nrt_python.memsys_enable_stats()
    references, before = sys.getrefcount(values), rtsys.get_allocation_stats()
    for _ in range(CALLS):
        given = np.arange(8)
        expected = numbers(function.py_func(given.copy()))
        found = called(given)
        assert given is not found or function is given_back
        del given
        assert numbers(found) == expected
        called(values)
    del found
    after = rtsys.get_allocation_stats()
    assert sys.getrefcount(values) == references
    assert after.alloc - before.alloc == after.free - before.free
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free
    assert (after.mi_alloc > before.mi_alloc) == (function not in BORROWING), "what is counted shows here"


def test_only_what_python_calls_is_seen_from_outside(tmp_path: Path) -> None:
    """Fails if a function stays that is inlined wherever it is called."""
    _, code = compiled(of_what_is_made, tmp_path, np.arange(8))
    defined = re.findall(r"^define (.*)", code, re.MULTILINE)
    assert len([each for each in defined if not each.startswith("internal")]) == 1


@kernel
def scaled(value: int, factor: int, doubled: bool) -> int:
    return value * factor * (2 if doubled else 1)


@kernel
def scaled_often(value: int) -> int:
    return scaled(value, 2, True) + scaled(3, value, False) + scaled(value, value, value > 1) + scaled(5, 5, True)


def test_a_kernel_is_compiled_once_whatever_constants_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numba's own dispatcher makes one more of a function for each constant."""
    for each in (scaled, scaled_often):  # what an earlier run compiled is not looked at
        monkeypatch.setattr(each.numba_object, "_folder", tmp_path)  # type: ignore[attr-defined]
    assert scaled_often(4) == scaled_often.py_func(4) == 110  # type: ignore[attr-defined]
    forms = scaled.numba_object._forms  # type: ignore[attr-defined]
    assert [kinds for kinds, native in forms if not native] == [(int64, int64, boolean)]


@kernel
def wrong(values: Int64s) -> int:
    return total_of(values) + "one"  # type: ignore[operator,no-any-return]


def test_what_cannot_be_compiled_is_told_as_numba_tells_it() -> None:
    """Also the second time: only what an operator gives is remembered, not that there is none."""
    for _ in range(2):
        with pytest.raises(TypingError, match=r"No implementation of function Function.*add"):
            wrong(np.arange(8))


def test_the_way_of_compiling_is_in_the_name_of_all_code() -> None:
    """Fails if `dispatching.py` can change and old code is still read."""
    waiting, read = [Path(__file__).parents[3] / "corpora" / "text" / "whitespace.py"], set[Path]()
    while waiting:
        path = waiting.pop()
        if path not in read:
            read.add(path)
            waiting += compiling._read_source(path, compiling.ROOT)[1]
    assert compiling.ROOT / "corpora" / "kernels" / "dispatching.py" in read
