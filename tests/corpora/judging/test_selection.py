"""The score of Stories: how questions are read, what a document scores, and where the best share begins."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from text_columns import column
from tiers import examples

from corpora.errors import InputError
from corpora.judging.steps.selection import (
    MAX_SCORE,
    Histogram,
    Question,
    ScoreCut,
    build_histogram,
    find_cut,
    index_questions,
    merge_histograms,
    read_questions,
    score_documents,
    score_text,
)

TROPHY: Question = ("The trophy does not fit into the suitcase because", "is too large.")


WORDS = st.sampled_from(["a", "a", "b", "B", "c", "d,", "é", "中", "-"])
TEXT = st.lists(WORDS, max_size=30).map(" ".join)


@given(
    questions=st.lists(st.lists(TEXT, min_size=1, max_size=2).map(tuple), max_size=4), texts=st.lists(TEXT, max_size=4)
)
@example(questions=[("a a a a a",)], texts=["a a a", "a " * 50, "", "a a a"])
@examples(300)
def test_the_column_equals_the_definition(questions: list[Question], texts: list[str]) -> None:
    found = score_documents(column(["x a b", *texts])[1:], index_questions(questions))
    assert found.tolist() == [score_text(text, questions) for text in texts]


def test_a_score_worked_by_hand() -> None:
    """Two of four words, one of three pairs; the document has three words, so two pairs and one triple."""
    questions = [("a b c d",)]
    one, two = 2 * 2 / (3 + 4), 2 * 1 / (2 + 3)
    expected = (1 * one + 2 * two) / 10
    assert score_text("A b! x", questions) == pytest.approx(expected * MAX_SCORE, abs=1)
    assert score_text("a b c d", questions) == MAX_SCORE
    assert score_text("x y", questions) == score_text("", questions) == 0


def test_the_digest_tells_the_words_and_nothing_else() -> None:
    questions = [TROPHY, ("a b",)]
    same = [("A, b!",), TROPHY]
    others = [[TROPHY], [TROPHY, ("a", "b")], [TROPHY, ("a b",), ("a b",)]]
    assert index_questions(questions).digest == index_questions(same).digest
    assert len({index_questions(each).digest for each in (questions, *others)}) == 4


@given(
    found=st.lists(st.integers(0, 12) | st.just(MAX_SCORE), min_size=1, max_size=60),
    share=st.sampled_from([0.001, 0.07, 0.25, 0.5, 1.0]),
    parts=st.integers(1, 5),
)
@settings(deadline=None)
def test_the_cut_is_that_of_the_sorted_scores(found: list[int], share: float, parts: int) -> None:
    """However the documents are spread over parts."""
    pieces = [build_histogram(np.array(found[part::parts], np.int32)) for part in range(parts)]
    best = sorted(found, reverse=True)[: max(1, round(share * 1000 * len(found) / 1000 + 0.4999))]
    made = find_cut(reversed(pieces), share)
    kept = [score for score in found if score >= made.threshold]
    if best[-1] > 0:
        assert made.threshold == best[-1]
    else:
        assert kept == [score for score in found if score > 0]
    assert (made.kept, made.total, made.tied) == (len(kept), len(found), Counter(found)[made.threshold])
    assert merge_histograms(pieces).counts.sum() == len(found)


def test_the_share_is_taken_as_it_is_written() -> None:
    """0.07 of 100 is 7, though as binary numbers it is a little more."""
    assert math.ceil(0.07 * 100) == 8
    assert find_cut([build_histogram(np.arange(1, 101, dtype=np.int32))], 0.07) == ScoreCut(94, 7, 100, 1)


def test_a_document_that_shares_nothing_is_never_kept() -> None:
    assert find_cut([build_histogram(np.zeros(9, np.int32))], 0.5) == ScoreCut(1, 0, 9, 0)
    assert find_cut([], 0.5) == ScoreCut(1, 0, 0, 0)
    assert find_cut([build_histogram(np.array([0, 0, 3], np.int32))], 1.0) == ScoreCut(3, 1, 3, 1)
    assert isinstance(merge_histograms([]), Histogram)


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


SCHEMAS = """<collection><schema><text><txt1>The trophy does not fit because</txt1><pron>it</pron>
<txt2>is large.</txt2></text><quote><pron>it</pron></quote><answers><answer>The trophy</answer></answers></schema>
<schema><text><txt1>Ann &amp; Bob</txt1><pron>they</pron><txt2>left.</txt2></text></schema></collection>"""


def test_every_form_of_questions_is_read(tmp_path: Path) -> None:
    blocks = "The trophy did not fit because [MASK]  was large. \n[MASK]\nA ,B \nA \n\n[MASK] left.\n[MASK]\nC\nD\n"
    forms: list[tuple[str, list[Question]]] = [
        (write(tmp_path / "a.txt", blocks), [("The trophy did not fit because ", "  was large. "), (" left.",)]),
        (write(tmp_path / "b.txt", "One [MASK] two.\n\nThree.\n"), [("One ", " two."), ("Three.",)]),
        (write(tmp_path / "d.jsonl", '{"id": 1, "text": "x y"}\n\n"z"\n{"sentence": "s"}'), [("x y",), ("z",), ("s",)]),
    ]
    for path, expected in forms:
        assert read_questions([path]) == expected
    schemas = [
        " ".join(" ".join(question).split()) for question in read_questions([write(tmp_path / "c.xml", SCHEMAS)])
    ]
    assert schemas == ["The trophy does not fit because it is large.", "Ann & Bob they left."]
    together = [path for path, _ in forms]
    assert (
        read_questions(together)
        == read_questions(together[::-1])
        == [question for _, found in forms for question in found]
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", " \n", "holds no question"),
        ("a.xml", "<a>", "cannot be read"),
        ("a.xml", "<a/>", "holds no question"),
        ("a.jsonl", "{", "cannot be read"),
        ("a.jsonl", "[" * 100_000, "cannot be read"),
        ("a.xml", '<?xml version="1.0" encoding="none"?><a/>', "cannot be read"),
        ("a.xml", '<?xml version="1.0" encoding="shift_jis"?><a/>', "cannot be read"),
        ("a.jsonl", json.dumps({"id": 1}), 'has no "text"'),
        ("a.doc", "x", "none of the endings"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_questions([write(tmp_path / name, text)])
    with pytest.raises(InputError, match=r"there is no .*absent\.txt"):
        read_questions([str(tmp_path / "absent.txt")])


def test_the_real_questions_find_the_document_that_quotes_them(shared: Path) -> None:
    stories = shared / "data" / "stories"
    questions = read_questions([str(stories / name) for name in ("wsc273.txt", "PDP.txt")])
    assert len(questions) == 273 + 60
    index = index_questions(questions)
    assert index.totals.tolist() == sorted(index.totals.tolist(), reverse=True)
    lines = (stories / "common-crawl-text" / "redpajama-cc-2023-06-refined.jsonl").read_text(encoding="utf-8")
    texts = [json.loads(line)["text"] for line in lines.splitlines()]
    quoting = texts[0] + " ".join(f"{' he '.join(question)}\n" for question in questions[:60])
    found = score_documents(column([*texts, quoting]), index)
    assert found.argmax() == len(texts) and 0 < found[:-1].max() < 200_000
    assert found[:2].tolist() == [score_text(text, questions) for text in texts[:2]]
