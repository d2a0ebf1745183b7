"""`search`: queries against a collection, by a model's vectors, and again by a cross-encoder; a run, scores, rows.

    collection, queries ─► vectors (`embed`) ─► the best of each query (`search`) ─► scored again as pairs ─► a run
                                                judgements ─► measures; training rows with mined negatives

Promise: a run has the best `top` documents of every query in TREC's form; files appear in one step. Queries without
judgements are counted and not scored; judged ones without results score 0 (`scores.vectors`).
"""

import dataclasses
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from corpora.errors import InputError
from trainer.complete_folders import write_lines
from trainer.huggingface.sentences import DOCUMENT, QUERY
from trainer.metrics import line, speak
from trainer.tasks.data import PackedItems
from trainer.tasks.embeddings import VectorFile, is_vector_file
from trainer.tasks.formats.layouts.trec import Judgements, Run, judged_queries, read_judgements, run_lines
from trainer.tasks.formats.records import FileSettings, RowCounts
from trainer.tasks.heads.task_model import answers_of
from trainer.tasks.kinds.texts import ClassesTask, NumberTask, TextExample
from trainer.tasks.saving import Loaded, load_task
from trainer.tasks.scores.vectors import ranked, ranking_scores
from trainer.tasks.settings import read_job
from trainer.tasks.text_encoder import TextEncoder
from trainer.tasks.vectors.embed import Embedder, embed_file, named_texts
from trainer.tasks.vectors.search import check_comparable, exact_search, indexed_search
from trainer.tasks.vectors.settings import SearchJob
from trainer.training.parallel import Ranks, joined

RUN_NAME = "cloze"


def main(arguments: list[str]) -> int:
    """Run `search JOB.json`: search, write, report events; return 0. Raises InputError."""
    job = read_job(SearchJob, arguments)
    with joined() as ranks, tempfile.TemporaryDirectory() as scratch:
        speak(line({"event": "done", **Search(job, ranks, Path(scratch)).done()}))
    return 0


class Search:
    """A search, with what it has read."""

    def __init__(self, job: SearchJob, ranks: Ranks, scratch: Path) -> None:
        self.job, self.ranks, self.scratch = job, ranks, scratch
        self.judgements: Judgements = read_judgements(job.judgements) if job.judgements else {}
        self.queries = self._queries()
        self.texts = dict[str, str]()

    def _queries(self) -> dict[str, str]:
        """Return the queries' texts by id; empty texts where only vectors are given. Raises InputError."""
        if is_vector_file(Path(self.job.queries.path)):
            return dict.fromkeys(VectorFile(Path(self.job.queries.path)).whole()[0], "")
        read = [*named_texts(self.job.queries, RowCounts())]
        queries = {query.id: query.text for query in read}
        if len(queries) < len(read):
            raise InputError(f"{self.job.queries.path} has two queries with the same id: give each one of its own.")
        judged = judged_queries(queries, self.judgements, self.job.queries.path) if self.judgements else {}
        return queries if judged.keys() <= queries.keys() else judged

    def done(self) -> dict[str, Any]:
        """Search, rerank, write; return a summary."""
        corpus, queries = self._vectors()
        by = check_comparable(corpus, queries)
        ids, vectors = queries.whole()
        indexed = corpus.num_rows > self.job.index_above
        if indexed:
            run = indexed_search(corpus, ids, vectors, by, self.job.top)
        else:
            run = exact_search(corpus.blocks(), ids, vectors, by, self.job.top)
        self._read_texts({name for documents in run.values() for name in documents})
        first = self._scores(run)
        if self.job.rerank:
            run = self._reranked(run)
        self._write(run)
        return {
            "queries": len(ids),
            "documents": corpus.num_rows,
            "indexed": indexed,
            "unjudged": len(ids) - len(self.judgements.keys() & {*ids}) if self.judgements else 0,
            "scores": self._scores(run),
            "before_reranking": first if self.job.rerank else {},
            "results": None if self.job.output else [*self._listed(run)],
        }

    def _vectors(self) -> tuple[VectorFile, VectorFile]:
        """Return the vectors of the collection and of the queries; made where they are not given."""
        corpus, queries = Path(self.job.vectors or self.job.corpus.path), Path(self.job.queries.path)
        whole = VectorFile(corpus) if is_vector_file(corpus) else self._embedded(self.job.corpus, "second")
        if is_vector_file(queries):
            return whole, VectorFile(queries)
        listed = self.scratch / "queries.jsonl"
        lines = (json.dumps({"id": name, "text": text}) for name, text in self.queries.items())
        listed.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")
        return whole, self._embedded(FileSettings(path=str(listed), max_unusable=0), "first")

    def _embedded(self, file: FileSettings, side: str) -> VectorFile:
        name = "the queries" if side == "first" else file.path
        if not self.job.model:
            raise InputError(f"No model is named to make vectors of {name}: name one (--model MODEL), or give vectors.")
        settings = dataclasses.replace(self.job.settings, side=side)
        names = QUERY if side == "first" else DOCUMENT
        embedder = Embedder.of(Path(self.job.model), settings, self.ranks.device, names)
        output = self.scratch / f"{side}.parquet"
        embed_file(embedder, file, output, speak)
        return VectorFile(output, name)

    def _read_texts(self, retrieved: set[str]) -> None:
        """Read the texts of documents that were retrieved or judged, where they are needed."""
        job = self.job
        if is_vector_file(Path(job.corpus.path)):
            if job.rerank or job.training or job.pairs:
                raise InputError(
                    f"{job.corpus.path} holds vectors, but texts are needed: give the collection's texts, and the "
                    "vectors as well (--vectors FILE)."
                )
            return
        if not (job.rerank or job.training or job.pairs) and job.output:
            return
        judged = {name for levels in self.judgements.values() for name in levels}
        wanted = retrieved | (judged if job.training or job.pairs else set())
        self.texts = {text.id: text.text for text in named_texts(job.corpus, RowCounts()) if text.id in wanted}

    def _scores(self, run: Run) -> dict[str, float]:
        return ranking_scores(self.judgements, run) if self.judgements else {}

    # Reranking.

    def _reranked(self, run: Run) -> Run:
        """Return the same documents, scored as pairs with their query."""
        loaded = load_task(Path(self.job.rerank))
        place = _relevant_class(loaded, self.job)
        loaded.model.to(self.ranks.device)
        encoder = TextEncoder.of(Path(self.job.rerank), loaded.inputs, loaded.max_length)
        return {query: self._paired(loaded, encoder, query, [*documents], place) for query, documents in run.items()}

    def _paired(
        self, loaded: Loaded, encoder: TextEncoder, query: str, names: Sequence[str], place: int | None
    ) -> dict[str, float]:
        if not self.queries[query]:
            raise InputError(f"{self.job.queries.path} holds vectors, but the queries' texts are needed: give these.")
        examples = [TextExample(self.queries[query], self.texts[name], None, ()) for name in names]
        items = PackedItems(loaded.task.items(examples, encoder, False))
        answers, _ = answers_of(loaded.model, loaded.task, items, self.ranks)
        predictions = loaded.task.predictions(examples, items, answers)
        if place is None:
            shares = [float(each[0]) for each in predictions]
        else:
            shares = [torch.from_numpy(each).double().log_softmax(-1)[place].item() for each in predictions]
        scores = dict(zip(names, shares, strict=True))
        return {name: scores[name] for name in ranked(scores)}

    # What is written.

    def _write(self, run: Run) -> None:
        job, (training, pairs) = self.job, (self._training_rows(run), self._pair_rows(run))
        for path, lines in ((job.output, run_lines(run, RUN_NAME)), (job.training, training), (job.pairs, pairs)):
            if path:
                write_lines(Path(path), lines)

    def _training_rows(self, run: Run) -> Iterator[str]:
        for query, positives, negatives in self._mined(run):
            for number, positive in enumerate(positives):
                some = negatives[number * self.job.negatives :][: self.job.negatives] or negatives[: self.job.negatives]
                row = {"query": self.queries[query], "positive": self.texts[positive]}
                more = {"negative": [self.texts[name] for name in some]} if some else {}
                yield json.dumps({**row, **more, "query_id": query}, ensure_ascii=False) + "\n"

    def _pair_rows(self, run: Run) -> Iterator[str]:
        for query, positives, negatives in self._mined(run):
            labelled = [(name, 1) for name in positives]
            labelled += [(name, 0) for name in negatives[: self.job.negatives * len(positives)]]
            for name, label in labelled:
                row = {"text": self.queries[query], "second": self.texts[name], "label": label, "query_id": query}
                yield json.dumps(row, ensure_ascii=False) + "\n"

    def _mined(self, run: Run) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yield for each judged query its relevant documents, and the retrieved others, in the order of the run.

        Documents without text, and judged ones that the collection lacks, are left out; so are retrieved ones that
        have the text of a relevant one.
        """
        for query, levels in self.judgements.items():
            positives = [name for name, level in levels.items() if level > 0 and self.texts.get(name, "").strip()]
            right = {"", *(self.texts[name].strip() for name in positives)}
            retrieved = run.get(query, {})
            negatives = [
                name for name in retrieved if levels.get(name, 0) <= 0 and self.texts[name].strip() not in right
            ]
            if positives:
                yield query, positives, negatives

    def _listed(self, run: Run) -> Iterator[Mapping[str, Any]]:
        """Yield the documents of each query, the best first, for people."""
        for query, scores in run.items():
            documents = [{"id": name, "score": scores[name], "text": self.texts.get(name, "")} for name in scores]
            yield {"query": query, "text": self.queries.get(query, ""), "documents": documents}


def _relevant_class(loaded: Loaded, job: SearchJob) -> int | None:
    """Return the class for a document that answers; None for a model that predicts a number. Raises InputError."""
    task = loaded.task
    several = isinstance(task, ClassesTask) and task.multi_label
    if not isinstance(task, ClassesTask | NumberTask) or several or task.pairs is False or task.num_columns:
        raise InputError(
            f"{job.rerank} is of the task {task.kind!r}, but query and document are scored by a model of the task "
            "`classes` (one label of several) or `number` that was fine-tuned on pairs without further columns "
            "(--pairs makes its rows)."
        )
    if isinstance(task, NumberTask):
        return None
    relevant = job.relevant or task.labels[-1]
    if relevant not in task.labels:
        raise InputError(f"{job.rerank} knows the labels {', '.join(task.labels)}, not {relevant!r}: name one of them.")
    return task.labels.index(relevant)
