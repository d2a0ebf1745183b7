"""Subjects of `growth.py`: every fuzzed parser, every step of judging, and what a report does with texts."""
# ruff: noqa: RUF001 - mojibake is part of what is read

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pyarrow as pa
from fuzz_inputs import PROSE, TARGETS
from fuzzing import Target, Whole
from growth import Pattern, Subject

from corpora.duplicates.signatures import SignatureSettings, compute_signatures
from corpora.judging.batches import judge_records
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.clean import PROFILES, CleanSettings, clean, clean_text
from corpora.judging.steps.contamination import (
    ContaminationSettings,
    EvaluationIndex,
    Item,
    find_evaluation_matches,
    index_items,
)
from corpora.judging.steps.language import LanguageSettings, judge_languages
from corpora.judging.steps.lines import LineSettings, edit_lines, hash_lines
from corpora.judging.steps.privacy import PersonalDataSettings, mask_private, mask_text
from corpora.judging.steps.rules import RulesSettings, describe_failures, explain, judge_counts
from corpora.judging.steps.selection import QuestionIndex, index_questions, score_documents
from corpora.schema import cut_excerpt
from corpora.sources.contract import Locator, Record
from corpora.text.buffers import to_text_buffers
from corpora.text.counts.kernels import measure_texts
from corpora.text.sentences.splitter import sentence_offsets, split_sentences
from flows.report.texts import compare_texts

MOJIBAKE = tuple(
    word.encode()
    for word in ("Ã", "Â", "â", "€", "™", "ƒ", "\x83", "Ã©", "â€", "ð", "Ÿ", "œ", "ï", "¿", "½", "Ð", "°", "à", "¸")
)
NESTING = tuple(
    word.encode() for word in ("&semi;", "&semi", "&num;", "&#97;", "&NewLine;", "\u0f73", "\u0344", "\u1161", "\u11a8")
)
PRIVATE = tuple(
    word.encode()
    for word in ("a.", "1.1.", "8.8.8.8", "2001:", "tel ", "(212) ", "555-", "+1", "a-", "0 ", "1-", "Tel.: ")
)
SPEECH = tuple(
    word.encode() for word in ("Mr. ", "A. ", "e.g. ", '." ', "?! ", "1) ", "- ", "* ", "...", ".)", "。", "」")
)
SPEECH += tuple(word.encode() for word in ("「", ".[1]", "[", ",, ", " ''", "(a) ", "た.10 ", "“", "x!と", "．"))
ITEM = "one two three four five six seven eight nine ten eleven twelve"
WORDED = tuple(
    f"{words} ".encode() for words in (ITEM, ITEM.rpartition(" ")[0], "one two three four five six seven eight")
)


def _whole(text: bytes) -> bytes:
    return text


def _in_place_of_prose(whole: Whole, text: bytes) -> bytes:
    """A whole file with a text for its prose, or in the middle of it where it has none."""
    prose = PROSE.encode()
    if prose in whole.data:
        return whole.pack(whole.data.replace(prose, text, 1))
    at = whole.data.find(b"<p>") + 3 if b"<p>" in whole.data else len(whole.data) // 2
    return whole.pack(whole.data[:at] + text + whole.data[at:])


def _of_target(target: Target) -> Subject:
    frames = (target.inputs[0].pack, *(partial(_in_place_of_prose, whole) for whole in target.inputs[:2]))
    return Subject(target.tokens, frames, target.read)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _of_column(step: Callable[[pa.Array], object], tokens: tuple[bytes, ...] = ()) -> Subject:
    """A step over a column of one text."""
    return Subject(tokens, (_whole,), lambda data, _: step(pa.array([_text(data)], pa.large_string())))


def _of_text(step: Callable[[str], object], tokens: tuple[bytes, ...] = ()) -> Subject:
    return Subject(tokens, (_whole,), lambda data, _: step(_text(data)))


def _rules(texts: pa.Array) -> None:
    counts = measure_texts(texts)
    languages = ["en"] * len(counts.words)
    describe_failures(counts, judge_counts(counts, RulesSettings(), languages), languages)


def _lines(texts: pa.Array) -> None:
    settings = LineSettings(
        terminal_punctuation=True,
        min_words=3,
        max_word_characters=1_000,
        drop_javascript=True,
        drop_policy=True,
        strip_citations=True,
    )
    for hashes in (hash_lines(texts)[0], np.zeros(0, np.uint64)):
        edit_lines(texts, settings, np.sort(hashes)[:3])


@cache
def _items() -> EvaluationIndex:
    items = [
        Item("set", 1, ITEM),
        Item("set", 2, " ".join(ITEM.split()[:8]) + " ninth"),
        Item("set", 3, f"{ITEM} thirteen x"),
    ]
    return index_items(items, ContaminationSettings())


@cache
def _questions() -> QuestionIndex:
    return index_questions([(ITEM, "the tide came in a b")])


def _judge(data: bytes) -> None:
    locator = Locator(file="f", sha256="0" * 64, stream=-1, offset=0, length=len(data))
    record = Record(text=_text(data), raw=data, locator=locator)
    judge_records([record], "s", DocumentsSettings())


PERSONAL = PersonalDataSettings(email=True, ip=True, phone=True)
AS_FTFY = CleanSettings(quotes="straight", widths="narrow")
STEPS = {
    **{
        f"clean-{profile}": _of_column(partial(clean, settings=CleanSettings(profile=profile)), MOJIBAKE + NESTING)
        for profile in PROFILES
    },
    "clean-as-ftfy": _of_column(partial(clean, settings=AS_FTFY), MOJIBAKE + NESTING),
    "clean-plainly": _of_text(partial(clean_text, settings=CleanSettings()), MOJIBAKE + NESTING),
    "lines": _of_column(_lines, (b"[edit]", b"[1]", b"javascript", b"terms of use", b"cookie policy", b" [")),
    "language": _of_column(partial(judge_languages, settings=LanguageSettings())),
    "rules": _of_column(_rules, WORDED),
    "rules-explained": _of_text(partial(explain, settings=RulesSettings()), WORDED),
    "privacy": _of_column(partial(mask_private, settings=PERSONAL), PRIVATE),
    "privacy-plainly": _of_text(partial(mask_text, settings=PERSONAL), PRIVATE),
    "contamination": _of_column(lambda texts: find_evaluation_matches(texts, _items()), WORDED),
    "selection": _of_column(lambda texts: score_documents(texts, _questions()), WORDED),
    "sentences": _of_column(lambda texts: sentence_offsets(*to_text_buffers(texts)), SPEECH),
    "sentences-plainly": _of_text(split_sentences, SPEECH),
    "signatures": _of_column(partial(compute_signatures, settings=SignatureSettings()), WORDED),
    "excerpt": _of_text(cut_excerpt),
    "compare": _of_text(lambda text: compare_texts(f"x {text}", text.replace(" ", " b ")), WORDED),
    "judged": Subject(MOJIBAKE, (_whole,), lambda data, _: _judge(data)),
}
SUBJECTS = {**STEPS, **{name: _of_target(target) for name, target in TARGETS.items()}}

# What once took time that grew with the square of the input, by subject.
FOUND = {
    "clean-cased": (
        Pattern(b"amp;", once=b"&"),
        Pattern(b"&semi", once=b"&amp"),
        Pattern("ƒ".encode(), once="x Ã".encode()),
        Pattern("\u0301\u0316".encode(), once=b"a"),
        Pattern("\u0f73".encode()),
    ),
    "clean-plainly": (Pattern(b"amp;", once=b"&"), Pattern("\u0301\u0316".encode())),
    "clean-roberta-brief": (Pattern("\u0301*\u0316*".encode(), once=b"a"),),
    "html": (
        Pattern(b"</script ", once=b"<script>"),
        Pattern(b" ", once=b'<p>a</p><script type=ld+json>"@type":'),
        Pattern(b"ab ", b"<p>ab ab ab ab ab ab", once=b"<title>"),
    ),
    "python-module": (Pattern(b"["), Pattern(b"<", once=b"`")),
    "python-package": (Pattern(b"\n", b"a"),),
    "book": (Pattern(b"LIST OF ILLUSTRATIONS\n\n"),),
    "compare": (Pattern(b"a "), Pattern(b"a b c a ")),
}
