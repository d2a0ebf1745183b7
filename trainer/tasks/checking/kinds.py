"""What can be wrong with one kind of task alone: tags, answers in a text, pairs, passages, choices.

Cost: one pass over the records.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from trainer.tasks.checking.files import CheckedFile, hash_of, text_of
from trainer.tasks.checking.findings import DataFinding, percent, several, share_of, shortened
from trainer.tasks.kinds.tag_schemes import OUTSIDE, are_spans, scheme_of

MOSTLY = 0.9  # share of tags from which the others are odd
LONG_SENTENCE = 400  # words
FEWEST = 20  # rows from which shares say something
AT_ONE_PLACE = 0.9  # share of answers, or of right choices
SAME_TEXTS = 0.1  # share of pairs that are one text twice
CUT_WORDS = 0.02  # share of answers that begin or end within a word


def kind_findings(kind: str, files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield what is wrong with files of a kind of task."""
    for file in files:
        if kind in OF_KINDS and len(file):
            yield from OF_KINDS[kind](file)
    if kind == "tags":
        yield from _schemes(files)


# Tags.


def _tags(file: CheckedFile) -> Iterator[DataFinding]:
    sentences = [(row, tags) for row, tags in enumerate(file.labels or ()) if tags]
    counts = Counter(tag for _, tags in sentences for tag in tags)
    spans = {tag for tag in counts if tag == OUTSIDE or are_spans([tag])}
    inside = sum(counts[tag] for tag in spans if tag != OUTSIDE)
    odd = [tag for tag in counts if tag not in spans]
    begins = any(tag.startswith("B-") for tag in spans)
    if odd and begins and inside >= MOSTLY * sum(counts[tag] for tag in counts if tag != OUTSIDE):
        rows = [row for row, tags in sentences if {*tags} & {*odd}]
        yield file.finding(
            "odd-tags", rows, odd=sum(counts[tag] for tag in odd), spans=inside, tags=shortened(sorted(map(repr, odd)))
        )
    elif begins:
        yield from _broken_spans(file, sentences)
    if file.labels and {*counts} == {OUTSIDE}:
        yield file.finding("no-spans")
    long = [row for row, values in enumerate(file.values) if len(values["words"]) > LONG_SENTENCE]
    if long and isinstance(file.values[long[0]]["words"], list):
        yield file.finding("joined-sentences", long, rows=len(long), most=LONG_SENTENCE)


def _broken_spans(file: CheckedFile, sentences: Sequence[tuple[int, Sequence[str]]]) -> Iterator[DataFinding]:
    """Yield I- tags that continue nothing, in a file where most spans begin with B-."""
    broken, starts = list[tuple[int, str]](), 0
    for row, tags in sentences:
        for before, tag in pairwise([OUTSIDE, *tags]):
            letter, _, name = tag.partition("-")
            starts += letter in ("B", "S", "U")
            if letter in ("I", "E", "L") and (before[:1] not in ("B", "I") or before.partition("-")[2] != name):
                broken.append((row, f"{tag} after {before}"))
    if broken and len(broken) <= (1 - MOSTLY) * starts:
        yield file.finding(
            "broken-spans",
            [row for row, _ in broken],
            broken=len(broken),
            begun=starts,
            tags=shortened([text for text, _ in Counter(text for _, text in broken).most_common()]),
        )


def _schemes(files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield a file whose tags are in another scheme than those of the first."""
    schemes = [scheme_of(tags or () for tags in file.labels or ()) for file in files]
    spans = [are_spans({tag for tags in file.labels or () for tag in tags or ()}) for file in files]
    for file, scheme, has_spans in zip(files[1:], schemes[1:], spans[1:], strict=True):
        if file.labels and has_spans and spans[0] and scheme != schemes[0]:
            yield file.finding("mixed-schemes", scheme=scheme, training=files[0].name, learnt=schemes[0])


# Answers that are spans of a text.


def _answers(file: CheckedFile) -> Iterator[DataFinding]:
    cut, first, answers = list[int](), 0, 0
    for row, spans in enumerate(file.labels or ()):
        context = text_of(file.values[row]["context"])
        answers += bool(spans)
        first += bool(spans) and spans[0][0] == 0
        if any(_cuts_word(context, begin, begin + len(text)) for begin, text in spans or ()):
            cut.append(row)
    if len(cut) > CUT_WORDS * answers:
        yield file.finding(
            "cut-answers",
            cut,
            examples=[repr(text) for _, text in (file.labels or ())[cut[0]][:1]],
            questions=share_of(len(cut), answers, "question"),
        )
    if answers >= FEWEST and first >= AT_ONE_PLACE * answers:
        yield file.finding("answers-at-one-place", share=percent(first, answers))


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
            shown=1,
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
        yield file.finding("negative-is-positive", wrong, shown=1, rows=several(len(wrong)), role=roles[0])


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
        yield file.finding("same-choices", twice, shown=1, questions=several(len(twice), "question"))
    places = Counter(place for place in file.labels or () if place is not None)
    place, number = max(places.items(), key=lambda item: item[1], default=(0, 0))
    if places.total() >= FEWEST and number >= AT_ONE_PLACE * places.total():
        yield file.finding(
            "choice-by-place", stops=number == places.total(), place=place + 1, share=percent(number, places.total())
        )


def _endings(file: CheckedFile, values: Mapping[str, object]) -> list[object]:
    return [values[role] for role in file.text_roles if role not in ("context", "question")]


OF_KINDS: Mapping[str, Callable[[CheckedFile], Iterator[DataFinding]]] = MappingProxyType(
    {"tags": _tags, "span": _answers, "choice": _choices}
    | dict.fromkeys(("classes", "number", "similarity", "retrieval"), _pairs)
)
