"""Search: for each query the vectors most like it, among all of them or by an index. No torch.

    vectors in blocks ─► float32 product with all queries ─► candidates ─► float64 similarity ─► the best

Promise: `exact_search` gives what `ranked` makes of all similarities (in float64), best first, for any size of blocks:
the product in float32 only selects candidates, with a margin for its rounding. `indexed_search` looks
at those that an index of usearch finds: nearly all of the best, much sooner.
Cost: 100 queries in a million vectors of 128 numbers: 4.2 s exactly. To make an index of 100,000 such vectors takes
62 s, and it finds 91 % of the best hundred of vectors in clusters: it pays where many searches are made (one x86-64
core, 2026-11-23). Memory: a block, the similarities of its rows to 1,024 queries, and all ids: 690 MB for that million.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s, Float64s
from corpora.store.places.files import replaced_file
from trainer.tasks.embeddings import VectorFile
from trainer.tasks.kinds.vectors import SIMILARITIES, similarities, unit_rows
from trainer.tasks.scores.vectors import ranked

Run = dict[str, dict[str, float]]
QUERIES_AT_ONCE = 1_024
MARGIN = 1e-4  # of the largest similarity there may be, by which a product in float32 may be off
MORE = 4  # times as many as are wanted, requested from an index


def exact_search(
    blocks: Iterable[tuple[Sequence[str], Float32s]], ids: Sequence[str], queries: Float32s, by: str, top: int
) -> Run:
    """Return for each query its `top` most similar vectors and their similarity. ids: of the queries; by: cosine or dot

    Raises InputError where an id occurs twice.
    """
    best: list[dict[str, float]] = [{} for _ in ids]
    seen = set[str]()
    for names, vectors in blocks:
        _check_new(names, seen)
        for start in range(0, len(ids), QUERIES_AT_ONCE):
            some = queries[start : start + QUERIES_AT_ONCE]
            for place, near in enumerate(_near(some, vectors, by, top), start):
                scores = similarities(queries[place][None], vectors[near], by)
                found = zip([names[row] for row in near.tolist()], scores.tolist(), strict=True)
                best[place] = _nearest({**best[place], **dict(found)}, top)
    return dict(zip(ids, best, strict=True))


def _near(queries: Float32s, vectors: Float32s, by: str, top: int) -> Iterator[Any]:
    """For each query the places of the vectors that may be among its best of this block."""
    one, other = (unit_rows(side) if by == "cosine" else side for side in (queries, vectors))
    products = one @ other.T
    reach = np.ones(len(one)) if by == "cosine" else _lengths(one) * _lengths(other).max(initial=0)
    for row, longest in zip(products, reach.tolist(), strict=True):
        if len(row) <= top:
            yield np.arange(len(row))
        else:
            yield np.flatnonzero(row >= np.partition(row, -top)[-top] - MARGIN * longest)


def _lengths(vectors: Float32s) -> Float64s:
    lengths: Float64s = np.sqrt(np.square(vectors, dtype=np.float64).sum(-1))
    return lengths


def _nearest(scores: Mapping[str, float], top: int) -> dict[str, float]:
    """Return the best of a query's documents, best first."""
    return {name: scores[name] for name in ranked(scores)[:top]}


def indexed_search(file: VectorFile, ids: Sequence[str], queries: Float32s, by: str, top: int) -> Run:
    """Return the same by an index of usearch, which is made once and kept next to the file, as FILE.cosine.usearch.

    Raises InputError where usearch is not installed. Memory: ids, and to make it all vectors with their neighbors.
    """
    names = file.ids()
    _check_new(names, set())
    index = _index_of(file, by)
    count = min(top * MORE, len(names))
    places = [sorted({int(match.key) for match in index.search(query, count)}) for query in queries]
    vectors = file.at({place for near in places for place in near})
    run: Run = {}
    for name, query, near in zip(ids, queries, places, strict=True):
        scores = similarities(query[None], np.stack([vectors[place] for place in near]), by).tolist()
        run[name] = _nearest(dict(zip([names[place] for place in near], scores, strict=True)), top)
    return run


def _index_of(file: VectorFile, by: str) -> Any:
    """Return the index next to a file, unless the file is newer or another; then a new one."""
    try:
        from usearch.index import Index  # an extra: only who searches millions needs it
    except ImportError as error:
        raise InputError(
            f"{file.path} has {file.num_rows:,} vectors, which an index searches faster, but usearch is not "
            'installed: install it (`pip install "cloze-pipeline[retrieval]"`), or compare all of them '
            "(--index-above 1000000000)."
        ) from error
    path = file.path.with_name(f"{file.path.name}.{by}.usearch")
    if path.is_file() and path.stat().st_mtime_ns >= file.path.stat().st_mtime_ns:
        kept = Index.restore(path, view=True)
        if kept is not None and (len(kept), kept.ndim) == (file.num_rows, file.width):
            return kept
    index, start = Index(ndim=file.width, metric="cos" if by == "cosine" else "ip", dtype="f16"), 0
    for names, vectors in file.blocks():
        index.add(np.arange(start, start + len(names), dtype=np.uint64), vectors)
        start += len(names)
    try:
        with replaced_file(path) as new:
            index.save(new)
    except (OSError, RuntimeError) as error:  # usearch knows no other for a full disk
        raise InputError(f"Cannot write the index {path}: {error}. Free some space, or compare all.") from error
    return index


def _check_new(names: Sequence[str], seen: set[str]) -> None:
    before = len(seen)
    seen.update(names)
    if len(seen) < before + len(names):
        raise InputError(
            "Two of the vectors have the same id: a result could not say which it is. Give each record an id of its "
            "own (column `id`), and embed texts, not words."
        )


def check_comparable(corpus: VectorFile, queries: VectorFile) -> str:
    """Return the similarity for two files' vectors. Raises InputError where they are of two models, or two widths."""
    ours, theirs = corpus.made, queries.made
    differ = ours is not None and theirs is not None and ours.comparable() != theirs.comparable()
    if differ or corpus.width != queries.width:
        raise InputError(
            f"The vectors of {corpus.name} and of {queries.name} were made differently (another model, other layers "
            "or another pooling), and cannot be compared: name the model of both, or embed one of them again."
        )
    made = ours or theirs
    by = made.similarity if made is not None else "cosine"
    if by not in SIMILARITIES:
        raise InputError(
            f"The vectors of {corpus.name} are compared by {by}, and a search compares by {' or '.join(SIMILARITIES)}: "
            "name another model, or the similarity in its config_sentence_transformers.json."
        )
    return by
