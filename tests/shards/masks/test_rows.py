"""Rows of one length: kernel and definition alike, the masks' labels at their places."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from shards.masks.masking import MaskSettings, ShardVocabulary, build_mask_vocabulary, mask_tokens
from shards.reading.records import IGNORED, to_rows, to_rows_plain

FACTS = build_mask_vocabulary(ShardVocabulary(300, {"pad": 7, "mask": 3}))


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
@given(st.lists(st.integers(0, 40), max_size=8), st.integers(0, 2**32))
@examples(40)
def test_rows_are_those_of_the_definition(dtype: type, lengths: list[int], epoch: int) -> None:
    """Fails if a row's padding, ids or labels are another's, also of no examples and of empty ones."""
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    ids = np.random.default_rng(epoch).integers(8, 300, offsets[-1]).astype(dtype)
    seen, names = ids.copy(), np.arange(len(lengths), dtype=np.uint64)
    masked = mask_tokens(seen, offsets, np.zeros(0, np.uint8), names, epoch, MaskSettings(rate=0.4), FACTS)
    found, plain = to_rows(seen, offsets, masked, 7), to_rows_plain(seen, offsets, masked, 7)
    for one, other in zip(found, plain, strict=True):
        assert one.dtype == np.int64 and one.shape == (len(lengths), max(lengths, default=0))
        np.testing.assert_array_equal(one, other)
    restored = np.where(found.labels == IGNORED, found.input_ids, found.labels)
    for row, (first, end) in enumerate(pairwise(offsets.tolist())):
        assert restored[row, : end - first].tolist() == ids[first:end].tolist()
        assert (found.input_ids[row, end - first :] == 7).all() and (found.labels[row, end - first :] == IGNORED).all()
