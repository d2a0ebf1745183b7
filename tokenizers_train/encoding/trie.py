"""A byte trie over pieces, which shows the pieces that a text continues with.

Promise: following a piece's bytes from its root leads to a node with the piece's id (`get_value`); every other way
leads to a node without an id (-1) or to no node (-1). One trie can have several roots, each with pieces of its own.

How: a double array (Aoe 1989) in which a cell is one integer, of the byte that leads to it, its id and the place of its
children. No two nodes have their children at the same place, so the byte is enough to tell whether a cell is a node's
child, and a step is one load. A node's number is its cell's content: to know a node is to know its id.

Cost: 4 nanoseconds a step over all pieces of BERT's vocabulary (30,522) in their order; those take 0.14 s to build and
0.55 MB: 19 of 20 cells are used.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.text.buffers import make_read_only

MAX_VALUE = (1 << 27) - 2

_LABEL_BITS, _VALUE_BITS = 9, 27
_LABEL_MASK, _VALUE_MASK = (1 << _LABEL_BITS) - 1, (1 << _VALUE_BITS) - 1
_EMPTY = 1 << 8  # the label of a cell that is no node's child: no byte is equal to it
_NUM_LABELS = 256
_MAX_CELLS_TRIED = 512  # cells looked at for a place among others, before one is taken after all of them


class Trie(NamedTuple):
    """A byte trie stored as a double array.

    Attributes:
        cells: int64, each label | (id + 1) << 9 | index of the children << 36.
        roots: int64, the node of each root.
    """

    cells: Int64s
    roots: Int64s


def build_trie(
    pieces: Sequence[bytes], ids: Sequence[int], roots: Sequence[int] | None = None, *, num_roots: int = 1
) -> Trie:
    """Build a trie in which piece p, stored below the root roots[p], has the id ids[p].

    An empty piece assigns its id to the root itself.

    Args:
        pieces: The bytes of each piece.
        ids: One id per piece, from 0 to MAX_VALUE.
        roots: One root per piece, from 0 to num_roots - 1 (default: all pieces are below root 0).
        num_roots: Number of roots.

    Raises:
        InputError: If a root has the same piece twice or an id is out of range.
    """
    root_of_piece = np.zeros(len(pieces), np.int64) if roots is None else np.array(roots, np.int64)
    assert len(ids) == len(pieces) == len(root_of_piece), "each piece has one id and one root"
    table = pa.table(
        {"root": root_of_piece, "piece": pa.array(pieces, pa.large_binary()), "id": np.array(ids, np.int64)}
    )
    table = table.sort_by([("root", "ascending"), ("piece", "ascending")]).combine_chunks()
    sorted_pieces, sorted_roots = table["piece"].combine_chunks(), table["root"].to_numpy()
    is_repeated = pc.equal(sorted_pieces[1:], sorted_pieces[:-1]).to_numpy(zero_copy_only=False) & (
        np.diff(sorted_roots) == 0
    )
    if is_repeated.any():
        piece = sorted_pieces[int(is_repeated.argmax())].as_py()
        raise InputError(f"The piece {piece!r} occurs twice in the vocabulary: each piece has one id.")
    values = table["id"].to_numpy()
    if len(values) and not 0 <= values.min() <= values.max() <= MAX_VALUE:
        raise InputError(f"Ids run from 0 to {MAX_VALUE} at most, and here from {values.min()} to {values.max()}.")
    _, offsets, data = (
        np.frombuffer(each or b"", kind)
        for each, kind in zip(sorted_pieces.buffers(), (np.uint8, np.int64, np.uint8), strict=True)
    )
    first_of_root = np.searchsorted(sorted_roots, np.arange(num_roots + 1)).astype(np.int64)
    assert first_of_root[-1] == len(pieces), "roots are numbered from 0 to num_roots - 1"
    return _build_sorted(data, offsets, values, first_of_root)


def _build_sorted(
    data: Bytes,
    offsets: Int64s,
    values: Int64s,
    first_of_root: Int64s,
) -> Trie:
    """Build the trie of sorted pieces. The number of cells is doubled until they fit.

    Args:
        data: The concatenated bytes of all pieces, sorted by root and then by bytes.
        offsets: int64 [pieces + 1], the start of each piece in `data`.
        values: int64 [pieces], the id of each piece.
        first_of_root: int64 [roots + 1], the index of the first piece of each root, and the number of pieces.
    """
    num_roots = len(first_of_root) - 1
    num_cells = len(data) + 8 * _NUM_LABELS
    while True:
        cells = np.full(num_cells, _EMPTY, np.int64)
        roots = np.empty(num_roots, np.int64)
        used = fill_cells(data, offsets, values, first_of_root, cells, roots)
        if used >= 0:
            trie = Trie(cells[: used + _NUM_LABELS].copy(), roots)
            for array in trie:
                array.flags.writeable = False
            return trie
        num_cells *= 2


def keep_values_below(trie: Trie, limit: int) -> Trie:
    """Return a copy of the trie without the ids that are `limit` or higher. Their nodes remain, but have no id."""
    arrays = (
        np.where(nodes >> _LABEL_BITS & _VALUE_MASK > limit, nodes & ~(_VALUE_MASK << _LABEL_BITS), nodes)
        for nodes in trie
    )
    return Trie(*map(make_read_only, arrays))


@kernel
def find_child(trie: Trie, node: int, byte: int) -> int:
    """Return the child of a node for the given byte, or -1 if no piece continues with this byte.

    A node is given by the content of its cell. Start at a root by passing an entry of `trie.roots`.
    """
    child = trie.cells[(node >> (_LABEL_BITS + _VALUE_BITS)) + byte]
    return child if child & _LABEL_MASK == byte else -1


@kernel
def get_value(node: int) -> int:
    """Return the id of the piece that ends at this node, or -1 if no piece ends here."""
    return (node >> _LABEL_BITS & _VALUE_MASK) - 1


@kernel
def fill_cells(
    data: Bytes,
    offsets: Int64s,
    values: Int64s,
    first_of_root: Int64s,
    cells: Int64s,
    roots: Int64s,
) -> int:
    """Write the trie of sorted pieces into empty cells, level by level from the roots.

    Args:
        data: The concatenated bytes of all pieces, sorted by root and then by bytes.
        offsets: int64 [pieces + 1], the start of each piece in `data`.
        values: int64 [pieces], the id of each piece.
        first_of_root: int64 [roots + 1], the index of the first piece of each root, and the number of pieces.
        cells: int64, the output array. Every cell must be initialized to `_EMPTY`.
        roots: int64 [roots], filled with the node of each root.

    Returns:
        The number of cells used, or -1 if there are not enough cells. In that case the output must not be used.
    """
    limit = len(cells) - 2 * _NUM_LABELS
    used_bases = np.zeros(len(cells), np.uint8)
    # Nodes that wait: the pieces below them (from, to), how deep they are, and their cell, or ~root.
    queue = np.empty((len(data) + len(roots), 4), np.int64)
    for root in range(len(roots)):
        queue[root, 0], queue[root, 1] = first_of_root[root], first_of_root[root + 1]
        queue[root, 2], queue[root, 3] = 0, ~root
    done, queued = 0, len(roots)
    low, top = _NUM_LABELS + 1, 2 * _NUM_LABELS  # cells 0 to 255 stay empty: the children of those that have none
    labels = np.empty(_NUM_LABELS, np.int64)
    while done < queued:
        first, last, depth, cell = queue[done]
        done += 1
        content = _EMPTY if cell < 0 else cells[cell] & _LABEL_MASK
        if first < last and offsets[first + 1] - offsets[first] == depth:
            content |= (values[first] + 1) << _LABEL_BITS
            first += 1
        if first < last:
            num_labels = _list_labels(data, offsets, first, last, depth, labels)
            base, low = _find_free_base(cells, used_bases, labels, num_labels, low, top)
            top = max(top, base + _NUM_LABELS)
            if top > limit:
                return -1
            used_bases[base] = 1
            content |= base << (_LABEL_BITS + _VALUE_BITS)
            _queue_children(data, offsets, first, last, depth, labels[:num_labels], base, queue, queued)
            for label in labels[:num_labels]:
                cells[base + label] = label
            queued += num_labels
        if cell < 0:
            roots[~cell] = content
        else:
            cells[cell] = content
    return top


@kernel
def _queue_children(
    data: Bytes,
    offsets: Int64s,
    first: int,
    last: int,
    depth: int,
    labels: Int64s,
    base: int,
    queue: Int64s,
    queued: int,
) -> None:
    """Append the children of a node to the queue. Each child gets its own range of the sorted pieces.

    Args:
        data: The bytes of all pieces.
        offsets: int64 [pieces + 1], the start of each piece in `data`.
        first: Index of the first piece that is longer than `depth` and below the node.
        last: Index after the last such piece.
        depth: Number of bytes on the path from the root to the node.
        labels: The distinct bytes at position `depth` of these pieces, ascending.
        base: Base index of the node: the child for a byte has the cell base + byte.
        queue: int64 [nodes, 4], filled with the first piece, the end of the pieces, the depth and the cell of each
            child.
        queued: Number of nodes that are already in the queue. The children are written after them.
    """
    for number, label in enumerate(labels):
        entry = queue[queued + number]
        entry[0] = first
        while first < last and data[offsets[first] + depth] == label:
            first += 1
        entry[1], entry[2], entry[3] = first, depth + 1, base + label


@kernel
def _list_labels(
    data: Bytes,
    offsets: Int64s,
    first: int,
    last: int,
    depth: int,
    labels: Int64s,
) -> int:
    """Write the distinct bytes at position `depth` of some pieces into `labels`, ascending, and return their number.

    Args:
        data: The bytes of all pieces, which must be sorted.
        offsets: int64 [pieces + 1], the start of each piece in `data`.
        first: Index of the first piece.
        last: Index after the last piece. Each of these pieces must be longer than `depth`.
        depth: The position in a piece.
        labels: int64 [256], the output array.
    """
    number = 0
    for piece in range(first, last):
        label = data[offsets[piece] + depth]
        if number == 0 or labels[number - 1] != label:
            labels[number] = label
            number += 1
    return number


@kernel
def _find_free_base(
    cells: Int64s,
    used_bases: Bytes,
    labels: Int64s,
    num_labels: int,
    low: int,
    top: int,
) -> tuple[int, int]:
    """Find an unused base index such that the cell of every label is empty.

    The search tries the first label in each empty cell from `low` on. If no cell fits within `_MAX_CELLS_TRIED` cells,
    the base is `top`, and the next search starts at a later cell.

    Args:
        cells: int64, the cells of the trie.
        used_bases: uint8 [cells], 1 for each index that is already the base of a node.
        labels: The bytes of the children, ascending.
        num_labels: Number of labels.
        low: The cell at which the search starts.
        top: The cell after the last one that may be used.

    Returns:
        The base index, and the cell at which the next search starts.
    """
    while low < top and cells[low] != _EMPTY:
        low += 1
    first = max(low, _NUM_LABELS + labels[0])
    last = min(first + _MAX_CELLS_TRIED, top)
    for cell in range(first, last):
        base = cell - labels[0]
        fits = used_bases[base] == 0 and cells[cell] == _EMPTY
        for label in labels[1:num_labels]:
            fits = fits and cells[base + label] == _EMPTY
        if fits:
            return base, low
    return top, low + (last - first) // 2
