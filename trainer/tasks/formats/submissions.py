"""The files in which answers to a benchmark's test split are handed in. Pure: answers in, lines out."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from corpora.errors import InputError

Answered = tuple[str, str | int | float]  # the id of a record, and the class, the choice or the number


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The form in which answers are handed in.

    file:   its name; what ends in `.tsv` has the header `index<tab>prediction`, a `.jsonl` the keys `idx` and `label`
    labels: how a class is spelled there, where otherwise than in the data
    shape:  "rows", one for each record; "groups", the answers of a paragraph in one object (MultiRC)
    bounds: the least and the greatest number
    """

    file: str
    labels: Mapping[str, str] = field(default_factory=dict)
    shape: str = "rows"
    bounds: tuple[float, float] | None = None

    def lines(self, answers: Iterable[Answered]) -> Iterator[str]:
        """Yield the lines of the file. Raises InputError where an id is not one of the benchmark's."""
        given = {name: self._spelled(answer) for name, answer in answers}
        if self.file.endswith(".tsv"):
            yield "index\tprediction\n"
            yield from (f"{name}\t{label}\n" for name, label in given.items())
        elif self.shape == "groups":
            yield from (json.dumps(paragraph) + "\n" for paragraph in _paragraphs(given))
        else:
            yield from (json.dumps({"idx": _number(name), "label": label}) + "\n" for name, label in given.items())

    def _spelled(self, answer: str | int | float) -> str | int | float:
        if isinstance(answer, str):
            return self.labels.get(answer, answer)
        return min(max(answer, self.bounds[0]), self.bounds[1]) if self.bounds else answer


def _number(name: str) -> int:
    if not name.isdecimal():
        raise InputError(
            f"{name!r} is not a record of the benchmark, which numbers them: read its test split as published."
        )
    return int(name)


def _paragraphs(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield MultiRC's answers by paragraph and question, from ids such as `7.3.0`."""
    paragraphs = dict[int, dict[int, list[dict[str, int]]]]()
    for name, label in given.items():
        if name.count(".") != 2:
            raise InputError(f"{name!r} is not an answer of MultiRC, whose ids are paragraph, question and answer.")
        paragraph, question, answer = map(_number, name.split("."))
        questions = paragraphs.setdefault(paragraph, {})
        questions.setdefault(question, []).append({"idx": answer, "label": int(label)})
    for paragraph, questions in paragraphs.items():
        asked = [{"idx": question, "answers": answers} for question, answers in questions.items()]
        yield {"idx": paragraph, "passage": {"questions": asked}}
