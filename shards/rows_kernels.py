"""The kernel that lays documents end to end into rows of equal length.

Promise: the rows of `shards.rows.rows_plainly`, which is their definition.
Cost: one copy of the ids.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.kernels import kernel

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
PLACE, IN_GROUP, LEFT_OVER, PADDED, NUM_STATES = range(5)


class Frame(NamedTuple):
    """What stands around documents and rows.

    cls_id, sep_id: before and behind a document
    pad_id:         what fills the row in which a group ends, -1: nothing does, and its ids are left over
    length:         ids in a row
    group:          documents end to end before a row is ended, 0: all
    """

    cls_id: int
    sep_id: int
    pad_id: int
    length: int
    group: int


@kernel
def lay_documents(
    ids: Ids, offsets: npt.NDArray[np.int64], frame: Frame, state: npt.NDArray[np.int64], out: Ids
) -> None:
    """Write documents behind the ids that `out` has, whole rows and the beginning of one.

    offsets: document d is ids[offsets[d]:offsets[d + 1]]
    state:   int64 [NUM_STATES], moved on: ids in `out`, documents since a row was ended, ids left over and padded
    """
    place = state[PLACE]
    for document in range(len(offsets) - 1):
        first, size = offsets[document], offsets[document + 1] - offsets[document]
        out[place] = frame.cls_id
        place += 1
        for token in range(size):
            out[place + token] = ids[first + token]
        place += size
        out[place] = frame.sep_id
        place += 1
        state[IN_GROUP] += 1
        if state[IN_GROUP] == frame.group:
            state[PLACE] = place
            end_row(frame, state, out)
            place = state[PLACE]
    state[PLACE] = place


@kernel
def end_row(frame: Frame, state: npt.NDArray[np.int64], out: Ids) -> None:
    """Fill the last row, or take back what stands in it; the next document begins a row."""
    rest = state[PLACE] % frame.length
    state[IN_GROUP] = 0
    if frame.pad_id < 0:
        state[PLACE] -= rest
        state[LEFT_OVER] += rest
    elif rest:
        for place in range(state[PLACE], state[PLACE] + frame.length - rest):
            out[place] = frame.pad_id
        state[PLACE] += frame.length - rest
        state[PADDED] += frame.length - rest
