"""The sentence splitter: its rules by example, its promises by property, the kernel against the definition."""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from labelled_cases import cases_of
from tiers import examples

from corpora.text.buffers import to_text_buffers
from corpora.text.sentences.languages import EVERY, LANGUAGES, WORDS
from corpora.text.sentences.splitter import sentence_offsets, split_sentences

CASES = cases_of(__file__, "sentences")
LANGUAGE_CASES = [(code, text) for code, texts in cases_of(__file__, "languages").items() for text in texts]
PIECES = [*"aBcDéÉ日7()“”\"'’-—•*_$,;:", ".", ".", ".", "!", "?", "…", "。", "？", "‽", "\u0301", "\U00020000"]
PIECES += ["***", "====", "---", "_" * 41, "•", "⁃", ":)", ";-)", ". . .", "[...]", "(Aside here)", "http://", "|"]
PIECES += ["a.m", "P.M", "Monday", "said", "i", "b", "a", "1", "2", "2)", "1)", "1.)", "2.)", "N°", "I", "King", "ok"]
PIECES += ["Mr", "e.g", "No", "St", "U.S", "J", "The", "he", "iv", "12", "Then", "meanwhile", "Ürgh", "12) ", "- "]
PIECES += ["www.x", "oh", "end.Today ", "\U00100000"]
PIECES += [
    ",A",
    "(a",
    "(1 x) ",
    ",,",
    "``",
    "''",
    "“",
    "»",
    "«",
    ".[1]",
    "[note 2]",
    "word.10",
    "word.10 12",
    "he said",
    "they yelled",
    "(a)",
    "(b)",
    "(ii)",
    ":",
    ";",
    "．",
    "３",
    "「",
    "」",
]
PIECES += [
    "と",
    "行く。",
    "」と",
    "？」の",
    "漢!字",
    "z. B.",
    "u. Ä.",
    "Juni",
    "Über",
    "т. е.",
    "Л.Н",
    "др",
    "l'Ing",
    "III",
    "dott",
]
PIECES += [
    "(...) ",
    "[…]",
    "؟",
    "۔",
    "।",
    "।।",
    "။",
    "།",
    "։",
    "ກໄທ",
    "ไทย" * 10,
    "ไทย",
    "ๆ",
    '" "',
    '"' + "w" * 45,
    "Unsere",
    "unsere",
    "ab",
]
CODES: list[str | None] = [None, "un", "xx", *LANGUAGES]
SPACES = [" ", " ", " ", " ", "\n", "\n\n", "\t", "\u3000", "\r\n", " \n \n "]
TEXTS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(PIECES + SPACES * 3), max_size=60).map("".join),
    st.lists(st.sampled_from(PIECES + [f"{piece}." for piece in PIECES]), max_size=40).map(" ".join),
    st.lists(st.sampled_from(["word", "Word", "word,", "w" * 30, "W" * 45, "\n", "\n- "]), max_size=30).map(" ".join),
)


def sentences(text: str) -> list[str]:
    raw = text.encode()
    return [raw[start:end].decode() for start, end in split_sentences(text)]


def of_kernel(texts: list[str], codes: list[str | None] | None = None) -> list[list[tuple[int, int]]]:
    data, offsets = to_text_buffers(pa.array(["Before.", *texts], pa.large_string())[1:])
    starts, ends, rows = sentence_offsets(data, offsets, codes)
    return [
        [(int(starts[at] - offsets[row]), int(ends[at] - offsets[row])) for at in range(rows[row], rows[row + 1])]
        for row in range(len(texts))
    ]


@examples(400)
@given(st.lists(TEXTS, max_size=3))
@example(["", " \n", "a", "A. B", ". . .", "“", "J. K. Rowling. He", "。。 。", "It is 1.5 m. \n\nOk"])
def test_the_kernel_finds_the_sentences_of_the_definition(texts: list[str]) -> None:
    assert of_kernel(texts) == [split_sentences(text) for text in texts]


@examples(400)
@given(st.lists(st.tuples(TEXTS, st.sampled_from(CODES)), max_size=3))
@example([("ไทย" * 12 + "   ไทย", "th")])
@example([("Am 3. Mai. „So.“ Er", "de"), ("Disse: Vieni. L'Ing. Rossi", "it"), ("他说：「好。走。」と言った。", None)])
def test_the_kernel_reads_each_row_in_its_language(rows: list[tuple[str, str | None]]) -> None:
    texts, codes = [text for text, _ in rows], [code for _, code in rows]
    assert of_kernel(texts, codes) == [split_sentences(text, code) for text, code in rows]


@settings(deadline=None)
@given(TEXTS)
def test_sentences_are_trimmed_in_order_and_hold_every_byte_but_white_space(text: str) -> None:
    spans = split_sentences(text)
    parts = sentences(text)
    assert all(part and part == part.strip() for part in parts)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert "".join("".join(parts).split()) == "".join(text.split())


@pytest.mark.parametrize("text", CASES)
def test_rules_by_example(text: str) -> None:
    """Sentences are parted by | in the cases."""
    plain = text.replace(" | ", " ").replace("|", "")
    assert sentences(plain) == [part.strip() for part in text.split("|")]
    assert of_kernel([plain]) == [split_sentences(plain)]


def test_line_ends() -> None:
    assert sentences("A title\n\nand text.") == ["A title", "and text."]
    assert sentences("A Title\nText begins here.") == ["A Title", "Text begins here."]
    assert sentences("Dear Sir,\nThank you.") == ["Dear Sir,\nThank you."]
    assert sentences("Buy:\n- milk\n- bread\n2. Go") == ["Buy:", "- milk", "- bread", "2. Go"]
    wrapped = "a line of prose that is wrapped at about seventy columns, by Mr.\nGrey of\nthe same house"
    assert sentences(wrapped) == [wrapped]
    wide = "one paragraph to a line, " * 6
    assert sentences(f"{wide}end\nNext paragraph") == [f"{wide}end", "Next paragraph"]


@pytest.mark.parametrize(("size", "parts"), [(49, 2), (50, 1), (120, 1), (121, 2)])
def test_open_lines_are_joined_where_prose_is_wrapped(size: int, parts: int) -> None:
    text = "é" + "x" * (size - 2) + "\nNext"
    assert len(sentences(text)) == parts
    assert of_kernel([text]) == [split_sentences(text)]


@pytest.mark.parametrize(("code", "text"), LANGUAGE_CASES)
def test_rules_of_languages_by_example(code: str, text: str) -> None:
    """Sentences are parted by | in the cases."""
    plain = text.replace(" | ", " ").replace("|", "")
    raw = plain.encode()
    spans = split_sentences(plain, code)
    assert [raw[start:end].decode() for start, end in spans] == [part.strip() for part in text.split("|")]
    assert of_kernel([plain], [code]) == [spans]


def test_lists_hold_words_that_the_kernel_can_look_up() -> None:
    assert all(word.isascii() for word in WORDS)
    for language in (EVERY, *LANGUAGES.values()):
        assert all(0 < len(word) <= 8 and word == word.lower() for word in language.words)
        assert len(language.words) < 2048  # half of the table, so that few words share a slot


def test_a_text_of_no_certain_language_is_read_as_english_is() -> None:
    for text in map(str, CASES):
        plain = text.replace(" | ", " ").replace("|", "")
        assert split_sentences(plain, None) == split_sentences(plain, "un") == split_sentences(plain, "en")


def test_offsets_count_bytes_of_the_buffer_and_rows_delimit_them() -> None:
    data, offsets = to_text_buffers(pa.array(["Éa. B.", "", "C."], pa.large_string()))
    starts, ends, rows = sentence_offsets(data, offsets)
    assert rows.tolist() == [0, 2, 2, 3]
    assert [bytes(data[start:end]).decode() for start, end in zip(starts, ends, strict=True)] == ["Éa.", "B.", "C."]


def test_more_sentences_than_the_first_buffers_hold() -> None:
    texts = ["A. " * 3000, "。" * 10, "B! " * 5000]
    assert [len(spans) for spans in of_kernel(texts)] == [1, 1, 5000]
    assert [len(split_sentences(text)) for text in texts] == [1, 1, 5000]


def test_languages_are_one_for_each_row() -> None:
    """Fails if a list that is too short lets the kernel read what is behind it."""
    data, offsets = to_text_buffers(pa.array(["One. Two.", "Drei."], pa.large_string()))
    with pytest.raises(AssertionError, match="a language for each row"):
        sentence_offsets(data, offsets, ["en"])
