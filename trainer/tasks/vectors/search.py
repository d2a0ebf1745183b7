"""The command `embed`: computes vectors of a file's texts and, for queries, finds the most similar texts.

    texts, queries ─► vectors (`embed`) ─► the best for each query ─► judgments ─► measures; training rows

Search is exhaustive: vectors are read in blocks, multiplied by all queries in float32, and the best ones for each query
are kept. Memory: a block, its similarities to some hundred queries, and all ids.

If there are queries, the folder's prompts for documents and for queries are put in front of texts. If the model has two
encoders, documents and queries are each read by their own. Queries without judgments are counted but not scored. Judged
queries without results score 0 (`trainer.tasks.kinds.vectors`).
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s
from trainer.complete_folders import write_lines
from trainer.huggingface.sentence_transformers import DOCUMENT, QUERY
from trainer.metrics import print_event
from trainer.ranks import join_process_group
from trainer.tasks.formats.records import RowCounts
from trainer.tasks.formats.retrieval import Judgements, read_judgements
from trainer.tasks.kinds.vectors import SIMILARITIES, compute_ranking_scores, find_nearest, rank_documents
from trainer.tasks.settings import read_job
from trainer.tasks.vectors.embed import Embedder, embed_file, read_named_texts
from trainer.tasks.vectors.job import EmbedJob
from trainer.tasks.vectors.vector_files import VectorFile, is_vector_file

Run = dict[str, dict[str, float]]  # for each query the documents found, the best first, and the similarity of each


def search_exactly(
    corpus: VectorFile, ids: Sequence[str], queries: Float32s, similarity: str, top: int
) -> tuple[Run, set[str]]:
    """Find the vectors in a file that are most similar to each query, by exhaustive search.

    Args:
        corpus: The file of vectors.
        ids: The id of each query.
        queries: The query vectors, float32 [Q, H].
        similarity: "cosine" or "dot".
        top: The number of vectors to find for each query.

    Returns:
        A dictionary that maps each query id to a dictionary of the ids found and their similarities, the most similar
        first; and the set of all ids in the file.

    Raises:
        InputError: If an id occurs twice in the file, or the file is damaged.
    """
    best: list[dict[str, float]] = [{} for _ in ids]
    seen = set[str]()
    for names, vectors in corpus.iter_blocks():
        before = len(seen)
        seen.update(names)
        if len(seen) < before + len(names):
            raise InputError(
                f"Two of the vectors of {corpus.name} have the same id: a result could not say which it is. Give each "
                "record an id of its own (column `id`), and embed texts, not words."
            )
        for place, near in enumerate(find_nearest(queries, names, vectors, similarity, top)):
            found = best[place] | near
            best[place] = {name: found[name] for name in rank_documents(found)[:top]}
    return dict(zip(ids, best, strict=True)), seen


def check_comparable(corpus: VectorFile, queries: VectorFile) -> str:
    """Check that the vectors of two files can be compared, and return the similarity to use: "cosine" or "dot".

    Raises:
        InputError: If the vectors come from different models or settings, have different widths, or are meant for
            another similarity.
    """
    ours, theirs = corpus.origin, queries.origin
    differ = ours is not None and theirs is not None and ours.to_comparison_key() != theirs.to_comparison_key()
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


SCORED_DEPTH = 100  # documents of a query that are scored, and among which negatives are found


def main(arguments: list[str]) -> int:
    """Run `embed JOB.json`: write vectors, search, print events, and return 0. Raises InputError if the job fails."""
    job = read_job(EmbedJob, arguments)
    with join_process_group() as ranks:
        print_event({"event": "done", **run_job(job, ranks.device)})
    return 0


def run_job(job: EmbedJob, device: torch.device) -> dict[str, Any]:
    """Write the vectors of a file, and search among them if there are queries.

    Args:
        job: The job.
        device: The device to compute on.

    Returns:
        A summary. If vectors were written, it has the keys of `embed_file`'s summary. If there are queries, it also has
        `queries`, `documents`, `unjudged` and `missing` (numbers), `scores` by measure, and `results`, a list with the
        texts found for each query.

    Raises:
        InputError: If the job names neither a file to write nor a vector file with queries, or a file cannot be read.
    """
    facts, vectors, searched = dict[str, Any](), Path(job.output or job.file.path), bool(job.queries.path)
    if job.output:
        settings = replace(job.settings, side="second") if searched else job.settings
        embedder = Embedder.from_folder(Path(job.model), settings, device, DOCUMENT if searched else "")
        facts = embed_file(embedder, job.file, vectors, print_event)
    elif not is_vector_file(vectors) or not searched:
        raise InputError(
            f"{job.file.path}: name the file to write its vectors to (--output FILE.parquet), or give a file of "
            "vectors and a query (--query)."
        )
    return {**facts, **_search(job, vectors, device)} if searched else facts


def _search(job: EmbedJob, vectors: Path, device: torch.device) -> dict[str, Any]:
    """Find the texts most similar to each query, score them, and write training rows if requested.

    Args:
        job: The job.
        vectors: The vector file to search.
        device: The device to compute on.

    Returns:
        The part of `run_job`'s summary that is about queries.

    Raises:
        InputError: If queries and judgments do not fit together, or if a file cannot be read or compared.
    """
    judgements = read_judgements(job.search.judgements) if job.search.judgements else {}
    read = [*read_named_texts(job.queries, RowCounts())]
    queries = {query.id: query.text for query in read}
    if len(queries) < len(read):
        raise InputError(f"{job.queries.path} has two queries with the same id: give each one of its own.")
    if missing := [query for query in judgements if query not in queries]:
        raise InputError(
            f"{job.queries.path} lacks {len(missing)} of the {len(judgements)} queries that were judged, the first of "
            f"them {missing[0]!r}: give the queries of these judgements."
        )
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "queries.parquet"
        settings = replace(job.settings, side="first", prompt="")
        embed_file(Embedder.from_folder(Path(job.model), settings, device, QUERY), job.queries, output, print_event)
        asked, corpus = VectorFile(output, "the queries"), VectorFile(vectors)
        ids, rows = asked.read_all()
        depth = max(job.search.top, SCORED_DEPTH) if judgements else job.search.top
        run, documents = search_exactly(corpus, ids, rows, check_comparable(corpus, asked), depth)
    relevant = {name for levels in judgements.values() for name, level in levels.items() if level > 0}
    texts = _read_texts(job, {*relevant, *(name for found in run.values() for name in found)})
    mined = [*_iter_mined(judgements, run, texts)] if job.search.training or job.search.pairs else []
    for path, lines in (
        (job.search.training, _iter_training_rows(mined, queries, texts, job.search.negatives)),
        (job.search.pairs, _iter_pair_rows(mined, queries, texts, job.search.negatives)),
    ):
        if path:
            write_lines(Path(path), lines)
    return {
        "queries": len(ids),
        "documents": len(documents),
        "unjudged": len(ids) - len(judgements) if judgements else 0,
        "missing": len(relevant - documents),
        "scores": compute_ranking_scores(judgements, run) if judgements else {},
        "results": [
            {"query": query, "text": queries[query], "documents": _list_results(found, texts, job.search.top)}
            for query, found in run.items()
        ],
    }


def _list_results(found: Mapping[str, float], texts: Mapping[str, str], top: int) -> list[dict[str, Any]]:
    names = [*found][:top]
    return [{"id": name, "score": found[name], "text": texts.get(name, "")} for name in names]


def _read_texts(job: EmbedJob, wanted: set[str]) -> dict[str, str]:
    """Read the texts with the wanted ids, by id; {} if the file is a vector file.

    Raises InputError if the file is a vector file and training rows need texts.
    """
    if job.output:
        return {text.id: text.text for text in read_named_texts(job.file, RowCounts()) if text.id in wanted}
    if job.search.training or job.search.pairs:
        raise InputError(f"{job.file.path} holds vectors, but training rows are made of texts: give these.")
    return {}


# Rows to learn from.

Mined = tuple[str, list[str], list[str]]  # a query, its relevant documents, others that were found


def _iter_mined(judgements: Judgements, run: Run, texts: Mapping[str, str]) -> Iterator[Mined]:
    """Yield each judged query with the ids of its relevant documents, and of the other documents found, the best first.

    A document is relevant if its relevance is above 0. Relevant documents that are missing from the collection are left
    out, and so are found documents with the same text as a relevant one. Queries without relevant documents are
    skipped.

    Args:
        judgements: The relevance of each query's documents, by query id and document id.
        run: The documents found for each query.
        texts: The texts of documents by id.
    """
    for query, levels in judgements.items():
        positives = [name for name, level in levels.items() if level > 0 and name in texts]
        right = {texts[name].strip() for name in positives}
        negatives = [name for name in run[query] if levels.get(name, 0) <= 0 and texts[name].strip() not in right]
        if positives:
            yield query, positives, negatives


def _iter_training_rows(
    mined: list[Mined], queries: Mapping[str, str], texts: Mapping[str, str], number: int
) -> Iterator[str]:
    """Yield rows for the task `retrieval` as JSON lines, one for each relevant document.

    Args:
        mined: The queries with their documents.
        queries: The texts of queries by id.
        texts: The texts of documents by id.
        number: The number of negatives per relevant document.
    """
    for query, positives, negatives in mined:
        for place, positive in enumerate(positives):
            some = negatives[place * number :][:number] or negatives[:number]
            more = {"negative": [texts[name] for name in some]} if some else {}
            row = {"query": queries[query], "positive": texts[positive], **more, "query_id": query}
            yield json.dumps(row, ensure_ascii=False) + "\n"


def _iter_pair_rows(
    mined: list[Mined], queries: Mapping[str, str], texts: Mapping[str, str], number: int
) -> Iterator[str]:
    """Yield rows for a reranking task of kind `classes` as JSON lines, one for each query and document.

    Args:
        mined: The queries with their documents.
        queries: The texts of queries by id.
        texts: The texts of documents by id.
        number: The number of negatives per relevant document.
    """
    for query, positives, negatives in mined:
        for name in [*positives, *negatives[: number * len(positives)]]:
            row = {"text": queries[query], "second": texts[name], "label": int(name in positives), "query_id": query}
            yield json.dumps(row, ensure_ascii=False) + "\n"
