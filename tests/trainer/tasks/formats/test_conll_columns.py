"""Sentences in columns: plain and CoNLL-U, what ends a sentence, what is a comment, what is uneven."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_records import read_records

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, RowCounts, Values
from trainer.tasks.formats.tag_layouts import to_bio2


def read(path: Path, roles: tuple[str, ...] = ("words", "tags"), **settings: Any) -> tuple[list[Values], RowCounts]:
    counts = RowCounts()
    file = FileSettings(path=str(path), **{"max_unusable": 1.0, **settings})
    return [record.values for record in read_records(file, counts, roles)], counts


def written(folder: Path, text: str, name: str = "some.conll") -> Path:
    path = folder / name
    path.write_bytes(text.encode(errors="surrogateescape"))
    return path


@pytest.mark.parametrize("gap", ["\n\n", "\n \t\n", "\r\n\r\n", "\n\n\n\n"])
@pytest.mark.parametrize("between", ["\t", " ", "  "])
def test_sentences_are_between_blank_lines(tmp_path: Path, gap: str, between: str) -> None:
    end = "\r\n" if "\r" in gap else "\n"
    text = end.join(f"{word}{between}{tag}" for word, tag in (("New", "B-LOC"), ("York", "I-LOC"))) + gap
    found, counts = read(written(tmp_path, "\ufeff" + text + f"!{between}O"))
    assert found == [{"words": ["New", "York"], "tags": ["B-LOC", "I-LOC"]}, {"words": ["!"], "tags": ["O"]}]
    assert counts.account.unit == "sentences" and counts.account.total == 2


def test_documents_are_numbered_where_they_are_marked(tmp_path: Path) -> None:
    path = written(tmp_path, "-DOCSTART- -X- O O\n\na x y O\n\nb x y O\n-DOCSTART- -X- O O\n\nc x y O\n")
    assert [(each["words"], each["document"]) for each in read(path)[0]] == [(["a"], 1), (["b"], 1), (["c"], 2)]


def test_columns_of_conll_are_chosen_by_number(tmp_path: Path) -> None:
    path = written(tmp_path, "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n")
    assert read(path)[0] == [{"words": ["EU", "rejects"], "tags": ["B-ORG", "O"]}]
    for column in ("2", "-3"):
        assert read(path, columns={"tags": column})[0] == [{"words": ["EU", "rejects"], "tags": ["NNP", "VBZ"]}]
    with pytest.raises(InputError, match="1 fewer than 7 columns"):
        read(path, columns={"tags": "7"})
    with pytest.raises(InputError, match="tags = 'upos' is not a column"):
        read(path, columns={"tags": "upos"})


def test_a_hashtag_is_a_word_and_a_comment_is_none(tmp_path: Path) -> None:
    """Fails if every line with # is passed over: tweets begin with such words."""
    path = written(tmp_path, "# id = 7\n#win\tO\n#now\tB-x\n\n#\tO\n#\tO\n\n# a comment alone\n")
    assert [each["words"] for each in read(path)[0]] == [["#win", "#now"], ["#", "#"]]


def test_the_comments_of_germeval(tmp_path: Path) -> None:
    """They have as many columns as words have: read as a word, an address would have its date for a tag."""
    comment = "#\thttps://example.org\t[2010-07-04]\t\n"
    path = written(tmp_path, f"{comment}1\tIm\tO\tO\n2\tHarz\tB-LOC\tO\n\n{comment}1\tGut\tO\tO\n")
    found = read(path, columns={"words": "2", "tags": "3"})[0]
    assert [(each["words"], each["tags"]) for each in found] == [(["Im", "Harz"], ["O", "B-LOC"]), (["Gut"], ["O"])]


def test_words_without_tags(tmp_path: Path) -> None:
    path = written(tmp_path, "New\nYork\n\n!\n", "words.bio")
    assert read(path, ("words",))[0] == [{"words": ["New", "York"]}, {"words": ["!"]}]
    with pytest.raises(InputError, match="2 no tags"):
        read(path)


def test_uneven_sentences_are_counted_with_their_line(tmp_path: Path) -> None:
    path = written(tmp_path, "a O\nb\n\nc O\n\nd\tO\n\tO\n\ne\t\n\n\udcff O\n\nf\0 O\n")
    found, counts = read(path)
    assert found == [{"words": ["c"], "tags": ["O"]}]
    assert counts.first_lines == {
        "uneven columns": 2, "an empty word": 7, "an empty tag": 9, "not UTF-8": 11, "a zero in a text": 13,
    }  # fmt: skip
    with pytest.raises(InputError, match=r"1 uneven columns \(first in line 2, 1 of 2\)"):
        read(path, max_unusable=0.5)


def test_a_table_of_texts_is_no_file_of_tags(tmp_path: Path) -> None:
    """Fails if each text of CoLA becomes a tag."""
    path = written(tmp_path, "gj04\t1\t\tIt.\ngj04\t1\t\tThe sailors rode.\n")
    with pytest.raises(InputError, match=r"1 a tag with blanks in it: a column of texts\? \(first in line 2\)"):
        read(path, max_unusable=0.5)


def test_a_file_without_blank_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="begins in line 1 has more than 100,000 words"):
        read(written(tmp_path, "a O\n" * 100_001))


UD = """# newdoc id = a
# sent_id = a-1
# text = He didn't.
1\tHe\the\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\tdo\tAUX\tVBD\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

# text = #
1\t#\t#\t_\tNN\t_\t0\troot\t_\t_

"""


def test_conll_u(tmp_path: Path) -> None:
    """Ranges and empty nodes are no words, and a sentence whose tags are left open has none."""
    path = written(tmp_path, UD, "some.conllu")
    first = {"words": ["He", "did", "n't"], "document": 1, "id": "a-1"}
    found, counts = read(path)
    assert found == [{**first, "tags": ["PRON", "AUX", "PART"]}]
    assert counts.first_lines == {"no tags": 11}
    both, _ = read(path, columns={"tags": "xpos"})
    assert both == [{**first, "tags": ["PRP", "VBD", "RB"]}, {"words": ["#"], "tags": ["NN"], "document": 1}]


@given(st.lists(st.tuples(st.sampled_from(["A", "B"]), st.integers(1, 3)) | st.none(), max_size=8))
def test_bio2_of_iob1(chunks: list[tuple[str, int] | None]) -> None:
    """Fails if IOB1, in which only a chunk after one of its kind begins with B-, does not become BIO2."""
    iob1, expected, before = list[str](), list[str](), ""
    for chunk in chunks:
        if chunk is None:
            iob1.append("O")
            expected.append("O")
            before = ""
            continue
        kind, length = chunk
        iob1 += [f"{'B' if kind == before else 'I'}-{kind}"] + [f"I-{kind}"] * (length - 1)
        expected += [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
        before = kind
    assert to_bio2(iob1) == expected == to_bio2(expected)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "-DOCSTART- O\n"])
def test_no_sentences(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="has no sentences"):
        read(written(tmp_path, text))
