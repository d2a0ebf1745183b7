"""The counts: the kernels count what the definition counts, and that is what a person counts."""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

from hypothesis import example, given, settings
from hypothesis import strategies as st
from text_columns import column

from corpora.text.counts.definition import Counts, measure
from corpora.text.counts.kernels import measure_texts

WORDS = ["the", "The", "of,", "(and)", "lorem", "Lorem", "ipsum", "ipsum.", "7", "é", "日本。", "！", "x" * 9]
MARKS = ["#", "##", "...", "..", "....", "…", ".", "?”", "'", '"', ")", "{", "}", "-", "•", "*", "\x01"]
PIECES = st.sampled_from([*WORDS, *MARKS, " ", "  ", "\n", "\n\n", "\n \n", "\t"])
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join), st.lists(PIECES, max_size=40).map(" ".join))


def rows(counts: Counts) -> list[tuple[int, ...]]:
    return [tuple(map(int, row)) for row in zip(*counts, strict=True)]


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=4))
@example(["", "a", "lorem ipsum", "… a\n…\n\na\n\n\na"])
def test_the_kernel_counts_what_the_definition_counts(texts: list[str]) -> None:
    assert rows(measure_texts(column(texts))) == [tuple(measure(text)) for text in texts]


def test_counts_of_a_text_counted_by_hand() -> None:
    text = "• The end… of #1 (lorem ipsum).\n\n• The end… of #1 (lorem ipsum).\nÀ {bientôt}!"
    expected = {"words": 16, "word_characters": 61, "alphabetic_words": 14, "stop_words": 2, "sentences": 5}
    expected |= {"hash_marks": 2, "ellipses": 2, "curly_braces": 2, "lorem_ipsum": 2}
    expected |= {"lines": 3, "bullet_lines": 2, "line_characters": 74, "ended_line_characters": 74}
    expected |= {"repeated_lines": 1, "repeated_line_characters": 31, "paragraphs": 2, "repeated_paragraphs": 0}
    counts = measure(text)._asdict()
    assert {name: counts[name] for name in expected} == expected


def test_runs_counted_by_hand() -> None:
    """Fails if occurrences, their characters or the words they cover are counted otherwise."""
    words = "we sail at dawn we sail at dusk"
    counts = measure(words)
    assert (counts.top_2gram_characters, counts.top_3gram_characters, counts.top_4gram_characters) == (12, 16, 0)
    once = "one two three four five six seven"
    counts = measure(f"{once} {once} eight")
    assert counts.repeated_5gram_characters == counts.repeated_7gram_characters == len(once.replace(" ", ""))
    assert counts.repeated_8gram_characters == 0  # ".. seven eight" is not ".. seven one"
    same = measure("no " * 12)
    assert (same.top_2gram_characters, same.repeated_5gram_characters) == (11 * 4, 11 * 2)
    assert rows(measure_texts(column([words, f"{once} {once} eight", "no " * 12])))[2] == tuple(same)


def test_without_runs_all_else_is_counted() -> None:
    text = "We sail at dawn. We sail at dawn.\nWe sail at dawn."
    some, all_of_it = measure_texts(column([text]), runs=False), measure_texts(column([text]))
    assert (rows(some)[0][-9], rows(all_of_it)[0][-9]) == (0, 3 * len("atdawn."))
    assert rows(some)[0][:-9] == rows(all_of_it)[0][:-9]


PAIRS = st.lists(st.sampled_from(["a", "b", "word", "words", "wordless", "wordlessness", "wordlessnesS", "é,", "日本"]))


@settings(deadline=None)
@given(
    st.lists(st.lists(PAIRS, max_size=30).map(lambda parts: "\n".join(" ".join(part) for part in parts)), max_size=3)
)
def test_runs_of_few_words_are_counted_alike(texts: list[str]) -> None:
    """Few words make many runs; words that differ after the eighth byte, or in length alone, are told apart."""
    assert rows(measure_texts(column(texts))) == [tuple(measure(text)) for text in texts]


def test_slices_are_read_where_they_are() -> None:
    text = "The ferry left at seven.\n\nNobody waved."
    assert rows(measure_texts(column(["x", text, "y"])[1:2])) == [tuple(measure(text))]
