"""The defaults of `--source FOLDER`, fitted to a sample of its texts, so that a first run completes.

The rules are those of papers on web pages. They do not suit tickets, contracts, log lines, source code and languages
other than English, and a rule that is not made for a text drops all of it. So a sample from all over the folder is
examined first, the beginning of each of many documents: the template that fits the texts gives its rules, and a rule
that would still drop more than MOST_DROPPED of the sample is switched off. If texts are in languages other than
English, all languages are kept, and the vocabulary keeps the marks of letters, which tell words apart. If files are
books of Project Gutenberg, its license is cut off.

Promises: the same folder gets the same defaults on every machine, because no clock limits the sample. Each rule that is
switched off is reported with how much it would have dropped, and so is every other choice. Settings that the user gives
(`--set`) take precedence. A folder of which nothing can be read is left to the run, which reports it.
Cost: one to four seconds of processor time if the folder is large; nothing is written.
"""

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.errors import FileFault, InputError
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.language import UNKNOWN, LanguageSettings, choose_rule_languages, detect_languages
from corpora.judging.steps.rules import OFF_VALUES, GopherRules, find_failures, find_off_setting
from corpora.sources.books.gutenberg import cut_whole_book
from corpora.sources.books.source import BookCorpusSource
from corpora.sources.bytes.faults import BadRecord, explain_damage
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import AUTO, open_raw
from corpora.sources.contract import RawFile, Record, Source, list_unhashed_files, to_printable
from corpora.sources.files.endings import BOOK_ENDINGS, TEXT_ENDINGS
from corpora.sources.files.formats import TextFile, has_gutenberg_name, read_gutenberg_book
from corpora.text.counts.languages import ENGLISH, SPACELESS, find_terms
from flows.recipes.guessed_fields import (
    MAX_CHARACTERS,
    FittedDefaults,
    choose_template,
    count_words,
    find_files_without_text,
    guess_text_fields,
    merge_chosen,
    with_names,
)
from flows.recipes.lock import list_raw_files, read_lock
from flows.recipes.recipe import (
    Recipe,
    parse_recipe,
    render_folder_recipe,
    resolve_source,
    shorten_name,
    with_overrides,
)
from flows.recipes.recipe_templates import read_template_tables
from flows.recipes.tables import apply_override, merge_tables, to_toml
from flows.run.estimates.sampling import sample_source
from flows.run.faults.rule_limits import judge_before_rules
from tokenizers_train.vocabularies.settings import UNIGRAM

MAX_DROPPED_SHARE = 0.1  # of the sample by a rule, or with words unknown to a vocabulary: half of what stops a run
MAX_OTHER_LANGUAGES = 0.02  # of the texts; above this share, and of books above none, all languages are kept
MAX_SAMPLE_TEXTS, MAX_SAMPLE_CHARACTERS = 400, 2_000_000
HEAD_CHARACTERS = 20_000  # characters of each document that are judged
READ_BYTES, NUM_WINDOWS = 1_000_000, 60  # of records, of a folder of less than a hundred times as much; and from where
LANGUAGES_WITH_TWO_I = frozenset(("tr", "az", "kk", "tt", "crh"))  # the small letter of I is another one there
MIN_MARKED_SHARE = 0.005  # of the letters of a text of unknown language; from this share on its marks are kept
HEAD_BYTES = 8_192  # of a text
MAX_BOOK_BYTES, MAX_WHOLE_BOOKS = 20_000_000, 5  # of files that are read whole to be sure
TEMPLATE_TITLES = {
    **{"tickets": "short texts", "legal": "legal texts", "books": "books", "patents": "patents", "chats": "chats"},
    **{"clinical": "clinical notes", "biomedical": "biomedical texts"},
}
MAX_NAMED_RULES = 4  # rules that are named
RECIPE_PATH = re.compile(r'^path = "([^"\\]+)"', re.MULTILINE)  # the folder of a recipe that was written here
TEMPLATE_TABLES = ("rules", "documents", "duplicates")


def build_folder_recipe(source: Path | str, store: Path, overrides: Mapping[str, str]) -> Recipe:
    """Build a recipe for a folder of raw files without a recipe.

    The settings of the previous run are taken from the lock file, which records the raw files and settings of a recipe.
    For a first run, settings are fitted to a sample of the texts.

    Args:
        source: The folder, a file, a glob, or an object store address.
        store: Folder of the store. The recipe is stored in its subfolder `recipes`.
        overrides: Settings given with `--set`. They take precedence over those in the lock file.

    Raises:
        InputError: If the path is not UTF-8, or a setting is not valid.
    """
    where = resolve_source(source)
    if to_printable(where) != where:
        raise InputError(
            f"--source {to_printable(where)}: the path of this folder is not UTF-8, so no recipe names it. Rename it."
        )
    path = _find_recipe_path(Path(where), store / "recipes")
    lock = read_lock(path.with_suffix(".lock"))

    def parse(fitted: FittedDefaults, skipped: tuple[str, ...] = ()) -> Recipe:
        plain = partial(render_folder_recipe, source, str(store), fitted)
        name = parse_recipe(plain(), path, {}).sources[0].source.name
        given = merge_chosen(lock.chosen, overrides, name)
        chosen = {key: value for key, value in given.items() if not key.startswith(skipped)}
        return replace(
            parse_recipe(plain(chosen), path, chosen),
            text=with_overrides(plain(chosen), chosen),
            fitted=fitted if fitted.looked_at or not lock.generations else None,
            chosen=chosen,
            replaced_text=with_overrides(plain(lock.chosen), lock.chosen),
        )

    if lock.fitted is None and lock.generations:
        return parse(FittedDefaults())
    if lock.fitted is not None and lock.fitted.looked_at:
        return parse(lock.fitted)
    look = partial(parse, skipped=("vocabulary.",))  # whose keys may be those of an algorithm that is proposed then
    reader, files = _list_files_with_text(look(FittedDefaults()))
    records = _sample_records(reader, files)
    if not records:
        return parse(FittedDefaults())
    heads = _read_heads(files)
    first = _with_books(_fit_template(records), heads, records)
    settings = look(first).sources[0].documents
    more = _list_unsampled(heads, records, str(reader.settings().get("encoding", AUTO)))
    return parse(_fit_by_judging(records, more, settings, first))


def _find_recipe_path(folder: Path, recipes: Path) -> Path:
    """Return the path of the recipe for a folder. The recipe is named after the folder.

    If a recipe with this name belongs to another folder that still exists, a digest is appended to the name. If the
    other folder no longer exists, its recipe is reused, because the folder was probably moved.
    """
    path = recipes / f"{shorten_name(folder.name)}.toml"
    owner = RECIPE_PATH.search(path.read_text("utf-8", "replace")) if path.exists() else None
    if owner is None or owner[1] == folder.as_posix() or not Path(owner[1]).exists():
        return path
    return path.with_stem(f"{path.stem}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}")


def _list_files_with_text(recipe: Recipe) -> tuple[Source, list[RawFile]]:
    """Return the only source of a folder's recipe, and the raw files that contain text.

    The source contains the guessed names of the text fields.
    """
    [entry] = recipe.sources
    files = list_unhashed_files(list_raw_files(entry, recipe))
    kept, guesses = guess_text_fields([entry.source], {}, [], {entry.source.name: files})
    without = find_files_without_text(guesses).get(entry.source.name, set())
    names = [name.name for name in kept.get(entry.source.name, ())]
    return with_names(entry.source, names), [file for file in files if file.path not in without and file.size_bytes]


def _sample_records(source: Source, files: Sequence[RawFile]) -> list[Record]:
    """Return at most MAX_SAMPLE_TEXTS non-empty records from all files. Files that cannot be sliced are skipped."""
    while True:
        try:
            sampled = sample_source(source, files, math.inf, READ_BYTES, NUM_WINDOWS).sampled if files else ()
            break
        except FileFault as fault:  # these cannot be cut; a run leaves them out
            cut = {each.path for each in (fault, *fault.others)}
            files = [file for file in files if file.path not in cut]
    records = [record for record in sampled if record.drop is None and record.text.strip()]
    characters = sum(min(len(record.text), HEAD_CHARACTERS) for record in records)
    return records[:: max(1, -(-len(records) // MAX_SAMPLE_TEXTS), -(-characters // MAX_SAMPLE_CHARACTERS))]


def _read_heads(files: Sequence[RawFile]) -> dict[RawFile, bytes]:
    """Read the first HEAD_BYTES bytes of plain text files, by file. Of many files, evenly spaced ones are read."""
    texts = [file for file in files if file.name.lower().endswith(TEXT_ENDINGS)]
    return {file: _read_beginning(file, HEAD_BYTES) for file in texts[:: max(1, -(-len(texts) // MAX_SAMPLE_TEXTS))]}


def _list_unsampled(heads: Mapping[RawFile, bytes], records: Sequence[Record], encoding: str) -> list[str]:
    """Return the decoded beginnings of text files that have no record in the sample.

    A few long texts can fill the sample, so that other files are not represented in it.

    Args:
        heads: The first bytes of text files, by file.
        records: The sample.
        encoding: Encoding of the files, or "auto" to detect it.
    """
    sampled, reader = {record.locator.file for record in records}, TextFile(encoding=encoding, max_record_bytes=0)
    texts = []
    for file, data in heads.items():
        for end in range(0 if file.name in sampled else 4):  # the last letter may be cut off
            with suppress(BadRecord):
                texts.append(reader.decode_text(data[: len(data) - end]))
                break
    return [text for text in texts if text.strip()][: MAX_SAMPLE_TEXTS - len(sampled)]


def _fit_template(records: Sequence[Record]) -> FittedDefaults:
    """Choose a recipe template (such as legal texts or chats) that suits the records, and return its settings.

    If no template suits, the returned settings are empty.
    """
    match = choose_template([record.text[:MAX_CHARACTERS] for record in records])
    if match is None:
        return FittedDefaults(looked_at=len(records))
    template, sign = match
    tables = {name: table for name, table in read_template_tables(template).items() if name in TEMPLATE_TABLES}
    why = f"{TEMPLATE_TITLES[template]} ({sign}): rules of the template `{template}`"
    return FittedDefaults(looked_at=len(records), why=(why,), tables=tables)


def _with_books(fitted: FittedDefaults, heads: Mapping[RawFile, bytes], records: Sequence[Record]) -> FittedDefaults:
    """Add the settings for Project Gutenberg books to the fitted settings if the files contain such books.

    Args:
        fitted: The settings so far.
        heads: The first bytes of text files, by file.
        records: The sampled records; must not be empty.
    """
    epubs = [record.text for record in records if record.locator.file.lower().endswith(BOOK_ENDINGS)]
    named = [file for file, head in heads.items() if has_gutenberg_name(head)]
    whole = (
        read_gutenberg_book(_read_beginning(file, MAX_BOOK_BYTES), records[0].locator, MAX_BOOK_BYTES)
        for file in named[:MAX_WHOLE_BOOKS]
    )
    sure = any(whole)
    books = sure * len(named) + sum(cut_whole_book(text) is not None for text in epubs)
    if not books:
        return fitted
    of = f"{books:,} of {len(heads) + len(epubs):,} texts looked at"
    why = f"books of Project Gutenberg ({of}): read as books, without its license"
    rules = BookCorpusSource.defaults["rules"]
    tables = {"rules": rules, "documents": read_template_tables("books")["documents"], "source": {"books": True}}
    return replace(fitted, why=(*fitted.why, why), tables=merge_tables(tables, fitted.tables))


def _read_beginning(file: RawFile, num_bytes: int) -> bytes:
    """Return the first `num_bytes` decompressed bytes of a file, or b"" if the file cannot be read."""
    path = parse_raw_path(file.path)
    try:
        with open_raw(path) as stream, explain_damage(path):
            return stream.read(num_bytes)
    except (OSError, InputError):
        return b""  # reading it says why


def _fit_by_judging(
    records: Sequence[Record], more: Sequence[str], settings: DocumentsSettings, fitted: FittedDefaults
) -> FittedDefaults:
    """Filter the sample with the document rules, and return settings with which few of its texts are dropped.

    Rules that drop many texts are disabled. If many texts are not in English, all languages are kept and the vocabulary
    is adapted to them.

    Args:
        records: The sampled records; must not be empty.
        more: Beginnings of texts that are not in the sample.
        settings: The document settings before any rule is disabled.
        fitted: The settings to extend.
    """
    whole = replace(settings, language=replace(settings.language, keep=()))
    parts = [record._replace(text=record.text[:HEAD_CHARACTERS]) for record in records]
    parts += [Record(locator=records[0].locator, text=text) for text in more]
    texts = judge_before_rules(parts, "sample", whole)
    tables, why = dict(fitted.tables), [*fitted.why]
    codes, long = detect_languages(texts, settings.language), settings.rules.gopher.max_words > GopherRules().max_words
    few = 0 if long else MAX_OTHER_LANGUAGES * len(codes)  # one book is much text
    if dropped := _describe_other_languages(codes, settings.language, few):
        tables = merge_tables(tables, {"language": {"keep": []}})
        why.append(f"languages: {dropped}: all languages are kept")
    others = _count_other_languages(texts.to_pylist(), codes)
    if sum(others.values()) > few:
        vocabulary = _choose_vocabulary(others, len(codes))
        tables = merge_tables(tables, {"vocabulary": vocabulary})
        chosen = ", ".join(f"{key} = {to_toml(value)}" for key, value in vocabulary.items())
        why.append(f"texts not in English: a vocabulary of them keeps the marks of letters ({chosen})")
    if unjudged := sorted(code for code in others if code != UNKNOWN and not find_terms(code).stop_words):
        why.append(f"no table of stop words of {', '.join(unjudged)}: not judged by stop words and lengths of words")
    off = _find_strict_rules(texts, choose_rule_languages(codes, (whole if dropped else settings).language), settings)
    longest = settings.rules.gopher.max_words
    too_long = sum(len(r.text) > longest and count_words(r.text) > longest for r in records) / len(records)
    if too_long > MAX_DROPPED_SHARE and settings.rules.gopher.enabled:
        off["gopher.max_words"] = (OFF_VALUES["gopher.max_words"], too_long)
    switched = dict[str, Any]()
    for key, (value, _) in off.items():
        apply_override(switched, f"rules.{key}", value)
    tables = merge_tables(tables, switched)
    if off:
        most = sorted(off.items(), key=lambda rule: -rule[1][1])
        listed = ", ".join(f"{key} ({share:.0%} of them)" for key, (_, share) in most[:MAX_NAMED_RULES])
        more = f" and {len(off) - MAX_NAMED_RULES} more" if len(off) > MAX_NAMED_RULES else ""
        why.append(f"rules switched off that would drop much: {listed}{more}")
    return replace(fitted, looked_at=len(parts), why=tuple(why), tables=tables)


def _describe_other_languages(codes: Sequence[str], settings: LanguageSettings, few: float) -> str:
    """Format the most frequent languages of the texts with their shares, as in "de 60%, en 40%".

    Returns "" if at most `few` texts would be dropped for their language.

    Args:
        codes: Language code of each text.
        settings: The languages that are kept.
        few: Number of dropped texts that need not be described.
    """
    counts = Counter(codes) if settings.keep else Counter[str]()
    dropped = sum(count for code, count in counts.items() if code not in (*settings.keep, UNKNOWN))
    if dropped <= few:
        return ""
    named = [(code, count / len(codes)) for code, count in counts.most_common() if code != UNKNOWN]
    return ", ".join(f"{code} {share:.0%}" if share >= 0.01 else f"{code} <1%" for code, share in named[:3])


def _count_other_languages(texts: Sequence[str], codes: Sequence[str]) -> Counter[str]:
    """Count the texts that are not in English, by language code. `codes` has the language code of each text.

    Texts in an unknown language are only counted if they contain letters with diacritical marks.
    """
    pairs = zip(texts, codes, strict=True)
    return Counter(code for text, code in pairs if code != ENGLISH and (code != UNKNOWN or _has_marks(text)))


def _choose_vocabulary(others: Counter[str], num_texts: int) -> dict[str, Any]:
    """Choose the settings of a vocabulary for texts in languages other than English.

    Diacritical marks are kept, because they distinguish words. Capitals are kept too if a language has two letters with
    the same capital I. If many texts are in a language without spaces, such as Thai, the algorithm is unigram, because
    WordPiece treats everything between two spaces as a word, and long words as unknown. (It does split Chinese and
    Japanese text at each ideograph.) Chinese, Japanese and Korean get a larger alphabet. Each Korean letter is two
    tokens: one for the beginning of a word, and one for its inside.

    Args:
        others: Number of texts by language.
        num_texts: Total number of texts.

    Returns:
        The settings for the recipe's table `[vocabulary]`, by key.
    """
    whole = sum(others[code] for code in SPACELESS - {"ja", "zh"}) > MAX_DROPPED_SHARE * num_texts
    algorithm: dict[str, Any] = {"algorithm": UNIGRAM} if whole else {}
    if many := others.keys() & {"ja", "zh", "ko"}:
        letters = {"limit_alphabet": 3_900 if "ko" in many else 5_000}
        algorithm |= {"character_coverage": 0.9995} if whole else letters
    return algorithm | ({"lowercase": False} if LANGUAGES_WITH_TWO_I & others.keys() else {}) | {"strip_accents": False}


def _has_marks(text: str) -> bool:
    """Return True if more than MIN_MARKED_SHARE of a text's characters are diacritical marks, such as accents."""
    marks = sum(unicodedata.category(letter) == "Mn" for letter in unicodedata.normalize("NFD", text))
    return marks > MIN_MARKED_SHARE * len(text)


def _find_strict_rules(
    texts: pa.Array, languages: Sequence[str], settings: DocumentsSettings
) -> dict[str, tuple[Any, float]]:
    """Find the document rules that would drop more than MAX_DROPPED_SHARE of the texts.

    Args:
        texts: The texts, an Arrow array of strings.
        languages: The language code of each text, which selects the rules to apply.
        settings: Settings of the rules.

    Returns:
        For each of these rules, by its setting: the value that disables it, and the share of the texts that it drops.
    """
    off_values: dict[str, tuple[Any, float]] = {}
    for reason, rows in (find_failures(texts, settings.rules, languages) if len(texts) else {}).items():
        share, off = float(rows.mean()), find_off_setting(reason)
        if share > MAX_DROPPED_SHARE and off is not None:
            off_values[off[0]] = (off[1], max(share, off_values.get(off[0], (0, 0.0))[1]))
    return off_values
