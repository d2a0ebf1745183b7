"""A rule that drops a large part of a source stops the run, and shows what it dropped.

A corpus that lost a fifth of a source to one rule is seldom what its builder wanted: the rules' thresholds are those
of papers on web pages, and notes, poems or tables are none. The run ends before anything is built on such documents;
they stay in the store, so looking at them, and going on with another bound, parses nothing again.

Promises: all sources and all their rules are told at once, those too that would drop as much once the first are
loosened, and so are sources with too many damaged records. A small source is warned of what would stop a larger one.
Costs: nothing where no rule is over its bound; else a look at `LOOKED_AT` documents of each source that is told of.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from shlex import quote

import pyarrow as pa

from corpora.errors import InputError
from corpora.judging.batch_state import BatchState
from corpora.judging.batches import judge_records
from corpora.judging.documents import RuleOverLimit, check_damage, rules_over_limit
from corpora.judging.inputs import read_inputs
from corpora.judging.samples import sample_records
from corpora.judging.steps.rules import failures, switched_off
from corpora.schema import DROPPED, dropped_rows
from corpora.sources.contract import RawFile, Record
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.tables import read_table
from flows.recipes.privacy import Privacy
from flows.recipes.recipe import SourceEntry
from flows.recipes.tables import key_of_source

SHOWN = 3  # samples of a rule
LOOKED_AT, LOOKED_AT_BYTES = 200, 4_000_000
FILES_LOOKED_INTO = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSource:
    """A source of a generation and its documents. files: those that it read; quarantine: records it did not."""

    entry: SourceEntry
    manifest: Manifest
    files: tuple[RawFile, ...]
    quarantine: tuple[str, ...] = ()


def refuse_bad_sources(
    place: Place, judged: Sequence[JudgedSource], samples: str, tell: Callable[[str], None] = lambda line: None
) -> None:
    """Raise one InputError for all sources that are damaged beyond their bound, or lose too much to a rule.

    samples: the recipe's `privacy.samples`, for the texts that are shown. tell: hears of small sources
    """
    said = [fault for source in judged if (fault := _damage(place, source))]
    stopping, keys = [], dict[str, None]()
    for source in judged:
        over = rules_over_limit(source.manifest, source.entry.documents)
        later = _later_rules(source, over) if over else []
        sets = _sets(source, [rule.reason for rule in over if rule.step == "rules"] + [rule.reason for rule in later])
        if any(rule.stops for rule in over):
            said += [line for rule in over for line in _shown(place, source.manifest, rule, Privacy(samples))]
            said += [f"{rule}, once the above are loosened" for rule in later]
            stopping.append(source)
            keys |= dict.fromkeys(sets)
        elif over:
            tell(f"{'; '.join(map(str, [*over, *later]))}. To keep them: {' '.join(sets) or 'loosen these steps'}.")
    if stopping:
        said.append(_remedy(place, stopping, list(keys), samples))
    if said:
        raise InputError("\n".join(said))


def _damage(place: Place, source: JudgedSource) -> str:
    """What is said of a source with too many damaged records; "" where it has not."""
    try:
        check_damage(place, source.manifest, source.entry.documents)
    except InputError as error:
        return str(error)
    return ""


def _shown(place: Place, manifest: Manifest, rule: RuleOverLimit, privacy: Privacy) -> list[str]:
    """A rule and the first documents that it dropped."""
    rows = dropped_rows(read_table(place, manifest, "dropped", DROPPED.names))
    first = islice((row for row in rows if (row.step, row.reason) == (rule.step, rule.reason)), SHOWN)
    shown = [f"    {privacy.where(row.locator)}  {privacy.show(row.excerpt)}".rstrip() for row in first]
    return [f"{rule}, such as", *shown]


def _remedy(place: Place, stopping: Sequence[JudgedSource], sets: Sequence[str], samples: str) -> str:
    """What mends it, for all sources and rules together."""
    bounds = ", ".join(sorted({f"{source.entry.documents.max_rule_share:.0%}" for source in stopping}))
    hint = "" if samples == "text" else " To read the texts: --set privacy.samples=text."
    loosened = f" These options switch the rules off:\n    {' '.join(sets)}\n" if sets else " "
    folders = dict.fromkeys(quote(place.at(source.manifest.folder)) for source in stopping)
    inspected = ", ".join(f"`cloze inspect {folder}`" for folder in folders)
    return (
        f"A rule may drop {bounds} of a source (documents.max_rule_share). If these texts do not belong in the corpus, "
        "raise that bound for the source; if they do, loosen the rules named above for it, with --set or under its "
        f"[[source]].{loosened}More of the texts: {inspected}.{hint}"
    )


def _sets(source: JudgedSource, reasons: Sequence[str]) -> list[str]:
    """The options that switch rules off for a source."""
    name = key_of_source(source.entry.source.name)
    off = dict.fromkeys(found for reason in reasons if (found := switched_off(reason)) is not None)
    return [f"--set {quote(f'source.{name}.rules.{key}={json.dumps(value)}')}" for key, value in off]


def _later_rules(source: JudgedSource, over: Sequence[RuleOverLimit]) -> list[RuleOverLimit]:
    """The rules that drop little only because those before them drop much, by a look at some documents."""
    texts = _before_rules(source)
    known, bound = {rule.reason for rule in over}, source.entry.documents.max_rule_share
    failed = failures(texts, source.entry.documents.rules) if len(texts) else {}
    counts = {name: int(rows.sum()) for name, rows in failed.items() if name not in known}
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


def _before_rules(source: JudgedSource) -> pa.Array:
    """Some documents of a source as the rules see them; none of what cannot be read here any more."""
    texts, judging = pa.array([], pa.large_string()), True

    def watch(step: str, batch: BatchState) -> None:
        nonlocal texts, judging
        judging = judging and step != "rules"
        texts = batch.texts if judging else texts

    settings = source.entry.documents
    records = _first_records(source)
    if records:
        judge_records(records, source.manifest.name, settings, read_inputs(settings), watch)
    return texts


def _first_records(source: JudgedSource) -> list[Record]:
    """Some records of a source, which workers have read before."""
    files = [file for file in source.files if file.path][:FILES_LOOKED_INTO]
    records: list[Record] = []
    size = 0
    for record in sample_records(source.entry.source, files, lambda fault: None, source.quarantine):
        records.append(record)
        size += len(record.text)
        if len(records) == LOOKED_AT or size >= LOOKED_AT_BYTES:
            break
    return records
