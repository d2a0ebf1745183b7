"""The boundaries of sentences, as byte offsets into the UTF-8 text.

Promise: the sentences of a document are non-empty, trimmed, in order and apart, and together they hold
every byte that is not white space. `split_sentences` is the definition; `sentence_offsets` finds the same
offsets in a whole column, at some 300 MB of English a CPU second and without a Python object per sentence. The
time is linear in the bytes whatever they are.

A sentence ends
- at a blank line, always;
- at a line end before a list item ("- ", "2. "), and before a line that could open a sentence when the line
  above has no sentence punctuation and is shorter than `MAX_HEADING_BYTES` bytes (a heading) or longer than
  `MAX_WRAPPED_BYTES` (a paragraph to a line, for nothing is wrapped that wide); any other line end is a space, so
  prose that is wrapped at a column stays whole;
- after . ! ? or … with the quotes and brackets that close on it and the citations after it ("[1]"), if white space
  follows and then what can open a sentence: a capital, a digit, a symbol, a letter of a script without case, or one
  of these after opening quotes (",So" too), brackets or dashes, or a link. So it splits inside quotations, and not
  before `he said`;
- after a lone . ! or ? before a small letter too, if the word before it is not an abbreviation (`_can_open_small`):
  people who do not use capitals, and "?" inside of speech, but not "Yahoo! in" nor "Where? asked she";
- after 。！？｡． and the marks of Indic and other scripts (।, ።, ။) whatever follows, but for a particle that quotes,
  and inside of quotes and brackets that soon close; so do . ! and ? between characters of Chinese or Japanese;
- at a colon (Italian, Armenian) or semicolon (French, Spanish, Portuguese, Greek) before a capital; in German, whose
  nouns have capitals, at both before a word that opens sentences, if what is before is no label;
- at a space of Thai or Lao, after `MIN_CLAUSE_BYTES` bytes;
- before "(...)", and between two quotations in straight quotes;
- between a word and a capitalized pronoun or the like that only a mark separates ("Come in.They wait.");
- after a face, as in "I am glad :) Then", and after brackets that open a sentence, as in "(Reuters) Oil fell";
- before the next item of a numbered list on one line, as in "1) one 2) two" or "(a) one (b) two", or of one with
  bullets;
- around a line that is drawn with * = _ ~ # or -.
A lone full stop does not end it after an abbreviation, an initial or an enumerator ("3." at the very start): the
tables of `corpora.text.sentences.languages` say which in each language. Nor do dots in brackets, "[...]". In a
document without one capital (the uncased profiles) a small letter opens a sentence wherever a capital would.

Against people's sentences (`python -m benchmarks.sentence_quality`: UD English EWT, development part; every
second document was held back when the rules were made) the boundaries of whole documents have F1 .926 (precision .991,
recall .869), .922 in the documents held back; segtok .902, sentencex .907. On its test part, from which nothing was
learnt, F1 is .876. All 52 golden rules of English are kept. Of other languages, on the development parts with which
the tables were made (`--treebanks`), with the language given: de .990, fr .986, es .995, it .964, nl .999, pt .987,
pl .983, ro .977, ru .983, sv .981, ja .999, zh .997; sentencex and pysbd are below in all but ja, where all are equal.

Marks that end a sentence, and what closes on them: quotes, brackets, citations, the marks of Chinese and Japanese.

Promise: the definition, part of `corpora.text.sentences.splitter`; `corpora.text.sentences.runs_kernels` has the
kernels, each named after its twin here.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.text.buffers import check_texts
from corpora.text.codepoints import (
    BULLETS,
    CLOSER,
    COMMA,
    DASH,
    DIGIT,
    ENDER,
    LETTER,
    LOWER,
    OPENER,
    PERIOD,
    QUOTE,
    SPACE,
    SYMBOL,
    UPPER,
    WIDE_ENDER,
    classify_character,
    read_character_classes,
)
from corpora.text.sentences.kernels import split_rows
from corpora.text.sentences.languages import (
    ABBREVIATION,
    BEFORE_NUMBER,
    BEFORE_STARTER,
    CRY,
    DAY,
    ELISION,
    FIRST_QUOTES,
    INITIAL_I,
    INLINE_BULLETS,
    JOINING,
    LEFT_OUT,
    LINKS,
    MAX_ASIDE_BYTES,
    MAX_CITATION_BYTES,
    MAX_HEADING_BYTES,
    MAX_LABEL_BYTES,
    MAX_QUOTE_CHARACTERS,
    MAX_TIME_BYTES,
    MAX_WRAPPED_BYTES,
    MIN_BLANK_CHARACTERS,
    MIN_CLAUSE_BYTES,
    MIN_MARKED_RULE_CHARACTERS,
    MIN_RULE_CHARACTERS,
    MIN_WORD_LETTERS,
    MONTH,
    NEVER_ENDS,
    NOUNS,
    ORDINAL,
    PRONOUN,
    QUOTING,
    REPEATED,
    RULED,
    SAYING,
    SPACED,
    STARTER,
    TIME,
    TITLE,
    WIDE_CLOSERS,
    WIDE_OPENERS,
    Language,
    find_language,
    list_colon_marks,
)
from corpora.text.sentences.words import build_word_slots

# ruff: noqa: RUF001 - typographic marks are the subject here


def find_run_end(text: str, sentence: int, at: int, language: Language) -> int:
    """Find the end of a run of terminators, including closing quotes and brackets, and citations before white space.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        at: Index of the first terminator.
        language: The words and conventions of the language.

    Returns:
        The index after the run.
    """
    run_end = at
    while True:
        end = skip_classes(text, run_end, (PERIOD, ENDER, WIDE_ENDER, CLOSER, QUOTE))
        ahead = text[end : end + 1]
        run_end = end + (ahead in ("“", "‘", "«") or (2 if text[end : end + 2] in (" ”", " »") else 0))
        run_end += 3 if text[end : end + 3] == " ''" else 0
        if run_end == end or (run_end < len(text) and classify_character(text[run_end]) != SPACE):
            return _skip_citations(text, sentence, at, end, language)


def _skip_citations(text: str, sentence: int, at: int, end: int, language: Language) -> int:
    """Return the index after the citations ("[1][2]", "10") that follow a terminator.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        at: Index of the first terminator.
        end: Index after the run of terminators. It is returned if there is no citation before white space.
        language: The words and conventions of the language.
    """
    place = end
    while text[place : place + 1] == "[" and text[place + 1 : place + 2].encode().isalnum():
        close = text.find("]", place, place + MAX_CITATION_BYTES)
        if close < 0 or len(text[place:close].encode()) >= MAX_CITATION_BYTES:
            return end
        place = close + 1
    if place == end == at + 1 and text[at] == "." and _can_be_note(text, sentence, at, language):
        place = _skip_number(text, place)
        second = _skip_number(text, place + 1)
        place = second if end < place and text[place : place + 1] == " " and place + 1 < second else place
    return place if place == len(text) or classify_character(text[place]) == SPACE else end


def _skip_number(text: str, at: int) -> int:
    """Return the index after a number of at most three digits that begins at `at`, or `at` if there is none."""
    place = at
    while place < min(at + 3, len(text)) and "0" <= text[place] <= "9":
        place += 1
    return place


def _can_be_note(text: str, sentence: int, at: int, language: Language) -> bool:
    """Return True if a number after the full stop at index `at` can refer to a note.

    This is the case after a closing bracket or a long lower-case word that is not an abbreviation.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        at: Index of the full stop.
        language: The words and conventions of the language.
    """
    start = at
    while start > max(sentence, at - 9) and classify_character(text[start - 1]) == LOWER:
        start -= 1
    closed = at > sentence and classify_character(text[at - 1]) == CLOSER
    return closed or (at - start >= MIN_WORD_LETTERS and not find_kind(text[start:at], language) & ABBREVIATION)


def is_wide_end(text: str, sentence: int, at: int, run_end: int) -> bool:
    """Return True if a terminator with no space after it ends a Chinese or Japanese sentence.

    It does not if a quoting particle follows, if it is within quotes or brackets that close soon, or if it is a decimal
    point.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        at: Index of the terminator.
        run_end: Index after the run of terminators and closing marks.
    """
    if text[at] == "．" and at > sentence and classify_character(text[at - 1]) == DIGIT:
        return False
    ahead = text[run_end : run_end + 1]
    if ahead and (ahead in QUOTING or (ahead in JOINING and classify_character(text[run_end - 1]) == CLOSER)):
        return False
    return not _is_in_quotes(text, sentence, run_end)


def _is_in_quotes(text: str, sentence: int, at: int) -> bool:
    """Return True if index `at` is within wide quotes or brackets of at most MAX_QUOTE_CHARACTERS on the same line.

    Openings before index `sentence`, at which the current sentence begins, do not count.
    """
    before, ahead = text[max(sentence, at - MAX_QUOTE_CHARACTERS) : at][::-1], text[at : at + MAX_QUOTE_CHARACTERS]
    return _has_unpaired(before, WIDE_OPENERS, WIDE_CLOSERS) and _has_unpaired(ahead, WIDE_CLOSERS, WIDE_OPENERS)


def _has_unpaired(text: str, wanted: str, others: str) -> bool:
    """Return True if a character of `wanted` in a text's first line has no matching earlier one of `others`."""
    pairs = 0
    for character in text.partition("\n")[0]:
        pairs += (character in others) - (character in wanted)
        if pairs < 0:
            return True
    return False


def is_wide(character: str) -> bool:
    """Return True if a character is Chinese or Japanese."""
    return "ぁ" <= character <= "\u9fff"


def find_colon_end(text: str, sentence: int, at: int, language: Language) -> tuple[int, int, int]:
    """Find the end of a sentence at a colon or semicolon before a capital.

    In languages that capitalize nouns, a known sentence-opening word must follow, and neither a label ("Ihr Ziel: Wir")
    nor a quote may precede.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        at: Index of the colon or semicolon.
        language: The words and conventions of the language.

    Returns:
        The end of the sentence (0 if it does not end here), the index to continue at, and the number of newlines
        skipped.
    """
    following = skip_classes(text, at + 1, (SPACE,))
    quoted = not language.manner & NOUNS and text[following : following + 1] in tuple(FIRST_QUOTES)
    first = following + quoted
    if following == at + 1 or first >= len(text) or classify_character(text[first]) != UPPER:
        return 0, at + 1, 0
    opens = language.words.get(read_next_word(text, first).lower(), 0) & STARTER
    opens = opens and classify_character(text[at - 1]) != QUOTE
    if language.manner & NOUNS and (not opens or len(text[sentence:at].encode()) < MAX_LABEL_BYTES):
        return 0, at + 1, 0
    return at + 1, following, text[at + 1 : following].count("\n")


def is_spaced_end(text: str, sentence: int, at: int, following: int) -> bool:
    """Return True if the space at index `at` ends a Thai or Lao sentence.

    It does if the sentence, which begins at index `sentence`, is long enough and the space is between two letters.
    `following` is the index after the space.
    """
    behind, ahead = text[at - 1], text[following : following + 1]
    within = text[at] == " " and "\n" not in text[at:following] and at > sentence
    letters = all("\u0e01" <= letter <= "\u0eff" and letter not in REPEATED for letter in (behind, ahead or " "))
    return within and letters and len(text[sentence:at].encode()) >= MIN_CLAUSE_BYTES


def read_next_word(text: str, at: int) -> bytes:
    """Return the word that begins at index `at`, in UTF-8: ASCII or two-byte letters, at most eight bytes.

    The result is empty if there is no letter.
    """
    word = b""
    for character in text[at : at + 8]:
        letter = character.encode()
        if len(word + letter) > 8 or not (letter.isalpha() or "À" <= character <= "\u04ff"):
            break
        word += letter
    return word


def find_kind(word: str, language: Language) -> int:
    """Return the kinds of a word in a language, as a sum of bit flags such as TITLE; 0 if the word is not listed."""
    return language.words.get(word.encode().lower(), 0)


def skip_classes(text: str, at: int, kinds: tuple[int, ...]) -> int:
    """Return the first index at or after `at` of a character that is in none of the classes `kinds`."""
    while at < len(text) and classify_character(text[at]) in kinds:
        at += 1
    return at


# ruff: noqa: RUF001, RUF002 - typographic marks are the subject here


def sentence_offsets(
    data: Bytes, offsets: Int64s, languages: Sequence[str | None] | None = None
) -> tuple[Int64s, Int64s, Int64s]:
    """Find the start and end byte of each sentence in each row.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 `(n + 1,)`: row i is data[offsets[i]:offsets[i + 1]].
        languages: The ISO 639 code of each row, or None if the row's language is uncertain. If None, all languages are
            uncertain. Otherwise it must have one entry for each row (AssertionError).

    Returns:
        Starts, ends and rows, all int64. Sentence j is data[starts[j]:ends[j]]. Row i has the sentences from rows[i] up
        to, but not including, rows[i + 1].

    Raises:
        InputError: If rows are not valid UTF-8, or offsets lie outside the data.
    """
    check_texts(data, offsets[:-1], offsets[1:])
    if languages is None:
        numbers, codes = np.zeros(offsets.size - 1, np.int64), [""]
    else:
        assert len(languages) == offsets.size - 1, "there is a language for each row"
        code_of = {code: find_language(code).code for code in dict.fromkeys(languages)}
        codes = list(dict.fromkeys(code_of.values())) or [""]
        number_of = {code: codes.index(table) for code, table in code_of.items()}
        numbers = np.array([number_of[code] for code in languages], np.int64)
    tables = np.array([_build_word_slots(code) for code in codes])
    return split_rows(data, offsets, read_character_classes(), tables, numbers)


@cache
def _build_word_slots(code: str) -> Int64s:
    """Build the hash table of words for the language with an ISO 639 code, in the form that the kernels use; cached."""
    language = find_language(code)
    return build_word_slots(language.words, language.manner)


def split_sentences(text: str, language: str | None = None) -> list[tuple[int, int]]:
    """Split a text into sentences. Reference implementation of `sentence_offsets`, for tests.

    Args:
        text: The text.
        language: ISO 639 code of the text, or None if it is uncertain.

    Returns:
        The (start, end) of each sentence, as byte offsets in the text's UTF-8.

    >>> split_sentences('"He left." She saw Dr. Grey.')
    [(0, 10), (11, 28)]
    >>> split_sentences("Am 12. Juni kam z. B. Otto.", "de")
    [(0, 27)]
    """
    place = [0]
    for character in text:
        place.append(place[-1] + len(character.encode()))
    return [(place[start], place[end]) for start, end in _iter_spans(text, find_language(language))]


def _iter_spans(text: str, language: Language) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of each sentence in a text, as character offsets."""
    reading = replace(language, cased=any(classify_character(character) == UPPER for character in text))
    text = text.rstrip()
    stop = len(text)
    sentence = line = at = skip_classes(text, 0, (SPACE,))
    while at < stop:
        end, following, newlines = _find_boundary(text, sentence, line, at, reading)
        if sentence < end and following < stop:
            yield sentence, end
            sentence = following
        line = following if newlines else line
        at = following if following >= at else at + 1
    if sentence < stop:
        yield sentence, stop


def _find_boundary(text: str, sentence: int, line: int, at: int, language: Language) -> tuple[int, int, int]:
    """Check whether a sentence ends at a character.

    Args:
        text: The text, without white space at the end.
        sentence: Index of the current sentence's first character.
        line: Index of the current line's first character.
        at: Index of the character to check.
        language: The words and conventions of the language.

    Returns:
        The end of the sentence (0 if it does not end here), the index to continue at, and the number of newlines
        skipped.
    """
    kind = classify_character(text[at])
    if kind == SPACE:
        following = skip_classes(text, at, (SPACE,))
        newlines = text[at:following].count("\n")
        ends = _is_line_end(text, line, at, following, newlines, language)
        ends = ends or (bool(language.manner & SPACED) and is_spaced_end(text, sentence, at, following))
        return at if ends else 0, following, newlines
    if text[at] in RULED:
        return _find_drawn_line(text, sentence, at, language)
    if text[at] in list_colon_marks(language.manner):
        return find_colon_end(text, sentence, at, language)
    if text[at] in INLINE_BULLETS or text[at] in ".)":
        item = _find_item(text, sentence, at)
        if item > sentence:
            return _find_space_start(text, item), item, 0
    if text.startswith('" "', at) and text[sentence] == '"' and len(text[sentence:at].encode()) >= MAX_LABEL_BYTES:
        return at + 1, at + 2, 0  # two quotations, each a sentence
    if kind not in (PERIOD, ENDER, WIDE_ENDER) and not (text[at] == ")" and _can_close(text, sentence, at)):
        return 0, at + 1, 0
    run_end = find_run_end(text, sentence, at, language)
    following = skip_classes(text, run_end, (SPACE,))
    newlines = text[run_end:following].count("\n")
    return run_end if _is_end(text, sentence, at, run_end, following, newlines, language) else 0, following, newlines


def _is_line_end(text: str, line: int, at: int, following: int, newlines: int, language: Language) -> bool:
    """Return True if the sentence ends at white space that does not follow sentence punctuation.

    Args:
        text: The text.
        line: Index of the current line's first character.
        at: Index of the white space.
        following: Index after the white space.
        newlines: Number of newlines in it.
        language: The words and conventions of the language.
    """
    if newlines > 1 or (newlines and _is_list_item(text[following : following + 5])):
        return True
    if not newlines or classify_character(text[at - 1]) == COMMA:
        return False
    size = len(text[line:at].encode())
    return not MAX_HEADING_BYTES <= size <= MAX_WRAPPED_BYTES and _can_open(text, following, language)


def _is_end(text: str, sentence: int, at: int, run_end: int, following: int, newlines: int, language: Language) -> bool:
    """Return True if the run of terminators and closing marks from `at` to `run_end` ends the sentence.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        at: Index of the first terminator.
        run_end: Index after the run.
        following: Index after the white space that follows.
        newlines: Number of newlines in this white space.
        language: The words and conventions of the language.
    """
    run = text[at:run_end]
    if any(classify_character(character) == WIDE_ENDER for character in run):
        return is_wide_end(text, sentence, at, run_end)
    if following == len(text):
        return False
    if following == run_end:
        if text[at] != ")" and at > sentence and is_wide(text[at - 1]) and is_wide(text[run_end]):
            return is_wide_end(text, sentence, at, run_end)
        return _is_joined(text, sentence, at, run_end, language)
    if newlines > 1 or (newlines and _is_list_item(text[following : following + 5])):
        return True
    if _is_elided(text, sentence, at) or (text[at] == ")" and classify_character(text[following]) == DASH):
        return False
    if run in (".", ".)") and _is_enumerated(text, sentence, at):
        return False
    if not _can_open(text, following, language):
        dotted = _can_open_dotted(text, sentence, at, run, following)
        quoted = run[-1] == '"' == text[following]
        return dotted or quoted or _can_open_small(text, sentence, at, run, following, language)
    if at > sentence and classify_character(text[at - 1]) == SPACE and set(run) <= set(".…"):
        opening = at == sentence + 4 and text[sentence:at] == ". . "
        return not opening and read_next_word(text, following) != b"I"
    return run != "." or not _is_abbreviation(text, sentence, at, following, language)


# What lies ahead.


def _can_open(text: str, at: int, language: Language) -> bool:
    """Return True if a sentence can start at index `at`, after at most four opening marks, quotes or dashes."""
    if text[at] == "(" and _is_enumerator(text[at + 1 : max(at, text.find(") ", at, at + 8))].encode()):
        return True
    if text.startswith(LEFT_OUT, at):
        return True
    lead = at + (text[at] == ",") + text.startswith(",,", at)  # a low quote, as typed
    while lead < at + 4 and lead < len(text):
        dashed = lead > at and (classify_character(text[lead - 1]) == DASH or text[lead - 1] == "`")
        spaced = text[lead] == " " and (dashed or text[at:lead] == ",,")
        if not (spaced or classify_character(text[lead]) in (OPENER, QUOTE, DASH)):
            break
        lead += 1
    kinds = (UPPER, DIGIT, LETTER, SYMBOL) if language.cased else (UPPER, DIGIT, LETTER, SYMBOL, LOWER)
    return lead < len(text) and (classify_character(text[lead]) in kinds or text.startswith(LINKS, lead))


def _can_open_dotted(text: str, sentence: int, at: int, run: str, following: int) -> bool:
    """Return True if the full stop after a word is followed by three dots that open the next sentence.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        at: Index of the full stop.
        run: The run of terminators that it begins.
        following: Index after the white space that follows.
    """
    attached = at > sentence and classify_character(text[at - 1]) not in (SPACE, PERIOD)
    dotted = text.startswith(". . . ", following) and following + 6 < len(text)
    return run == "." and attached and dotted and classify_character(text[following + 6]) == UPPER


def _can_open_small(text: str, sentence: int, at: int, run: str, following: int, language: Language) -> bool:
    """Return True if the lower-case letter at index `following` starts a sentence.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        at: Index of the first terminator.
        run: The run of terminators and closing marks.
        following: Index after the white space that follows the run.
        language: The words and conventions of the language.
    """
    bracket = run == "." and text[following] == "("
    following += bracket
    if classify_character(text[following : following + 1] or " ") != LOWER or not set(run) <= set(".!?"):
        return False
    word = _find_word_before(text, sentence, at, language)
    ahead = read_next_word(text, following)
    kind = language.words.get(ahead.lower(), 0)
    if not word or kind & SAYING:
        return False
    after_it = read_next_word(text, following + len(ahead.decode()) + 1)
    if run != "." and kind & PRONOUN and language.words.get(after_it.lower(), 0) & SAYING:
        return False
    if "?" in run:
        return True
    if "!" in run:
        return len(run) > 1 or (classify_character(word[0]) != UPPER and not find_kind(word, language) & CRY)
    return run == "." and _is_word_end(text, sentence, word, following, language)


def _is_word_end(text: str, sentence: int, word: str, following: int, language: Language) -> bool:
    """Return True if the full stop after a word ends a sentence before a lower-case letter.

    It does not if it may mark an abbreviation.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        word: The word.
        following: Index of the lower-case letter.
        language: The words and conventions of the language.
    """
    if len(word) == 1 or "." in word or find_kind(word, language) & ABBREVIATION:
        return False
    ahead = read_next_word(text, following)
    if language.manner & NOUNS and len(word) > 2 and language.words.get(ahead, 0) & STARTER:
        return True
    if classify_character(word[0]) == UPPER:
        return ahead == b"i"
    if language.words.get(ahead.lower(), 0) & PRONOUN:
        return True
    small = all(classify_character(letter) == LOWER for letter in word)
    return small and (len(word) >= MIN_WORD_LETTERS or classify_character(text[sentence]) == LOWER)


def _is_joined(text: str, sentence: int, at: int, run_end: int, language: Language) -> bool:
    """Return True if two sentences meet without a space: a word, a terminator, and the capital of a known word.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        at: Index of the first terminator.
        run_end: Index of the capital.
        language: The words and conventions of the language.
    """
    if not "A" <= text[run_end] <= "Z" or not set(text[at:run_end]) <= set(".!?"):
        return False
    ahead = read_next_word(text, run_end)
    ahead_kind, end = language.words.get(ahead.lower(), 0), run_end + len(ahead.decode())
    behind = text[end : end + 1]
    if not (ahead_kind & PRONOUN and behind in (" ", "'")) and not (ahead_kind & TITLE and behind == "."):
        return False
    start = at
    while start > sentence and classify_character(text[start - 1]) in (UPPER, LOWER, DIGIT, COMMA):
        start -= 1
    bounded = start == sentence or classify_character(text[start - 1]) in (SPACE, OPENER, QUOTE)
    word = text[start:at]
    return (
        bounded
        and len(word) > 1
        and classify_character(word[-1]) in (LOWER, DIGIT)
        and not (start == sentence and _is_enumerator(word.encode()))
    )


def _is_list_item(ahead: str) -> bool:
    """Return True if a line starts with a bullet or a number of up to three digits and "." or ")", then a space.

    `ahead` has the first five characters of the line.
    """
    head, space, _ = ahead.partition(" ")
    number = head[:-1].encode()
    numbered = 1 <= len(number) <= 3 and number.isdigit() and head[-1] in ".)"
    return bool(space) and (numbered or (len(head) == 1 and head in BULLETS))


# What came before.


def _find_word_before(text: str, sentence: int, at: int, language: Language) -> str:
    """Return the word that ends before index `at`, without its opening quotes.

    It begins after white space, an opening bracket or a dash, but not before index `sentence`. In languages with
    elisions, it begins after the last apostrophe.
    """
    start = at
    while start > sentence and classify_character(text[start - 1]) not in (SPACE, OPENER, DASH):
        start -= 1
    while start < at and classify_character(text[start]) == QUOTE:
        start += 1
    return text[start:at] if not language.manner & ELISION else re.split("['’]", text[start:at])[-1]


def _is_abbreviation(text: str, sentence: int, at: int, following: int, language: Language) -> bool:
    """Return True if the full stop at index `at` marks an abbreviation and does not end the sentence.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        at: Index of the full stop.
        following: Index after the white space that follows.
        language: The words and conventions of the language.
    """
    word = _find_word_before(text, sentence, at, language)
    kind, ahead = find_kind(word, language), read_next_word(text, following)
    ahead_class, ahead_kind = classify_character(text[following]), language.words.get(ahead.lower(), 0)
    numbers = bool(kind & BEFORE_NUMBER) or word.endswith(("°", "º"))
    if kind & NEVER_ENDS or (numbers and ahead_class == DIGIT):
        return True
    if kind & TIME:
        return bool(ahead_kind & DAY) or len(text[sentence : at - len(word)].encode()) <= MAX_TIME_BYTES
    if word.encode().isdigit() and len(word) <= 3:
        ordinal = language.manner & ORDINAL and ahead_class in (UPPER, DASH) and not ahead_kind & STARTER
        return bool(ordinal or ahead_kind & MONTH)
    if word == "I" and not language.manner & INITIAL_I:
        return _has_name_before(text, sentence, at - 1)
    stopped = text.startswith(".", following + len(ahead.decode()))
    if stopped and len(ahead.decode()) == 1 and len(word) == 1 and classify_character(word) == LOWER:
        return True
    initial = word == "I" or _is_initials(word, language.cased)
    return bool(kind & BEFORE_STARTER or initial) and (not ahead_kind & STARTER or stopped)


def _has_name_before(text: str, sentence: int, at: int) -> bool:
    """Return True if a space and a capitalized word are directly before index `at`.

    The word must not start the sentence, which begins at index `sentence`.
    """
    if at <= sentence or text[at - 1] != " ":
        return False
    start = at - 1
    while start > sentence and classify_character(text[start - 1]) in (UPPER, LOWER):
        start -= 1
    return start > sentence and start < at - 1 and classify_character(text[start]) == UPPER


def _is_elided(text: str, sentence: int, at: int) -> bool:
    """Return True if the dots at index `at` follow an opening bracket in the same sentence, as in "[...]"."""
    return at > sentence and text[at - 1] in "([" and text[at] in ".…"


def _can_close(text: str, sentence: int, at: int) -> bool:
    """Return True if the ")" at index `at` can end the sentence that begins at index `sentence`.

    This is the case in an emoticon, or if it closes a bracket that starts the sentence.
    """
    eyes = at - 2 if at > sentence and text[at - 1] == "-" else at - 1
    if eyes > sentence and text[eyes] in ":;=" and classify_character(text[eyes - 1]) in (SPACE, PERIOD, ENDER):
        return True
    aside = text[sentence : min(at, sentence + MAX_ASIDE_BYTES + 1)]
    return (
        text[sentence] == "("
        and 3 < len(aside.encode()) <= MAX_ASIDE_BYTES
        and (classify_character(aside[1]) in (UPPER, LOWER) or (classify_character(aside[1]) == DIGIT and " " in aside))
        and not set(aside[1:]) & set("()")
        and not _is_enumerator(aside[1:].encode())
    )


# Items of a list on one line.


def _find_head(text: str, sentence: int) -> int:
    """Return the index of the first word of the sentence that begins at `sentence`, after a bullet and at most four
    spaces.
    """
    if text[sentence] not in BULLETS + INLINE_BULLETS:
        return sentence
    return min(sentence + 5, skip_classes(text[: sentence + 5], sentence + 1, (SPACE,)))


def _is_enumerated(text: str, sentence: int, at: int) -> bool:
    """Return True if text[sentence:at] is only a list number or letter, perhaps after a bullet."""
    head = _find_head(text, sentence)
    return _is_enumerator(text[head : min(at, head + 6)].encode())


def _is_enumerator(word: bytes) -> bool:
    """Return True if a word can be a list number: up to three digits, one letter, or a small Roman numeral."""
    if word.isdigit():
        return len(word) <= 3
    return (len(word) == 1 and word.isalpha()) or (0 < len(word) <= 5 and not word.strip(b"ivxIVX"))


def _find_item(text: str, sentence: int, at: int) -> int:
    """Return the start index of the next list item in the sentence if the item's mark is at index `at`, otherwise 0.

    The mark is a bullet, or the full stop or bracket after a list number. The sentence begins at index `sentence`, with
    an item of the same form.
    """
    if text[at] in INLINE_BULLETS:
        return at if at > sentence and text[at] == text[sentence] and classify_character(text[at - 1]) == SPACE else 0
    start = at
    while start > at - 3 and start > sentence and text[start - 1] in "0123456789abcdefghijklmnopqrstuvwxyz":
        start -= 1
    if start == at:
        return 0
    start -= start > sentence and text[start - 1] == "("
    if start == sentence or classify_character(text[start - 1]) != SPACE:
        return 0
    first, second = _read_number(text, _find_head(text, sentence)), _read_number(text, start)
    return start if first[0] and second == (first[0] + 1, first[1]) else 0


def _read_number(text: str, at: int) -> tuple[int, str]:
    """Return the list number at index `at` ("3" as 3, "c" as 99) and its punctuation, or (0, "") if there is none."""
    match = re.compile(r"(\(?)([0-9]{1,3}|[a-z])(\.\)|\.|\))\s").match(text, at)
    if not match:
        return 0, ""
    return int(match[2]) if match[2].isdigit() else ord(match[2]), match[1] + match[3]


def _find_drawn_line(text: str, sentence: int, at: int, language: Language) -> tuple[int, int, int]:
    """Find the end of a sentence at a line drawn with equal characters, such as "-----", which separates sentences.

    Args:
        text: The text.
        sentence: Index of the current sentence's first character.
        at: Index of the first of the equal characters.
        language: The words and conventions of the language.

    Returns:
        The end of the sentence (0 if it does not end here), the index to continue at, and the number of newlines
        skipped.
    """
    run_end = at
    while run_end < len(text) and text[run_end] == text[at]:
        run_end += 1
    ahead = skip_classes(text, run_end, (SPACE,))
    if run_end - at < MIN_MARKED_RULE_CHARACTERS or (ahead == run_end and ahead < len(text)):
        return 0, run_end, 0
    if at == sentence:
        ends = ahead < len(text) and text[ahead] not in RULED + "|" and _can_open(text, ahead, language)
        return (run_end, ahead, text[run_end:ahead].count("\n")) if ends else (0, run_end, 0)
    before = _find_space_start(text, at)
    behind = text[before - 1]
    marked = classify_character(behind) in (PERIOD, ENDER, WIDE_ENDER, CLOSER, QUOTE) and text[at] not in "-_"
    marked = marked and ahead < len(text) and _can_open(text, ahead, language)
    long = run_end - at >= (MIN_BLANK_CHARACTERS if text[at] == "_" else MIN_RULE_CHARACTERS)
    parts = before < at and behind not in RULED + "|" and (marked or long)
    return (before, at, 0) if parts else (0, run_end, 0)


def _find_space_start(text: str, at: int) -> int:
    """Return the first index of the white space that ends before `at`, or `at` if there is none."""
    while classify_character(text[at - 1]) == SPACE:
        at -= 1
    return at


def _is_initials(word: str, cased: bool) -> bool:
    """Return True if a word is a single capital (other than I) or capitals separated by full stops.

    If `cased` is False, lower-case letters count as capitals.
    """
    capitals = (UPPER,) if cased else (UPPER, LOWER)
    letters = word[::2]
    return (
        len(word) % 2 == 1
        and word not in ("I", "i")
        and set(word[1::2]) <= {"."}
        and all(classify_character(letter) in capitals for letter in letters)
    )
