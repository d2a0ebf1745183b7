"""Retrieval: what a dual encoder learns, what `search` finds, scores and makes of judgements, and reranking."""

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
from flows.command.terminal.help import JSON_KEYS
from trainer.tasks.embeddings import VectorFile
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.task_model import batch_of_items
from trainer.tasks.heads.vectors import pooled
from trainer.tasks.kinds.texts import ClassesTask, NumberTask
from trainer.tasks.kinds.vectors import RetrievalTask, SimilarityTask
from trainer.tasks.saving import RECORD, load_task
from trainer.tasks.scores.vectors import ranking_scores
from trainer.tasks.vectors.embed import Embedder, embed_file
from trainer.tasks.vectors.retrieve import Search
from trainer.tasks.vectors.settings import EmbedSettings, SearchJob
from trainer.training.parallel import joined

PASSAGES = {
    "a": "good film", "b": "the plot was bad", "c": "a very long scene", "d": "actor , actor", "e": "short", "f": ""
}  # fmt: skip
QUERIES = {"q1": "film", "q2": "the actor", "q3": "very short plot"}
JUDGED = (("q1", "a", 1), ("q1", "b", 0), ("q2", "d", 2), ("q2", "c", 1))


# The task.


def run_of(path: str) -> dict[str, dict[str, float]]:
    """The documents of each query of a run, and the score of each."""
    found: dict[str, dict[str, float]] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        query, _, document, _, score, _ = line.split()
        found.setdefault(query, {})[document] = float(score)
    return found


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
    """Fails where queries learn nothing, equal passages of a step are told apart, or the second encoder is lost."""
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
    """Fails where negatives of the other process are left out, or their gradient is; 15 rows do not divide by two."""
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
    """Fails where texts are given to the wrong one of two, or vectors come back in another order."""
    write_model(tmp_path / "model")
    task = RetrievalTask(shared=False, pooling="cls", similarity="dot")
    model: Any = exported_model(task, tmp_path / "model", tmp_path / "out")
    rows = [
        {"query": "a film", "positive": "good"},
        {"query": "bad", "positive": "the plot", "negative": ["long", "a"]},
    ]
    items = encoded_for(task, tmp_path / "model", rows).items
    with torch.no_grad():
        found = model.outputs(batch_of_items(items))
        plain = []
        for item in items:
            for place, sequence in enumerate(item.sequences):
                alone = batch_of_items([replace(item, sequences=(sequence,), targets={})])
                encoder = model.second_encoder if place else model.encoder
                plain.append(pooled(encoder(alone), alone, "cls")[0])
    assert torch.allclose(found, torch.stack(plain), atol=1e-5) and len(model.encoders()) == 2
    assert task.factor == 1.0 and RetrievalTask().factor == 20.0


def test_one_passage_is_nothing_to_learn() -> None:
    """Fails where a run begins whose loss is 0."""
    task = RetrievalTask()
    rows = [task.example({"query": query, "positive": "x"}, True) for query in ("a", "b")]
    with pytest.raises(InputError, match="here has only one passage"):
        task.fitted(rows, "here")


# Search.


def asked(folder: Path, **more: Any) -> SearchJob:
    """A search of the small collection, with a model."""
    if not (folder / "model").exists():
        write_model(folder / "model")
    corpus = "".join(json.dumps({"_id": name, "title": "", "text": text}) + "\n" for name, text in PASSAGES.items())
    (folder / "corpus.jsonl").write_text(corpus, encoding="utf-8")
    (folder / "queries.tsv").write_text("".join(f"{n}\t{text}\n" for n, text in QUERIES.items()), encoding="utf-8")
    (folder / "qrels").write_text("".join(f"{q} 0 {d} {level}\n" for q, d, level in JUDGED), encoding="utf-8")
    said = SearchJob(
        model=str(folder / "model"),
        corpus=FileSettings(path=str(folder / "corpus.jsonl"), format="documents"),
        queries=FileSettings(path=str(folder / "queries.tsv"), format="queries"),
        output=str(folder / "run"),
        judgements=str(folder / "qrels"),
    )
    return replace(said, **more)


def searched(job: SearchJob, folder: Path) -> dict[str, Any]:
    with joined() as ranks:
        scratch = folder / "scratch"
        scratch.mkdir(exist_ok=True)
        return Search(job, ranks, scratch).done()


def test_a_run_has_the_best_documents_of_every_query(tmp_path: Path) -> None:
    """Fails where a query is given another's documents, an unjudged one is scored or hidden, or measures are others."""
    job = asked(tmp_path, top=4)
    done = searched(job, tmp_path)
    found = run_of(job.output)
    assert (done["queries"], done["documents"], done["unjudged"], done["indexed"]) == (3, 6, 1, False)
    assert list(done) == JSON_KEYS["search"].split()  # what scripts are told
    assert {name: len(each) for name, each in found.items()} == {"q1": 4, "q2": 4, "q3": 4}
    qrels = {"q1": {"a": 1, "b": 0}, "q2": {"d": 2, "c": 1}}
    assert done["scores"] == ranking_scores(qrels, found)
    embedder = Embedder.of(tmp_path / "model", EmbedSettings(), torch.device("cpu"))
    one, other = (embedder.vectors(embedder.texts.encode([text]))[0][0] for text in ("the actor", "actor , actor"))
    cosine = float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    whole = searched(replace(job, top=10), tmp_path)
    assert run_of(job.output)["q2"]["d"] == pytest.approx(cosine, abs=1e-5) and whole["scores"]["recall@100"] == 1.0


def test_vectors_made_before_are_taken(tmp_path: Path) -> None:
    """Fails where they are made again of other texts, or a run without texts and a model is not answered."""
    job = asked(tmp_path)
    fresh = searched(job, tmp_path)["scores"]
    embedder = Embedder.of(tmp_path / "model", EmbedSettings(), torch.device("cpu"))
    for file, name in ((job.corpus, "c"), (job.queries, "q")):
        embed_file(embedder, file, tmp_path / f"{name}.parquet", print)
    assert VectorFile(tmp_path / "c.parquet").num_rows == 6
    files = [FileSettings(path=str(tmp_path / f"{name}.parquet")) for name in ("c", "q")]
    assert searched(replace(job, vectors=str(tmp_path / "c.parquet")), tmp_path)["scores"] == fresh
    assert searched(replace(job, corpus=files[0], queries=files[1], model=""), tmp_path)["scores"] == fresh
    with pytest.raises(InputError, match=r"of .*c\.parquet and of the queries were made differently"):
        searched(replace(job, corpus=files[0], settings=EmbedSettings(pooling="max")), tmp_path)
    shown = searched(replace(job, output="", judgements=""), tmp_path)
    best = shown["results"][1]["documents"][0]
    assert best["text"] == PASSAGES[best["id"]] and shown["scores"] == {}
    with pytest.raises(InputError, match="No model is named to make vectors of"):
        searched(replace(job, model=""), tmp_path)
    with pytest.raises(InputError, match="holds vectors, but texts are needed"):
        searched(replace(job, corpus=files[0], pairs=str(tmp_path / "pairs.jsonl")), tmp_path)


def test_rows_to_learn_from_are_made_of_judgements(tmp_path: Path) -> None:
    """Fails where a relevant document or its twin becomes a negative, an empty one is learnt, or a label is wrong."""
    job = asked(tmp_path, training=str(tmp_path / "rows.jsonl"), pairs=str(tmp_path / "pairs.jsonl"), negatives=2)
    with (tmp_path / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"_id": "twin", "text": PASSAGES["d"]}) + "\n")
    searched(job, tmp_path)
    found = run_of(job.output)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["query"], row["positive"]) for row in rows] == [
        ("film", PASSAGES["a"]), ("the actor", PASSAGES["d"]), ("the actor", PASSAGES["c"])
    ]  # fmt: skip
    ranked = sorted(found["q2"], key=lambda name: (-found["q2"][name], name))
    unlike = [PASSAGES[name] for name in ranked if name not in ("d", "c", "f", "twin")]
    assert "twin" in ranked
    assert [text for row in rows[1:] for text in row["negative"]] == unlike[:3]
    pairs = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {(row["text"], row["second"]) for row in pairs if row["label"] == 1} == {
        (row["query"], row["positive"]) for row in rows
    }
    assert not any(
        row["second"] in (PASSAGES["d"], PASSAGES["c"], "")
        for row in pairs
        if row["label"] == 0 and row["text"] == "the actor"
    )
    task = RetrievalTask()
    assert task.example(rows[0], True).negatives == tuple(rows[0]["negative"])


def test_what_was_found_is_scored_again_as_pairs(tmp_path: Path) -> None:
    """Fails where pairs are mixed up, the wrong class counts, or scores before and after are the same run's."""
    job = asked(tmp_path)
    tasks = {"number": NumberTask(), "classes": ClassesTask(labels=("no", "yes")), "alike": SimilarityTask(),
             "single": ClassesTask(labels=("no", "yes"), pairs=False)}  # fmt: skip
    for name, task in tasks.items():
        exported_model(task, tmp_path / "model", tmp_path / name, {})
    before = searched(job, tmp_path)["scores"]
    done = searched(replace(job, rerank=str(tmp_path / "number")), tmp_path)
    assert done["before_reranking"] == before
    found = run_of(job.output)
    pair = {"text": QUERIES["q1"], "second": PASSAGES["b"]}
    for name in ("number", "classes"):
        loaded = load_task(tmp_path / name)
        [item] = encoded_for(loaded.task, tmp_path / "model", [pair], labelled=False).items
        with torch.no_grad():
            says = loaded.model.eval()(batch_of_items([item]), answering=True)[0].double()
        if name == "number":
            assert found["q1"]["b"] == pytest.approx(says.item(), abs=1e-5)
        for label, place in (("", 1), ("no", 0)) if name == "classes" else ():
            searched(replace(job, rerank=str(tmp_path / name), relevant=label), tmp_path)
            wanted = says.log_softmax(-1)[place].item()
            assert run_of(job.output)["q1"]["b"] == pytest.approx(wanted, abs=1e-5)
    with pytest.raises(InputError, match="knows the labels no, yes, not 'maybe'"):
        searched(replace(job, rerank=str(tmp_path / "classes"), relevant="maybe"), tmp_path)
    with pytest.raises(InputError, match="fine-tuned on pairs"):
        searched(replace(job, rerank=str(tmp_path / "single")), tmp_path)
    with pytest.raises(InputError, match="is of the task 'similarity', but query and document"):
        searched(replace(job, rerank=str(tmp_path / "alike")), tmp_path)
