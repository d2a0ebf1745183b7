"""The page: what a run read, what came out, what was lost and why, and where to look each of it up.

Promises: one HTML file that loads nothing from any network; every value is escaped by the template; a run that failed
half way gives a page of what exists. The same store and record give the same bytes.
Cost: 1.7 s of CPU time for a run of 690 documents with two vocabularies, three shard sets and a model, half of it the
fonts and styles of the first plot, and 0.5 s of imports before. What is read of a larger store is bounded (0.8 s a
page, once that is loaded, for 690 documents and for 9,520 alike).
"""

from jinja2 import Template

from corpora.schema import cut_excerpt
from corpora.sources.remarks import read_remarks
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from flows.recipes.lock import Lock
from flows.recipes.privacy import Privacy, without_folders
from flows.report import flow_picture as flow
from flows.report import front
from flows.report.compared import format_change, format_figure
from flows.report.front import list_remarks
from flows.report.masked_example import LABEL_MEANINGS, find_label_kind
from flows.report.models import build_task_views, build_training_view
from flows.report.plots import draw_histogram
from flows.report.run import RunView, View
from flows.report.templates import build_page_environment
from flows.report.texts import build_duplicate_view, build_example_views, build_reason_groups
from flows.report.vocabularies import build_vocabulary_views
from flows.run.faults.skipped_files import describe_file, list_left_out
from flows.run.inputs.unread_files import describe_unread, read_unread_json
from flows.run.record import ledger_balance as accounts
from flows.run.record.counts_text import describe_rows, format_count, format_moment, format_seconds, name_parent
from flows.run.record.figures import count_raw_files
from flows.run.record.ledger_balance import LABEL_FIGURES, LengthSample, sample_lengths
from flows.run.record.run_record import RunRecord

MAX_RECIPE_CHARACTERS = 20_000
MAX_PARENTS = 8  # of an artifact in the table; a corpus has one more each generation


def build_page(place: Place, record: RunRecord, privacy: str, lock: Lock | None = None) -> str:
    """Build the report of a run as the text of a single HTML page.

    Args:
        place: The store.
        record: Record (stored description) of the run, which may have failed.
        privacy: How texts are shown: "text", "hashed" or "none".
        lock: The run's lock (the list of raw files that it read), or None if unknown. File names are shown only if
            `privacy` is "text".

    Raises:
        InputError: If `privacy` has an unknown value.
        Damaged: If a file of the store is damaged.
    """
    run = RunView(place, record, Privacy(privacy), lock or Lock())
    summed = accounts.build_accounts(run.manifests)
    comparison, not_compared = front.compare_with_previous(run)
    parsed = accounts.filter_kind(run.manifests, "documents")
    run_flow = flow.build_flow(run.manifests)
    left_out = [describe_file(file, privacy) for file in list_left_out(run.lock, run.manifests)]
    passed_over = [*left_out, *describe_unread(read_unread_json(record.inputs), privacy)]
    training, tasks = build_training_view(run), build_task_views(run)
    learned = front.build_loss_view(training)
    return _load_template(run.privacy).render(
        run=run,
        record=record,
        privacy=privacy,
        accounts=summed,
        remarks=list_remarks(run, summed, comparison),
        compared=comparison,
        headlines=comparison.headlines if comparison is not None and comparison.differences else [],
        not_compared=not_compared,
        by_source=front.build_source_rows(run, comparison),
        first_losses=front.FIRST_LOSSES,
        most_parents=MAX_PARENTS,
        first_sources=front.FIRST_SOURCES,
        losses=front.build_reason_rows(accounts.list_losses(summed.steps), comparison),
        flow=flow.draw_flow(run_flow) if run_flow is not None else "",
        not_read=front.list_unread(run, passed_over),
        held_out=front.describe_held_out(run),
        learned=learned,
        worth=front.judge_worth(learned, tasks),
        growth=front.build_growth_view(run),
        raw_files=accounts.sum_raw_files(parsed).total,
        raw_bytes=sum(file.size_bytes for manifest in parsed for file in run.lock.find_raw_files(manifest)),
        passed_over=passed_over,
        shard_sets=build_shard_views(run),
        reasons=build_reason_groups(run),
        unknown_templates=read_remarks(place, parsed),
        duplicates=build_duplicate_view(run),
        lengths=build_length_views(run),
        vocabularies=build_vocabulary_views(run),
        examples=build_example_views(run),
        training=training,
        tasks=tasks,
        longest=max((stage.seconds for stage in record.stages), default=0.0) or 1.0,
        recipe_text=without_folders(record.recipe_toml)[:MAX_RECIPE_CHARACTERS],
    )


def _load_template(privacy: Privacy) -> Template:
    """Load the Jinja template of the report, with the filters that it uses.

    Args:
        privacy: How the filters show texts and their locations.
    """
    environment = build_page_environment()
    environment.filters |= {
        "decimals": lambda value, digits=3: "-" if value is None else f"{value:,.{digits}f}",
        "percent": lambda value: "-" if value is None else f"{100 * value:.1f}%",
        "size": accounts.format_bytes,
        "seconds": lambda value: format_seconds(value).replace(" ", "\u00a0"),
        "moment": format_moment,
        "counted": format_count,
        "figure_text": format_figure,
        "change_text": format_change,
        "excerpt": cut_excerpt,
        "shown": privacy.show,
        "where": privacy.format_locator,
        "edits": accounts.list_edits,
        "parent_name": name_parent,
        "rows_in_words": describe_rows,
        "size_bytes": accounts.sum_bytes,
        "num_files": count_raw_files,
    }
    return environment.get_template("template.html")


def build_shard_views(run: RunView) -> list[View]:
    """Build the Jinja template context for each shard set, with the properties of its examples and its splits.

    The keys are "name", "facts", "vocabulary", "sources", "copies", "examples" (their number), "masking", "labels"
    (from `_list_labels`) and "splits" (from `build_split_row`).

    Args:
        run: The run.
    """
    views = []
    vocabularies = {manifest.fingerprint: name for name, manifest in run.find_by_name("vocabularies").items()}
    for name, shards in run.find_by_name("shards").items():
        [made_with] = (parent for parent in shards.parents if parent.role == "vocabularies")
        views.append(
            {
                "name": name,
                "facts": shards.facts,
                "vocabulary": vocabularies.get(made_with.fingerprint, made_with.name),
                "sources": shards.settings.get("sources", []),
                "copies": shards.settings["copies"],
                "examples": shards.count_rows("examples"),
                "masking": shards.settings["masking"],
                "labels": _list_labels(shards),
                "splits": [build_split_row(shards, split) for split in shards.facts["splits"]],
            }
        )
    return views


def _list_labels(shards: Manifest) -> list[tuple[str, str]]:
    """Return a (metric, meaning) pair for each label in a shard set, or [] if the examples have no labels.

    The metric is the number of examples with the label, and the meaning describes the label.
    """
    labels = str(find_label_kind(shards))
    return list(zip(LABEL_FIGURES.get(labels, ()), LABEL_MEANINGS.get(labels, ()), strict=True))


def build_split_row(shards: Manifest, split: str) -> View:
    """Build the row for one split of a shard set, with its numbers of parts (file sets), examples, bytes and tokens.

    The keys are "name", "parts", "examples", "bytes" and "figures" (numbers of documents, tokens and each label, by
    name).

    Args:
        shards: Manifest (description) of the shard set.
        split: Name of the split, such as "train".
    """
    parts = [part for part in shards.parts if part.labels.get("split") == split]
    figures_of = {
        name: sum(part.ledger.figures.get(name, 0) for part in parts)
        for name in (*(figure for figure, _ in _list_labels(shards)), "documents", "example tokens")
    }
    return {
        "name": split,
        "parts": len(parts),
        "examples": sum(part.count_rows("examples") for part in parts),
        "bytes": sum(file.size_bytes for part in parts for file in part.files),
        "figures": figures_of,
    }


def build_length_views(run: RunView) -> list[View]:
    """Build histograms of lengths in tokens, for documents and for the examples of each shard set.

    Document lengths are counted in tokens of the first vocabulary. The keys of each are those of `_build_length_view`.

    Args:
        run: The run.
    """
    views = []
    for name, tokens in list(run.find_by_name("tokens").items())[:1]:
        title = f"Documents, in tokens of {name}" if name else "Documents"
        if tokens.folder in run.token_samples:
            views.append(_build_length_view("documents", title, run.token_samples[tokens.folder], "documents"))
    for number, (name, shards) in enumerate(run.find_by_name("shards").items()):
        if shards.count_rows("examples"):
            sample = sample_lengths(run.place, shards, "examples", shards.facts["special_ids"]["unk"])
            title = f"Examples of {name}" if name else "Examples"
            views.append(_build_length_view(f"examples-{number}", title, sample, "examples"))
    return views


def _build_length_view(name: str, title: str, sample: LengthSample, unit: str) -> View:
    """Build the Jinja template context for one histogram.

    The keys are "title", "sample", "rows", "unit" and "svg" (the picture).

    Args:
        name: Name to include in the name of the SVG element.
        title: Title of the histogram.
        sample: The sampled lengths.
        unit: What the lengths belong to: "documents" or "examples".
    """
    svg = draw_histogram(sample.lengths, f"lengths-of-{name}", "tokens, on a logarithmic scale")
    return {"title": title, "sample": sample, "rows": len(sample.lengths), "unit": unit, "svg": svg}
