"""What can be wrong with one kind of task alone: tags, answers in a text, pairs, passages, choices.

Cost: one pass over the records.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from trainer.tasks.checking.files import CheckedFile, hash_of, text_of
from trainer.tasks.checking.findings import DataFinding, percent, several, share_of, shortened
from trainer.tasks.checking.labels import examples_of
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
        yield DataFinding(
            name="odd-tags",
            severity="stops",
            what=f"{sum(counts[tag] for tag in odd):,} tags are no tags of spans among {inside:,} that are: "
            f"{shortened(sorted(map(repr, odd)))}",
            where=file.at(rows),
            remedy="correct them: tags of spans begin with B-, I-, E-, S-, L- or U-, or are O",
        )
    elif begins:
        yield from _broken_spans(file, sentences)
    if file.labels and {*counts} == {OUTSIDE}:
        yield DataFinding(
            name="no-spans",
            severity="stops",
            what="every word has the tag O",
            where=file.name,
            remedy="give sentences with spans, or name the column of the tags (`--column tags=...`)",
        )
    long = [row for row, values in enumerate(file.values) if len(values["words"]) > LONG_SENTENCE]
    if long and isinstance(file.values[long[0]]["words"], list):
        yield DataFinding(
            name="joined-sentences",
            severity="doubtful",
            what=f"{len(long):,} sentences have more than {LONG_SENTENCE} words",
            where=file.at(long),
            remedy="put a blank line after each sentence",
        )


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
        yield DataFinding(
            name="broken-spans",
            severity="doubtful",
            what=f"{len(broken):,} tags continue a span that did not begin, and {starts:,} spans begin as they should: "
            f"{shortened([text for text, _ in Counter(text for _, text in broken).most_common()])}",
            where=file.at([row for row, _ in broken]),
            remedy="begin each span with B- (it is read as if it did)",
        )


def _schemes(files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield a file whose tags are in another scheme than those of the first."""
    schemes = [scheme_of(tags or () for tags in file.labels or ()) for file in files]
    spans = [are_spans({tag for tags in file.labels or () for tag in tags or ()}) for file in files]
    for file, scheme, has_spans in zip(files[1:], schemes[1:], spans[1:], strict=True):
        if file.labels and has_spans and spans[0] and scheme != schemes[0]:
            yield DataFinding(
                name="mixed-schemes",
                severity="doubtful",
                what=f"tags are in the scheme {scheme}, and those of {files[0].name} in {schemes[0]}",
                where=file.name,
                remedy="spans are converted, but write both alike to be sure that they mean the same",
            )


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
        yield DataFinding(
            name="cut-answers",
            severity="doubtful",
            what=f"{share_of(len(cut), answers, 'question')} an answer that begins or ends within a "
            "word, as where places are counted in bytes or from 1",
            where=file.at(cut),
            remedy="correct their places, in characters from 0",
            examples=tuple(repr(text) for _, text in (file.labels or ())[cut[0]][:1]),
        )
    if answers >= FEWEST and first >= AT_ONE_PLACE * answers:
        yield _at_one_place(file, f"{percent(first, answers)} of the answers begin at the first character")


def _cuts_word(context: str, begin: int, end: int) -> bool:
    """Tells whether a span begins or ends between two letters of scripts with spaces."""
    edges = (context[begin - 1 : begin + 1] if begin else "", context[end - 1 : end + 1])
    return any(len(edge) == 2 and edge.isalpha() and max(edge) < "\u0530" for edge in edges)


def _at_one_place(file: CheckedFile, what: str) -> DataFinding:
    return DataFinding(
        name="answers-at-one-place",
        severity="doubtful",
        what=what,
        where=file.name,
        remedy="check how the places were made",
    )


# Pairs, passages and choices.


def _pairs(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield pairs of one text with itself, and passages that are the query, or both an answer and none."""
    roles = ("query", "positive") if "positive" in file.text_roles else ("text", "second")
    if not {*roles} <= {*file.text_roles}:
        return
    pairs = [[hash_of(text_of(values.get(role))) for role in roles] for values in file.values]
    same = [row for row, (one, other) in enumerate(pairs) if one == other]
    if len(same) > SAME_TEXTS * len(file):
        yield DataFinding(
            name="same-texts",
            severity="stops" if len(same) > MOSTLY * len(file) else "doubtful",
            what=f"{share_of(len(same), len(file))} one text twice, as {roles[0]} and {roles[1]}",
            where=file.at(same),
            remedy="name two columns (`--column`), or leave these rows out",
            examples=examples_of(file, same, 1),
        )
    positives = {(one, other) for one, other in pairs}
    wrong = [
        row
        for row, ((one, _), values) in enumerate(zip(pairs, file.values, strict=True))
        if any((one, hash_of(text)) in positives for text in _negatives(values.get("negative")))
    ]
    if wrong:
        yield DataFinding(
            name="negative-is-positive",
            severity="doubtful",
            what=f"{several(len(wrong))} a negative that a row has as the right text of the same {roles[0]}",
            where=file.at(wrong),
            remedy="leave these negatives out",
            examples=examples_of(file, wrong, 1),
        )


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
        yield DataFinding(
            name="same-choices",
            severity="doubtful",
            what=f"{several(len(twice), 'question')} a choice twice",
            where=file.at(twice),
            remedy="make them different, or leave the questions out",
            examples=examples_of(file, twice, 1),
        )
    places = Counter(place for place in file.labels or () if place is not None)
    place, number = max(places.items(), key=lambda item: item[1], default=(0, 0))
    if places.total() >= FEWEST and number >= AT_ONE_PLACE * places.total():
        yield DataFinding(
            name="choice-by-place",
            severity="stops" if number == places.total() else "doubtful",
            what=f"choice {place + 1} is right in {percent(number, places.total())} of the questions",
            where=file.name,
            remedy="put the choices in an order by chance",
        )


def _endings(file: CheckedFile, values: Mapping[str, object]) -> list[object]:
    return [values[role] for role in file.text_roles if role not in ("context", "question")]


OF_KINDS: Mapping[str, Callable[[CheckedFile], Iterator[DataFinding]]] = MappingProxyType(
    {"tags": _tags, "span": _answers, "choice": _choices}
    | dict.fromkeys(("classes", "number", "similarity", "retrieval"), _pairs)
)
