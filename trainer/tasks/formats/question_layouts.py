"""Formats of questions: SQuAD, questions with choices, and the tasks of SuperGLUE that are more than a table.

**SQuAD 1.1 and 2.0** (JSON): questions about paragraphs, whose answers are spans of the paragraph. Every question is
either yielded or counted as unusable, with its id. A question is yielded only if each answer is found at its offset in
the context, in characters, zero-based. Memory: the whole file. Cost: 130,000 questions per second.

**COPA, RACE, SWAG and HellaSwag**: questions with several choices, one of which is correct. Every question is either
yielded with all of its choices and the zero-based index of the correct one, or counted as unusable. Records of a file
without labels (a test set) have no index. Memory: one row of SWAG, or one file of COPA or RACE. Cost: 95,000 questions
of COPA and 130,000 of SWAG per second.

**SuperGLUE**, as texts, pairs and groups. Records of a file without labels have no label:

    MultiRC  text: the paragraph; second: question and answer; label; group: the question
    ReCoRD   text: the passage; second: the query with an entity in its gap; label; group: the query
    WiC      text, second: two sentences, with asterisks around the word in each; label
    WSC      text: the text, with asterisks around a noun and number signs around the pronoun; label

BoolQ, CB and RTE are tables. Every answer, candidate and pair is yielded or counted as unusable. Memory: one line.
Cost: 280,000 answers of MultiRC per second (all figures: one x86-64 core, 2026-11-23).
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, LineRecord, Roles, Unusable, Values, convert_records, open_text
from trainer.tasks.formats.tables import read_csv, read_json_lines, read_whole_json

QUESTION_ROLES = ("id", "question", "context", "answers", "impossible")
Span = tuple[int, str]  # of a context: its first character, its text


def read_squad(settings: FileSettings, _: Roles) -> Iterator[LineRecord]:
    """Yield the questions of a JSON file of SQuAD 1.1 or 2.0, with the roles in QUESTION_ROLES.

    The line number of a question is its position in the file, from 1. A question that cannot be used, or that repeats
    an id, is yielded as `Unusable` with its id.

    Args:
        settings: The file.
        _: Not used; all roles of SQuAD are read.

    Raises:
        InputError: If the file is not JSON, or has no articles with paragraphs and questions.
    """
    content, ids = read_whole_json(settings.path), set[str]()
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
            values = _make_squad_question(context, each)
            if values["id"] in ids:
                raise Unusable("an id for the second time")
            ids.add(values["id"])
            yield number, values
        except Unusable as error:
            where = f"question {each['id']!s}" if isinstance(each, dict) and "id" in each else ""
            yield number, Unusable(str(error), where)


def parse_answers(value: Any, context: str) -> list[Span]:
    """Parse the answers to a question, which may be in one of three forms, and check them against the context.

    Args:
        value: A list of objects with `text` and `answer_start`, one object with two lists of these, or a list of pairs
            of offset and text.
        context: The text that contains the answers.

    Returns:
        Pairs of offset (in characters, zero-based) and text, without duplicates. Empty if there are no answers.

    Raises:
        Unusable: If the answers have another form, or one is not found at its offset in the context.

    >>> parse_answers([{"text": "Oslo", "answer_start": 3}], "In Oslo.")
    [(3, 'Oslo')]
    >>> parse_answers({"text": ["Oslo"], "answer_start": [3]}, "In Oslo.")
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


def _make_squad_question(context: Any, asked: Any) -> dict[str, Any]:
    """Build the record of one SQuAD question, with the roles in QUESTION_ROLES.

    `answers` is None if the file has no answers and does not mark the question as impossible.

    Args:
        context: The paragraph.
        asked: The question's JSON object.

    Raises:
        Unusable: If the question, the context or the id is missing, or an answer is not in the context.
    """
    if not isinstance(asked, dict) or not isinstance(context, str) or not isinstance(asked.get("question"), str):
        raise Unusable("no question on a context")
    name = asked.get("id")
    if not isinstance(name, str | int):
        raise Unusable("no id")
    impossible = asked.get("is_impossible", False)
    answers = asked.get("answers")
    spans = [] if impossible or answers is None else parse_answers(answers, context)
    return {
        "id": str(name),
        "question": asked["question"],
        "context": context,
        "answers": spans if spans or impossible else None,
        "impossible": bool(impossible),
    }


CHOICE_ROLES = ("id", "context", "question", "choices", "label", "level")
LETTERS = "ABCDEFGH"
SWAG_ENDINGS = ("ending0", "ending1", "ending2", "ending3")


def read_copa(settings: FileSettings, _: Roles) -> Iterator[LineRecord]:
    """Yield the questions of COPA, from its original XML or from SuperGLUE's `.jsonl`, with the roles in CHOICE_ROLES.

    The value `question` of a record is "cause" or "effect". Line numbers count the lines of the `.jsonl`, or the items
    of the XML, from 1. Raises InputError if a file that should be XML cannot be parsed.
    """
    if ".jsonl" in Path(settings.path).name:
        keys = Roles(("premise", "choice1", "choice2", "question"), ("label", "idx"))
        return convert_records(read_json_lines(FileSettings(path=settings.path), keys), _make_superglue_copa_question)
    return convert_records(enumerate(_read_xml_items(settings.path), 1), _make_copa_question)


def _make_superglue_copa_question(values: Values) -> Values:
    choices = [values["choice1"], values["choice2"]]
    return _make_choice_question(values["idx"], values["premise"], values["question"], choices, values["label"])


def _make_copa_question(item: Values) -> Values:
    right = item.get("most-plausible-alternative")
    label = None if right is None else int(right) - 1 if right.isdecimal() else right
    choices = [item.get("a1"), item.get("a2")]
    return _make_choice_question(item.get("id"), item.get("p"), item.get("asks-for"), choices, label)


def _make_choice_question(name: Any, context: Any, question: Any, choices: Any, label: Any, **more: Any) -> Values:
    """Build the record of a question with choices. A label of None or "" means that it is unknown.

    Args:
        name: The id of the question, or None.
        context: The context.
        question: The question, or None.
        choices: The choices.
        label: The zero-based index of the correct choice.
        **more: Additional values of the record.

    Raises:
        Unusable: If there are fewer than two choices, one is empty, the label is not the index of a choice, or the
            context is not a string.
    """
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


def _read_xml_items(path: str) -> Iterator[dict[str, str]]:
    """Yield each `item` element of an XML file as a dictionary of its attributes and the texts of its child elements.

    Raises InputError if the file is not XML.
    """
    with open_text(path) as stream:
        try:
            root = ElementTree.fromstring(stream.buffer.read())
        except ElementTree.ParseError as error:
            raise InputError(f"{path} is not XML: {error}. Fix it, or get the file again.") from error
    for item in root.iter("item"):
        yield {**item.attrib, **{part.tag: part.text or "" for part in item}}


def read_race(settings: FileSettings, _: Roles) -> Iterator[LineRecord]:
    """Yield the questions of RACE from one file, or from all `.txt` files below a folder, sorted by path.

    The line number of a question is its position within its file, from 1. An unusable file or question is yielded as
    `Unusable`, and its `where` names it. The value `level` is "middle", "high" or None, depending on the path and the
    id.
    """
    root = Path(settings.path)
    for file in sorted(root.rglob("*.txt")) if root.is_dir() else [root]:
        with open_text(str(file)) as stream:
            text = stream.read()
        try:
            asked = _parse_race_questions(text, file)
        except Unusable as error:
            yield 1, error
            continue
        yield from convert_records(enumerate(asked, 1), lambda values: _make_choice_question(**values))


def _parse_race_questions(text: str, file: Path) -> list[Values]:
    """Parse the questions in the text of one RACE file, as arguments of `_make_choice_question`.

    `file` is its path. Raises Unusable if it is not JSON, or its lists differ in length.
    """
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


def read_swag(settings: FileSettings, _: Roles) -> Iterator[LineRecord]:
    """Yield the questions of SWAG's `.csv` (a sentence, and four endings of the next one) or of HellaSwag's `.jsonl`.

    Records have the roles in CHOICE_ROLES, and unusable ones are yielded as `Unusable`.
    """
    if ".jsonl" in Path(settings.path).name:
        keys = Roles(("ctx", "endings"), ("label", "ind"))
        return convert_records(
            read_json_lines(FileSettings(path=settings.path), keys),
            lambda row: _make_choice_question(row["ind"], row["ctx"], None, row["endings"], row["label"]),
        )
    table = FileSettings(path=settings.path, format="csv", header=settings.header)
    keys = Roles(("sent1", "sent2", *SWAG_ENDINGS), ("label", "video-id"))
    return convert_records(read_csv(table, keys), _make_swag_question)


def _make_swag_question(values: Values) -> Values:
    """Build a question from a row of SWAG. The context is the first sentence, and each choice is a complete second one.

    Raises Unusable if an ending is empty or the label is not one of the choices.
    """
    endings = [values[ending] for ending in SWAG_ENDINGS]
    label = values.get("label")
    number = int(label) if isinstance(label, str) and label.isdecimal() else label
    choices = [f"{values['sent2']} {ending}".strip() for ending in endings if ending.strip()]
    if len(choices) < len(endings):
        raise Unusable("an empty choice")
    return _make_choice_question(values.get("video-id"), values["sent1"], None, choices, number)


GROUP_ROLES = ("id", "text", "second", "label", "group", "answer", "gold")
MARKED_ROLES = ("id", "text", "second", "label")
WIC_KEYS = ("sentence1", "sentence2", "start1", "end1", "start2", "end2", "idx", "label")
GAP = "@placeholder"
HIGHLIGHT = re.compile(r"\s*@highlight\s*")

Rows = Iterator[dict[str, Any] | Unusable]


def _read_lines(
    settings: FileSettings, _: Roles, keys: tuple[str, ...], rows: Callable[[Mapping[str, Any]], Rows]
) -> Iterator[LineRecord]:
    """Yield the records that a function builds from each JSON line, with the number of the line.

    A line that lacks a required key gives one `Unusable`.

    Args:
        settings: The file.
        _: Not used.
        keys: The keys that each line must have.
        rows: Yields the records of a line's object, or `Unusable`.
    """
    for line, values in read_json_lines(FileSettings(path=settings.path), Roles(keys)):
        if isinstance(values, Unusable):
            yield line, values
            continue
        try:
            records = list(rows(values))
        except (KeyError, TypeError, AttributeError, ValueError, IndexError):
            records = [Unusable("a line that lacks what the task has")]
        for row in records:
            yield line, row


def _parse_label(value: Any) -> str | None:
    """Convert 0, 1, false or true to the class name "0", "1", "false" or "true", and None to None.

    Raises TypeError for other values.
    """
    if value is None:
        return None
    if not isinstance(value, int) or value not in (0, 1):
        raise TypeError(value)
    return str(value).lower()


def _iter_multirc_answers(values: Mapping[str, Any]) -> Rows:
    for question in values["passage"]["questions"]:
        group = f"{values['idx']}.{question['idx']}"
        for answer in question["answers"]:
            yield {
                "id": f"{group}.{answer['idx']}",
                "text": values["passage"]["text"],
                "second": f"{question['question']} {answer['text']}",
                "label": _parse_label(answer.get("label")),
                "group": group,
                "answer": answer["text"].strip() or None,  # a few are empty, and all must be answered
                "gold": None,
            }


def _iter_record_candidates(values: Mapping[str, Any]) -> Rows:
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


def _make_wic_pair(values: Mapping[str, Any]) -> Rows:
    texts = list[str]()
    for number in ("1", "2"):
        text, start, end = values[f"sentence{number}"], values[f"start{number}"], values[f"end{number}"]
        if not 0 <= start < end <= len(text) or not text[start:end].strip():
            yield Unusable("a word that is not at its place", f"pair {values['idx']}")
            return
        texts.append(_insert_marks(text, [(start, end, "*")]))
    yield {"id": str(values["idx"]), "text": texts[0], "second": texts[1], "label": _parse_label(values["label"])}


def _make_wsc_text(values: Mapping[str, Any]) -> Rows:
    text, target = values["text"], values["target"]
    words = [match.span() for match in re.finditer(r"\S+", text)]
    marks = list[tuple[int, int, str]]()
    for number, mark in (("1", "*"), ("2", "#")):
        first, span_text = target[f"span{number}_index"], target[f"span{number}_text"]
        place = words[first : first + len(span_text.split())]
        if not place or _keep_letters(span_text) not in _keep_letters(text[place[0][0] : place[-1][1]]):
            yield Unusable("a span that is not at its place", f"text {values['idx']}")
            return
        start, end = place[0][0], place[-1][1]
        at = text.lower().find(span_text.strip().lower(), start, end)  # without the comma after it
        marks.append((start, end, mark) if at < 0 else (at, at + len(span_text.strip()), mark))
    yield {
        "id": str(values["idx"]),
        "text": _insert_marks(text, marks),
        "second": None,
        "label": _parse_label(values["label"]),
    }


def _keep_letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


def _insert_marks(text: str, marks: list[tuple[int, int, str]]) -> str:
    """Insert a mark before and after each of the given spans (start, end, mark) of a text.

    >>> _insert_marks("It is big.", [(0, 2, "#"), (6, 9, "*")])
    '#It# is *big*.'
    """
    for start, end, mark in sorted(marks, reverse=True):
        text = f"{text[:start]}{mark}{text[start:end]}{mark}{text[end:]}"
    return text


# Each answer of each question on a paragraph. label: "0" or "1"; group: "PARAGRAPH.QUESTION".
read_multirc = partial(_read_lines, keys=("passage", "idx"), rows=_iter_multirc_answers)
# Each entity of a passage in the gap of each query. answer: the entity; gold: the right ones; label: "0" or "1".
read_superglue_record = partial(_read_lines, keys=("passage", "qas", "idx"), rows=_iter_record_candidates)
# Pairs of sentences with a word in common. label: "true" where it means the same.
read_wic = partial(_read_lines, keys=WIC_KEYS, rows=_make_wic_pair)
# Texts with a noun and a pronoun. label: "true" where the pronoun refers to the noun.
read_wsc = partial(_read_lines, keys=("text", "target", "idx", "label"), rows=_make_wsc_text)
