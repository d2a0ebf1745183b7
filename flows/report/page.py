"""The page: what a run took in, what came out, what was lost and why, and how to look up each of it.

Promises: one HTML file that loads nothing from any network; every value is escaped by the template; a run that
failed half way gives a page of what exists. The same store and record give the same bytes.
Cost: 1.7 s of CPU time for a run of 690 documents with two vocabularies, three shard sets and a model, half of it the
first figure's fonts and styles, and 0.5 s of imports before; what is read of a larger store is bounded as `samples` and
`figures` say (0.8 s a page, once that is loaded, for 690 documents and for 9,520 alike).
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from corpora.schema import excerpt
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from flows.recipes.lock import LeftOut, Lock
from flows.recipes.settings.privacy import Privacy, visible, without_folders
from flows.report import front
from flows.report.compared import change_text, figure_text
from flows.report.drawing import figures, flow
from flows.report.drawing.examples import COUNTED, LABELS, labels_of
from flows.report.model.trained import training_view
from flows.report.remarks import remarks_on
from flows.report.run import RunView
from flows.report.texts import example_views, pair_views, reason_groups
from flows.report.vocabularies import vocabulary_views
from flows.run.faults.skipped_files import described
from flows.run.inputs.unread_files import looked_from_json, looked_lines
from flows.run.record import ledger_balance as accounts
from flows.run.record.counts_text import counted, parent_name, readable_moment, readable_seconds, rows_in_words
from flows.run.record.example_shares import SURELY
from flows.run.record.lengths import LengthSample, sample_lengths
from flows.run.record.run_record import RunRecord

RECIPE_CHARACTERS = 20_000

View = dict[str, Any]  # what the template reads, by name


def build_page(
    place: Place,
    record: RunRecord,
    privacy: str,
    lock: Lock | None = None,
) -> str:
    """Return the report of a run as one HTML page.

    privacy: text, hashed or none
    lock:    of the run, for the names of its raw files; they are shown only where text may be shown
    Raises InputError for another privacy.
    """
    run = RunView(place, record, Privacy(privacy), lock or Lock())
    summed = accounts.accounts_of(run.manifests)
    compared, not_compared = front.compared_with(run)
    losses = front.loss_rows(accounts.losses(summed.steps), compared)
    return _template(run.privacy).render(
        record=record,
        style=Markup(_text("page.css")),
        accounts=summed,
        remarks=remarks_on(run, summed, compared),
        compared=compared,
        headlines=compared.headlines if compared is not None and compared.differing else [],
        not_compared=not_compared,
        by_source=front.source_table(run, compared),
        first_losses=front.FIRST_LOSSES,
        first_sources=front.FIRST_SOURCES,
        **_parts(run, losses, summed),
    )


def _parts(run: RunView, losses: Sequence[View], summed: accounts.Accounts) -> View:
    """Return the content of the page's folded parts."""
    looked = looked_lines(looked_from_json(run.record.inputs), run.privacy.mode)
    views = {
        "losses": losses,
        "flows": flow_drawings(run.manifests),
        "parsed": accounts.of_kind(run.manifests, "documents"),
        "passed_over": [*looked, *left_out_rows(run)],
        "shard_sets": shard_views(run),
        "reasons": reason_groups(run),
        "pairs": pair_views(run),
        "lengths": length_views(run),
        "vocabularies": vocabulary_views(run),
        "examples": example_views(run),
        "training": training_view(run),
        "longest": max((stage.seconds for stage in run.record.stages), default=0.0) or 1.0,
    }
    return {
        **views,
        "recipe_text": without_folders(run.record.recipe_toml)[:RECIPE_CHARACTERS],
        "privacy": run.privacy.mode,
        "many_generations": bool(run.generations),
        "run": run,
        "gists": front.gists(run, views, summed),
    }


def _template(privacy: Privacy) -> Template:
    environment = Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["decimals"] = lambda value, digits=3: "-" if value is None else f"{value:,.{digits}f}"
    environment.filters["percent"] = lambda value: "-" if value is None else f"{100 * value:.1f}%"
    environment.filters["size"] = accounts.readable_bytes
    environment.filters["seconds"] = lambda value: readable_seconds(value).replace(" ", "\u00a0")
    environment.filters["moment"] = readable_moment
    environment.filters["counted"] = counted
    environment.filters["bounded"] = visible
    environment.filters["figure_text"] = figure_text
    environment.filters["change_text"] = change_text
    environment.filters["excerpt"] = excerpt
    environment.filters["shown"] = privacy.show
    environment.filters["where"] = privacy.where
    environment.filters["edits"] = accounts.edits_of
    environment.filters["parent_name"] = parent_name
    environment.filters["rows_in_words"] = rows_in_words
    environment.filters["size_bytes"] = accounts.size_bytes
    return environment.get_template("template.html")


def _text(name: str) -> str:
    """Return a file of this package."""
    return (files("flows.report") / name).read_text(encoding="utf-8")


def flow_drawings(manifests: Sequence[Manifest]) -> list[View]:
    """Return the ledger drawn: documents, then tokens, as far as the run came."""
    wanted = (
        ("Raw records and documents", flow.document_flow(manifests)),
        ("Tokens and examples", flow.token_flow(manifests)),
    )
    return [{"title": title, "svg": flow.draw(drawing)} for title, drawing in wanted if drawing is not None]


def left_out_rows(run: RunView) -> list[str]:
    """Return a line for each raw file that could not be read and was left out."""
    files = {
        (manifest.name, sha256): LeftOut(source=manifest.name, name=name, sha256=sha256, settings="", why=why)
        for manifest in accounts.of_kind(run.manifests, "documents")
        for name, sha256, why in manifest.settings.get("left_out", ())
    }
    return [described(file, run.privacy.mode) for file in files.values()]


def shard_views(run: RunView) -> list[View]:
    """Return a view of each shard set: the form of its examples, and a row for each of its splits."""
    views = []
    vocabularies = {manifest.fingerprint: name for name, manifest in run.of_each("vocabularies").items()}
    for name, shards in run.of_each("shards").items():
        [made_with] = (parent for parent in shards.parents if parent.role == "vocabularies")
        views.append(
            {
                "name": name,
                "facts": shards.facts,
                "vocabulary": vocabularies.get(made_with.fingerprint, made_with.name),
                "sources": shards.settings.get("sources", []),
                "copies": shards.settings["copies"],
                "masking": shards.settings["masking"],
                "labels": _counted_labels(shards),
                "guessed": guessed_line(run, name),
                "splits": [split_row(shards, split) for split in shards.facts["splits"]],
            }
        )
    return views


def _counted_labels(shards: Manifest) -> list[tuple[str, str]]:
    """Return the figures that count examples by their label, each with the label's meaning."""
    labels = str(labels_of(shards))
    return list(zip(COUNTED.get(labels, ()), LABELS.get(labels, ()), strict=True))


def guessed_line(run: RunView, name: str) -> str:
    """Return how well a shard set's labels can be guessed without reading a word; "" where that was not measured."""
    figures = run.figures or {}
    called = f"surface accuracy ({name})" if name else "surface accuracy"
    if called not in figures:
        return ""
    surely = figures[called.replace("surface accuracy", SURELY, 1)].value
    return (
        f"Without reading a word, from lengths and segment boundaries, {figures[called].value:.1%} of the labels "
        f"are guessed; surely {surely:.1%}."
    )


def split_row(shards: Manifest, split: str) -> View:
    """Return one split of a shard set: files, documents, examples by label, tokens, bytes."""
    parts = [part for part in shards.parts if part.labels.get("split") == split]
    figures_of = {
        name: sum(part.ledger.figures.get(name, 0) for part in parts)
        for name in (*(figure for figure, _ in _counted_labels(shards)), "documents", "example tokens")
    }
    return {
        "name": split,
        "parts": len(parts),
        "examples": sum(part.rows("examples") for part in parts),
        "bytes": sum(file.size_bytes for part in parts for file in part.files),
        "figures": figures_of,
    }


def length_views(run: RunView) -> list[View]:
    """Return histograms of lengths in tokens: documents by the first vocabulary, and the examples of each shard set."""
    views = []
    for name, tokens in list(run.of_each("tokens").items())[:1]:
        title = f"Documents, in tokens of {name}" if name else "Documents"
        if tokens.folder in run.token_samples:
            views.append(_length_view("documents", title, run.token_samples[tokens.folder], logarithmic=True))
    for number, (name, shards) in enumerate(run.of_each("shards").items()):
        if shards.rows("examples"):
            sample = sample_lengths(run.place, shards, "examples", shards.facts["special_ids"]["unk"])
            title = f"Examples of {name}" if name else "Examples"
            views.append(_length_view(f"examples-{number}", title, sample, logarithmic=False))
    return views


def _length_view(name: str, title: str, sample: LengthSample, logarithmic: bool) -> View:
    unit = "tokens, on a logarithmic scale" if logarithmic else "tokens, special ones included"
    svg = figures.histogram(sample.lengths, f"lengths-of-{name}", unit, logarithmic)
    counts = "documents" if logarithmic else "examples"
    return {"title": title, "sample": sample, "rows": len(sample.lengths), "unit": counts, "svg": Markup(svg)}
