"""Files of every format, damaged at random: records or a word to the user, never anything else; and never the whole."""

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from office_files import cell, package, sheet, xlsx_parts
from task_records import read_records
from tiers import LONG, examples

from corpora.errors import InputError
from trainer.tasks.formats.reading import FORMATS
from trainer.tasks.formats.records import FileSettings, RowCounts
from trainer.tasks.formats.retrieval import read_judgements

ANSWERS = {"answers": [{"text": "Oslo", "answer_start": 3}]}
QUESTION = {"context": "In Oslo.", "qas": [{"id": "a", "question": "Where?", **ANSWERS}]}
PAGE = {"article": "A.", "questions": ["Q?"], "options": [["1", "2"]], "answers": ["B"], "id": "high1.txt"}
PASSAGE = {"text": "Ada met.", "entities": [{"start": 0, "end": 2}], "questions": [
    {"question": "Who?", "idx": 0, "answers": [{"text": "Ada", "idx": 0, "label": 1}]}]}  # fmt: skip
GAP = [{"query": "@placeholder met.", "answers": [{"text": "Ada"}], "idx": 1}]
PAIR = {"sentence1": "A bank.", "sentence2": "Banks.", "idx": 0, "label": False, "start1": 2, "start2": 0, "end1": 6,
        "end2": 5}  # fmt: skip
NOUN = {"text": "Ada said she won.", "idx": 0, "label": True, "target": {
    "span1_index": 0, "span1_text": "Ada", "span2_index": 2, "span2_text": "she"}}  # fmt: skip
SAMPLES: dict[str, tuple[str, Any]] = {
    "tsv": ("a.tsv", 'text\tlabel\na "b\t1\n'),
    "csv": ("a.csv", 'text;label\n"a; ""b""";1\n'),
    "lines": ("a.txt", "a \tb\n\nc\n"),
    "xlsx": ("a.xlsx", package(xlsx_parts(sheet(*(cell("A1", each[0], "inlineStr") + cell("B1", each[1], "inlineStr")
                                                  for each in ("text label".split(), ["a film", "1"])))))),
    "jsonl": ("a.jsonl", {"text": "a\u00e9", "label": 1}),
    "json": ("a.json", [{"text": "a", "label": 1}, {"text": "b", "label": None}]),
    "beir": ("a.jsonl", {"_id": "1", "title": "a", "text": "b"}),
    "msmarco": ("a.tsv", "1\ta b\n2\tc\n"),
    "conll": ("a.conll", "-DOCSTART- O\n\n# c d e\na B-x\nb O\n\nc O\n"),
    "iob1": ("a.txt", "a NN I-x\nb NN B-x\n\nc NN O\n"),
    "conllu": ("a.conllu", "# newdoc\n1-2\tab" + "\t_" * 8 + "\n1\ta\ta\tNOUN" + "\t_" * 6 + "\n\n"),
    "squad": ("a.json", {"version": "2.0", "data": [{"title": "t", "paragraphs": [QUESTION]}]}),
    "copa": ("a.xml", "<c><item id='1' most-plausible-alternative='2'><p>A</p><a1>B</a1><a2>C</a2></item></c>"),
    "race": ("a.txt", PAGE),
    "swag": ("a.csv", "video-id,sent1,sent2,ending0,ending1,ending2,ending3,label\nv,A.,B,c,d,e,f,2\n"),
    "multirc": ("a.jsonl", {"idx": 0, "passage": PASSAGE}),
    "record": ("a.jsonl", {"idx": 0, "passage": PASSAGE, "qas": GAP}),
    "wic": ("a.jsonl", PAIR),
    "wsc": ("a.jsonl", NOUN),
    "pubtator": ("a.txt", "7|t|Colon cancers.\n7|a|In 5% of us.\n7\t0\t5\tColon\tx\tD1\n"),
    "ncbi": ("a.txt", "7|t|Colon cancers.\n7|a|In 5% of us.\n7\t0\t5\tColon\tx\tD1\n"),
}  # fmt: skip


def sample(kind: str) -> tuple[str, bytes]:
    """The name and the bytes of a file of a format, with one record at least."""
    name, value = SAMPLES[kind]
    text = value if isinstance(value, str | bytes) else json.dumps(value)
    return name, text.encode() if isinstance(text, str) else text


def read(path: Path, kind: str) -> RowCounts:
    """Return the outcomes of a file's records, by the roles that its format gives."""
    counts = RowCounts()
    roles = [role for role in FORMATS[kind].roles if role in ("text", "words", "context")] or ["text", "label"]
    for record in read_records(FileSettings(path=str(path), format=kind, max_unusable=1.0), counts, roles):
        assert record.line >= 1 and {*roles} <= {*record.values}
    counts.account.check()
    return counts


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "parquet"])
def test_a_sample_of_every_format(tmp_path: Path, kind: str) -> None:
    """Fails if the inputs below are none of their format to begin with."""
    name, data = sample(kind)
    (tmp_path / name).write_bytes(data)
    assert read(tmp_path / name, kind).given >= 1


EDITS = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.integers(0, 6),
        st.sampled_from([b"", b"\0", b"\xff", b"\t", b"\n", b"\n\n", b"\r", b'"', b"{", b"[", b"]", b"}", b",", b":",
                         b" ", b"null", b"-1", b"1e999", b"[]", b"\\ud800", b"\xed\xa0\x80", b"<", b"&x;", b"|", b"#",
                         b"7" * 30]),
    ),
    max_size=4,
)  # fmt: skip


def damaged(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for at, length, new in edits:
        at %= len(data) + 1
        data = data[:at] + new + data[at + length :]
    return data


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "parquet"])
@examples(40)
@given(edits=EDITS)
def test_damaged_files(
    tmp_path_factory: pytest.TempPathFactory, kind: str, edits: list[tuple[int, int, bytes]]
) -> None:
    """Fails if a reader raises what is not for the user, or loses a record."""
    name, data = sample(kind)
    path = tmp_path_factory.getbasetemp() / f"{kind}-{name}"
    path.write_bytes(damaged(data, edits))
    try:
        read(path, kind)
    except InputError as error:
        assert path.name in str(error)


OTHERS = [None, 7, -1, 1.5, True, "", "x", "\ud800", [], {}, [7], {"a": None}][:: 1 if LONG else 2]


def with_others(value: Any) -> Iterator[Any]:
    """A value of JSON with another one at every place, one at a time."""
    yield from OTHERS
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        for other in with_others(item):
            copy = value.copy()
            copy[key] = other
            yield copy


@pytest.mark.parametrize("kind", [kind for kind, (_, value) in SAMPLES.items() if not isinstance(value, str | bytes)])
def test_values_of_other_kinds(tmp_path: Path, kind: str) -> None:
    """Fails if a number, a list or nothing at any place of the JSON of a format is more than a reader bears."""
    name, value = SAMPLES[kind]
    others = [*with_others(value)]
    for other in others:
        (tmp_path / name).write_text(json.dumps(other))
        with suppress(InputError):
            read(tmp_path / name, kind)
    assert len(others) >= 2 * len(OTHERS)


@examples(40)
@given(edits=EDITS)
def test_damaged_judgements(tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int, bytes]]) -> None:
    path = tmp_path_factory.getbasetemp() / "qrels.txt"
    path.write_bytes(damaged(b"1 0 a 1\n1 0 b 0\n", edits))
    try:
        read_judgements(str(path))
    except InputError as error:
        assert path.name in str(error)


@pytest.mark.parametrize("kind", ["conll", "squad", "copa", "swag", "wic", "pubtator", "tsv"])
def test_a_folder_or_nothing_is_no_file(tmp_path: Path, kind: str) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InputError, match="Cannot read"):
            read(path, kind)


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "conll", "pubtator", "parquet"])
def test_files_are_read_a_record_at_a_time(tmp_path: Path, kind: str) -> None:
    """Fails if a file that is said to be streamed is in memory as a whole."""
    rows, path = 12_000, tmp_path / "a.any"  # large next to what other threads of the process take meanwhile
    header = {"tsv": "text\tlabel\n", "csv": "text,label\n"}.get(kind, "")
    row = {"tsv": f"{'a' * 100}\t1\n", "csv": f"{'a' * 100},1\n", "jsonl": f'{{"text": "{"a" * 100}", "label": 1}}\n',
           "conll": f"{'a' * 100} O\n\n", "pubtator": f"7|t|{'a' * 100}\n7|a|b\n\n", "parquet": ""}[kind]  # fmt: skip
    if kind == "parquet":
        pq.write_table(pa.table({"text": ["a" * 100] * rows, "label": [1] * rows}), path)
    else:
        path.write_text(header + row * rows)
    tracemalloc.start()
    counts = read(path, kind)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts.given >= rows
    assert peak < rows * 100 * 0.75
