"""`cloze embed` and `cloze search`: what is said of a search, and how layers are named."""

import os
from pathlib import Path
from threading import Thread

import pytest

from corpora.errors import InputError
from flows.command.cli import run_command_line
from flows.command.tasks.embed import layers_of
from flows.command.tasks.piped import from_pipe
from flows.command.tasks.search import event_lines, is_query
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.vectors.settings import SearchJob

JOB = SearchJob(corpus=FileSettings(path="c"), queries=FileSettings(path="q"), output="run.trec")


def test_a_search_is_told_in_lines() -> None:
    """Fails where queries that are not judged are hidden, or scores before reranking are taken for those after."""
    event = {
        "event": "done",
        "queries": 3,
        "documents": 1_400,
        "indexed": True,
        "unjudged": 1,
        "scores": {"ndcg@10": 0.5},
        "before_reranking": {"ndcg@10": 0.25},
        "results": None,
    }
    assert [*event_lines(event, JOB)] == [
        "3 queries in 1,400 documents, by an index, which may miss some",
        "1 query without judgments, which are not scored",
        "ndcg@10 0.5000 (before reranking 0.2500)",
        "output: run.trec",
    ]
    found = {"query": "1", "text": "flutter", "documents": [{"id": "d", "score": 0.5, "text": "x" * 500}]}
    lines = [*event_lines({**event, "unjudged": 0, "scores": {}, "results": [found]}, JOB)]
    assert lines[1:3] == ["1: flutter", f"  1. d  0.5000  {'x' * 160}"]


def test_a_missing_file_is_no_query() -> None:
    """Fails where a slip in a path is searched for."""
    for path in ("queries.tsv", "here/queries"):
        with pytest.raises(InputError, match=f"There is no file {path}"):
            is_query(path)
    assert is_query("what is flutter?") and is_query("why " * 200) and not is_query(__file__)


def test_layers_are_numbers_or_the_last() -> None:
    """Fails where a slip of the pen ends in a traceback."""
    assert layers_of("last,-2") == (-1, -2)
    with pytest.raises(InputError, match="--layers first: give numbers"):
        layers_of("first")


def test_records_may_come_through_a_pipe(tmp_path: Path) -> None:
    """Fails where `-` is no file's name, or what came through a pipe is not what is read, with a fitting ending."""
    with pytest.raises(InputError, match="There is no folder nowhere"):
        run_command_line(["embed", "nowhere", "-", "--output", str(tmp_path / "v.parquet")], tmp_path)
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_text, args=('{"text": "a film"}\n' * 20_000,))
    writer.start()
    with from_pipe(FileSettings(path=str(tmp_path / "pipe"))) as file:
        writer.join()
        assert Path(file.path).suffix == ".jsonl" and Path(file.path).stat().st_size == 20_000 * 19
    assert not Path(file.path).exists()
