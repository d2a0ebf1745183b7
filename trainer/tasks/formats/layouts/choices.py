"""Questions with several answers of which one is right: COPA, RACE, SWAG and HellaSwag.

Promise: every question is given with all its choices and the place of the right one from 0, or counted. A file without
labels (a test set) gives none. Memory: a row of SWAG; of COPA and RACE one file.
Cost: 95,000 questions of COPA and 130,000 of SWAG a second (one x86-64 core, 2026-11-23).
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

from corpora.errors import InputError
from trainer.tasks.formats.opening import opened
from trainer.tasks.formats.records import FileSettings, Found, Unusable, Wanted
from trainer.tasks.formats.tables import comma_records, json_line_records

CHOICE_ROLES = ("id", "context", "question", "choices", "label", "level")
LETTERS = "ABCDEFGH"
ENDINGS_OF_SWAG = ("ending0", "ending1", "ending2", "ending3")


def copa_records(settings: FileSettings, _: Wanted) -> Iterator[Found]:
    """COPA as its authors publish it (XML), or as SuperGLUE does (`.jsonl`). question: "cause" or "effect"."""
    if ".jsonl" in Path(settings.path).name:
        keys = Wanted(("premise", "choice1", "choice2", "question"), ("label", "idx"))
        for line, values in json_line_records(FileSettings(path=settings.path), keys):
            yield line, values if isinstance(values, Unusable) else _copa_of_superglue(values)
        return
    for line, item in _xml_items(settings.path):
        yield line, _copa_item(item)


def _copa_of_superglue(values: Mapping[str, Any]) -> dict[str, Any] | Unusable:
    choices = [values["choice1"], values["choice2"]]
    return _question(values["idx"], values["premise"], values["question"], choices, values["label"])


def _copa_item(item: Mapping[str, str]) -> dict[str, Any] | Unusable:
    right = item.get("most-plausible-alternative")
    label = None if right is None else int(right) - 1 if right.isdecimal() else right
    choices = [item.get("a1"), item.get("a2")]
    return _question(item.get("id"), item.get("p"), item.get("asks-for"), choices, label)


def _question(
    name: Any, context: Any, question: Any, choices: Any, label: Any, **more: Any
) -> dict[str, Any] | Unusable:
    """Return a question by role, or the reason it is unusable."""
    where = "" if name is None else f"question {name}"
    if not isinstance(choices, list) or len(choices) < 2:
        return Unusable("fewer than two choices", where)
    if not all(isinstance(choice, str) and choice.strip() for choice in choices):
        return Unusable("an empty choice", where)
    label = None if label == "" else label
    if label is not None and (type(label) is not int or not 0 <= label < len(choices)):
        return Unusable("a label that is none of the choices", where)
    if not isinstance(context, str):
        return Unusable("no context", where)
    question_id = None if name is None else str(name)
    return {"id": question_id, "context": context, "question": question, "choices": choices, "label": label, **more}


def _xml_items(path: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The attributes and the texts inside of each `item`, with its line. Raises InputError."""
    items, inside = list[tuple[int, dict[str, str]]](), list[str]()
    parser = ParserCreate()

    def begin(name: str, attributes: dict[str, str]) -> None:
        inside.append(name)
        if name == "item":
            items.append((parser.CurrentLineNumber, attributes))

    def text(data: str) -> None:
        if items and "item" in inside[:-1]:
            items[-1][1][inside[-1]] = items[-1][1].get(inside[-1], "") + data

    parser.StartElementHandler, parser.CharacterDataHandler = begin, text
    parser.EndElementHandler = lambda _: inside.pop()
    with opened(path) as stream:
        try:
            parser.Parse(stream.buffer.read(), True)
        except ExpatError as error:
            raise InputError(f"{path} is not XML: {error}. Fix it, or get the file again.") from error
    yield from items


def race_records(settings: FileSettings, _: Wanted) -> Iterator[Found]:
    """The questions of RACE: of one file, or of all `.txt` below a folder in the order of their names.

    level: "middle" or "high"; the line is that of the question in its list, from 1, and `where` names the file
    """
    root = Path(settings.path)
    files = sorted(root.rglob("*.txt")) if root.is_dir() else [root]
    for file in files:
        with opened(str(file)) as stream:
            text = stream.read()
        try:
            page = json.loads(text)
        except (ValueError, RecursionError):
            yield 1, Unusable("a file that is not JSON", file.name)
            continue
        yield from enumerate(_race_questions(page, file), 1)


def _race_questions(page: Any, file: Path) -> Iterator[dict[str, Any] | Unusable]:
    try:
        options, questions, article = page["options"], page["questions"], page["article"]
        answers = page.get("answers") or [None] * len(questions)
        asked = list(zip(questions, options, answers, strict=True))
        name = str(page.get("id", file.name))
    except (KeyError, TypeError, AttributeError, ValueError):
        yield Unusable("a file without article, questions, options and answers of equal number", file.name)
        return
    level = next((level for level in ("middle", "high") if level in f"{file.parent.name} {name}"), None)
    for number, (question, choices, answer) in enumerate(asked):
        label = None if answer is None else LETTERS.find(answer) if isinstance(answer, str) and answer else -1
        question_id = f"{name.removesuffix('.txt')}-{number}"
        yield _question(question_id, article, question, choices, label, level=level)


def swag_records(settings: FileSettings, _: Wanted) -> Iterator[Found]:
    """SWAG's `.csv` (a sentence, and four endings of the one that it begins) and HellaSwag's `.jsonl`."""
    if ".jsonl" in Path(settings.path).name:
        keys = Wanted(("ctx", "endings"), ("label", "ind"))
        for line, values in json_line_records(FileSettings(path=settings.path), keys):
            if isinstance(values, Unusable):
                yield line, values
            else:
                yield line, _question(values["ind"], values["ctx"], None, values["endings"], values["label"])
        return
    table = FileSettings(path=settings.path, format="csv", header=settings.header)
    for line, values in comma_records(table, Wanted(("sent1", "sent2", *ENDINGS_OF_SWAG), ("label", "video-id"))):
        yield line, values if isinstance(values, Unusable) else _swag_row(values)


def _swag_row(values: Mapping[str, Any]) -> dict[str, Any] | Unusable:
    """The first sentence as the context, and the second with each ending as a choice."""
    endings = [values[ending] for ending in ENDINGS_OF_SWAG]
    label = values.get("label")
    number = int(label) if isinstance(label, str) and label.isdecimal() else label
    choices = [f"{values['sent2']} {ending}".strip() for ending in endings if ending.strip()]
    if len(choices) < len(endings):
        return Unusable("an empty choice")
    return _question(values.get("video-id"), values["sent1"], None, choices, number)
