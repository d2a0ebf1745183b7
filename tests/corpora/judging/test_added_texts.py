"""The output of a user's own step is checked before a kernel reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from corpora.errors import InputError
from corpora.judging.steps.added import Applied, StepEntry, apply_step, make_step
from corpora.sources.contract import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Careless:
    """A step that returns some column, whatever it was given."""

    kind: ClassVar[str] = "careless"
    version: ClassVar[int] = 1
    texts: pa.Array

    def apply(self, texts: pa.Array, records: Sequence[Record]) -> Applied:
        return Applied(self.texts, [None] * len(self.texts))


def column_of(data: bytes) -> pa.Array:
    offsets = np.array([0, len(data)], np.int64)
    return pa.LargeStringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data))


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        (column_of(b"a\xff"), r"bytes that are no text \(Invalid UTF8 sequence at string index 0\)"),
        (pa.array(["a"]), "texts of type string with 0 nulls"),
        (pa.array([None], pa.large_string()), "texts of type large_string with 1 nulls"),
        (pa.array(["a", "b"], pa.large_string()), "2 texts and 2 drops for 1 records"),
    ],
)
def test_what_is_no_column_of_texts_is_refused_with_the_name_of_the_step(returned: pa.Array, what: str) -> None:
    entry = StepEntry(step=Careless(texts=returned), after="clean", sources=(), package="mine 1.0")
    with pytest.raises(InputError, match=rf"The step 'careless' \(mine 1\.0\) returned {what}"):
        apply_step(entry, pa.array(["x"], pa.large_string()), [])


@pytest.mark.parametrize("kind", [None, 3, ["shouting"], {}])
def test_a_kind_that_is_no_name_is_refused(kind: Any) -> None:
    """Fails if a list, which no table can be looked up by, ends in a traceback."""
    with pytest.raises(InputError, match=r"no installed package has a step of that name"):
        make_step({"kind": kind})
