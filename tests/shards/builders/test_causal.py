"""The causal stream: kernel and twin alike, one stream cut into full examples."""

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small_documents import CLS, SEP, SINGLE, assert_same, assert_sound, documents_of, held, rows, shapes, spelt
from tiers import examples

from shards.builders.contract import Common
from shards.builders.pieces.causal import causal_examples, causal_plain


@given(shapes, st.integers(5, 30), st.integers(1, 3), st.integers(0, 9))
@examples(100)
def test_kernel_equals_the_plain_twin(lengths: list[list[int]], length: int, copies: int, seed: int) -> None:
    """Fails also where the examples end to end are not each document and a separator, or one is not full."""
    columns, common = documents_of(lengths, 0.3), Common(length, copies, seed)
    built = causal_examples(columns, common, SINGLE)
    assert_same(built, causal_plain(columns, common, SINGLE))
    assert_sound(columns, built, length, copies)
    texts = np.split(columns.ids, columns.sentences[columns.documents[1:-1]])
    for copy in range(copies):
        chosen = [row for row, of in zip(rows(built.examples), built.examples.copy, strict=True) if of == copy]
        assert all(row[0] == CLS for row in chosen) and {len(row) for row in chosen[:-1]} <= {length}
        stream = list(chain.from_iterable(row[1:] for row in chosen))
        parts = [list(part) for part in np.split(stream, np.flatnonzero(np.array(stream) == SEP) + 1)]
        assert parts.pop() == []
        wanted = [[*text.tolist(), SEP] for text in texts]
        assert parts == wanted if copy == 0 else sorted(parts) == sorted(wanted)


def test_worked_by_hand() -> None:
    """The example of the docstring: a separator alone goes into the next example, whose first document it ends."""
    built = causal_examples(documents_of([[1, 3], [2]]), Common(5, 1, 7), SINGLE)
    assert spelt(built.examples) == ["cxxxx", "c/xx/"]
    assert held(built.examples) == [[0], [0, 1]] and built.examples.ordinal.tolist() == [0, 1]
    assert built.ledgers[0].figures == {"cut_documents": 1}


def test_later_copies_have_other_neighbours() -> None:
    """Fails where every copy reads the documents in one order."""
    examples = causal_examples(documents_of([[3]] * 40), Common(8, 2, 7), SINGLE).examples
    first, second = ({tuple(d) for d, of in zip(held(examples), examples.copy, strict=True) if of == n} for n in (0, 1))
    assert len(first & second) < len(first) / 4
