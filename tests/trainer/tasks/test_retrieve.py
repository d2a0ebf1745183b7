"""Retrieval: what a dual encoder learns; what a search finds, scores and makes of judgements."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_models import WORDS, write_model
from small_tasks import encoded_for, exported_model, kept_of, new_job, run, said_of, write_json_rows
from small_training import on_ranks

from corpora.errors import InputError
from flows.command.help import JSON_KEYS
from trainer.tasks.folders import RECORD
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.task_model import batch_items
from trainer.tasks.heads.vectors import pool_tokens
from trainer.tasks.kinds.vectors import RetrievalTask, compute_ranking_scores
from trainer.tasks.vectors.embed import Embedder
from trainer.tasks.vectors.job import EmbedJob
from trainer.tasks.vectors.search import run_job
from trainer.tasks.vectors.settings import EmbedSettings, SearchSettings

PASSAGES = {
    "a": "good film", "b": "the plot was bad", "c": "a very long scene", "d": "actor , actor", "e": "short"
}  # fmt: skip
QUERIES = {"q1": "film", "q2": "the actor", "q3": "very short plot"}
JUDGED = (("q1", "a", 1), ("q1", "b", 0), ("q2", "d", 2), ("q2", "c", 1))


# The task.


def answers(number: int) -> list[dict[str, Any]]:
    """Seven words, each answered by one of seven others, which nobody could guess; a wrong one is the negative."""
    words, others = WORDS[:7], WORDS[7:]
    rows = [
        {"query": word, "positive": others[3 * place % 7], "negative": [others[(3 * place + 1) % 7]]}
        for place, word in enumerate(words)
    ]
    return rows * number


@pytest.mark.parametrize("shared", [True, False])
def test_passages_are_learnt_to_be_found(tmp_path: Path, shared: bool) -> None:
    """Fails if queries learn nothing, equal passages of a step are told apart, or the second encoder is lost."""
    job = new_job(tmp_path, task={"kind": "retrieval", "shared": shared, "widths": [16]}, epochs=2, batch=14)
    training = write_json_rows(tmp_path / "train.jsonl", answers(10))
    job = replace(job, training=training, evaluation=write_json_rows(tmp_path / "dev.jsonl", answers(1)))
    kept = kept_of(run(job))
    assert kept["mrr@10"] > 0.9 and kept["ndcg@10_at_16"] > 0.8, kept
    none = replace(job, output=str(tmp_path / "none"), settings=replace(job.settings, learning_rate=0.0))
    write_json_rows(tmp_path / "train.jsonl", answers(2))
    assert kept_of(run(none))["mrr@10"] < 0.7
    assert (Path(job.output) / "modules.json").is_file() == shared
    said, lines = said_of(Path(job.output), job.evaluation, tmp_path / "said.jsonl", True)
    assert said["scores"] == {name: pytest.approx(kept[name], abs=1e-6) for name in said["scores"]}
    assert sum(line["similarities"][0] > line["similarities"][1] for line in lines) > 5


@pytest.mark.slow
def test_two_processes_learn_as_one_does(tmp_path: Path) -> None:
    """Fails if negatives of the other process are left out, or their gradient is; 15 rows do not divide by two."""
    write_model(tmp_path / "model", dropout=0.0, attention_dropout=0.0)
    job = new_job(tmp_path, task={"kind": "retrieval"}, batch=15)
    rows = write_json_rows(tmp_path / "rows.jsonl", answers(6)[:41])
    job = replace(job, training=rows, evaluation=rows)
    one = run(job)
    other = replace(job, output=str(tmp_path / "two"))
    on_ranks(run, other, 2)
    two = json.loads((tmp_path / "two" / RECORD).read_text(encoding="utf-8"))
    assert kept_of(two)["mrr@10"] == pytest.approx(kept_of(one)["mrr@10"])
    weights = [load_file(Path(each.output) / "model.safetensors") for each in (job, other)]
    for name, tensor in weights[0].items():
        assert torch.allclose(tensor, weights[1][name], atol=1e-4), name


def test_queries_and_passages_have_their_own_encoders(tmp_path: Path) -> None:
    """Fails if texts are given to the wrong one of two, or vectors come back in another order."""
    write_model(tmp_path / "model")
    task = RetrievalTask(shared=False, pooling="cls", similarity="dot")
    model: Any = exported_model(task, tmp_path / "model", tmp_path / "out")
    rows = [
        {"query": "a film", "positive": "good"},
        {"query": "bad", "positive": "the plot", "negative": ["long", "a"]},
    ]
    items = encoded_for(task, tmp_path / "model", rows).items
    with torch.no_grad():
        found = model.compute_outputs(batch_items(items))
        plain = []
        for item in items:
            for place, sequence in enumerate(item.sequences):
                alone = batch_items([replace(item, sequences=(sequence,), targets={})])
                encoder = model.second_encoder if place else model.encoder
                plain.append(pool_tokens(encoder(alone), alone, "cls")[0])
    assert torch.allclose(found, torch.stack(plain), atol=1e-5) and len(model.list_encoders()) == 2
    assert task.resolved_scale == 1.0 and RetrievalTask().resolved_scale == 20.0


def test_one_passage_is_nothing_to_learn() -> None:
    """Fails if a run begins whose loss is 0."""
    task = RetrievalTask()
    rows = [task.make_example({"query": query, "positive": "x"}, True) for query in ("a", "b")]
    with pytest.raises(InputError, match="here has only one passage"):
        task.fit(rows, "here")


# Search.


def asked(folder: Path, **more: Any) -> EmbedJob:
    """A search of the small collection, with a model. more: of the search"""
    if not (folder / "model").exists():
        write_model(folder / "model")
    rows = [{"_id": name, "title": "", "text": text} for name, text in PASSAGES.items()]
    corpus = write_json_rows(folder / "corpus.jsonl", rows)
    queries = write_json_rows(folder / "queries.jsonl", [{"_id": name, "text": text} for name, text in QUERIES.items()])
    (folder / "qrels").write_text("".join(f"{q} 0 {d} {level}\n" for q, d, level in JUDGED), encoding="utf-8")
    return EmbedJob(
        model=str(folder / "model"),
        file=replace(corpus, format="beir"),
        output=str(folder / "v.parquet"),
        settings=EmbedSettings(),
        queries=replace(queries, format="beir"),
        search=SearchSettings(query="given", **{"judgements": str(folder / "qrels"), **more}),
    )


def searched(job: EmbedJob) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """What was done, and the documents of each query with their similarities."""
    done = run_job(job, torch.device("cpu"))
    return done, {each["query"]: {d["id"]: d["score"] for d in each["documents"]} for each in done["results"]}


def test_the_best_documents_of_every_query_are_found(tmp_path: Path) -> None:
    """Fails if a query is given another's documents, an unjudged one is scored or hidden, or measures are others."""
    done, found = searched(asked(tmp_path, top=4))
    assert (done["queries"], done["documents"], done["unjudged"], done["missing"]) == (3, 5, 1, 0)
    assert {*done} == {*JSON_KEYS["embed"].replace(";", "").split()} - {"with", "--query:"}  # what scripts are told
    assert {name: len(each) for name, each in found.items()} == {"q1": 4, "q2": 4, "q3": 4}
    qrels = {"q1": {"a": 1, "b": 0}, "q2": {"d": 2, "c": 1}}
    _, whole = searched(asked(tmp_path, top=10))
    assert done["scores"] == compute_ranking_scores(qrels, whole) and done["scores"]["recall@100"] == 1.0
    embedder = Embedder.from_folder(tmp_path / "model", EmbedSettings(), torch.device("cpu"))
    one, other = (
        embedder.compute_vectors(embedder.texts.encode([text]))[0][0] for text in ("the actor", "actor , actor")
    )
    cosine = float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    assert found["q2"]["d"] == pytest.approx(cosine, abs=1e-5)
    best = done["results"][1]["documents"][0]
    assert best["text"] == PASSAGES[best["id"]]


def test_vectors_made_before_are_taken(tmp_path: Path) -> None:
    """Fails if they are made again, or those of other settings are compared."""
    job = asked(tmp_path)
    fresh = searched(job)[0]["scores"]
    kept = replace(job, file=FileSettings(path=job.output), output="")
    assert searched(kept)[0]["scores"] == fresh
    with pytest.raises(InputError, match=r"of .*v\.parquet and of the queries were made differently"):
        searched(replace(kept, settings=EmbedSettings(pooling="max")))
    with pytest.raises(InputError, match="holds vectors, but training rows are made of texts"):
        searched(replace(kept, search=replace(job.search, pairs=str(tmp_path / "pairs.jsonl"))))
    with pytest.raises(InputError, match="name the file to write its vectors to"):
        searched(replace(job, output=""))
    with pytest.raises(InputError, match="Texts are searched, not their words"):
        replace(job, settings=EmbedSettings(by="word"))
    with pytest.raises(InputError, match="Judgements are of queries, and none are given"):
        SearchSettings(judgements="qrels")
    with (tmp_path / "qrels").open("a") as file:
        file.write("q1 0 nowhere 1\nq9 0 a 1\n")
    with pytest.raises(InputError, match="lacks 1 of the 3 queries that were judged, the first of them 'q9'"):
        searched(job)


def test_rows_to_learn_from_are_made_of_judgements(tmp_path: Path) -> None:
    """Fails if a relevant document or its twin becomes a negative, an empty one is learnt, or a label is wrong."""
    job = asked(tmp_path, training=str(tmp_path / "rows.jsonl"), pairs=str(tmp_path / "pairs.jsonl"), negatives=2)
    with (tmp_path / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"_id": "twin", "text": PASSAGES["d"]}) + "\n")
    _, found = searched(job)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["query"], row["positive"]) for row in rows] == [
        ("film", PASSAGES["a"]), ("the actor", PASSAGES["d"]), ("the actor", PASSAGES["c"])
    ]  # fmt: skip
    ranked = sorted(found["q2"], key=lambda name: (-found["q2"][name], name))
    unlike = [PASSAGES[name] for name in ranked if name not in ("d", "c", "twin")]
    assert "twin" in ranked
    assert [text for row in rows[1:] for text in row["negative"]] == [*unlike[:3]]
    pairs = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {(row["text"], row["second"]) for row in pairs if row["label"] == 1} == {
        (row["query"], row["positive"]) for row in rows
    }
    assert not any(
        row["second"] in (PASSAGES["d"], PASSAGES["c"])
        for row in pairs
        if row["label"] == 0 and row["text"] == "the actor"
    )
    assert RetrievalTask().make_example(rows[0], True).negatives == tuple(rows[0]["negative"])
