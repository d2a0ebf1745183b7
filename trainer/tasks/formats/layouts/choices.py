"""Questions with several answers of which one is right: COPA, RACE, SWAG and HellaSwag.

Promise: every question is given with all its choices and the place of the right one from 0, or counted. A file without
labels (a test set) gives none. Memory: a row of SWAG; of COPA and RACE one file.
Cost: 95,000 questions of COPA and 130,000 of SWAG a second (one x86-64 core, 2026-11-23).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, Found, Unusable, Values, Wanted, converted, opened
from trainer.tasks.formats.tables import comma_records, json_line_records

CHOICE_ROLES = ("id", "context", "question", "choices", "label", "level")
LETTERS = "ABCDEFGH"
ENDINGS_OF_SWAG = ("ending0", "ending1", "ending2", "ending3")


def copa_records(settings: FileSettings, _: Wanted) -> Iterator[Found]:
    """COPA as its authors publish it (XML), or as SuperGLUE does (`.jsonl`). question: "cause" or "effect"."""
    if ".jsonl" in Path(settings.path).name:
        keys = Wanted(("premise", "choice1", "choice2", "question"), ("label", "idx"))
        return converted(json_line_records(FileSettings(path=settings.path), keys), _copa_of_superglue)
    return converted(enumerate(_xml_items(settings.path), 1), _copa_item)


def _copa_of_superglue(values: Values) -> Values:
    choices = [values["choice1"], values["choice2"]]
    return _question(values["idx"], values["premise"], values["question"], choices, values["label"])


def _copa_item(item: Values) -> Values:
    right = item.get("most-plausible-alternative")
    label = None if right is None else int(right) - 1 if right.isdecimal() else right
    choices = [item.get("a1"), item.get("a2")]
    return _question(item.get("id"), item.get("p"), item.get("asks-for"), choices, label)


def _question(name: Any, context: Any, question: Any, choices: Any, label: Any, **more: Any) -> Values:
    """Return a question by role. Raises Unusable."""
    where = "" if name is None else f"question {name}"
    if not isinstance(choices, list) or len(choices) < 2:
        raise Unusable("fewer than two choices", where)
    if not all(isinstance(choice, str) and choice.strip() for choice in choices):
        raise Unusable("an empty choice", where)
    label = None if label == "" else label
    if label is not None and (type(label) is not int or not 0 <= label < len(choices)):
        raise Unusable("a label that is none of the choices", where)
    if not isinstance(context, str):
        raise Unusable("no context", where)
    question_id = None if name is None else str(name)
    return {"id": question_id, "context": context, "question": question, "choices": choices, "label": label, **more}


def _xml_items(path: str) -> Iterator[dict[str, str]]:
    """Yield the attributes and the texts inside of each `item`. Raises InputError."""
    with opened(path) as stream:
        try:
            root = ElementTree.fromstring(stream.buffer.read())
        except ElementTree.ParseError as error:
            raise InputError(f"{path} is not XML: {error}. Fix it, or get the file again.") from error
    for item in root.iter("item"):
        yield {**item.attrib, **{part.tag: part.text or "" for part in item}}


def race_records(settings: FileSettings, _: Wanted) -> Iterator[Found]:
    """The questions of RACE: of one file, or of all `.txt` below a folder in the order of their names.

    level: "middle" or "high"; the line is that of the question in its list, from 1, and `where` names the file
    """
    root = Path(settings.path)
    for file in sorted(root.rglob("*.txt")) if root.is_dir() else [root]:
        with opened(str(file)) as stream:
            text = stream.read()
        try:
            asked = _race_questions(text, file)
        except Unusable as error:
            yield 1, error
            continue
        yield from converted(enumerate(asked, 1), lambda values: _question(**values))


def _race_questions(text: str, file: Path) -> list[Values]:
    """Return the questions of a file. Raises Unusable."""
    try:
        page = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unusable("a file that is not JSON", file.name) from error
    try:
        options, questions, article = page["options"], page["questions"], page["article"]
        answers = page.get("answers") or [None] * len(questions)
        asked = list(zip(questions, options, answers, strict=True))
        name = str(page.get("id", file.name))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = "a file without article, questions, options and answers of equal number"
        raise Unusable(what, file.name) from error
    level = next((level for level in ("middle", "high") if level in f"{file.parent.name} {name}"), None)
    return [
        {
            "name": f"{name.removesuffix('.txt')}-{number}",
            "context": article,
            "question": question,
            "choices": choices,
            "label": None if answer is None else LETTERS.find(answer) if isinstance(answer, str) and answer else -1,
            "level": level,
        }
        for number, (question, choices, answer) in enumerate(asked)
    ]


def swag_records(settings: FileSettings, _: Wanted) -> Iterator[Found]:
    """SWAG's `.csv` (a sentence, and four endings of the one that it begins) and HellaSwag's `.jsonl`."""
    if ".jsonl" in Path(settings.path).name:
        keys = Wanted(("ctx", "endings"), ("label", "ind"))
        return converted(json_line_records(FileSettings(path=settings.path), keys), _hellaswag_row)
    table = FileSettings(path=settings.path, format="csv", header=settings.header)
    keys = Wanted(("sent1", "sent2", *ENDINGS_OF_SWAG), ("label", "video-id"))
    return converted(comma_records(table, keys), _swag_row)


def _hellaswag_row(values: Values) -> Values:
    return _question(values["ind"], values["ctx"], None, values["endings"], values["label"])


def _swag_row(values: Values) -> Values:
    """Return the first sentence as the context, and the second with each ending as a choice. Raises Unusable."""
    endings = [values[ending] for ending in ENDINGS_OF_SWAG]
    label = values.get("label")
    number = int(label) if isinstance(label, str) and label.isdecimal() else label
    choices = [f"{values['sent2']} {ending}".strip() for ending in endings if ending.strip()]
    if len(choices) < len(endings):
        raise Unusable("an empty choice")
    return _question(values.get("video-id"), values["sent1"], None, choices, number)
