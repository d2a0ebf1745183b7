"""`cloze embed`: what is said of vectors and of a search, and what a query is."""

import os
from pathlib import Path
from threading import Thread

import pytest

from corpora.errors import InputError
from flows.command.cli import run_command_line
from flows.command.embed import is_query, iter_result_lines
from flows.command.record_files import hold_piped_file
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.vectors.settings import SearchSettings


def test_a_search_is_told_in_lines() -> None:
    """Fails if queries that are not judged or relevant texts that are not there are hidden."""
    found = {"query": "1", "text": "flutter", "documents": [{"id": "d", "score": 0.5, "text": "x" * 500}]}
    event = {
        "event": "done",
        "queries": 3,
        "documents": 1_400,
        "unjudged": 1,
        "missing": 2,
        "scores": {"ndcg@10": 0.5},
        "results": [found],
    }
    search = SearchSettings(query="q", judgements="qrels", pairs="pairs.jsonl")
    assert [*iter_result_lines(event, search)] == [
        "3 queries compared with 1,400 texts",
        "1 query without judgments, which are not scored",
        "2 relevant texts not among those of the file, and never found",
        "ndcg@10 0.5000",
        "pairs: pairs.jsonl",
    ]
    lines = [*iter_result_lines({**event, "unjudged": 0, "missing": 0, "scores": {}}, SearchSettings())]
    assert lines[1:] == ["1: flutter", f"  1. d  0.5000  {'x' * 160}"]


def test_a_missing_file_is_no_query() -> None:
    """Fails if a slip in a path is searched for."""
    for path in ("queries.tsv", "here/queries"):
        with pytest.raises(InputError, match=f"There is no file {path}"):
            is_query(path)
    assert is_query("what is flutter?") and is_query("why " * 200) and not is_query(__file__)


def test_records_may_come_through_a_pipe(tmp_path: Path) -> None:
    """Fails if `-` is no file's name, or what came through a pipe is not what is read, with a fitting ending."""
    with pytest.raises(InputError, match="There is no folder nowhere"):
        run_command_line(["embed", "nowhere", "-", "--output", str(tmp_path / "v.parquet")], tmp_path)
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_text, args=('{"text": "a film"}\n' * 20_000,))
    writer.start()
    with hold_piped_file(FileSettings(path=str(tmp_path / "pipe"))) as file:
        writer.join()
        assert Path(file.path).suffix == ".jsonl" and Path(file.path).stat().st_size == 20_000 * 19
    assert not Path(file.path).exists()
