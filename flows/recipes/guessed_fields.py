"""Guesses what a recipe leaves open: the field that holds the text, and the template that suits some texts.

The field: if a recipe does not set `fields.text` of a source, the name is guessed from the files and kept in the lock.
A guess stays whatever files come later. A new name is added after the older ones and is used only from the generation
(the raw files that one run added) in which it first appeared, so documents that are built stay as they are. Setting
`fields.text` to the names that were guessed rebuilds nothing.

A folder's defaults: the settings that a folder without a recipe got when it was first read. The lock holds the settings
themselves, so a newer version with other templates changes nothing. A lock of a version that fitted nothing holds none,
and its folder keeps the default rules.

The template: `choose_template` looks for simple signs. It is a hint, which changes nothing by itself.

patents, clinical, legal, biomedical: half of the texts have some of the terms of such texts
chats:   in half of the texts, most lines begin with the name of a speaker
books:   half of the texts have 20,000 words or more
tickets: half of the texts have 60 words or fewer

Texts without such a sign are general prose, which the default rules suit.
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
    """A field name that was guessed to contain the text.

    Attributes:
        name: Name of the field or column.
        generation: One-based number of the first generation (the raw files that one run added) that this name is used
            for.
    """

    name: str
    generation: int


GuessedNames = Mapping[str, tuple[GuessedName, ...]]  # by source, in the order in which they count


def get_guessable_source(source: Source) -> FilesSource | None:
    """Return the source if its text field must be guessed, otherwise None.

    The field must be guessed if the source reads files with fields and its recipe does not set `fields.text`.
    """
    return source if isinstance(source, FilesSource) and "text" not in source.fields else None


def with_guessed_names(source: Source, guessed: GuessedNames, generation: int) -> Source:
    """Return a copy of a source that uses the text fields guessed for a generation or for earlier ones.

    A generation is the raw files that one run added.

    Args:
        source: The source. It is returned unchanged if its text field must not be guessed.
        guessed: The guessed names of all sources, by source name.
        generation: One-based number of the generation. Names that were guessed later are not used.
    """
    names = tuple(guess.name for guess in guessed.get(source.name, ()) if guess.generation <= generation)
    return with_names(source, names)


def with_names(source: Source, names: Sequence[str]) -> Source:
    """Return a copy of a source that reads its text from the given fields, in order of preference.

    The source is returned unchanged if its recipe sets `fields.text`, if it does not read fields, or if `names` is
    empty or only "text", which is the default.

    Args:
        source: The source.
        names: Names of the fields. For each record, the first one that it has is used.
    """
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
    """Guess which fields contain the text of new raw files.

    Only sources that `get_guessable_source` accepts are inspected, and only if they have new files, or older files
    without a guess.

    Args:
        sources: The sources of the recipe.
        guessed: The names that are already in the lock file, by source name.
        older: The older generations (the raw files that one run added) in order. Each has a list of raw files by source
            name.
        added: The new raw files, by source name.

    Returns:
        Two dictionaries by source name: the names to write to the lock file (given names first, then new names), and
        the guess for each inspected source.
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
    """Return the paths of the files that contain no text, by source name. A source may have an empty set.

    Args:
        guesses: The guessed text fields of each inspected source, by source name.
    """
    return {name: {file.path for file, _ in guess.without} for name, guess in guesses.items()}


def refuse_source_without_text(source: Source, guess: TextColumns) -> None:
    """Raise an InputError for a source without any text field. The message lists the columns of its first file.

    Args:
        source: The source.
        guess: The text columns of the source's files. `guess.without` (the files without a text column) must not be
            empty.

    Raises:
        InputError: Always.
    """
    file, columns = guess.without[0]
    names = ", ".join(columns)[:500] or "none"
    raise InputError(
        f"Source {source.name!r}: no column of {parse_raw_path(file.path).name} holds text: its columns are {names}. "
        f"Name one with {format_set_option(source.name, 'text', 'NAME')}."
    )


def format_set_option(source: str, field: str, name: str) -> str:
    """Format the option `--set source.NAME.fields.FIELD=VALUE`, quoted for a shell.

    Args:
        source: Name of the source.
        field: The field to set, such as "text".
        name: The value: the name of the column that contains the field.
    """
    key = join_key(["source", source, "fields", field])
    return f"--set {quote(f'{key}={name}')}"


def describe_guess(source: Source, names: Sequence[str], guess: TextColumns | None) -> str:
    """Describe a guess in one line: the fields that contain the text, how to change them, and other candidates.

    Args:
        source: The source.
        names: The guessed fields, in order of preference.
        guess: The text columns of the source's files; None if no files were inspected in this run.
    """
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
    """The default settings of a folder without a recipe, chosen from a sample of the folder's texts.

    Attributes:
        looked_at: Number of documents in the sample.
        why: The reasons for the choices, one phrase for each.
        tables: The chosen recipe tables, which take precedence over the general defaults.
    """

    looked_at: int = 0
    why: tuple[str, ...] = ()
    tables: Mapping[str, Any] = field(default_factory=dict)

    def to_toml(self) -> str:
        """Format the tables as TOML, preceded by the reasons as comments. Returns "" if there are no tables."""
        if not self.tables:
            return ""
        comments = [f"# By a look at {self.looked_at:,} of its documents: {why}." for why in self.why]
        return "\n".join([*comments, *iter_toml_lines(self.tables)]) + "\n\n"


def describe_chosen(name: str, chosen: Mapping[str, str]) -> str:
    """Format a line that lists a folder's `--set` settings, from this or earlier commands. Returns "" for none.

    Args:
        name: Name of the folder's recipe.
        chosen: The settings, as dotted keys and values.
    """
    if not chosen:
        return ""
    listed = ", ".join(to_one_line(f"{key}={value}", MAX_SETTING_CHARACTERS) for key, value in chosen.items())
    first = next(iter(chosen))
    return f"{name}: set for this folder, and remembered by its lock: {listed}. To forget one: --set {first}=."


def merge_chosen(remembered: Mapping[str, str], given: Mapping[str, str], source: str) -> dict[str, str]:
    """Merge new `--set` settings of a folder into the settings that are saved in its lock file.

    An empty value removes a saved setting. A new setting also removes saved settings that conflict with it.

    Args:
        remembered: Settings from the lock file, as dotted keys and values.
        given: Settings of this command.
        source: Name of the folder's only source. It is removed from keys: `source.NAME.path` becomes `source.path`.

    Returns:
        The merged settings, as dotted keys and values.

    Raises:
        InputError: If the value of a setting that is not saved is empty.

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
    """Return the proposed settings for a table of a folder's recipe that do not conflict with the user's settings.

    If the user sets a different vocabulary size, `limit_alphabet` is scaled in proportion.

    Args:
        given: Settings of `--set`, as dotted keys and values.
        table: Name of the table, such as "vocabulary".
        proposed: The settings proposed for this table.
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
    """Return True if a setting conflicts with the given settings, so that a folder's recipe cannot contain both.

    Args:
        setting: Dotted key, such as "vocabulary.size".
        given: Settings of `--set`, as dotted keys and values.
    """
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
    """Remove the name or number of the folder's only source from a dotted key, as in "source.path".

    Args:
        key: The key, such as "source.NAME.path". Keys of other tables are returned unchanged.
        source: Name of the source.
    """
    first, *rest = split_key(key)
    named = first == "source" and len(rest) > 1 and rest[0] in (source, "1")
    return join_key([first, *rest[named:]])


def describe_fitted(name: str, fitted: FittedDefaults) -> str:
    """Format a line about which defaults were chosen for a folder, and why. Returns "" if none were chosen.

    Args:
        name: Name of the folder's recipe.
        fitted: The chosen defaults.
    """
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
    """Count the words of a text. In scripts without spaces, every CHARACTERS_PER_WORD letters count as one word."""
    return len(text.split()) + len(SPACELESS_LETTER.findall(text)) // CHARACTERS_PER_WORD


def choose_template(texts: Sequence[str]) -> tuple[str, str] | None:
    """Choose the recipe template that suits a sample of texts.

    Returns:
        The name of the template, and a phrase about why it was chosen. None if there are fewer than MIN_TEXTS non-empty
        texts, or if the default rules suit them.

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
    """Compute the share (0 to 1) of lines that begin with a speaker's name. Returns 0 below MIN_CHAT_LINES lines."""
    lines = [line for line in text[:MAX_CHARACTERS].splitlines() if line.strip()]
    turns = sum(CHAT_TURN.match(line) is not None for line in lines)
    return turns / len(lines) if len(lines) >= MIN_CHAT_LINES else 0.0
