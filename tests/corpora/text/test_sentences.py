"""The sentence splitter: its rules by example, its promises by property, the kernel against the definition."""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiers import examples

from corpora.text.buffers import text_buffers
from corpora.text.sentences.signs import WORDS
from corpora.text.sentences.splitter import sentence_offsets, split_sentences

PIECES = [*"aBcDéÉ日7()“”\"'’-—•*_$,;:", ".", ".", ".", "!", "?", "…", "。", "？", "‽", "\u0301", "\U00020000"]
PIECES += ["***", "====", "---", "_" * 41, "•", "⁃", ":)", ";-)", ". . .", "[...]", "(Aside here)", "http://", "|"]
PIECES += ["a.m", "P.M", "Monday", "said", "i", "b", "a", "1", "2", "2)", "1)", "1.)", "2.)", "N°", "I", "King", "ok"]
PIECES += ["Mr", "e.g", "No", "St", "U.S", "J", "The", "he", "iv", "12", "Then", "meanwhile", "Ürgh", "12) ", "- "]
PIECES += ["www.x", "oh", "end.Today ", "\U00100000"]
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


def of_kernel(texts: list[str]) -> list[list[tuple[int, int]]]:
    data, offsets = text_buffers(pa.array(["Before.", *texts], pa.large_string())[1:])
    starts, ends, rows = sentence_offsets(data, offsets)
    return [
        [(int(starts[at] - offsets[row]), int(ends[at] - offsets[row])) for at in range(rows[row], rows[row + 1])]
        for row in range(len(texts))
    ]


@examples(400)
@given(st.lists(TEXTS, max_size=3))
@example(["", " \n", "a", "A. B", ". . .", "“", "J. K. Rowling. He", "。。 。", "It is 1.5 m. \n\nOk"])
def test_the_kernel_finds_the_sentences_of_the_definition(texts: list[str]) -> None:
    assert of_kernel(texts) == [split_sentences(text) for text in texts]


@settings(deadline=None)
@given(TEXTS)
def test_sentences_are_trimmed_in_order_and_hold_every_byte_but_white_space(text: str) -> None:
    spans = split_sentences(text)
    parts = sentences(text)
    assert all(part and part == part.strip() for part in parts)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert "".join("".join(parts).split()) == "".join(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "It rained. | Nobody came.",
        "Why? | Because! | I see… | Well",
        '"He left." | She said so.',
        '"Where is he?" she asked. | "Gone."',
        "“Stop!” | “No.” | (It went on.) | [So it did.] | Then it ended.",
        "He stopped. | — Who is there?",
        "Mr. Grey met Dr. J. K. Brown, e.g. at Fig. 3 of Vol. 2.",
        '"Mr. Grey" came. | He said "Dr. Brown" did too.',
        "He said no. | Five stayed. | See No. 5.",
        "I live in the U.S. | How about you?",
        "The U.S. Army came.",
        "It closed at 5 p.m. | Everyone left.",
        "Sold by Smith & Co. | It is closed now.",
        "Sold by Smith & Co. Limited.",
        "It cost $3.50 or 2.5 pounds. | $5 was left.",
        "3. Results and discussion",
        "IV. The voyage",
        "They lost, not I. | We won.",
        "Visit example.com/a.html now.",
        "Wait... what? | He left... | Then he came back.",
        "今日は雨です。|明日は？|はい。",
        "Он ушёл. | Она осталась.",
        "mr. grey came in. | nobody spoke. | vs. the wind",
        # Small letters that open a sentence, and small letters that do not.
        "Who is it? | maybe the postman. | i will go. | it is late",
        "He lives at Yahoo! in the city, approx. two miles off, etc. and so on.",
        "“Where?” asked she. | —Who is it? asked Stephen.",
        "Nice!! | really nice. | But oh! how long. | He came! | nobody else.",
        "It was Mary. | i saw her.",
        "See p. the third, sect. b of it.",
        # Times, numbers and names.
        "At 5 a.m. Mr. Grey rose, not at 6 p.m. Monday.",
        "They will all be back by 6 P.M. | Mr. Grey will not.",
        "It is at N°. 5. | Do you know Albert I. Jones or King Henry?",
        "It is up to you and I. | Do go.",
        # Ellipses.
        'He said "Bohr [...] used it [...]" (Smith 55). | So [it is].',
        "The thing is . . . I did not. | She had . . . . | Then he came",
        "It went on. | . . . The rest is lost.",
        # Lists on one line.
        "1.) One 2.) Two | 3.) Three".replace(" 2.)", " | 2.)"),
        "1) One thing | 2) Another. | 3) A third",
        "1. One item | 2. Two items",
        "a. One item | b. Two items | c. Three",
        "• 9. One • ten | • Two".replace(" • ten", " | • ten"),
        "⁃9. One | ⁃10. Two",
        "2) One 1) two 4) three",
        # Faces, asides, lines, links, and sentences that meet.
        "I am glad :) | Then he went ;-) | So did I.",
        "The ratio (a:b) It is",
        "(Reuters) | Oil fell. | (III) The third.",
        "(Reuters) - Oil fell.",
        "It ended. | *** | Then it began. | ======== | Next",
        "Lord ---- came, and Mrs. **** too. | Name: ______ Date",
        "Look here. | http://a.example/b.html or here. | www.example.com",
        "Come in.| They wait.| Mr. Grey, too, in 1,000.| That is all.",
        "See collections.Counter and example.The,README.This and U.S.They say",
    ],
)
def test_rules_by_example(text: str) -> None:
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


def test_lists_hold_words_that_the_kernel_can_look_up() -> None:
    assert all(len(word) <= 8 and word.isascii() and word == word.lower() for word in WORDS)


def test_offsets_count_bytes_of_the_buffer_and_rows_delimit_them() -> None:
    data, offsets = text_buffers(pa.array(["Éa. B.", "", "C."], pa.large_string()))
    starts, ends, rows = sentence_offsets(data, offsets)
    assert rows.tolist() == [0, 2, 2, 3]
    assert [bytes(data[start:end]).decode() for start, end in zip(starts, ends, strict=True)] == ["Éa.", "B.", "C."]


def test_more_sentences_than_the_first_buffers_hold() -> None:
    texts = ["A. " * 3000, "。" * 10, "B! " * 5000]
    assert [len(spans) for spans in of_kernel(texts)] == [1, 1, 5000]
    assert [len(split_sentences(text)) for text in texts] == [1, 1, 5000]
