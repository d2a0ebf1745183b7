"""Search: for each query the vectors most like it, among all of them. No torch.

    vectors in blocks ─► product with all queries, in float32 ─► the best of each query so far

Memory: a block, its similarities to some hundred queries, and all ids.
"""

from collections.abc import Sequence

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s
from trainer.tasks.embeddings import VectorFile
from trainer.tasks.kinds.vectors import SIMILARITIES, nearest
from trainer.tasks.scores.vectors import ranked

Run = dict[str, dict[str, float]]  # for each query the documents found, the best first, and the similarity of each


def exact_search(corpus: VectorFile, ids: Sequence[str], queries: Float32s, by: str, top: int) -> tuple[Run, set[str]]:
    """Return for each query its `top` most similar vectors and their similarity; and the ids of all vectors.

    ids: of the queries; by: cosine or dot. Raises InputError if an id occurs twice.
    """
    best: list[dict[str, float]] = [{} for _ in ids]
    seen = set[str]()
    for names, vectors in corpus.blocks():
        before = len(seen)
        seen.update(names)
        if len(seen) < before + len(names):
            raise InputError(
                f"Two of the vectors of {corpus.name} have the same id: a result could not say which it is. Give each "
                "record an id of its own (column `id`), and embed texts, not words."
            )
        for place, near in enumerate(nearest(queries, names, vectors, by, top)):
            found = best[place] | near
            best[place] = {name: found[name] for name in ranked(found)[:top]}
    return dict(zip(ids, best, strict=True)), seen


def check_comparable(corpus: VectorFile, queries: VectorFile) -> str:
    """Return the similarity for two files' vectors. Raises InputError if they are of two models, or two widths."""
    ours, theirs = corpus.made, queries.made
    differ = ours is not None and theirs is not None and ours.comparable() != theirs.comparable()
    if differ or corpus.width != queries.width:
        raise InputError(
            f"The vectors of {corpus.name} and of {queries.name} were made differently (another model, other layers "
            "or another pooling), and cannot be compared: name the model and the settings of the first."
        )
    made = ours or theirs
    by = made.similarity if made is not None else "cosine"
    if by not in SIMILARITIES:
        raise InputError(
            f"The vectors of {corpus.name} are compared by {by}, and a search compares by {' or '.join(SIMILARITIES)}: "
            "name another model, or the similarity in its config_sentence_transformers.json."
        )
    return by
