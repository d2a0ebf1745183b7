"""What can be wrong with one kind of task alone: tags, answers in a text, pairs, passages, choices.

Cost: one pass over the records.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from trainer.tasks.checking.findings import CheckedFile, DataFinding, hash_of, percent, several, share_of, text_of
from trainer.tasks.kinds.tags import OUTSIDE

FEWEST = 20  # rows from which shares say something
MOSTLY = 0.9  # share of right choices at one place, or of pairs of one text, from which a score means little
SAME_TEXTS = 0.1  # share of pairs that are one text twice
CUT_WORDS = 0.02  # share of answers that begin or end within a word


def kind_findings(kind: str, files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield what is wrong with files of a kind of task."""
    for file in files:
        if kind in OF_KINDS and len(file):
            yield from OF_KINDS[kind](file)


# Tags.


def _tags(file: CheckedFile) -> Iterator[DataFinding]:
    if file.labels and {tag for tags in file.labels for tag in tags or ()} == {OUTSIDE}:
        yield file.finding("no-spans")


# Answers that are spans of a text.


def _answers(file: CheckedFile) -> Iterator[DataFinding]:
    cut, answers = list[int](), 0
    for row, spans in enumerate(file.labels or ()):
        context = text_of(file.values[row]["context"])
        answers += bool(spans)
        if any(_cuts_word(context, begin, begin + len(text)) for begin, text in spans or ()):
            cut.append(row)
    if len(cut) > CUT_WORDS * answers:
        yield file.finding("cut-answers", cut, questions=share_of(len(cut), answers, "question"))


def _cuts_word(context: str, begin: int, end: int) -> bool:
    """Tells whether a span begins or ends between two letters of scripts with spaces."""
    edges = (context[begin - 1 : begin + 1] if begin else "", context[end - 1 : end + 1])
    return any(len(edge) == 2 and edge.isalpha() and max(edge) < "\u0530" for edge in edges)


# Pairs, passages and choices.


def _pairs(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield pairs of one text with itself, and passages that are the query, or both an answer and none."""
    roles = ("query", "positive") if "positive" in file.text_roles else ("text", "second")
    if not {*roles} <= {*file.text_roles}:
        return
    pairs = [[hash_of(text_of(values.get(role))) for role in roles] for values in file.values]
    same = [row for row, (one, other) in enumerate(pairs) if one == other]
    if len(same) > SAME_TEXTS * len(file):
        yield file.finding(
            "same-texts",
            same,
            stops=len(same) > MOSTLY * len(file),
            rows=share_of(len(same), len(file)),
            one=roles[0],
            other=roles[1],
        )
    positives = {(one, other) for one, other in pairs}
    wrong = [
        row
        for row, ((one, _), values) in enumerate(zip(pairs, file.values, strict=True))
        if any((one, hash_of(text)) in positives for text in _negatives(values.get("negative")))
    ]
    if wrong:
        yield file.finding("negative-is-positive", wrong, rows=several(len(wrong)), role=roles[0])


def _negatives(value: object) -> Sequence[str]:
    return [text_of(each) for each in value] if isinstance(value, list) else [text_of(value)] if value else []


def _choices(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield questions with one choice twice, and right choices that are always at one place."""
    given = [
        [text_of(each) for each in (values["choices"] if "choices" in values else _endings(file, values))]
        for values in file.values
    ]
    twice = [row for row, choices in enumerate(given) if len({hash_of(each) for each in choices}) < len(choices)]
    if twice:
        yield file.finding("same-choices", twice, questions=several(len(twice), "question"))
    places = Counter(place for place in file.labels or () if place is not None)
    place, number = max(places.items(), key=lambda item: item[1], default=(0, 0))
    if places.total() >= FEWEST and number >= MOSTLY * places.total():
        yield file.finding(
            "choice-by-place", stops=number == places.total(), place=place + 1, share=percent(number, places.total())
        )


def _endings(file: CheckedFile, values: Mapping[str, object]) -> list[object]:
    return [values[role] for role in file.text_roles if role not in ("context", "question")]


OF_KINDS: Mapping[str, Callable[[CheckedFile], Iterator[DataFinding]]] = MappingProxyType(
    {"tags": _tags, "span": _answers, "choice": _choices}
    | dict.fromkeys(("classes", "number", "similarity", "retrieval"), _pairs)
)
