"""The head of the page: what was not read, what was held out, what the model learned, where text was lost.

Promise: on the first screen of a desktop is whether anything is wrong, what was not read and held out, how the loss
compares with two that need no model, and the run as one picture. Of long lists and tables the first rows, and a link.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from flows.recipes.settings.privacy import visible
from flows.report.compared import Compared, by_source, change_text, figure_text
from flows.report.drawing.curves import growth_chart
from flows.report.run import RunView, View
from flows.report.vocabularies import figures_by_generation
from flows.run.record.counts_text import counted
from flows.run.record.figures import COUNT, MEAN, Change, compare, figures_before

FIRST_LOSSES, FIRST_SOURCES, FIRST_NOT_READ = 7, 8, 3
NAME_CHARACTERS, LINE_CHARACTERS = 80, 108
BARELY = 0.1  # nats below the unigram entropy
NEW = "new"
_GROWN = ("documents", "tokens")


def compared_with(run: RunView) -> tuple[Compared | None, str]:
    """Return a run next to the completed one before it; else why there is nothing to compare with."""
    if run.record.state != "completed":
        return None, "A run that did not come to its end is not compared."
    if run.figures is None:
        return None, "The artifacts of this run are not all in the store any more."
    heard: list[str] = []
    before = figures_before(run.place, run.record, heard.append)
    if before is None:
        said_why = " ".join(visible(line, 300) for line in heard)
        return None, said_why or "There is no older run of this recipe in this store that came to its end."
    return Compared.of(*before, run.figures), ""


def not_read(run: RunView, lines: Sequence[str]) -> list[str]:
    """Return which files of the sources' folders were not read, as far as the record says. lines: all of it"""
    if not lines:
        return ["No file: everything that the sources hold was read."] if run.record.inputs else []
    first = [visible(line, LINE_CHARACTERS) for line in lines[:FIRST_NOT_READ]]
    more = len(lines) - FIRST_NOT_READ
    return [*first, *([f"And {counted(more, 'line')} more."] if more > 0 else [])]


def held_out(run: RunView) -> str:
    """Return how much was set aside from training, to judge a model by; "" where nothing was tokenised."""
    tokens = next(iter(run.of_each("tokens").values()), None)
    if tokens is None:
        return ""
    figures = sum((Counter(part.ledger.figures) for part in tokens.parts), Counter[str]())
    documents, aside = (figures[f"train {unit}"] + figures[f"held-out {unit}"] for unit in ("documents", "tokens"))
    if not figures["held-out documents"]:
        return f"Nothing: {_none_of(run, documents)}, so no figure here is of text that a model has not read."
    share = figure_text(figures["held-out documents"] / documents, "share", "documents")
    number = counted(figures["held-out documents"], "document")
    return f"{number} ({share}) with {counted(figures['held-out tokens'], 'token')} of {aside:,}, kept from training."


def _none_of(run: RunView, documents: int) -> str:
    """Return why nothing was held out: the share is 0, or no document of so few fell into it."""
    verdicts = next(iter(run.of_each("verdicts").values()), None)
    share = verdicts.settings["held_out"]["share"] if verdicts is not None else 0.0
    if not share:
        return "every document may be trained on"
    return f"of {counted(documents, 'document')} none fell into the share of {share:g} (raise held_out.share)"


def learned(training: View | None) -> View | None:
    """Return the held-out loss next to those of knowing nothing and of frequencies alone, and whether it was worth it.

    None without a model, or where nothing was held out. `rows`: name, nats, among how many it then seems to guess
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
    views = [{"name": name, "nats": nats, "among": _among(nats), "bar": _bar(nats, longest)} for name, nats in rows]
    return {"worth": _worth(loss, uniform, entropy, result["accuracy"]), "rows": views, "uniform": uniform, **result}


def _bar(nats: float | None, longest: float) -> float:
    return round(100 * (nats or 0.0) / (longest or 1.0), 2)


def _among(nats: float | None) -> str:
    """Return the number of equally likely tokens that a loss amounts to."""
    if nats is None or nats > 700:
        return "-"
    return f"{math.exp(nats):,.{0 if nats > math.log(10) else 1}f}"


def _worth(loss: float | None, uniform: float, entropy: float, accuracy: float | None) -> str:
    """Return in one sentence whether the training was worth it."""
    if loss is None:
        return "No: its loss is not a number."
    guessed = f"; its first guess is right for {100 * accuracy:.1f}%" if accuracy is not None else ""
    chosen = f"it chooses as if among {_among(loss)} equally likely tokens"
    known = f"not {_among(uniform)} (untrained) or {_among(entropy)} (by frequency)"
    if loss >= uniform:
        return f"No: {chosen}, worse than the {_among(uniform)} of a model that knows nothing."
    if loss >= entropy:
        return f"Not yet: {chosen}, and counting how frequent tokens are gives {_among(entropy)}{guessed}."
    return f"{'Barely' if entropy - loss < BARELY else 'Yes'}: {chosen}, {known}{guessed}."


def growth_view(run: RunView) -> View | None:
    """Return what each generation added to the corpus, in a picture and in words; None of a single generation."""
    tokens = next(iter(run.of_each("tokens").values()), None)
    added = [
        {"generation": number, **{of: figures[f"train {of}"] + figures[f"held-out {of}"] for of in _GROWN}}
        for number, figures in figures_by_generation(tokens).items()
    ]
    if len(added) < 2:
        return None
    return {"added": added, "svg": growth_chart([row["tokens"] for row in added], "tokens")}


def loss_rows(losses: Sequence[tuple[str, int]], compared: Compared | None) -> list[View]:
    """Return reasons with their counts, each bar's length as a share of the longest in percent, and the change."""
    most = max((count for _, count in losses), default=1)
    rows = []
    for name, count in losses:
        change = compared.named.get(name) if compared is not None else None
        moves = {"change": change_text(change) if change else "-", "moved": change is not None and bool(change.change)}
        rows.append({"name": name, "count": count, "bar": round(100 * count / most, 2), **moves})
    return rows


def source_table(run: RunView, compared: Compared | None) -> list[View]:
    """Return a row for each source, the one with the most documents first, with its outcome and the change.

    A source of the run before that is gone has a row as well.
    """
    if run.figures is None:
        return []
    changes = compared.changes if compared is not None else compare({}, run.figures)
    rows = by_source(changes, ("raw files", "raw records", "documents", "tokens", "mean tokens a document"))
    ordered = sorted(rows.items(), key=lambda row: -_now(row[1], "documents"))
    return [_source_row(name, changes_of_source) for name, changes_of_source in ordered]


def _now(changes: Mapping[str, Change], what: str) -> float:
    return (changes[what].after or 0) if what in changes else 0


def _source_row(name: str, changes: Mapping[str, Change]) -> View:
    records, documents = _now(changes, "raw records"), _now(changes, "documents")
    tokens, length = changes.get("tokens"), changes.get("mean tokens a document")
    return {
        "name": visible(name, NAME_CHARACTERS),
        "files": figure_text(_now(changes, "raw files"), COUNT, "files"),
        "records": figure_text(records, COUNT, "records"),
        "dropped": figure_text(records - documents, COUNT, "records"),
        "documents": figure_text(documents, COUNT, "documents"),
        "documents_change": change_text(changes["documents"]) if "documents" in changes else NEW,
        "tokens": figure_text(tokens.after if tokens else None, COUNT, "tokens"),
        "tokens_change": change_text(tokens) if tokens else "-",
        "length": figure_text(length.after if length else None, MEAN, ""),
    }
