"""Guesses which field holds the text where a recipe does not say it; the guess is kept in the lock.

Promises: what was guessed for a generation stays, whatever files come later: a new name goes after the older ones and
belongs to the generation that it came with, so documents that are built stay as they are. In a recipe `fields.text`
overrides the guess; the same names as were guessed rebuild nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from corpora.errors import InputError
from corpora.sources.bytes.objects import raw_path
from corpora.sources.contract import RawFile, Source
from corpora.sources.files.guessing import FoundText, guess_text
from corpora.sources.files.source import FilesSource
from flows.recipes.settings.privacy import visible
from flows.recipes.tables import dotted

WITHOUT = "table without text"
SHOWN = 60  # characters of a name


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessedName:
    """A guessed name of the text field, and the generation that it came with."""

    name: str
    generation: int


Guessed = Mapping[str, tuple[GuessedName, ...]]  # by source, in the order in which they count


def to_guess(source: Source) -> FilesSource | None:
    """Return the source if it has files with fields and its recipe does not name the text field."""
    return source if isinstance(source, FilesSource) and "text" not in source.fields else None


def reading(source: Source, guessed: Guessed, generation: int) -> Source:
    """Return a source as it reads a generation: under the names that were guessed by then."""
    names = tuple(guess.name for guess in guessed.get(source.name, ()) if guess.generation <= generation)
    return with_names(source, names)


def with_names(source: Source, names: Sequence[str]) -> Source:
    """Return a source with these names of the text field, where it does not set others."""
    files = to_guess(source)
    if files is None or tuple(names) in ((), ("text",)):
        return source
    return replace(files, fields={"text": names[0] if len(names) == 1 else tuple(names), **files.fields})


def guess_new(
    sources: Sequence[Source],
    guessed: Guessed,
    older: Sequence[Mapping[str, Sequence[RawFile]]],
    added: Mapping[str, Sequence[RawFile]],
) -> tuple[dict[str, tuple[GuessedName, ...]], dict[str, FoundText]]:
    """Return the names for new files: those that are kept, and the guess for each source that was inspected.

    older: the generations before, by source; added: the files of the new one
    """
    kept = {source.name: guessed[source.name] for source in sources if source.name in guessed}
    guesses = {}
    for source in sources:
        files = to_guess(source)
        existing = tuple(kept_guess.name for kept_guess in kept.get(source.name, ()))
        before = [] if existing else [file for entry in older for file in entry.get(source.name, ()) if file.path]
        looked = [*before, *added.get(source.name, ())]
        if files is None or not looked:
            continue
        guesses[source.name] = guess = guess_text(files, looked, existing)
        generation = len(older) + 1 if existing or not before else 1
        new = tuple(GuessedName(name=name, generation=generation) for name in guess.names[len(existing) :])
        if existing or new:
            kept[source.name] = (*kept.get(source.name, ()), *new)
    return kept, guesses


def without_text(guesses: Mapping[str, FoundText]) -> dict[str, set[str]]:
    """Return, by source, the paths of files that have no text."""
    return {name: {file.path for file, _ in guess.without} for name, guess in guesses.items()}


def refuse_nothing_left(source: Source, guess: FoundText) -> None:
    """Raise InputError for a source none of whose files has a text."""
    file, columns = guess.without[0]
    names = ", ".join(columns)[:500] or "none"
    raise InputError(
        f"Source {source.name!r}: no column of {raw_path(file.path).name} holds text: its columns are {names}. "
        f"Name one with {option(source.name, 'text', 'NAME')}."
    )


def option(source: str, field: str, name: str) -> str:
    """Return the `--set` option that names a field of a source."""
    key = dotted(["source", source, "fields", field])
    return f"--set {quote(f'{key}={name}')}"


def guess_line(source: Source, names: Sequence[str], guess: FoundText | None) -> str:
    """Return what is reported of a guess: the names, other candidates, and how to change it."""
    files = guess.files if guess is not None else {}
    guessed = ", else ".join(_shown(name, files.get(name, {})) for name in names)
    line = f"{source.name}: the text is guessed to be {guessed}. {_how_to_change(source, names, guess)}"
    further = {"key": guess.keys, "date": guess.dates, "group": guess.groups} if guess is not None else {}
    hints = [
        f"{field} {' or '.join(repr(visible(name, SHOWN)) for name in candidates)}"
        for field, candidates in further.items()
        if candidates
    ]
    return f"{line} Not used, but could be: {', '.join(hints)}." if hints else line


def _how_to_change(source: Source, names: Sequence[str], guess: FoundText | None) -> str:
    if len(names) > 1:
        return f"To change it, name others in {option(source.name, 'text', json.dumps(names, ensure_ascii=False))}."
    other = guess.others[0] if guess is not None and guess.others else "NAME"
    return f"To change it: {option(source.name, 'text', visible(other, SHOWN))}."


def _shown(name: str, files: Mapping[str, int]) -> str:
    counts = ", ".join(f"{number:,} {ending}" for ending, number in sorted(files.items()))
    return f"{visible(name, SHOWN)!r}{f' ({counts})' if counts else ''}"
