"""Questions on paragraphs with answers that are spans of them: the JSON of SQuAD 1.1 and 2.0.

Promise: every question is given or counted, with its id; an answer is at its offset in the context, in characters from
0, or the question is not given. Memory: the file's text and one article.
Cost: 130,000 questions a second (one x86-64 core, 2026-11-23).
"""

from collections.abc import Iterator
from typing import Any

from corpora.errors import InputError
from trainer.tasks.formats.opening import opened
from trainer.tasks.formats.records import FileSettings, Found, Unusable, Wanted
from trainer.tasks.formats.tables import JsonText

QUESTION_ROLES = ("id", "question", "context", "answers", "impossible")
Span = tuple[int, str]  # of a context: its first character, its text


def squad_records(settings: FileSettings, _: Wanted) -> Iterator[Found]:
    """The questions of a file; their lines are those where their articles begin."""
    ids = set[str]()
    with opened(settings.path) as stream:
        for line, article in _articles(JsonText(stream.read(), settings.path)):
            for values in _questions(article, settings.path, line):
                if isinstance(values, dict) and values["id"] in ids:
                    yield line, Unusable("an id for the second time", f"question {values['id']}")
                    continue
                if isinstance(values, dict):
                    ids.add(values["id"])
                yield line, values


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


def _articles(text: JsonText) -> Iterator[tuple[int, Any]]:
    """Yield the items of the list `data`, each with the line where it begins. Raises InputError."""
    text.expect("{", 'is not SQuAD: that is an object with a list of articles in "data"')
    has_data = False
    while not text.follows("}"):
        _, name = text.item()
        text.expect(":", "lacks a colon")
        if name == "data":
            has_data = True
            text.expect("[", 'is not SQuAD: "data" is not a list')
            while not text.follows("]"):
                yield text.item()
                if not text.follows(","):
                    text.expect("]", "lacks a comma or the end of a list: is the file cut off?")
                    break
        else:
            text.item()
        if not text.follows(","):
            text.expect("}", "lacks a comma or the end of an object: is the file cut off?")
            break
    if not has_data:
        raise InputError(f'{text.path} is not SQuAD: it has no list of articles under "data".')


def _questions(article: Any, path: str, line: int) -> Iterator[dict[str, Any] | Unusable]:
    try:
        asked = [(paragraph["context"], each) for paragraph in article["paragraphs"] for each in paragraph["qas"]]
    except (KeyError, TypeError) as error:
        raise InputError(
            f'{path}: the article that begins in line {line} lacks "paragraphs" with "context" and "qas", as those of '
            "SQuAD have."
        ) from error
    for context, each in asked:
        try:
            yield _question(context, each)
        except Unusable as error:
            yield Unusable(str(error), f"question {each['id']!s}" if isinstance(each, dict) and "id" in each else "")


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
