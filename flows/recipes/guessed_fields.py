"""Guesses which field holds the text where a recipe does not say it; the guess is kept in the lock.

Promises: what was guessed for a generation stays, whatever files come later: a new name goes after the older ones and
belongs to the generation that it came with, so documents that are built stay as they are. In a recipe `fields.text`
overrides the guess; the same names as were guessed rebuild nothing.

The settings that a folder's defaults were fitted to: chosen once, kept in the lock, written into its recipe.

Promise: a folder keeps its choice, whatever files come later and whatever templates a newer version has: the lock holds
the settings themselves. A lock of a version that fitted nothing holds none, and its folder keeps the default rules.

Picks the template of `cloze new` that fits some texts, by simple signs: a hint, which changes nothing by itself.

patents, clinical, legal, biomedical: half of the texts have some of the words of such texts
chats:   of half of the texts most lines begin with who speaks
books:   half of the texts have 20,000 words or more
tickets: half of the texts have 60 words or fewer
Texts without such a sign are general prose, for which the default rules fit.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from statistics import median
from typing import Any

from corpora.errors import InputError
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.contract import RawFile, Source
from corpora.sources.files.guessing import TextColumns, guess_text_columns
from corpora.sources.files.source import FilesSource
from corpora.sources.registry import has_setting
from flows.recipes.privacy import to_one_line
from flows.recipes.tables import iter_settings, iter_toml_lines, join_key, parse_setting, split_key
from tokenizers_train.vocabularies.settings import is_of_algorithm

TABLE_WITHOUT_TEXT = "table without text"
MAX_NAME_CHARACTERS = 60  # characters of a name


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessedName:
    """A guessed name of the text field, and the generation that it came with."""

    name: str
    generation: int


GuessedNames = Mapping[str, tuple[GuessedName, ...]]  # by source, in the order in which they count


def get_guessable_source(source: Source) -> FilesSource | None:
    """Return the source if it has files with fields and its recipe does not name the text field."""
    return source if isinstance(source, FilesSource) and "text" not in source.fields else None


def with_guessed_names(source: Source, guessed: GuessedNames, generation: int) -> Source:
    """Return a source as it reads a generation: under the names that were guessed by then."""
    names = tuple(guess.name for guess in guessed.get(source.name, ()) if guess.generation <= generation)
    return with_names(source, names)


def with_names(source: Source, names: Sequence[str]) -> Source:
    """Return a source with these names of the text field, where it does not set others."""
    files = get_guessable_source(source)
    if files is None or tuple(names) in ((), ("text",)):
        return source
    return replace(files, fields={"text": names[0] if len(names) == 1 else tuple(names), **files.fields})


def guess_text_fields(
    sources: Sequence[Source],
    guessed: GuessedNames,
    older: Sequence[Mapping[str, Sequence[RawFile]]],
    added: Mapping[str, Sequence[RawFile]],
) -> tuple[dict[str, tuple[GuessedName, ...]], dict[str, TextColumns]]:
    """Return the names for new files: those that are kept, and the guess for each source that was inspected.

    older: the generations before, by source; added: the files of the new one
    """
    kept = {source.name: guessed[source.name] for source in sources if source.name in guessed}
    guesses = {}
    for source in sources:
        files = get_guessable_source(source)
        existing = tuple(kept_guess.name for kept_guess in kept.get(source.name, ()))
        before = [] if existing else [file for entry in older for file in entry.get(source.name, ()) if file.path]
        to_inspect = [*before, *added.get(source.name, ())]
        if files is None or not to_inspect:
            continue
        guesses[source.name] = guess = guess_text_columns(files, to_inspect, existing)
        generation = len(older) + 1 if existing or not before else 1
        new = tuple(GuessedName(name=name, generation=generation) for name in guess.names[len(existing) :])
        if existing or new:
            kept[source.name] = (*kept.get(source.name, ()), *new)
    return kept, guesses


def find_files_without_text(guesses: Mapping[str, TextColumns]) -> dict[str, set[str]]:
    """Return, by source, the paths of files that have no text."""
    return {name: {file.path for file, _ in guess.without} for name, guess in guesses.items()}


def refuse_source_without_text(source: Source, guess: TextColumns) -> None:
    """Raise InputError for a source none of whose files has a text."""
    file, columns = guess.without[0]
    names = ", ".join(columns)[:500] or "none"
    raise InputError(
        f"Source {source.name!r}: no column of {parse_raw_path(file.path).name} holds text: its columns are {names}. "
        f"Name one with {format_set_option(source.name, 'text', 'NAME')}."
    )


def format_set_option(source: str, field: str, name: str) -> str:
    """Return the `--set` option that names a field of a source."""
    key = join_key(["source", source, "fields", field])
    return f"--set {quote(f'{key}={name}')}"


def describe_guess(source: Source, names: Sequence[str], guess: TextColumns | None) -> str:
    """Return what is reported of a guess: the names, other candidates, and how to change it."""
    files = guess.files if guess is not None else {}
    guessed = ", else ".join(_format_name(name, files.get(name, {})) for name in names)
    line = f"{source.name}: the text is guessed to be {guessed}. {_describe_change(source, names, guess)}"
    further = {"key": guess.keys, "date": guess.dates, "group": guess.groups} if guess is not None else {}
    hints = [
        f"{field} {' or '.join(repr(to_one_line(name, MAX_NAME_CHARACTERS)) for name in candidates)}"
        for field, candidates in further.items()
        if candidates
    ]
    return f"{line} Not used, but could be: {', '.join(hints)}." if hints else line


def _describe_change(source: Source, names: Sequence[str], guess: TextColumns | None) -> str:
    if len(names) > 1:
        option = format_set_option(source.name, "text", json.dumps(names, ensure_ascii=False))
        return f"To change it, name others in {option}."
    other = guess.others[0] if guess is not None and guess.others else "NAME"
    return f"To change it: {format_set_option(source.name, 'text', to_one_line(other, MAX_NAME_CHARACTERS))}."


def _format_name(name: str, files: Mapping[str, int]) -> str:
    counts = ", ".join(f"{number:,} {ending}" for ending, number in sorted(files.items()))
    return f"{to_one_line(name, MAX_NAME_CHARACTERS)!r}{f' ({counts})' if counts else ''}"


MAX_SETTING_CHARACTERS = 120  # characters of a setting


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedDefaults:
    """The settings that fit the texts of a folder. looked_at: documents; why: what was chosen and why, a phrase each

    tables: what the recipe says for it, over the settings as they come
    """

    looked_at: int = 0
    why: tuple[str, ...] = ()
    tables: Mapping[str, Any] = field(default_factory=dict)

    def to_toml(self) -> str:
        """Return the tables as a recipe writes them, with the reasons as comments; "" if there are none."""
        if not self.tables:
            return ""
        comments = [f"# By a look at {self.looked_at:,} of its documents: {why}." for why in self.why]
        return "\n".join([*comments, *iter_toml_lines(self.tables)]) + "\n\n"


def describe_chosen(name: str, chosen: Mapping[str, str]) -> str:
    """Return what a run reports of the settings that a folder was given earlier or now; "" if there are none."""
    if not chosen:
        return ""
    listed = ", ".join(to_one_line(f"{key}={value}", MAX_SETTING_CHARACTERS) for key, value in chosen.items())
    first = next(iter(chosen))
    return f"{name}: set for this folder, and remembered by its lock: {listed}. To forget one: --set {first}=."


def merge_chosen(remembered: Mapping[str, str], given: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the settings of a folder after some `--set`. Raises InputError.

    A value without text forgets a setting, and so does a new one that excludes it.

    >>> merge_chosen({"seed": "7", "source.encoding": "auto"}, {"seed": "", "source.own.encoding": "utf-8"}, "own")
    {'source.encoding': 'utf-8'}
    >>> merge_chosen({"seed": "7", "vocabulary.size": "900"}, {"vocabulary.path": "mine"}, "own")
    {'seed': '7', 'vocabulary.path': 'mine'}
    """
    new = {_without_source_name(key, source): value.strip() for key, value in given.items()}
    if unknown_keys := [key for key, value in new.items() if not value and key not in remembered]:
        listed = ", ".join(remembered) or "nothing"
        raise InputError(
            f"--set {unknown_keys[0]}= forgets what was set for this folder, and that was not: remembered is {listed}. "
            f"To set an empty text: --set '{unknown_keys[0]}=\"\"'."
        )
    kept = {key: value for key, value in remembered.items() if key not in new}
    now = {key: value for key, value in new.items() if value}
    return {key: value for key, value in kept.items() if not is_excluded(key, now)} | now


def propose_settings(given: Mapping[str, Any], table: str, proposed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is proposed for a table of a folder's recipe next to the settings of `--set`, which may exclude some.

    As many of a vocabulary's letters are kept as fit its size.
    """
    algorithm, size = proposed.get("algorithm", ""), parse_setting(given.get("vocabulary.size", ""))
    other = any(split_key(key)[0] == table and not is_of_algorithm(split_key(key)[-1], algorithm) for key in given)
    kept = {key: value for key, value in proposed.items() if not is_excluded(f"{table}.{key}", given)}
    if other:
        kept.pop("algorithm", None)
    if "limit_alphabet" in kept and isinstance(size, int):
        kept["limit_alphabet"] = max(1, kept["limit_alphabet"] * size // proposed["size"])
    return kept


def is_excluded(setting: str, given: Mapping[str, Any]) -> bool:
    """Return True if no recipe of a folder has a setting next to one that is given with `--set`."""
    values = dict(iter_settings({key: parse_setting(value) for key, value in given.items()}))
    table, name, *_ = [*split_key(setting), ""]
    if table == "source" and "source.kind" in values:
        return has_setting("files", name) and not has_setting(values["source.kind"], name)
    if table != "vocabulary":
        return False
    if name == "path":
        return any(key.startswith("vocabulary.") and key != "vocabulary.lowercase" for key in values)
    algorithm = values.get("vocabulary.algorithm")
    unknown = algorithm is not None and not is_of_algorithm(name, algorithm)
    return unknown or not {"vocabulary.path", "model.start"}.isdisjoint(values)


def _without_source_name(key: str, source: str) -> str:
    """Return a key of `--set` without the name or number of the folder's only source."""
    first, *rest = split_key(key)
    named = first == "source" and len(rest) > 1 and rest[0] in (source, "1")
    return join_key([first, *rest[named:]])


def describe_fitted(name: str, fitted: FittedDefaults) -> str:
    """Return what a run reports of fitted defaults; "" if nothing was fitted."""
    if not fitted.why:
        return ""
    return (
        f"{name}: by a look at {fitted.looked_at:,} of its documents: {'; '.join(fitted.why)}. To choose yourself: "
        f"--set KEY=VALUE, or a recipe (`cloze new`)."
    )


MIN_TEXTS = 3  # texts needed for a hint
MIN_BOOK_WORDS, MAX_TICKET_WORDS = 20_000, 60
MAX_CHARACTERS = 200_000  # of a text whose words are counted
MAX_SEARCHED_CHARACTERS = 20_000  # characters of it that are searched for the words of a template
MIN_CHAT_LINES, MIN_SPOKEN_SHARE = 4, 0.6  # lines of a chat, and the share of them that begin with a name
LEGAL = re.compile(
    r"\b(?:whereas|hereinafter|hereof|herein|hereby|hereto|hereunder|thereof|witnesseth|notwithstanding|pursuant to"
    r"|indemnif\w+|governing law|plaintiff|defendant|appellant|respondent|severab\w+|lessee|lessor|licensee|licensor"
    r"|executed as of|in witness|force majeure|the parties|either party|confidential information|effective date)\b",
    re.IGNORECASE,
)


PATENTS = re.compile(
    r"\b(?:of claim \d+|according to claim|the present invention|prior art|preferred embodiment|embodiments?|wherein"
    r"|comprising|what is claimed|I claim|the invention|FIGS?\. \d+)\b",
    re.IGNORECASE,
)
CLINICAL = re.compile(
    r"\b(?:HPI|NKDA|PRN|B\.?I\.?D|T\.?I\.?D|[hcs]/[op]|afebrile|denies|chief complaint|year[- ]old|vital signs"
    r"|past medical history|history of present illness|physical exam(?:ination)?|discharge (?:summary|diagnosis"
    r"|medications|instructions)|allergies|BP \d+|mg (?:po|iv|daily))\b",
    re.IGNORECASE,
)
BIOMEDICAL = re.compile(
    r"\b(?:patients?|proteins?|genes?|mutations?|cells?|in vitro|in vivo|clinical|mRNA|receptors?|tumou?rs?|cancers?"
    r"|serum|plasma|mice|rats|disease|syndrome|assays?|antibod(?:y|ies)|inhibitors?|cohort|95% CI|et al|genetic|DNA"
    r"|alleles?|exons?|phenotypes?|hereditary|familial|deficiency|amino acids?|chromosomes?|therapy|diagnosis)\b",
    re.IGNORECASE,
)
# The templates of words: the sign, how many different ones half of the texts have, whose words they are.
TEMPLATE_TERMS = {
    "patents": (PATENTS, 5, "patents"),
    "clinical": (CLINICAL, 4, "clinical notes"),
    "legal": (LEGAL, 5, "contracts and courts"),
    "biomedical": (BIOMEDICAL, 5, "biomedical papers"),
}
CHAT_TURN = re.compile(r"(?:\[?\d{1,2}:\d\d(?::\d\d)?[^\n:\]]{0,9}\]?\s)?<?\w[\w .'-]{0,23}[:>]\s")

# In scripts without spaces about two characters are a word: Japanese, Chinese, Thai, Lao, Tibetan, Burmese, Khmer.
SPACELESS_LETTER = re.compile(r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
CHARACTERS_PER_WORD = 2


def count_words(text: str) -> int:
    """Count the words of a text; in scripts without spaces, CHARACTERS_OF_A_WORD characters are one."""
    return len(text.split()) + len(SPACELESS_LETTER.findall(text)) // CHARACTERS_PER_WORD


def choose_template(texts: Sequence[str]) -> tuple[str, str] | None:
    """Return the template that fits some texts, and its sign in words; None where the default rules fit.

    >>> choose_template(["The printer is broken again.", "Please call back.", "It works now, thanks."])
    ('tickets', 'half of them have 4 words or fewer')
    """
    nonempty = [text for text in texts if text.strip()]
    if len(nonempty) < MIN_TEXTS:
        return None
    words = int(median(map(count_words, nonempty)))
    for template, (sign, min_terms, owners) in TEMPLATE_TERMS.items():
        terms = int(median(len(_find_terms(sign, text)) for text in nonempty))
        if terms >= min_terms and (template == "patents" or words < MIN_BOOK_WORDS):
            return template, f"half of them have {terms} or more of the words of {owners}"
    if words >= MIN_BOOK_WORDS:
        return "books", f"half of them have {words:,} words or more"
    if median(_compute_turn_share(text) for text in nonempty) >= MIN_SPOKEN_SHARE:
        return "chats", "of half of them most lines begin with who speaks"
    if words <= MAX_TICKET_WORDS:
        return "tickets", f"half of them have {words} words or fewer"
    return None


def _find_terms(sign: "re.Pattern[str]", text: str) -> set[str]:
    return {re.sub(r"\d+", "", term.lower()) for term in sign.findall(text[:MAX_SEARCHED_CHARACTERS])}


def _compute_turn_share(text: str) -> float:
    """The share of a text's lines that begin with who speaks; 0 for fewer lines than a chat has."""
    lines = [line for line in text[:MAX_CHARACTERS].splitlines() if line.strip()]
    turns = sum(CHAT_TURN.match(line) is not None for line in lines)
    return turns / len(lines) if len(lines) >= MIN_CHAT_LINES else 0.0
