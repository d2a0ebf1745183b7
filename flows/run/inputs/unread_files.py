"""Reports of files that a run was given and does not read: lines for people, and a form for its record.

File names may name a person, so they are shown only if the recipe lets text be shown (`privacy.samples = "text"`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from corpora.sources.files.endings import PDF_ENDINGS, REMEDIES
from corpora.sources.files.office.pdf import HOW_TO_INSTALL, can_read_pdf
from corpora.sources.passed_over import EMPTY_FILE, MAX_NAMES_PER_KIND, UNOPENED_KINDS, FileCounts, FileGroup
from flows.recipes.guessed_fields import describe_guess, get_guessable_source
from flows.recipes.lock import Lock, ResolvedLock
from flows.recipes.privacy import MAX_TITLE_CHARACTERS, to_one_line
from flows.recipes.recipe import Recipe
from flows.run.record.counts_text import format_count
from flows.run.record.run_record import SetAside

MAX_KINDS, MAX_NAMES = 8, 3  # shown in a line, and of each
MAX_KEPT_KINDS = 50  # kept in a record
LOST_FILE = "file lost during the run"
PLURAL_FIRST = ("file ", "record ")  # begin words of which the first has the plural


def describe_unread(looked: Mapping[str, FileCounts], privacy: str) -> list[str]:
    """Describe the files of each source that a run does not read (unsupported, unreadable and empty ones), in lines.

    Args:
        looked: Counts of the files in each source's folders, by source name.
        privacy: The recipe's setting `privacy.samples`; file names are shown only if it is "text".
    """
    named = privacy == "text"
    return [line for source, files in looked.items() for line in _iter_lines(source, files, named)]


def summarize_unread(looked: Mapping[str, FileCounts], privacy: str) -> list[str]:
    """Return a line with the number of files that a run does not read, followed by lines with advice on reading them.

    File types and names are omitted, except for files that could not be opened, because they may contain text.

    Args:
        looked: Counts of the files in each source's folders, by source name.
        privacy: The recipe's setting `privacy.samples`; file names are shown only if it is "text".

    >>> code = (FileGroup(kind=".py", number=1468, names=("a.py",)),)
    >>> summarize_unread({"docs": FileCounts(num_read=810, passed_over=code), "news": FileCounts(num_read=1)}, "text")
    ['Not read: 1,468 files of docs; the report lists them.']
    """
    passed = {source: files.num_passed_over for source, files in looked.items()}
    empty = {source: sum(group.number for group in files.empty) for source, files in looked.items()}
    counts = [
        f"{what}: {_format_numbers(of)}" for what, of in (("not read", passed), ("empty", empty)) if any(of.values())
    ]
    line = "; ".join([*counts, "the report lists them."])
    listed = [f"{line[0].upper()}{line[1:]}"] if counts else []
    groups = {
        source: [group for group in of.passed_over if group.kind in UNOPENED_KINDS] for source, of in looked.items()
    }
    words = {source: describe_groups(of, privacy == "text") for source, of in groups.items() if of}
    unopened = [f"{source}: could not be opened: {of}. A run reads them once it can." for source, of in words.items()]
    return [*listed, *unopened, *(line for line in describe_unread(looked, privacy) if HOW_TO_INSTALL in line)]


def _format_numbers(of: Mapping[str, int]) -> str:
    return ", ".join(f"{format_count(number, 'file')} of {source}" for source, number in of.items() if number)


def with_lost(looked: Mapping[str, FileCounts], before: Lock, after: Lock) -> Mapping[str, FileCounts]:
    """Update the file counts of each source for files that were deleted, closed or changed during the run.

    Args:
        looked: Counts of the files in each source's folders, by source name.
        before, after: Content of the lock file (the raw files of all runs) with and without the lost files.
    """
    return {
        source: _with_lost(of, gone) if (gone := _count_names(before, source) - _count_names(after, source)) else of
        for source, of in looked.items()
    }


def _with_lost(of: FileCounts, gone: Counter[str]) -> FileCounts:
    """Move lost files from the read files to the group LOST_FILE in the file counts of one source.

    Args:
        of: The counts.
        gone: Number of lost files by name.
    """
    earlier = [group for group in of.passed_over if group.kind == LOST_FILE]
    number = gone.total() + sum(group.number for group in earlier)
    names = sorted([*gone, *(name for group in earlier for name in group.names)])[:MAX_NAMES_PER_KIND]
    lost = FileGroup(kind=LOST_FILE, number=number, names=tuple(names))
    others = [group for group in of.passed_over if group.kind != LOST_FILE]
    return replace(of, num_read=of.num_read - gone.total(), passed_over=(lost, *others))


def _count_names(lock: Lock, source: str) -> Counter[str]:
    return Counter(file.name for generation in lock.generations for file in generation.get(source, ()))


def describe_set_aside(set_aside: Iterable[SetAside]) -> str:
    """Format the numbers of skipped files and records of each kind as one line.

    >>> describe_set_aside([SetAside(kind="damaged record", number=2, place="documents/notes/ab12", new=0)])
    '2 damaged records'
    """
    numbers = Counter[str]()
    for each in set_aside:
        numbers[each.kind] += each.number
    groups = [FileGroup(kind=kind, number=number, names=()) for kind, number in numbers.most_common()]
    return describe_groups(groups, named=False)


def describe_guesses(recipe: Recipe, resolved: ResolvedLock) -> list[str]:
    """Return a line for each source with a guessed text field: the field's name, and how to choose another field.

    Args:
        recipe: The recipe.
        resolved: The result of `resolve_inputs`.
    """
    return [
        describe_guess(entry.source, [field.name for field in names], resolved.guesses.get(entry.source.name))
        for entry in recipe.sources
        if get_guessable_source(entry.source) and (names := resolved.lock.guessed.get(entry.source.name))
    ]


def _iter_lines(source: str, files: FileCounts, named: bool) -> Iterator[str]:
    if files.passed_over:
        yield f"{source}: not read: {describe_groups(files.passed_over, named)}."
        if any(group.kind in PDF_ENDINGS for group in files.passed_over) and not can_read_pdf():
            yield f"{source}: {HOW_TO_INSTALL}."
        remedies = dict.fromkeys(REMEDIES[group.kind] for group in files.passed_over if group.kind in REMEDIES)
        yield from (f"{source}: {remedy}." for remedy in remedies)
    if files.empty:
        yield f"{source}: of its raw files, {describe_groups(files.empty, named)}."


def describe_groups(groups: Sequence[FileGroup], named: bool) -> str:
    """Format the number of files of each kind as one line, with the first file names if `named` is True.

    >>> describe_groups([FileGroup(kind=".pdf", number=4, names=("a.pdf", "b.pdf", "c.pdf", "d.pdf"))], True)
    '4 .pdf (a.pdf, b.pdf, c.pdf and 1 more)'
    """
    lines = [_describe_group(group, named) for group in groups[:MAX_KINDS]]
    rest = sum(group.number for group in groups[MAX_KINDS:])
    return ", ".join([*lines, f"{rest:,} of {format_count(len(groups) - MAX_KINDS, 'other kind')}"] if rest else lines)


def _describe_group(group: FileGroup, named: bool) -> str:
    what = (
        f"{group.number:,} {group.kind}"
        if group.kind.startswith(".")
        else format_count(group.number, *_choose_words(group))
    )
    if not named:
        return what
    names = ", ".join(to_one_line(name, MAX_TITLE_CHARACTERS) for name in group.names[:MAX_NAMES])
    more = group.number - MAX_NAMES
    return f"{what} ({names}{f' and {more:,} more' if more > 0 else ''})"


def _choose_words(group: FileGroup) -> tuple[str, str]:
    first, _, rest = group.kind.partition(" ") if group.kind.startswith(PLURAL_FIRST) else (group.kind, "", "")
    plural = f"{first}s {rest}" if rest else f"{group.kind}s"
    return {
        "pipe, socket or device": ("pipe, socket or device", "pipes, sockets or devices"),
        EMPTY_FILE: ("is empty", "are empty"),
    }.get(group.kind, (group.kind, plural))


def build_unread_json(looked: Mapping[str, FileCounts], privacy: str) -> dict[str, Any]:
    """Convert counts of files that a run does not read to JSON for the run's record and `cloze plan --json`.

    Args:
        looked: Counts of the files in each source's folders, by source name.
        privacy: The recipe's setting `privacy.samples`; file names are included only if it is "text".

    Returns:
        A dict for each source, by name, with the keys `raw_files` (number of files read), `num_passed_over` (number of
        files not read), `empty` (groups of empty files) and `passed_over` (groups of files not read). A group is a dict
        with the keys `kind` (such as ".pdf"), `number` and `names`.
    """
    named = privacy == "text"
    return {source: _build_json(files, named) for source, files in looked.items()}


def _build_json(files: FileCounts, named: bool) -> dict[str, Any]:
    groups = {"empty": files.empty, "passed_over": files.passed_over}
    listed = {
        key: [{**asdict(group), "names": list(group.names) if named else []} for group in kinds[:MAX_KEPT_KINDS]]
        for key, kinds in groups.items()
    }
    return {"raw_files": files.num_read, "num_passed_over": files.num_passed_over, **listed}


def read_unread_json(reported: Mapping[str, Any]) -> dict[str, FileCounts]:
    """Parse counts of files that a run did not read, as `build_unread_json` returned them.

    Args:
        reported: The JSON object, by source name.

    Returns:
        The file counts by source name, without the file names and kinds that the JSON omits.
    """
    return {
        source: FileCounts(
            num_read=entry["raw_files"],
            empty=_read_groups(entry["empty"]),
            passed_over=_read_groups(entry["passed_over"]),
        )
        for source, entry in reported.items()
    }


def _read_groups(entries: Sequence[Mapping[str, Any]]) -> tuple[FileGroup, ...]:
    return tuple(FileGroup(**{**group, "names": tuple(group["names"])}) for group in entries)
