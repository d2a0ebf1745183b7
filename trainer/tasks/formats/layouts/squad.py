"""Questions on paragraphs with answers that are spans of them: the JSON of SQuAD 1.1 and 2.0.

Promise: every question is given or counted, with its id; an answer is at its offset in the context, in characters from
0, or the question is not given. Memory: all of the file.
Cost: 130,000 questions a second (one x86-64 core, 2026-11-23).
"""

from collections.abc import Iterator
from typing import Any

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, Found, Unusable, Wanted
from trainer.tasks.formats.tables import whole_json

QUESTION_ROLES = ("id", "question", "context", "answers", "impossible")
Span = tuple[int, str]  # of a context: its first character, its text


def squad_records(settings: FileSettings, _: Wanted) -> Iterator[Found]:
    """Yield the questions of a file; their lines are their numbers, from 1."""
    content, ids = whole_json(settings.path), set[str]()
    try:
        paragraphs = [paragraph for article in content["data"] for paragraph in article["paragraphs"]]
        asked = [(paragraph["context"], each) for paragraph in paragraphs for each in paragraph["qas"]]
    except (KeyError, TypeError) as error:
        raise InputError(
            f'{settings.path} is not SQuAD: that has a list of articles under "data", each with "paragraphs" of '
            '"context" and "qas".'
        ) from error
    for number, (context, each) in enumerate(asked, 1):
        try:
            values = _question(context, each)
            if values["id"] in ids:
                raise Unusable("an id for the second time")
            ids.add(values["id"])
            yield number, values
        except Unusable as error:
            where = f"question {each['id']!s}" if isinstance(each, dict) and "id" in each else ""
            yield number, Unusable(str(error), where)


def as_answers(value: Any, context: str) -> list[Span]:
    """Answers as SQuAD has them, as lists of texts and of offsets, or as spans; each is held to its context.

    Raises Unusable.

    >>> as_answers([{"text": "Oslo", "answer_start": 3}], "In Oslo.")
    [(3, 'Oslo')]
    >>> as_answers({"text": ["Oslo"], "answer_start": [3]}, "In Oslo.")
    [(3, 'Oslo')]
    """
    try:
        pairs = (
            zip(value["answer_start"], value["text"], strict=True)
            if isinstance(value, dict)
            else (each if isinstance(each, tuple) else (each["answer_start"], each["text"]) for each in value)
        )
        spans = [(start, text) for start, text in dict.fromkeys(pairs)]
    except (KeyError, TypeError, ValueError) as error:
        raise Unusable("answers are no texts with answer_start") from error
    for start, text in spans:
        if type(start) is not int or not isinstance(text, str) or not text.strip():
            raise Unusable("answers are no texts with answer_start")
        if start < 0 or not context.startswith(text, start):
            raise Unusable("an answer that is not in the context at its place")
    return spans


def _question(context: Any, asked: Any) -> dict[str, Any]:
    """One question by role. Raises Unusable."""
    if not isinstance(asked, dict) or not isinstance(context, str) or not isinstance(asked.get("question"), str):
        raise Unusable("no question on a context")
    name = asked.get("id")
    if not isinstance(name, str | int):
        raise Unusable("no id")
    impossible = asked.get("is_impossible", False)
    answers = asked.get("answers")
    spans = [] if impossible or answers is None else as_answers(answers, context)
    return {
        "id": str(name),
        "question": asked["question"],
        "context": context,
        "answers": spans if spans or impossible else None,
        "impossible": bool(impossible),
    }
