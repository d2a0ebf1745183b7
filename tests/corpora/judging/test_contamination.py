"""Contamination: how evaluation sets are read, which documents meet an item, and that columns agree with it."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_columns import column
from tiers import examples

from corpora.errors import InputError
from corpora.judging.steps.contamination import (
    ContaminationSettings,
    EvaluationIndex,
    EvaluationSet,
    Item,
    build_index,
    find_evaluation_match,
    find_evaluation_matches,
    index_items,
    read_items,
)

LONG = "The keeper of the lighthouse counted seven hundred gulls before the storm drove them inland and he wrote it."
SHORT = "Who paid for the bridge across the lower river?"
TINY = "Who paid the keeper?"


def index_of(texts: list[str], **changes: int) -> EvaluationIndex:
    items = [Item("set", number, text) for number, text in enumerate(texts, 1)]
    return index_items(items, ContaminationSettings(**changes))  # type: ignore[arg-type]


def met_items(texts: list[str], index: EvaluationIndex) -> list[int | None]:
    return [meeting and meeting.item for meeting in find_evaluation_matches(column(texts), index)]


def rewrapped(text: str) -> str:
    """The text in capitals, broken again, with other marks."""
    return "«" + " -- ".join(text.upper().replace(",", ";").replace(".", "!").split()).replace(" -- ", "\n", 3) + "»"


def test_an_item_is_found_however_it_is_written() -> None:
    index = index_of([LONG, SHORT, TINY])
    found = find_evaluation_matches(
        column([f"Once. {rewrapped(LONG)} More.", rewrapped(SHORT), f"So: {TINY} Nobody knew."]), index
    )
    assert found[0] is not None and (found[0].row, found[0].set, found[0].item) == (0, "set", 1)
    assert found[0].words == "the keeper of the lighthouse counted seven hundred gulls before the storm drove"
    assert found[0].detail == f"set, item 1: {found[0].words}"
    assert found[1] is not None and found[1].words == "who paid for the bridge across the lower river"
    assert found[2] is None  # of four words
    assert (index.num_texts, index.num_unmatched, len(index.items)) == (3, 1, 2)


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_thirteen_words_in_a_row_are_a_meeting_and_twelve_are_not(cut: int) -> None:
    words = LONG.split()
    index = index_of([LONG])
    for length, expected in ((13, 1), (12, None)):
        text = " ".join(["Before", *words[cut : cut + length], "other", *words[cut + length + 1 :][:5]])
        assert met_items([text], index) == [expected]


def test_a_short_item_is_met_only_as_a_whole() -> None:
    index = index_of([SHORT])
    spoilt = SHORT.replace("river", "valley")
    assert met_items([SHORT, f"{spoilt} {SHORT}", spoilt, SHORT.removesuffix(" river?")], index) == [1, 1, None, None]


def test_short_items_with_the_same_beginning_are_told_apart() -> None:
    index = index_of([f"which of the following is the name of {name}" for name in ("the king", "the old king", "me")])
    text = "Which of the following is the name of nobody? Which of the following is the name of THE OLD KING?"
    assert met_items([text], index) == [2]


def test_equal_items_count_once_and_the_first_is_named() -> None:
    index = index_of([SHORT, rewrapped(SHORT), LONG, rewrapped(LONG)])
    assert (index.num_repeated, [item.number for item in index.items]) == (2, [1, 3])
    assert met_items([SHORT, LONG], index) == [1, 3]


def test_a_form_of_words_that_many_items_share_is_no_meeting() -> None:
    form = "Read the text below with care and then say which of the four answers is right"
    texts = [f"{form}: {name} {LONG if name == 'c' else ''}" for name in "abc"]
    assert met_items([form], index_of(texts)) == [1]
    limited = index_of(texts, max_items=2)
    assert (limited.num_common > 0, met_items([form, texts[2]], limited)) == (True, [None, 3])


def test_a_hit_of_hashes_alone_is_no_meeting() -> None:
    """As if LONG had the hashes of other words; the words are looked at."""
    index = index_of([LONG, SHORT])
    forged = replace(index, items=(Item("set", 1, "other " * 20), Item("set", 2, "other " * 9)))
    texts = [f"{LONG} {SHORT}"]
    assert met_items(texts, index) == [1]
    assert met_items(texts, forged) == [None]


WORDS = st.sampled_from(["a", "b", "B", "é", "中", "don't", "-", "\n"])
TEXT = st.lists(WORDS, max_size=14).map(" ".join)


@given(items=st.lists(TEXT, max_size=6), texts=st.lists(TEXT, max_size=4), max_items=st.integers(0, 2))
@examples(400)
def test_the_column_equals_the_definition(items: list[str], texts: list[str], max_items: int) -> None:
    index = index_of(items, n=4, min_words=2, max_items=max_items)
    meetings = find_evaluation_matches(column(["x", *texts])[1:], index)
    found = [meeting and (meeting.set, meeting.item, meeting.words) for meeting in meetings]
    expected = [find_evaluation_match(text, index) for text in texts]
    assert found == [met and (met[0].set, met[0].number, met[1]) for met in expected]


def test_the_index_travels_and_its_digest_tells_what_decides() -> None:
    index = index_of([LONG, SHORT])
    copy = pickle.loads(pickle.dumps(index))
    assert met_items([LONG, SHORT, "x"], copy) == [1, 2, None]
    others = [index_of([LONG]), index_of([SHORT, LONG])]
    others += [index_of([LONG, SHORT], **changes) for changes in ({"n": 12}, {"min_words": 9})]
    assert len({index.digest, *(other.digest for other in others)}) == 5
    assert copy.digest == index.digest == index_of([LONG, SHORT]).digest


def write(path: Path, data: str) -> str:
    path.write_text(data, encoding="utf-8")
    return str(path)


QUESTION = {"question": SHORT, "id": "x", "answers": [{"text": "y"}]}
SQUAD = {"data": [{"paragraphs": [{"context": LONG, "qas": [QUESTION]}]}]}


def test_every_form_of_a_set_is_read(tmp_path: Path) -> None:
    record = {"text": LONG, "more": [SHORT, {"deep": "x"}], "label": 1}
    forms: list[tuple[str, tuple[str, ...], list[tuple[int, str]]]] = [
        (write(tmp_path / "a.txt", f"{LONG}\n\n{SHORT}\n"), (), [(1, LONG + "\n"), (3, SHORT + "\n")]),
        (
            write(tmp_path / "b.jsonl", json.dumps(record) + "\n\n" + json.dumps(SHORT)),
            (),
            [(1, LONG), (1, SHORT), (1, "x"), (3, SHORT)],
        ),
        (write(tmp_path / "c.jsonl", json.dumps(record)), ("more",), [(1, SHORT), (1, "x")]),
        (write(tmp_path / "d.json", json.dumps(SQUAD)), (), [(1, LONG), (2, SHORT)]),
        (write(tmp_path / "e.json", json.dumps(SQUAD)), ("question",), [(2, SHORT)]),
        (write(tmp_path / "f.json", json.dumps([record, {"text": SHORT}])), ("text",), [(1, LONG), (2, SHORT)]),
        (write(tmp_path / "g.tsv", 'id\tq\r\n7\tsay "it\r\n'), ("q",), [(2, 'say "it')]),
        (write(tmp_path / "h.tsv", f"gj04\t1\t{SHORT}\n"), ("3",), [(1, SHORT)]),
        (write(tmp_path / "i.csv", f'"{LONG}",1\n\n"a\nb",2\n'), (), [(1, LONG), (1, "1"), (3, "a\nb"), (3, "2")]),
    ]
    pq.write_table(pa.table({"q": [SHORT, LONG], "n": [1, 2], "l": [["x"], []]}), tmp_path / "j.parquet")
    forms.append((str(tmp_path / "j.parquet"), ("q", "l"), [(1, SHORT), (1, "x"), (2, LONG)]))
    for path, fields, expected in forms:
        items = list(read_items(EvaluationSet(path=path, name="n", fields=fields)))
        assert [(item.number, item.text) for item in items] == expected, path
        assert {item.set for item in items} == {"n"}


def test_sets_are_read_in_one_form_of_unicode(tmp_path: Path) -> None:
    apart = "Le cafe\u0301 " * 5
    sets = (EvaluationSet(path=write(tmp_path / "a.txt", apart)),)
    index = build_index(ContaminationSettings(sets=sets))
    [meeting] = find_evaluation_matches(column(["le café " * 5]), index)
    assert meeting is not None and meeting.set == "a.txt"


def test_the_order_of_sets_and_where_they_lie_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    one = [EvaluationSet(path=write(tmp_path / "a.txt", LONG)), EvaluationSet(path=write(tmp_path / "b.txt", SHORT))]
    moved = zip(one, (LONG, SHORT), strict=True)
    other = [EvaluationSet(path=write(tmp_path / "moved" / file.title, text)) for file, text in moved]
    digests = {build_index(ContaminationSettings(sets=tuple(sets))).digest for sets in (one, one[::-1], other)}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("name", "data", "fields", "said"),
    [
        ("a.jsonl", '{"a": 1', (), "cannot be read as .jsonl"),
        ("a.jsonl", '{"a": "x"}', ("b",), "record 1 of .* has no 'b'; it has: a"),
        ("a.json", '{"a": 1}', (), "holds no list of records"),
        ("a.tsv", "a\tb\nx\ty", ("c",), "no column 'c'; its first line has: a, b"),
        ("a.tsv", "a\tb\nx", ("b",), "row 2 of .* has 1 columns only"),
        ("a.csv", 'a,b\n"x"y,z', (), "cannot be read as .csv"),
        ("a.parquet", "none", (), "a.parquet is damaged or no Parquet file"),
        ("a.txt", "\n", (), "holds no text"),
        ("a.txt", "x", ("b",), "no field has a name"),
        ("a.doc", "x", (), "none of the endings"),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, name: str, data: str, fields: tuple[str, ...], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        sets = (EvaluationSet(path=write(tmp_path / name, data), fields=fields),)
        build_index(ContaminationSettings(sets=sets))


def test_a_set_that_is_not_there_or_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9\n")
    for name, said in (("a.txt", "cannot be read"), ("b.txt", "there is no")):
        with pytest.raises(InputError, match=said):
            build_index(ContaminationSettings(sets=(EvaluationSet(path=str(tmp_path / name)),)))


def test_real_sets_are_read_and_planted_questions_found(shared: Path) -> None:
    tasks = shared / "data" / "tasks"
    sets = (
        EvaluationSet(path=str(tasks / "squad" / "xquad.en.part1.json")),
        EvaluationSet(path=str(tasks / "qnli" / "dev.tsv"), fields=("question", "sentence")),
    )
    index = build_index(ContaminationSettings(sets=sets))
    assert index.num_texts > 5000 and len(index.items) > 4000
    planted = [f"Some text before. {rewrapped(item.text)} Some behind." for item in index.items[::97]]
    found = find_evaluation_matches(column(planted), index)
    assert len(planted) > 40 and all(found)
    shifted = np.random.default_rng(1).permutation(" ".join(planted).split())
    assert find_evaluation_matches(column([" ".join(shifted)]), index) == [None]
