"""SuperGLUE's tasks whose files are more than a table: MultiRC, ReCoRD, WiC and WSC, as texts, pairs and groups.

    MultiRC  text: the paragraph; second: question and answer; label; group: the question
    ReCoRD   text: the passage; second: the query with an entity in its gap; label; group: the query
    WiC      text, second: two sentences, in each the word between stars; label
    WSC      text: the text, a noun between stars and the pronoun between number signs; label

BoolQ, CB and RTE are tables, and COPA is in `choices.py`.

Promise: every answer, candidate and pair is given or counted. A file without labels gives none. Memory: one line.
Cost: 280,000 answers of MultiRC a second (one x86-64 core, 2026-11-23).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from trainer.tasks.formats.records import FileSettings, Found, Unusable, Wanted
from trainer.tasks.formats.tables import json_line_records

GROUP_ROLES = ("id", "text", "second", "label", "group", "answer", "gold")
MARKED_ROLES = ("id", "text", "second", "label")
WIC_KEYS = ("sentence1", "sentence2", "start1", "end1", "start2", "end2", "idx", "label")
GAP = "@placeholder"
HIGHLIGHT = re.compile(r"\s*@highlight\s*")

Rows = Iterator[dict[str, Any] | Unusable]


def _lines(
    settings: FileSettings, _: Wanted, keys: tuple[str, ...], rows: Callable[[Mapping[str, Any]], Rows]
) -> Iterator[Found]:
    for line, values in json_line_records(FileSettings(path=settings.path), Wanted(keys)):
        if isinstance(values, Unusable):
            yield line, values
            continue
        try:
            records = list(rows(values))
        except (KeyError, TypeError, AttributeError, ValueError, IndexError):
            records = [Unusable("a line that lacks what the task has")]
        for row in records:
            yield line, row


def _label(value: Any) -> str | None:
    """Return 0, 1, false and true as the names of classes; None where there is no label. Raises TypeError."""
    if value is None:
        return None
    if not isinstance(value, int) or value not in (0, 1):
        raise TypeError(value)
    return str(value).lower()


def _multirc_answers(values: Mapping[str, Any]) -> Rows:
    for question in values["passage"]["questions"]:
        group = f"{values['idx']}.{question['idx']}"
        for answer in question["answers"]:
            yield {
                "id": f"{group}.{answer['idx']}",
                "text": values["passage"]["text"],
                "second": f"{question['question']} {answer['text']}",
                "label": _label(answer.get("label")),
                "group": group,
                "answer": answer["text"].strip() or None,  # a few are empty, and all must be answered
                "gold": None,
            }


def _record_candidates(values: Mapping[str, Any]) -> Rows:
    passage = values["passage"]["text"]
    spans = sorted((entity["start"], entity["end"]) for entity in values["passage"]["entities"])
    entities = list(dict.fromkeys(passage[start : end + 1] for start, end in spans))
    for asked in values["qas"]:
        group = f"{values['idx']}.{asked['idx']}"
        gold = None if asked.get("answers") is None else [answer["text"] for answer in asked["answers"]]
        if GAP not in asked["query"] or not entities:
            yield Unusable("a query without @placeholder or candidates", f"query {group}")
            continue
        for number, entity in enumerate(entities):
            yield {
                "id": f"{group}.{number}",
                "text": HIGHLIGHT.sub(" ", passage),
                "second": asked["query"].replace(GAP, entity),
                "label": None if gold is None else str(int(entity in gold)),
                "group": group,
                "answer": entity,
                "gold": gold,
            }


def _wic_pair(values: Mapping[str, Any]) -> Rows:
    texts = list[str]()
    for number in ("1", "2"):
        text, start, end = values[f"sentence{number}"], values[f"start{number}"], values[f"end{number}"]
        if not 0 <= start < end <= len(text) or not text[start:end].strip():
            yield Unusable("a word that is not at its place", f"pair {values['idx']}")
            return
        texts.append(_marked(text, [(start, end, "*")]))
    yield {"id": str(values["idx"]), "text": texts[0], "second": texts[1], "label": _label(values["label"])}


def _wsc_text(values: Mapping[str, Any]) -> Rows:
    text, target = values["text"], values["target"]
    words = [match.span() for match in re.finditer(r"\S+", text)]
    marks = list[tuple[int, int, str]]()
    for number, mark in (("1", "*"), ("2", "#")):
        first, span_text = target[f"span{number}_index"], target[f"span{number}_text"]
        place = words[first : first + len(span_text.split())]
        if not place or _letters(span_text) not in _letters(text[place[0][0] : place[-1][1]]):
            yield Unusable("a span that is not at its place", f"text {values['idx']}")
            return
        start, end = place[0][0], place[-1][1]
        at = text.lower().find(span_text.strip().lower(), start, end)  # without the comma after it
        marks.append((start, end, mark) if at < 0 else (at, at + len(span_text.strip()), mark))
    yield {"id": str(values["idx"]), "text": _marked(text, marks), "second": None, "label": _label(values["label"])}


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


def _marked(text: str, marks: list[tuple[int, int, str]]) -> str:
    """A text with marks around spans of it.

    >>> _marked("It is big.", [(0, 2, "#"), (6, 9, "*")])
    '#It# is *big*.'
    """
    for start, end, mark in sorted(marks, reverse=True):
        text = f"{text[:start]}{mark}{text[start:end]}{mark}{text[end:]}"
    return text


# Each answer of each question on a paragraph. label: "0" or "1"; group: "PARAGRAPH.QUESTION".
multirc_records = partial(_lines, keys=("passage", "idx"), rows=_multirc_answers)
# Each entity of a passage in the gap of each query. answer: the entity; gold: the right ones; label: "0" or "1".
record_records = partial(_lines, keys=("passage", "qas", "idx"), rows=_record_candidates)
# Pairs of sentences with a word in common. label: "true" where it means the same.
wic_records = partial(_lines, keys=WIC_KEYS, rows=_wic_pair)
# Texts with a noun and a pronoun. label: "true" where the pronoun refers to the noun.
wsc_records = partial(_lines, keys=("text", "target", "idx", "label"), rows=_wsc_text)
