"""Documents, queries and judgements of BEIR and MS MARCO, and what is refused."""

import gzip
import json
from pathlib import Path

import pytest

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, RowCounts
from trainer.tasks.formats.retrieval import read_judgements
from trainer.tasks.vectors.embed import read_named_texts

DOCUMENTS = [("a", "Wings & flaps at Mach 2 ."), ("b", "Heat")]


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    return str(folder / name)


def test_documents_in_both_forms(tmp_path: Path) -> None:
    """Fails if a title is lost, a line is split elsewhere, or a packed file is not unpacked."""
    table = "".join(f"{name}\t{text}\n" for name, text in DOCUMENTS)
    objects = [{"_id": "a", "title": "Wings & flaps", "text": "at Mach 2 ."}, {"_id": "b", "title": "", "text": "Heat"}]
    (tmp_path / "c.tsv.gz").write_bytes(gzip.compress(table.encode()))
    addressed = "a\thttps://example.org\tWings & flaps\tat Mach 2 .\r\nb\thttps://example.org\t\tHeat\n"
    for path, form in (
        (written(tmp_path, "collection.tsv", table), "msmarco"), (str(tmp_path / "c.tsv.gz"), "msmarco"),
        (written(tmp_path, "docs.tsv", addressed), "msmarco"),
        (written(tmp_path, "corpus.jsonl", "".join(json.dumps(each) + "\n" for each in objects)), "beir"),
    ):  # fmt: skip
        assert [*read_named_texts(FileSettings(path=path, format=form), RowCounts())] == DOCUMENTS, path


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("beir", "", "has no texts"),
        ("beir", '{"_id": 2}\n' + "[" * 100_000 + '\n{"_id": 1, "text": 7}\n', "3 not a JSON object with _id and text"),
        ("msmarco", "a\n1\t2\t3\n", "2 not id and text, .*first in line 1, 1 columns"),
        ("msmarco", "a\tb\udcff\n", "1 not UTF-8"),
        ("trec", "a\tb\n", "format = 'trec' .*'beir', 'msmarco'"),
        ("", "<DOC>\n<DOCNO>1</DOCNO>", "has the tags of TREC or SMART, which are not read: .*BEIR .* MS MARCO"),
        ("beir", "\n.I 1\n.W\nx\n", "has the tags of TREC or SMART"),
    ],
)
def test_documents_that_are_refused(tmp_path: Path, form: str, text: str, message: str) -> None:
    """Fails if a form that is not read is read as another one."""
    with pytest.raises(InputError, match=message):
        [*read_named_texts(FileSettings(path=written(tmp_path, "x.txt", text), format=form), RowCounts())]


def test_judgements(tmp_path: Path) -> None:
    """Fails if a form is read otherwise, or the header is a judgement."""
    expected = {"q1": {"a": 1, "b": -1}, "q2": {"a": 0}}
    rows = [("q1", "a", 1), ("q1", "b", -1), ("q2", "a", 0)]
    trec = "".join(f"{query} 0  {name} {relevance}\r\n" for query, name, relevance in rows)
    beir = "query-id\tcorpus-id\tscore\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows)
    assert read_judgements(written(tmp_path, "qrels.txt", trec)) == expected
    assert read_judgements(written(tmp_path, "test.tsv", beir)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no judgements"),
        ("query-id\tcorpus-id\tscore\n", "has no judgements"),
        ("1 0 7\n", "line 1, is not a judgement"),
        ("1 0 a 1\n1 0 b x\n", "line 2, is not a judgement"),
        ("1 0 a 1\n1 0 a 2\n", "line 2, judges document a of query 1 differently from an earlier line"),
        ("1 0 a 1 x\n", "line 1, is not a judgement"),
        ("1 0 \udcff 1\n", "line 1, is not a judgement"),
    ],
)
def test_judgements_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """Fails if a line that would change every score is passed over."""
    with pytest.raises(InputError, match=message):
        read_judgements(written(tmp_path, "qrels", text))


def test_judgements_of_cranfield(shared: Path) -> None:
    judgements = read_judgements(str(shared / "data/tasks/cranfield/cranqrel.trec.txt"))
    assert len(judgements) == 225 and sum(map(len, judgements.values())) == 1837
