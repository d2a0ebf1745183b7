"""The defaults of `--source FOLDER`, fitted to a sample of its texts, so that a first run completes.

The rules are those of papers on web pages. They do not suit tickets, contracts, log lines, source code and languages
other than English, and a rule that is not made for a text drops all of it. So a sample from all over the folder is
examined first: the template that fits the texts gives its rules, a rule that would still drop more than MOST_DROPPED
of the sample is switched off, and if texts are in languages other than English, all languages are kept.

Promises: the same folder gets the same defaults on every machine, because no clock limits the sample. Each rule that is
switched off is reported with how much it would have dropped. Settings that the user gives (`--set`) take precedence. A
folder of which nothing can be read is left to the run, which reports it.
Cost: one to four seconds of processor time if the folder is large; nothing is written.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.errors import FileFault, InputError
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.language import UNKNOWN, LanguageSettings, detect, judged_languages
from corpora.judging.steps.rules import failures, switched_off
from corpora.sources.contract import RawFile, Record, Source, readable, unhashed_files
from flows.recipes.guesses.fields import guess_new, with_names, without_text
from flows.recipes.guesses.fitted_defaults import Fitted, with_chosen
from flows.recipes.guesses.template_hint import fitting_template
from flows.recipes.lock import files_of, read_lock
from flows.recipes.new_recipe import template_tables
from flows.recipes.recipe import Recipe, folder_recipe, parse_recipe, resolved_source, shortened, with_overrides
from flows.recipes.tables import merged_tables
from flows.run.estimates.sampling import sample_source
from flows.run.faults.rule_limits import texts_before_rules

MOST_DROPPED = 0.1  # of the sample by a rule: half of what stops a run
OTHER_LANGUAGES = 0.02  # of the texts; from this share on all languages are kept
LOOKED_AT, CHARACTERS = 400, 1_000_000
READ_BYTES = 1_000_000  # of records, of a folder of less than a hundred times as much
KINDS = {
    **{"tickets": "short texts", "legal": "legal texts", "books": "books", "patents": "patents", "chats": "chats"},
    **{"clinical": "clinical notes", "biomedical": "biomedical texts"},
}
SHOWN = 4  # rules that are named
OWNER = re.compile(r'^path = "([^"\\]+)"', re.MULTILINE)  # the folder of a recipe that was written here
OF_TEMPLATES = ("rules", "documents", "duplicates")


def recipe_of_folder(source: Path | str, store: Path, overrides: Mapping[str, str]) -> Recipe:
    """Return the recipe of a folder, as its lock has decided it, or fitted to its texts now. Raises InputError.

    source:    the folder, a file, a glob or the address of objects
    overrides: of `--set`, over those that the lock remembers
    """
    where = resolved_source(source)
    if readable(where) != where:
        raise InputError(
            f"--source {readable(where)}: the path of this folder is not UTF-8, so no recipe names it. Rename it."
        )
    path = _recipe_path(Path(where), store / "recipes")
    lock = read_lock(path.with_suffix(".lock"))

    def parse(fitted: Fitted) -> Recipe:
        plain = folder_recipe(source, str(store), fitted)
        name = parse_recipe(plain, path, {}).sources[0].source.name
        chosen = with_chosen(lock.chosen, overrides, name)
        return replace(
            parse_recipe(plain, path, chosen),
            text=with_overrides(plain, chosen),
            fitted=fitted if fitted.looked_at or not lock.generations else None,
            chosen=chosen,
            replaces=with_overrides(plain, lock.chosen),
        )

    if lock.fitted is None and lock.generations:
        return parse(Fitted())
    if lock.fitted is not None and lock.fitted.looked_at:
        return parse(lock.fitted)
    plain = parse(Fitted())
    records = _sample(plain)
    if not records:
        return plain
    first = _by_template(records)
    settings = parse(first).sources[0].documents
    return parse(_by_judging(records, settings, first))


def _recipe_path(folder: Path, recipes: Path) -> Path:
    """Return where a folder's recipe is: under its name, or that and a digest if the name is another folder's.

    A folder that is gone has moved, and is the one that now has its name.
    """
    path = recipes / f"{shortened(folder.name)}.toml"
    owner = OWNER.search(path.read_text("utf-8", "replace")) if path.exists() else None
    if owner is None or owner[1] == folder.as_posix() or not Path(owner[1]).exists():
        return path
    return path.with_stem(f"{path.stem}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}")


def _sample(recipe: Recipe) -> list[Record]:
    """Sample records from all over a folder, but none of files that cannot be read."""
    [entry] = recipe.sources
    files = unhashed_files(files_of(entry, recipe))
    kept, guesses = guess_new([entry.source], {}, [], {entry.source.name: files})
    without = without_text(guesses).get(entry.source.name, set())
    names = [name.name for name in kept.get(entry.source.name, ())]
    left = [file for file in files if file.path not in without and file.size_bytes]
    records = _read(with_names(entry.source, names), left)
    return records[:: max(1, -(-len(records) // LOOKED_AT), -(-sum(len(r.text) for r in records) // CHARACTERS))]


def _read(source: Source, files: Sequence[RawFile]) -> list[Record]:
    """Read the records of a sample that hold a text."""
    while files:
        try:
            sample = sample_source(source, files, math.inf, READ_BYTES)
        except FileFault as fault:  # these cannot be cut; a run leaves them out
            cut = {each.path for each in (fault, *fault.others)}
            files = [file for file in files if file.path not in cut]
        else:
            return [r for r in sample.sampled if r.drop is None and r.text.strip()]
    return []


def _by_template(records: Sequence[Record]) -> Fitted:
    """Fit the template that the texts look like."""
    match = fitting_template([record.text for record in records])
    if match is None:
        return Fitted(looked_at=len(records))
    template, sign = match
    tables = {name: table for name, table in template_tables(template).items() if name in OF_TEMPLATES}
    why = f"{KINDS[template]} ({sign}): rules of the template `{template}`"
    return Fitted(looked_at=len(records), why=(why,), tables=tables)


def _by_judging(records: Sequence[Record], settings: DocumentsSettings, fitted: Fitted) -> Fitted:
    """Extend what is fitted: switch off the rules that would drop much of the sample, and keep its languages."""
    whole = replace(settings, language=replace(settings.language, keep=()))
    texts = texts_before_rules(records, "sample", whole)
    tables, why = dict(fitted.tables), [*fitted.why]
    codes = detect(texts, settings.language)
    if others := _other_languages(codes, settings.language):
        tables = merged_tables(tables, {"language": {"keep": []}})
        why.append(f"languages: {others}: all languages are kept")
    off = _too_strict(texts, judged_languages(codes, (whole if others else settings).language), settings)
    for key, (value, _) in off.items():
        tables = merged_tables(tables, {"rules": _nested(key, value)})
    if off:
        most = sorted(off.items(), key=lambda rule: -rule[1][1])
        listed = ", ".join(f"{key} ({share:.0%} of them)" for key, (_, share) in most[:SHOWN])
        more = f" and {len(off) - SHOWN} more" if len(off) > SHOWN else ""
        why.append(f"rules switched off that would drop much: {listed}{more}")
    return replace(fitted, why=tuple(why), tables=tables)


def _other_languages(codes: Sequence[str], settings: LanguageSettings) -> str:
    """Name the languages of texts, if more than a few texts are in languages that are not kept; else ""."""
    counts = Counter(codes) if settings.keep else Counter[str]()
    dropped = sum(count for code, count in counts.items() if code not in (*settings.keep, UNKNOWN))
    if dropped <= OTHER_LANGUAGES * len(codes):
        return ""
    named = [(code, count) for code, count in counts.most_common() if code != UNKNOWN]
    return ", ".join(f"{code} {count / len(codes):.0%}" for code, count in named[:3])


def _too_strict(texts: pa.Array, languages: Sequence[str], settings: DocumentsSettings) -> dict[str, tuple[Any, float]]:
    """Return, by setting, the value that switches a rule off, and the share of the texts that the rule would drop."""
    off_values: dict[str, tuple[Any, float]] = {}
    for reason, rows in (failures(texts, settings.rules, languages) if len(texts) else {}).items():
        share, off = float(rows.mean()), switched_off(reason)
        if share > MOST_DROPPED and off is not None:
            off_values[off[0]] = (off[1], max(share, off_values.get(off[0], (0, 0.0))[1]))
    return off_values


def _nested(key: str, value: Any) -> dict[str, Any]:
    """A value under a dotted key.

    >>> _nested("gopher.min_words", 0)
    {'gopher': {'min_words': 0}}
    """
    first, _, rest = key.partition(".")
    return {first: _nested(rest, value) if rest else value}
