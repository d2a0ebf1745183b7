"""Documents, queries, judgements and runs: three ways to write each, and what is refused."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from trainer.tasks.formats.layouts.trec import judged_queries, read_documents, read_judgements, read_queries, run_lines

DOCUMENTS = [("a", "Wings & flaps at Mach 2 ."), ("b", "Heat")]


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    return str(folder / name)


def test_documents_in_five_formats(tmp_path: Path) -> None:
    tagged = (
        "<DOC>\n<DOCNO> a </DOCNO><HEADLINE>Wings &amp;\n flaps</HEADLINE>\n<BYLINE>x</BYLINE><TEXT><P>at Mach</P>\r\n"
        "2 .</TEXT>\n</DOC>\n <doc><docno>b</docno><title>Heat</title>"
    )
    table = "".join(f"{name}\t{text}\n" for name, text in DOCUMENTS)
    objects = [{"_id": "a", "title": "Wings & flaps", "text": "at Mach 2 ."}, {"_id": "b", "title": "", "text": "Heat"}]
    lines = "".join(json.dumps(each) + "\n" for each in objects)
    smart = ".I a\n.T\nWings & flaps\n.A\nA. Author\n.W\nWings & flaps\nat Mach 2 .\n.I b\n.W\nHeat\n"
    (tmp_path / "c.tsv.gz").write_bytes(gzip.compress(table.encode()))
    for path in (
        written(tmp_path, "docs.trec", tagged), written(tmp_path, "collection.tsv", table),
        written(tmp_path, "corpus.jsonl", lines), str(tmp_path / "c.tsv.gz"), written(tmp_path, "cran.all", smart),
    ):  # fmt: skip
        assert list(read_documents(path)) == DOCUMENTS, path
    plain = written(tmp_path, "lines.txt", "Heat\n\nA wing\n")
    assert read_queries(plain) == {"1": "Heat", "3": "A wing"}, "each by its line"
    with pytest.raises(InputError, match="line 3: the text that begins there has no id"):
        list(read_documents(written(tmp_path, "bad.all", ".I 1\n.W\n.I\n.W\nx\n")))


def test_topics_that_are_not_closed(tmp_path: Path) -> None:
    topics = "<top>\n<num> Number: 301\n<title> Organized Crime\n\n<desc> Description:\nWhat?\n</top>\n"
    assert read_queries(written(tmp_path, "topics", topics)) == {"301": "Organized Crime"}
    older = (
        "<top>\n<head> Tipster Topic Description\n<num> Number:  051\n<dom> Domain:  Trade\n<title> Topic:  Airbus\n"
    )
    assert read_queries(written(tmp_path, "older", older)) == {"051": "Airbus"}
    with pytest.raises(InputError, match="two queries '301'"):
        read_queries(written(tmp_path, "topics", topics * 2))


def test_a_title_is_said_once(tmp_path: Path) -> None:
    text = "<doc><docno>1</docno><title>on\nwings .</title><text>on wings .\n they fly</text></doc>"
    assert list(read_documents(written(tmp_path, "x.xml", text))) == [("1", "on wings . they fly")]


def test_documents_of_ms_marco_have_an_address(tmp_path: Path) -> None:
    path = written(
        tmp_path, "docs.tsv", "D1\thttps://example.org\tWings\tThey rise .\r\nD2\thttps://example.org\t\tNo\n"
    )
    assert list(read_documents(path)) == [("D1", "Wings They rise ."), ("D2", "No")]


def test_judgements(tmp_path: Path) -> None:
    expected = {"q1": {"a": 1, "b": -1}, "q2": {"a": 0}}
    rows = [("q1", "a", 1), ("q1", "b", -1), ("q2", "a", 0)]
    trec = "".join(f"{query} 0  {name} {relevance}\r\n" for query, name, relevance in rows)
    beir = "query-id\tcorpus-id\tscore\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows)
    assert read_judgements(written(tmp_path, "qrels.txt", trec)) == expected
    assert read_judgements(written(tmp_path, "test.tsv", beir)) == expected
    assert read_judgements(written(tmp_path, "cranqrel", "q1 a 1\nq1 b -1\nq2 a 0\n")) == expected
    assert read_judgements(written(tmp_path, "CISI.REL", "     1     28\t0\t0.000000\n")) == {"1": {"28": 1}}


SCORES = st.floats(allow_nan=False, allow_infinity=False)
FOUND = st.fixed_dictionaries({"b": SCORES}, optional={"a": SCORES, "c": SCORES})


@given(st.fixed_dictionaries({"2": FOUND}, optional={"1": FOUND}))
def test_a_run_that_is_written_is_whole_and_in_order(run: dict[str, dict[str, float]]) -> None:
    lines = list(run_lines(run, "mine"))
    rows = [line.split() for line in lines]
    assert [(query, document, float(score)) for query, _, document, _, score, _ in rows] == [
        (query, document, score) for query, found in run.items() for document, score in found.items()
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.xml", "", "is empty"),
        ("x.xml", "<top>", "has no <doc>"),
        ("x.xml", "<doc>\n</doc>", "line 1: the <doc> that begins there has no <docno>"),
        ("x.xml", "\n<doc><docno>1</docno>\udcff</doc><doc><docno>\udcff</docno></doc>", "line 2, is not UTF-8"),
        ("x.tsv", "", "is empty"),
        ("x.tsv", "ID\ttext\n1\ta\n", "line 1, is a header, and MS MARCO's files have none: name the format of the"),
        ("x.tsv", "1\ta\n2\tb\tc\n", "line 2, has 3 columns: MS MARCO's files have an id and a text"),
        ("x.tsv", "a\tb\nc\n", "line 2, is not an id and a text with a tab between"),
        ("x.tsv", "a\tb\0\n", "line 1, is not UTF-8"),
        ("x.jsonl", '{"_id": 1, "text": "a"}\n{"_id": 2}\n', "line 2, is not a JSON object with _id and text"),
        ("x.jsonl", "[" * 100_000, "line 1, is not a JSON object"),
        ("x.jsonl", '{"_id": 1, "text": 7}\n', "line 1, has a text that is none"),
    ],
)
def test_documents_that_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(read_documents(written(tmp_path, name, text)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("1 0 a\n", "line 1, is not a judgement"),
        ("1 0 7\n", "line 1, is not a judgement"),
        ("1 0 a 1\n1 0 b x\n", "line 2, is not a judgement"),
        ("1 0 a 1\n1 0 a 2\n", "line 2, judges document a of query 1 differently from an earlier line"),
        ("1 0 a 1 x\n", "line 1, is not a judgement"),
    ],
)
def test_judgements_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_judgements(written(tmp_path, "qrels", text))


def test_cranfield(shared: Path) -> None:
    """Two documents are empty, and queries are judged by their places, not by their numbers."""
    folder = shared / "data" / "tasks" / "cranfield"
    documents = dict(read_documents(str(folder / "cran.all.1400.xml")))
    assert [*documents] == [str(number) for number in range(1, 1401)]
    assert [name for name, text in documents.items() if not text] == ["471", "995"]
    assert documents["1"].count("experimental investigation of the aerodynamics of a wing in a slipstream") == 1
    queries, judgements = (read(str(folder / name)) for read, name in (
        (read_queries, "cran.qry.xml"), (read_judgements, "cranqrel.trec.txt")))  # fmt: skip
    judged = judged_queries(queries, judgements, "cran.qry.xml")
    assert len(judged) == len(queries) == 225 and sum(map(len, judgements.values())) == 1837
    assert judged["3"] == queries["4"] != judged["4"]
    assert {document for found in judgements.values() for document in found} <= {*documents}
    with pytest.raises(InputError, match="lacks 223 of the 225 queries that were judged, the first of them '3'"):
        judged_queries({"1": "a", "2": "b"}, judgements, "cran.qry.xml")


def test_leads_of_newspapers_are_text(tmp_path: Path) -> None:
    """As the Wall Street Journal and the Associated Press have them on TREC's disks; a title in a head is said once."""
    journal = (
        "<DOC>\n<DOCNO> W-1 </DOCNO>\n<HL> Wings: </HL>\n<LP>\nThey rose.\n</LP>\n<TEXT>\nMore.\n</TEXT>\n</DOC>\n"
    )
    press = "<DOC>\n<DOCNO> A-1 </DOCNO>\n<HEAD>Up <TITLE>again</TITLE></HEAD>\n<TEXT>\nNo.\n</TEXT>\n</DOC>\n"
    texts = dict(read_documents(written(tmp_path, "disk", journal + press)))
    assert texts == {"W-1": "Wings: They rose. More.", "A-1": "Up again No."}
