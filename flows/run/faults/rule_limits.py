"""A rule that drops a large part of a source stops the run, and shows what it dropped.

A corpus that lost a fifth of a source to one rule is seldom what its builder wanted: the rules' thresholds are those of
papers on web pages, and do not suit notes, poems or tables. The run ends before anything is built on such documents.
They stay in the store, so inspecting them, and continuing with another bound, parses nothing again.

Promises: all sources and all their rules are reported at once, including rules that would drop as much once the first
are loosened, and sources with too many damaged records. A small source gets a warning if a larger one would stop.
Costs: nothing if no rule is over its bound; else a look at `MAX_DOCUMENTS` documents of each reported source.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from shlex import quote

import pyarrow as pa

from corpora.errors import InputError
from corpora.judging.batch_state import BatchState
from corpora.judging.batches import judge_records
from corpora.judging.documents import RuleOverLimit, check_damage, count_damaged, find_rules_over_limit, pool_counts
from corpora.judging.inputs import read_inputs
from corpora.judging.samples import sample_records
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.language import choose_rule_languages, detect_languages
from corpora.judging.steps.rules import find_failures, find_off_setting
from corpora.schema import DROPPED, iter_dropped
from corpora.sources.contract import RawFile, Record, Tally
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.tables import read_table
from flows.recipes.guessed_fields import choose_template
from flows.recipes.privacy import Privacy
from flows.recipes.recipe import SourceEntry
from flows.recipes.tables import join_key, to_toml

MAX_SHOWN = 3  # samples of a rule
MAX_DOCUMENTS, MAX_CHARACTERS = 200, 4_000_000
MAX_FILES = 50
MAX_REASONS = 5
TOO_LARGE = "dropped: parse: too large"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSource:
    """The documents that were parsed from a source in one generation (the raw files that one run added).

    Attributes:
        entry: The source and its settings.
        manifest: Description of the stored documents.
        files: The raw files that were read.
        quarantine: Records that are skipped because they crash worker processes.
        generation: One-based number of the generation.
    """

    entry: SourceEntry
    manifest: Manifest
    files: tuple[RawFile, ...]
    quarantine: tuple[str, ...] = ()
    generation: int = 1


class RefusedSources(InputError):
    """Raised when too many records of a source are damaged or dropped.

    Args:
        text: The error message.
        damaged: The sources with too many damaged records.
    """

    def __init__(self, text: str, damaged: Sequence[JudgedSource] = ()) -> None:
        super().__init__(text)
        self.damaged = tuple(damaged)


def refuse_bad_sources(
    place: Place,
    judged: Sequence[JudgedSource],
    samples: str,
    tell: Callable[[str], None] = lambda line: None,
    accepted: int = 0,
) -> None:
    """Check that no source loses too many records to damage or to filter rules.

    Args:
        place: The store.
        judged: The sources of all generations (the raw files that one run added) with their documents, oldest first.
        samples: The recipe's `privacy.samples`, for the texts shown in the message.
        tell: Called with a warning about each source that is too small to stop the run.
        accepted: One-based number of the last generation with accepted damage. Damage is not checked up to this
            generation.

    Raises:
        RefusedSources: If a source exceeds a limit set in the recipe, or no source has any document. The message covers
            all sources.
    """
    faults = _find_damage(place, judged, accepted)
    damaged, lines = [source for source, _ in faults], [line for _, line in faults]
    stopping, keys = [], dict[str, None]()
    counts: dict[str, list[Counter[str]]] = {}
    for source in judged:
        so_far = counts.setdefault(source.manifest.name, [])
        so_far.append(Counter(_get_outcomes(source)))
        over = _find_strict_rules(source, so_far)
        later = _find_later_rules(source, over) if over else []
        sets = _list_options(
            source, [rule.reason for rule in over if rule.step == "rules"] + [rule.reason for rule in later]
        )
        if any(rule.stops for rule in over):
            lines += [line for rule in over for line in _describe_rule(place, source.manifest, rule, Privacy(samples))]
            lines += [f"{rule}, once the above are loosened" for rule in later]
            stopping.append(source)
            keys |= dict.fromkeys(sets)
        elif over:
            tell(f"{'; '.join(map(str, [*over, *later]))}. To keep them: {' '.join(sets) or 'loosen these steps'}.")
    if stopping:
        lines.append(_describe_remedy(place, stopping, list(keys), samples))
    if not lines and judged and not any(source.manifest.count_rows("documents") for source in judged):
        lines = [_explain_empty(judged)]
    if lines:
        raise RefusedSources("\n".join(lines), damaged)


def _explain_empty(judged: Sequence[JudgedSource]) -> str:
    """Build the error message for a run in which no source has a document."""
    lost = [describe_empty_source(source.manifest.name, _get_outcomes(source)) for source in judged]
    text = "\n".join([*lost, "Without a document there is no corpus."])
    large = any(TOO_LARGE in _get_outcomes(source) for source in judged)
    remedy = " Raise documents.max_document_bytes and the source's max_record_bytes, or cut the files." if large else ""
    return f"{text}{remedy} `cloze preview` shows every step; add text, or loosen what drops it."


def describe_empty_source(source: str, outcomes: Mapping[str, int]) -> str:
    """Explain in one line why a source has no documents.

    Args:
        source: Name of the source.
        outcomes: Number of records by outcome, such as "dropped: parse: damaged".
    """
    most = sorted(outcomes.items(), key=lambda outcome: -outcome[1])[:MAX_REASONS]
    reasons = ", ".join(f"{outcome.removeprefix('dropped: ')} {count:,}" for outcome, count in most if count)
    return f"Source {source!r}: none of {sum(outcomes.values()):,} records is left ({reasons or 'none'})."


def _get_outcomes(source: JudgedSource) -> Mapping[str, int]:
    return source.manifest.ledger.find_account("records").outcomes


def _find_damage(place: Place, judged: Sequence[JudgedSource], accepted: int) -> list[tuple[JudgedSource, str]]:
    """Return the sources with too many damaged records, as (source, error message) pairs.

    Args:
        place: The store.
        judged: The sources of all generations (the raw files that one run added), oldest first.
        accepted: One-based number of the last generation with accepted damage. Generations up to this one are not
            checked.
    """
    found, counts = list[tuple[JudgedSource, str]](), dict[str, list[Counter[str]]]()
    for source in judged:
        earlier = counts.setdefault(source.manifest.name, [])
        try:
            if source.generation > accepted:
                check_damage(place, source.manifest, source.entry.documents, earlier)
        except InputError as error:
            found.append((source, str(error)))
        earlier.append(count_damaged(source.manifest, source.entry.documents))
    return found


def _find_strict_rules(source: JudgedSource, counts: Sequence[Counter[str]]) -> list[RuleOverLimit]:
    """Find the filter rules that drop too many of the documents that one run added to a source.

    A rule is only returned if it also drops too many of all documents of the source so far.

    Args:
        source: The source with the documents of this run.
        counts: Number of records by outcome, for each run that added documents, ending with this run.
    """
    name, settings = source.manifest.name, source.entry.documents
    own, together = (
        find_rules_over_limit(name, outcomes, settings)
        for outcomes in (counts[-1], pool_counts(counts, settings.rule_share_from))
    )
    stopping = {(rule.step, rule.reason) for rule in together if rule.stops}
    return [replace(rule, stops=rule.stops and (rule.step, rule.reason) in stopping) for rule in own]


def _describe_rule(place: Place, manifest: Manifest, rule: RuleOverLimit, privacy: Privacy) -> list[str]:
    """Describe a filter rule and the first MAX_SHOWN documents that it dropped, as a list of lines.

    Args:
        place: The store.
        manifest: Description of the parsed documents of a source.
        rule: The rule, with the number of documents that it dropped.
        privacy: Determines whether texts and file names are shown.
    """
    rows = iter_dropped(read_table(place, manifest, "dropped", DROPPED.names))
    first = islice((row for row in rows if (row.step, row.reason) == (rule.step, rule.reason)), MAX_SHOWN)
    shown = [f"    {privacy.format_locator(row.locator)}  {privacy.show(row.excerpt)}".rstrip() for row in first]
    return [f"{rule}, such as", *shown]


def suggest_template(texts: Sequence[str], source: str) -> str:
    """Suggest a recipe template for a source's texts in a sentence. Returns "" if the default rules suit them.

    Args:
        texts: A sample of the texts.
        source: Name of the source, for the sentence.
    """
    match = choose_template(texts)
    if match is None:
        return ""
    template, sign = match
    return (
        f"The texts of {source!r} could be {template} ({sign}): `cloze new NAME --template {template}` writes a recipe "
        "whose rules are for such."
    )


def _describe_remedy(place: Place, stopping: Sequence[JudgedSource], sets: Sequence[str], samples: str) -> str:
    """Explain, as a list of lines, how to change the recipe so that the reported sources and rules do not stop the run.

    Args:
        place: The store.
        stopping: The reported sources.
        sets: The `--set` options that disable the reported rules.
        samples: The recipe's `privacy.samples`. It determines whether texts are shown.
    """
    bounds = ", ".join(sorted({f"{source.entry.documents.max_rule_share:.0%}" for source in stopping}))
    hint = "" if samples == "text" else " To read the texts: --set privacy.samples=text."
    loosened = f" These options switch the rules off:\n    {' '.join(sets)}\n" if sets else " "
    folders = dict.fromkeys(quote(place.to_address(source.manifest.folder)) for source in stopping)
    inspected = ", ".join(f"`cloze inspect {folder}`" for folder in folders)
    hints = [suggest_template([r.text for r in _read_first_records(one)], one.manifest.name) for one in stopping]
    fits = "".join(f"{hint}\n" for hint in hints if hint)
    return fits + (
        f"A rule may drop {bounds} of a source (documents.max_rule_share). If these texts do not belong in the corpus, "
        "raise that bound for the source; if they do, loosen the rules named above for it, with --set or under its "
        f"[[source]].{loosened}More of the texts: {inspected}.{hint}"
    )


def _list_options(source: JudgedSource, reasons: Sequence[str]) -> list[str]:
    """Return the `--set` options that disable rules for a source, such as "--set source.news.rules.c4.enabled=false".

    Args:
        source: The source.
        reasons: Names of the rules, as in the stored record counts.
    """
    name = join_key([source.entry.source.name])
    off = dict.fromkeys(switch for reason in reasons if (switch := find_off_setting(reason)) is not None)
    return [f"--set {quote(f'source.{name}.rules.{key}={to_toml(value)}')}" for key, value in off]


def _find_later_rules(source: JudgedSource, over: Sequence[RuleOverLimit]) -> list[RuleOverLimit]:
    """Find rules that only drop few documents because earlier rules drop many. Each rule is applied to a sample.

    Args:
        source: The source.
        over: The rules that are already reported.

    Returns:
        The other rules that drop more than the allowed share of the sample, with the counts in the sample.
    """
    texts = judge_before_rules(_read_first_records(source), source.manifest.name, source.entry.documents)
    reported, bound = {rule.reason for rule in over}, source.entry.documents.max_rule_share
    settings = source.entry.documents
    languages = choose_rule_languages(detect_languages(texts, settings.language), settings.language)
    failed = find_failures(texts, settings.rules, languages) if len(texts) else {}
    counts = {name: int(rows.sum()) for name, rows in failed.items() if name not in reported}
    return [
        RuleOverLimit(
            source=source.manifest.name,
            step="rules",
            reason=name,
            dropped=count,
            documents=len(texts),
            bound=bound,
            stops=False,
        )
        for name, count in counts.items()
        if count > bound * len(texts)
    ]


@dataclass(slots=True)
class _BeforeRules:
    """Callback between filtering steps. It stores the texts of a batch before the rules are applied."""

    texts: pa.Array
    judging: bool = True

    def __call__(self, step: str, batch: BatchState) -> None:
        self.judging = self.judging and step != "rules"
        if self.judging:
            self.texts = batch.texts


def judge_before_rules(records: Sequence[Record], name: str, settings: DocumentsSettings) -> pa.Array:
    """Apply the filtering steps before the rules to some records.

    Args:
        records: The records.
        name: Name of the source.
        settings: Settings of the source's documents.

    Returns:
        The texts that are not dropped, as an Arrow string array in the order of the records.
    """
    seen = _BeforeRules(pa.array([], pa.large_string()))
    if records:
        judge_records([*records], name, settings, read_inputs(settings), seen)
    return seen.texts


def _read_first_records(source: JudgedSource) -> list[Record]:
    """Read up to MAX_DOCUMENTS records from the first MAX_FILES files of a source. Unreadable files are skipped."""
    files = [file for file in source.files if file.path][:MAX_FILES]
    records: list[Record] = []
    size = 0
    for record in sample_records(source.entry.source, files, lambda fault: None, Tally(source.quarantine)):
        records.append(record)
        size += len(record.text)
        if len(records) == MAX_DOCUMENTS or size >= MAX_CHARACTERS:
            break
    return records
