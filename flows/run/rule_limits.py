"""A rule that drops a large part of a source stops the run, and shows what it dropped.

A corpus that lost a fifth of a source to one rule is seldom what its builder wanted: the rules' thresholds are those
of papers on web pages, and notes, poems or tables are none. The run ends before anything is built on such documents;
they stay in the store, so looking at them, and going on with another bound, parses nothing again.
"""

from itertools import islice
from shlex import quote

from corpora.errors import InputError
from corpora.judging.documents import RuleOverLimit, rules_over_limit
from corpora.judging.settings import DocumentsSettings
from corpora.schema import DROPPED, dropped_rows
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.tables import read_table
from flows.recipes.privacy import Privacy

SHOWN = 3  # samples of a rule


def refuse_rules_over_limit(place: Place, manifest: Manifest, settings: DocumentsSettings, samples: str) -> None:
    """Raise InputError where a rule dropped more of a source than `documents.max_rule_share` allows.

    samples: the recipe's `privacy.samples`, for the texts that are shown
    """
    found = rules_over_limit(manifest, settings)
    hint = "" if samples == "text" else " To read the texts: --set privacy.samples=text."
    if found:
        said = "\n".join(line for rule in found for line in _said(place, manifest, rule, Privacy(samples)))
        address = quote(place.at(manifest.folder))
        raise InputError(
            f"{said}\nA rule may drop {found[0].bound:.0%} of a source (documents.max_rule_share). If these texts do "
            "not belong in the corpus, raise that bound for this source; if they do, loosen the rule for it, as in "
            f"rules.gopher.min_words = 10 under its [[source]].{hint} `cloze inspect {address}` shows more of them."
        )


def _said(place: Place, manifest: Manifest, rule: RuleOverLimit, privacy: Privacy) -> list[str]:
    """A rule and the first documents that it dropped."""
    rows = dropped_rows(read_table(place, manifest, "dropped", DROPPED.names))
    first = islice((row for row in rows if (row.step, row.reason) == (rule.step, rule.reason)), SHOWN)
    shown = [f"    {privacy.where(row.locator)}  {privacy.show(row.excerpt)}".rstrip() for row in first]
    return [f"{rule}, such as", *shown]
