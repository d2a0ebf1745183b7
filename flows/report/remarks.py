"""Remarks about a run: what is wrong or worth a look, at the head of its page, before any table.

Promise: wrong is a count that does not add up, a bound that is crossed, damage that was met, or a run
that did not end. Worth a look is everything that a run did without (files, records), and figures that moved far from
those of the run before.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from corpora.judging.batches import NO_TABLE
from corpora.judging.steps.language import KNOWN, UNKNOWN
from corpora.text.counts.languages import ENGLISH
from flows.recipes.settings.privacy import visible
from flows.report.compared import Compared, by_source, change_text, figure_text, parted
from flows.report.run import RunView
from flows.run.faults.skipped_files import left_out_files
from flows.run.record.counts_text import counted
from flows.run.record.example_shares import telling_looks, warnings_of
from flows.run.record.figures import SHARE, Change
from flows.run.record.ledger_balance import Accounts, of_kind

POINTS = 0.05  # that a share moves
RELATIVE = 0.2  # that a mean moves, relative to itself
MOVED = 6  # figures listed
# Figures that indicate another kind of data, and not only more of it.
_TELLING = ("dropped share", "duplicate share", "language share", "mean tokens a document", "mean bytes a document",
            "tokens a word", "unknown token share", "held-out loss")  # fmt: skip
OTHER_LANGUAGES = 0.02  # of all documents: fewer hardly matter to a vocabulary
UNJUDGED = 0.01  # of a source's documents: fewer are not worth a remark
MESSAGE_CHARACTERS = 300
NAME_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something to know before the rest. wrong: else only worth a look; part: of the page, where more of it is"""

    wrong: bool
    text: str
    part: str


def _look(part: str, text: str) -> Remark:
    return Remark(wrong=False, text=text, part=part)


def remarks_on(run: RunView, accounts: Accounts, compared: Compared | None) -> list[Remark]:
    """Return all remarks, what is wrong first."""
    remarks = [
        *_accounts(accounts),
        *(Remark(wrong=True, text=f"A bound is crossed: {line}.", part="compared") for line in run.record.crossed),
        *_damage(run),
        *_left_out(run),
        *_unjudged(run),
        *_stripped(run),
        *_notices(run),
        *_training(run),
        *_examples(run),
        *((*_sources(compared), *_moved(compared)) if compared is not None else ()),
    ]
    return sorted(remarks, key=lambda remark: not remark.wrong)


def _accounts(accounts: Accounts) -> Iterator[Remark]:
    for line in accounts.wrong:
        yield Remark(wrong=True, text=f"The ledger does not balance: {line}.", part="ledger")


def _damage(run: RunView) -> Iterator[Remark]:
    """Yield files of the store that were damaged, and records that could not be read."""
    for stage in run.record.stages:
        if "damaged" in stage.reason:
            said_why = visible(stage.reason, MESSAGE_CHARACTERS)
            yield _look("times", f"{stage.kind}/{stage.name} was damaged and has been built again ({said_why}).")
    for manifest in run.parsed:
        if number := manifest.ledger.figures.get("damaged records", 0):
            total = manifest.ledger.find_account("records").total
            share = figure_text(number / total, SHARE, "records") if total else "-"
            yield _look("losses", f"{manifest.name}: {counted(number, 'record')} could not be read ({share}).")


def _left_out(run: RunView) -> Iterator[Remark]:
    """Yield what the run left out."""
    parsed = of_kind(run.manifests, "documents")
    if files := len(left_out_files(run.lock, parsed)):
        yield _look("in", f"{counted(files, 'raw file')} could not be read and left out.")
    if records := len({place for manifest in parsed for place in manifest.settings.get("quarantine", ())}):
        yield _look("losses", f"{counted(records, 'record')} in quarantine: they ended worker processes.")


def _unjudged(run: RunView) -> Iterator[Remark]:
    """Yield the sources with documents in languages that have no table of words."""
    for manifest in run.parsed:
        figures = manifest.ledger.figures.items()
        found = {name.removeprefix(NO_TABLE): n for name, n in figures if n and name.startswith(NO_TABLE)}
        total, known = sum(found.values()), sorted(found.keys() - {UNKNOWN}, key=lambda code: -found[code])
        if known and total > UNJUDGED * manifest.count_rows("documents"):
            listed = ", ".join(f"{code} ({found[code]:,})" for code in known[:MOVED])
            yield _look(
                "losses",
                f"{manifest.name}: there is no table of stop words for {listed}: these documents were not judged by "
                "stop words, nor by the mean length of their words.",
            )


def _stripped(run: RunView) -> Iterator[Remark]:
    """Yield the vocabularies that take the marks off words of other languages than English."""
    shares = {parted(name): figure.value for name, figure in (run.figures or {}).items()}
    others = {
        code: share
        for (what, of, code), share in shares.items()
        if (what, of) == ("language share", "") and code in KNOWN - {ENGLISH}
    }
    stripping = [
        manifest
        for manifest in run.of_each("vocabularies").values()
        if manifest.settings.get("strip_accents", manifest.settings.get("lowercase"))
    ]
    for manifest in stripping if sum(others.values()) > OTHER_LANGUAGES else ():
        listed = ", ".join(sorted(others, key=lambda code: -others[code])[:MOVED])
        yield _look(
            "vocabularies",
            f"{manifest.stage_folder} takes the marks off letters, which tell words apart in {listed}: to keep them, "
            "set strip_accents = false in [vocabulary].",
        )


def _notices(run: RunView) -> Iterator[Remark]:
    for manifest in run.manifests:
        if notice := manifest.facts.get("notice"):
            part = "training" if manifest.kind == "models" else "vocabularies"
            yield _look(part, f"{manifest.stage_folder}: {visible(str(notice), MESSAGE_CHARACTERS)}")


def _examples(run: RunView) -> Iterator[Remark]:
    """Yield shard sets whose labels can be guessed without reading, and those without much of their text."""
    figures = run.figures or {}
    for text in telling_looks({name: figure.value for name, figure in figures.items()}):
        yield _look("out", text)
    for text in (text for shards in run.of_each("shards").values() for text in warnings_of(shards)):
        yield _look("out", text)


def _training(run: RunView) -> Iterator[Remark]:
    """Yield a model that has learnt no more than the frequency of tokens."""
    figures = run.figures
    for name, figure in figures.items() if figures is not None else ():
        what, of, _ = parted(name)
        entropy = figures.get(name.replace("loss", "unigram entropy")) if figures is not None else None
        if what == "held-out loss" and entropy is not None and figure.value >= entropy.value:
            model = f"the model {of}" if of else "the model"
            text = (
                f"On held-out text {model} scores {figure.value:.3f} nats, no better than guessing by frequency "
                f"({entropy.value:.3f})."
            )
            yield _look("training", text)


def _sources(compared: Compared) -> Iterator[Remark]:
    """Yield sources that are new, and those that are gone."""
    files = {source: row["raw files"] for source, row in by_source(compared.changes, ("raw files",)).items()}
    kinds = {"new": [s for s, f in files.items() if not f.before], "gone": [s for s, f in files.items() if not f.after]}
    for what, names in kinds.items():
        if names:
            shown = ", ".join(visible(name, NAME_CHARACTERS) for name in names[:MOVED])
            more = f" and {len(names) - MOVED:,} more" if len(names) > MOVED else ""
            text = f"{counted(len(names), 'source')} {'is' if len(names) == 1 else 'are'} {what}: {shown}{more}."
            yield _look("compared", text)


def _moved(compared: Compared) -> Iterator[Remark]:
    """Yield figures far from those of the run before, those that moved most first."""
    telling = [change for change in compared.changes if parted(change.name)[0] in _TELLING]
    far = [change for change in telling if _distance(change) >= (POINTS if change.kind == SHARE else RELATIVE)]
    moved = sorted(far, key=_distance, reverse=True)
    for change in moved[:MOVED]:
        before, after = (figure_text(value, change.kind, change.unit) for value in (change.before, change.after))
        yield _look("compared", f"{change.name}: {before} in the run before, {after} now ({change_text(change)}).")
    if more := len(moved[MOVED:]):
        yield _look("compared", f"{counted(more, 'more figure')} moved as far.")


def _distance(change: Change) -> float:
    """Return how far a figure moved: a share in points, a mean relative to itself."""
    return abs((change.change if change.kind == SHARE else change.relative) or 0.0)
