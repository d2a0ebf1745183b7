"""The head of the page: what is wrong, what was not read, what was held out, what the model learned, what was lost.

Promise: the first screen of a desktop shows whether anything is wrong, what was not read and held out, how the loss
compares with two that need no model, and the run as one picture. Long lists and tables show their first rows and a
link.

Remarks come before any table. Wrong is a count that does not add up, a limit that is exceeded, damage, or a run that
did not end. Worth a look is everything that a run did without (files, records), and figures that moved far from those
of the run before.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from corpora.judging.batches import NO_TABLE_PREFIX
from corpora.judging.steps.language import KNOWN_LANGUAGES, UNKNOWN
from corpora.text.counts.languages import ENGLISH
from flows.recipes.privacy import to_one_line
from flows.report.compared import RunComparison, format_change, format_figure, group_by_source, parse_figure_name
from flows.report.plots import draw_growth_chart
from flows.report.run import RunView, View
from flows.report.vocabularies import sum_by_generation
from flows.run.faults.skipped_files import list_left_out
from flows.run.record.counts_text import format_count
from flows.run.record.figures import COUNT, MEAN, SHARE, Change, compare_figures, find_figures_before
from flows.run.record.ledger_balance import Accounts, filter_kind, list_surface_warnings, list_warnings
from flows.run.record.task_scores import format_task_worth

FIRST_LOSSES, FIRST_SOURCES, FIRST_NOT_READ = 7, 8, 3
MAX_NAME_CHARACTERS, MAX_LINE_CHARACTERS = 80, 108
BARELY_NATS = 0.1  # nats below the unigram entropy
NEW = "new"
_GROWTH_UNITS = ("documents", "tokens")


def compare_with_previous(run: RunView) -> tuple[RunComparison | None, str]:
    """Compare the metrics of a run with those of the previous completed run of its recipe.

    Args:
        run: The run.

    Returns:
        The comparison and "", or None and a sentence that explains why there is no comparison.
    """
    if run.record.state != "completed":
        return None, "A run that did not come to its end is not compared."
    if run.figures is None:
        return None, "The artifacts of this run are not all in the store any more."
    heard: list[str] = []
    before = find_figures_before(run.place, run.record, heard.append)
    if before is None:
        said_why = " ".join(to_one_line(line, 300) for line in heard)
        return None, said_why or "There is no older run of this recipe in this store that came to its end."
    return RunComparison.from_figures(*before, run.figures), ""


def list_unread(run: RunView, lines: Sequence[str]) -> list[str]:
    """Return the first lines about raw files that were not read, shortened, followed by the number of other lines.

    If all files were read, the result is one line that says so. If the run did not look for files, it is [].

    Args:
        run: The run.
        lines: One line for each group of files that were not read.
    """
    if not lines:
        return ["No file: everything that the sources hold was read."] if run.record.inputs else []
    first = [to_one_line(line, MAX_LINE_CHARACTERS) for line in lines[:FIRST_NOT_READ]]
    more = len(lines) - FIRST_NOT_READ
    return [*first, *([f"And {format_count(more, 'line')} more."] if more > 0 else [])]


def describe_held_out(run: RunView) -> str:
    """Describe in a sentence how much text was held out for evaluation. Returns "" if nothing was tokenized."""
    tokens = next(iter(run.find_by_name("tokens").values()), None)
    if tokens is None:
        return ""
    figures = sum((Counter(part.ledger.figures) for part in tokens.parts), Counter[str]())
    documents, num_tokens = (figures[f"train {unit}"] + figures[f"held-out {unit}"] for unit in ("documents", "tokens"))
    if not figures["held-out documents"]:
        return f"Nothing: {_explain_none(run, documents)}, so no figure here is of text that a model has not read."
    share = format_figure(figures["held-out documents"] / documents, "share", "documents")
    number = format_count(figures["held-out documents"], "document")
    held_tokens = format_count(figures["held-out tokens"], "token")
    return f"{number} ({share}) with {held_tokens} of {num_tokens:,}, kept from training."


def _explain_none(run: RunView, documents: int) -> str:
    """Explain, as part of a sentence, why no document was held out.

    Args:
        run: The run.
        documents: The total number of documents.
    """
    verdicts = next(iter(run.find_by_name("verdicts").values()), None)
    share = verdicts.settings["held_out"]["share"] if verdicts is not None else 0.0
    if not share:
        return "every document may be trained on"
    return f"of {format_count(documents, 'document')} none fell into the share of {share:g} (raise held_out.share)"


def build_loss_view(training: View | None) -> View | None:
    """Compare the held-out loss with the losses of uniform guessing and of guessing by token frequency.

    Args:
        training: The template context from `build_training_view`; None if there is no model.

    Returns:
        The template context, or None if there is no model or nothing was held out. Its keys are "worth" (a sentence on
        whether training was worthwhile), "rows", "uniform" (the loss of uniform guessing), and those of
        `build_result_view`. A row has "name", "nats" (a loss), "among" (the equivalent number of equally likely tokens)
        and "bar" (a length in percent).
    """
    result = training["result"] if training is not None else None
    if training is None or result is None or result["entropy"] is None or not training["is_judged"]:
        return None
    uniform, entropy, loss = math.log(training["model"]["vocab_size"]), result["entropy"], result["loss"]
    first = training["first_loss"]
    rows = [
        ("knows nothing: all tokens alike", uniform),
        *([("this model before its first step", first)] if first is not None else []),
        ("knows only how frequent each token is", entropy),
        ("this model", loss),
    ]
    longest = max(nats for _, nats in rows if nats is not None)
    views = [
        {"name": name, "nats": x, "among": _format_choices(x), "bar": round(100 * (x or 0.0) / (longest or 1.0), 2)}
        for name, x in rows
    ]
    worth = _judge_loss(loss, uniform, entropy, result["accuracy"])
    return {"worth": worth, "rows": views, "uniform": uniform, **result}


def judge_worth(learned: View | None, tasks: Sequence[View]) -> str:
    """State whether training was worthwhile, based on a run's tasks or, if it has none, on the loss.

    Args:
        learned: The template context from `build_loss_view`.
        tasks: The template contexts from `build_task_views`.

    Returns:
        The answer and the reasons for it; "" if nothing is known.
    """
    if tasks:
        return format_task_worth([each for task in tasks for each in task["worth"]])
    return "" if learned is None else str(learned["worth"])


def _format_choices(nats: float | None) -> str:
    """Format the number of equally likely tokens that corresponds to a loss in nats. Returns "-" for None.

    It also returns "-" for a loss above 700 nats, because the number would be too large.
    """
    if nats is None or nats > 700:
        return "-"
    return f"{math.exp(nats):,.{0 if nats > math.log(10) else 1}f}"


def _judge_loss(loss: float | None, uniform: float, entropy: float, accuracy: float | None) -> str:
    """State in one sentence whether training was worthwhile.

    Args:
        loss: The model's held-out loss in nats; None if it is not a number.
        uniform: The loss of uniform guessing.
        entropy: The loss of guessing by token frequency.
        accuracy: The share of tokens that the model predicts correctly; None if unknown.
    """
    if loss is None:
        return "No: its loss is not a number."
    guessed = f"; its first guess is right for {100 * accuracy:.1f}%" if accuracy is not None else ""
    chosen = f"it chooses as if among {_format_choices(loss)} equally likely tokens"
    known = f"not {_format_choices(uniform)} (untrained) or {_format_choices(entropy)} (by frequency)"
    if loss >= uniform:
        return f"No: {chosen}, worse than the {_format_choices(uniform)} of a model that knows nothing."
    if loss >= entropy:
        return f"Not yet: {chosen}, and counting how frequent tokens are gives {_format_choices(entropy)}{guessed}."
    return f"{'Barely' if entropy - loss < BARELY_NATS else 'Yes'}: {chosen}, {known}{guessed}."


def build_growth_view(run: RunView) -> View | None:
    """Build the Jinja template context for what each generation (the raw files that one run added) added.

    Returns:
        A dict with the keys "added" (rows with "generation", "documents" and "tokens") and "svg" (a chart); None if
        there is only one generation.
    """
    tokens = next(iter(run.find_by_name("tokens").values()), None)
    added = [
        {"generation": number, **{of: figures[f"train {of}"] + figures[f"held-out {of}"] for of in _GROWTH_UNITS}}
        for number, figures in sum_by_generation(tokens).items()
    ]
    if len(added) < 2:
        return None
    return {"added": added, "svg": draw_growth_chart([row["tokens"] for row in added], "tokens")}


def build_reason_rows(losses: Sequence[tuple[str, int]], comparison: RunComparison | None) -> list[View]:
    """Build a row for each reason why records or documents were lost, in the order of `losses`.

    The keys of a row are "name" (the reason), "count", "bar" (length of a bar in percent), "change" (since the previous
    run, as text; "-" if unknown) and "moved" (True if the count differs from the previous run).

    Args:
        losses: Pairs of a reason and its count.
        comparison: Comparison with the previous run; None if there is none.
    """
    most = max((count for _, count in losses), default=1)
    rows = []
    for name, count in losses:
        change = comparison.changes_by_name.get(name) if comparison is not None else None
        changes = {"change": format_change(change) if change else "-", "moved": bool(change and change.change)}
        rows.append({"name": name, "count": count, "bar": round(100 * count / most, 2), **changes})
    return rows


def build_source_rows(run: RunView, comparison: RunComparison | None) -> list[View]:
    """Build a row for each source, largest first, with its files, records, documents and tokens and their changes.

    Sources of the previous run that this run lacks are included. The keys of a row are those of `_build_source_row`.
    The result is empty if the run's metrics are unknown.

    Args:
        run: The run.
        comparison: Comparison with the previous run; None if there is none.
    """
    if run.figures is None:
        return []
    changes = comparison.changes if comparison is not None else compare_figures({}, run.figures)
    rows = group_by_source(changes, ("raw files", "raw records", "documents", "tokens", "mean tokens a document"))
    ordered = sorted(rows.items(), key=lambda row: -_find_current(row[1], "documents"))
    return [_build_source_row(name, changes_of_source) for name, changes_of_source in ordered]


def _find_current(changes: Mapping[str, Change], what: str) -> float:
    """Return the later run's value of a metric, or 0 if it does not have the metric.

    Args:
        changes: Changes of a source's metrics, by quantity.
        what: The quantity, such as "documents".
    """
    return (changes[what].after or 0) if what in changes else 0


def _build_source_row(name: str, changes: Mapping[str, Change]) -> View:
    """Build the table row of one source. Its values are formatted as text.

    The keys are "name", "files", "records", "dropped", "documents", "documents_change", "tokens", "tokens_change" and
    "length" (mean tokens per document).

    Args:
        name: Name of the source.
        changes: Changes since the previous run, by quantity, such as "documents".
    """
    records, documents = _find_current(changes, "raw records"), _find_current(changes, "documents")
    tokens, length = changes.get("tokens"), changes.get("mean tokens a document")
    return {
        "name": to_one_line(name, MAX_NAME_CHARACTERS),
        "files": format_figure(_find_current(changes, "raw files"), COUNT, "files"),
        "records": format_figure(records, COUNT, "records"),
        "dropped": format_figure(records - documents, COUNT, "records"),
        "documents": format_figure(documents, COUNT, "documents"),
        "documents_change": format_change(changes["documents"]) if "documents" in changes else NEW,
        "tokens": format_figure(tokens.after if tokens else None, COUNT, "tokens"),
        "tokens_change": format_change(tokens) if tokens else "-",
        "length": format_figure(length.after if length else None, MEAN, ""),
    }


MIN_SHARE_CHANGE = 0.05  # that a share moves
MIN_MEAN_CHANGE = 0.2  # that a mean moves, relative to itself
MAX_LISTED = 6  # figures listed
# Figures that indicate another kind of data, and not only more of it.
_TELLING_FIGURES = (
    *("dropped share", "duplicate share", "language share", "mean tokens a document", "mean bytes a document"),
    *("tokens a word", "unknown token share", "held-out loss"),
)
MIN_OTHER_SHARE = 0.02  # of all documents: fewer hardly matter to a vocabulary
MIN_UNJUDGED_SHARE = 0.01  # of a source's documents: fewer are not worth a remark
MAX_MESSAGE_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A remark at the top of the page.

    Attributes:
        is_wrong: True for an error, False for something that may be worth checking.
        text: The remark, as a sentence.
        part: Id of the page section with the details.
    """

    is_wrong: bool
    text: str
    part: str


def _note(part: str, text: str) -> Remark:
    """Build a remark about something that is not an error.

    Args:
        part: Id of the page section with the details.
        text: The remark, as a sentence.
    """
    return Remark(is_wrong=False, text=text, part=part)


def list_remarks(run: RunView, accounts: Accounts, comparison: RunComparison | None) -> list[Remark]:
    """List all remarks on a run, errors first.

    Args:
        run: The run.
        accounts: Record counts of the run (read, and by outcome), and the counts that do not add up.
        comparison: Comparison with the previous run; None if there is none.
    """
    remarks = [
        *(Remark(is_wrong=True, text=f"The ledger does not balance: {x}.", part="ledger") for x in accounts.wrong),
        *(Remark(is_wrong=True, text=f"A bound is crossed: {line}.", part="compared") for line in run.record.crossed),
        *_note_damage(run),
        *_note_left_out(run),
        *_note_unjudged(run),
        *_note_stripped_accents(run),
        *_note_notices(run),
        *_note_training(run),
        *_note_examples(run),
        *((*_note_sources(comparison), *_note_changes(comparison)) if comparison is not None else ()),
    ]
    return sorted(remarks, key=lambda remark: not remark.is_wrong)


def _note_damage(run: RunView) -> Iterator[Remark]:
    """Yield remarks on damaged stage results that were rebuilt, and on records that could not be read."""
    for stage in run.record.stages:
        if "damaged" in stage.reason:
            said_why = to_one_line(stage.reason, MAX_MESSAGE_CHARACTERS)
            yield _note("times", f"{stage.kind}/{stage.name} was damaged and has been built again ({said_why}).")
    for manifest in run.parsed:
        if number := manifest.ledger.figures.get("damaged records", 0):
            total = manifest.ledger.find_account("records").total
            share = format_figure(number / total, SHARE, "records") if total else "-"
            yield _note("losses", f"{manifest.name}: {format_count(number, 'record')} could not be read ({share}).")


def _note_left_out(run: RunView) -> Iterator[Remark]:
    """Yield remarks on raw files that were skipped, and on records that were skipped because they crash workers."""
    parsed = filter_kind(run.manifests, "documents")
    if files := len(list_left_out(run.lock, parsed)):
        yield _note("in", f"{format_count(files, 'raw file')} could not be read and left out.")
    if records := len({place for manifest in parsed for place in manifest.settings.get("quarantine", ())}):
        yield _note("losses", f"{format_count(records, 'record')} in quarantine: they ended worker processes.")


def _note_unjudged(run: RunView) -> Iterator[Remark]:
    """Yield a remark on each source with documents in languages that have no table of stop words.

    Sources with few such documents are not mentioned.
    """
    for manifest in run.parsed:
        figures = manifest.ledger.figures.items()
        found = {name.removeprefix(NO_TABLE_PREFIX): n for name, n in figures if n and name.startswith(NO_TABLE_PREFIX)}
        total, known = sum(found.values()), sorted(found.keys() - {UNKNOWN}, key=lambda code: -found[code])
        if known and total > MIN_UNJUDGED_SHARE * manifest.count_rows("documents"):
            listed = ", ".join(f"{code} ({found[code]:,})" for code in known[:MAX_LISTED])
            yield _note(
                "losses",
                f"{manifest.name}: there is no table of stop words for {listed}: these documents were not judged by "
                "stop words, nor by the mean length of their words.",
            )


def _note_stripped_accents(run: RunView) -> Iterator[Remark]:
    """Yield a remark on each vocabulary that removes accents although many documents are not in English."""
    shares = {parse_figure_name(name): figure.value for name, figure in (run.figures or {}).items()}
    others = {
        code: share
        for (what, of, code), share in shares.items()
        if (what, of) == ("language share", "") and code in KNOWN_LANGUAGES - {ENGLISH}
    }
    stripping = [
        manifest
        for manifest in run.find_by_name("vocabularies").values()
        if manifest.settings.get("strip_accents", manifest.settings.get("lowercase"))
    ]
    for manifest in stripping if sum(others.values()) > MIN_OTHER_SHARE else ():
        listed = ", ".join(sorted(others, key=lambda code: -others[code])[:MAX_LISTED])
        yield _note(
            "vocabularies",
            f"{manifest.stage_folder} takes the marks off letters, which tell words apart in {listed}: to keep them, "
            "set strip_accents = false in [vocabulary].",
        )


def _note_notices(run: RunView) -> Iterator[Remark]:
    for manifest in run.manifests:
        if notice := manifest.facts.get("notice"):
            part = "training" if manifest.kind == "models" else "vocabularies"
            yield _note(part, f"{manifest.stage_folder}: {to_one_line(str(notice), MAX_MESSAGE_CHARACTERS)}")


def _note_examples(run: RunView) -> Iterator[Remark]:
    """Yield remarks on shard sets with labels that can be guessed without reading, or that omit much of the text."""
    figures = run.figures or {}
    for text in list_surface_warnings({name: figure.value for name, figure in figures.items()}):
        yield _note("out", text)
    for text in (text for shards in run.find_by_name("shards").values() for text in list_warnings(shards)):
        yield _note("out", text)


def _note_training(run: RunView) -> Iterator[Remark]:
    """Yield a remark for each model that predicts held-out tokens no better than guessing by token frequency."""
    figures = run.figures
    for name, figure in figures.items() if figures is not None else ():
        what, of, _ = parse_figure_name(name)
        entropy = figures.get(name.replace("loss", "unigram entropy")) if figures is not None else None
        if what == "held-out loss" and entropy is not None and figure.value >= entropy.value:
            model = f"the model {of}" if of else "the model"
            text = (
                f"On held-out text {model} scores {figure.value:.3f} nats, no better than guessing by frequency "
                f"({entropy.value:.3f})."
            )
            yield _note("training", text)


def _note_sources(comparison: RunComparison) -> Iterator[Remark]:
    """Yield remarks on sources that only one of the two compared runs has."""
    files = {source: row["raw files"] for source, row in group_by_source(comparison.changes, ("raw files",)).items()}
    kinds = {"new": [s for s, f in files.items() if not f.before], "gone": [s for s, f in files.items() if not f.after]}
    for what, names in kinds.items():
        if names:
            shown = ", ".join(to_one_line(name, MAX_NAME_CHARACTERS) for name in names[:MAX_LISTED])
            more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
            text = f"{format_count(len(names), 'source')} {'is' if len(names) == 1 else 'are'} {what}: {shown}{more}."
            yield _note("compared", text)


def _note_changes(comparison: RunComparison) -> Iterator[Remark]:
    """Yield remarks on metrics that differ a lot from the previous run, largest change first.

    At most MAX_LISTED metrics are listed. A final remark states how many others there are.

    Args:
        comparison: Comparison with the previous run.
    """
    telling = [change for change in comparison.changes if parse_figure_name(change.name)[0] in _TELLING_FIGURES]
    far = [c for c in telling if _compute_distance(c) >= (MIN_SHARE_CHANGE if c.kind == SHARE else MIN_MEAN_CHANGE)]
    moved = sorted(far, key=_compute_distance, reverse=True)
    for change in moved[:MAX_LISTED]:
        before, after = (format_figure(value, change.kind, change.unit) for value in (change.before, change.after))
        yield _note("compared", f"{change.name}: {before} in the run before, {after} now ({format_change(change)}).")
    if more := len(moved[MAX_LISTED:]):
        yield _note("compared", f"{format_count(more, 'more figure')} moved as far.")


def _compute_distance(change: Change) -> float:
    """Compute the size of a change: the absolute difference of shares, or the relative difference of other metrics.

    The relative difference is relative to the earlier run's value. The result is 0 if a value is missing, or if it
    cannot be computed because the earlier value is zero.
    """
    return abs((change.change if change.kind == SHARE else change.relative) or 0.0)
