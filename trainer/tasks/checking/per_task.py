"""Checks for a single kind of task: tags, answers in a text, pairs, passages, choices.

Cost: one pass over the records.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from trainer.tasks.checking.findings import (
    CheckedFile,
    DataFinding,
    format_count,
    format_percent,
    format_share,
    hash_text,
    to_text,
)
from trainer.tasks.kinds.tags import OUTSIDE

MIN_ROWS_FOR_SHARES = 20  # rows from which shares say something
DOMINANT_SHARE = 0.9  # share of right choices at one place, or of pairs of one text, from which a score means little
MAX_SAME_TEXT_SHARE = 0.1  # share of pairs that are one text twice
MAX_CUT_SHARE = 0.02  # share of answers that begin or end within a word


def find_kind_problems(kind: str, files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield the problems that are specific to one kind of task. For kinds without specific checks, nothing is yielded.

    Args:
        kind: The kind of task.
        files: The files to check.
    """
    for file in files:
        if kind in CHECKS_BY_KIND and len(file):
            yield from CHECKS_BY_KIND[kind](file)


# Tags.


def _find_tag_problems(file: CheckedFile) -> Iterator[DataFinding]:
    if file.labels and {tag for tags in file.labels for tag in tags or ()} == {OUTSIDE}:
        yield file.build_finding("no-spans")


# Answers that are spans of a text.


def _find_cut_answers(file: CheckedFile) -> Iterator[DataFinding]:
    cut, answers = list[int](), 0
    for row, spans in enumerate(file.labels or ()):
        context = to_text(file.values[row]["context"])
        answers += bool(spans)
        if any(_is_within_word(context, begin, begin + len(text)) for begin, text in spans or ()):
            cut.append(row)
    if len(cut) > MAX_CUT_SHARE * answers:
        yield file.build_finding("cut-answers", cut, questions=format_share(len(cut), answers, "question"))


def _is_within_word(context: str, begin: int, end: int) -> bool:
    """Return True if a span of the text `context` starts or ends between two letters.

    Only letters of scripts that put spaces between words count. `begin` and `end` are character offsets, `end` is
    exclusive.
    """
    edges = (context[begin - 1 : begin + 1] if begin else "", context[end - 1 : end + 1])
    return any(len(edge) == 2 and edge.isalpha() and max(edge) < "\u0530" for edge in edges)


# Pairs, passages and choices.


def _find_pair_problems(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield findings for a file of pairs: equal texts in a pair, or a passage both correct and wrong for a query."""
    roles = ("query", "positive") if "positive" in file.text_roles else ("text", "second")
    if not {*roles} <= {*file.text_roles}:
        return
    pairs = [[hash_text(to_text(values.get(role))) for role in roles] for values in file.values]
    same = [row for row, (one, other) in enumerate(pairs) if one == other]
    if len(same) > MAX_SAME_TEXT_SHARE * len(file):
        yield file.build_finding(
            "same-texts",
            same,
            stops=len(same) > DOMINANT_SHARE * len(file),
            rows=format_share(len(same), len(file)),
            one=roles[0],
            other=roles[1],
        )
    positives = {(one, other) for one, other in pairs}
    wrong = [
        row
        for row, ((one, _), values) in enumerate(zip(pairs, file.values, strict=True))
        if any((one, hash_text(text)) in positives for text in _list_negatives(values.get("negative")))
    ]
    if wrong:
        yield file.build_finding("negative-is-positive", wrong, rows=format_count(len(wrong)), role=roles[0])


def _list_negatives(value: object) -> Sequence[str]:
    return [to_text(each) for each in value] if isinstance(value, list) else [to_text(value)] if value else []


def _find_choice_problems(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield findings for a file of questions: two equal choices, and correct choices always in the same position."""
    endings = [role for role in file.text_roles if role not in ("context", "question")]
    given = [
        [to_text(each) for each in (values["choices"] if "choices" in values else [values[role] for role in endings])]
        for values in file.values
    ]
    twice = [row for row, choices in enumerate(given) if len({hash_text(each) for each in choices}) < len(choices)]
    if twice:
        yield file.build_finding("same-choices", twice, questions=format_count(len(twice), "question"))
    places = Counter(place for place in file.labels or () if place is not None)
    place, number = max(places.items(), key=lambda item: item[1], default=(0, 0))
    if places.total() >= MIN_ROWS_FOR_SHARES and number >= DOMINANT_SHARE * places.total():
        yield file.build_finding(
            "choice-by-place",
            stops=number == places.total(),
            place=place + 1,
            share=format_percent(number, places.total()),
        )


CHECKS_BY_KIND: Mapping[str, Callable[[CheckedFile], Iterator[DataFinding]]] = MappingProxyType(
    {"tags": _find_tag_problems, "span": _find_cut_answers, "choice": _find_choice_problems}
    | dict.fromkeys(("classes", "number", "similarity", "retrieval"), _find_pair_problems)
)
