"""The model of a run for its report: what it was trained on, how well it does, its curves, and the scores of its tasks.

Promise: every number is from the model's manifest (settings, facts, ledger) or from its table of metrics. A held-out
loss is next to two of guessing only by frequency: the unigram entropy of the same tokens, which knows how frequent each
of them is in the held-out text (of few tokens a low bound), and the cost of the frequencies of the training text.
Scores of tasks are computed from the stored answers of each seed; their tables are those of `cloze evaluate`. A model
is compared with its baseline, with random initial weights, and with the model that was released when the run began.
Cost: the metrics are read in full, about 130 bytes per logged step; for tasks as `flows.run.record.task_scores`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from corpora.generic_types import Json
from corpora.store.manifest import Manifest
from corpora.store.settings import bind_settings
from corpora.store.stage import read_manifest
from flows.report.plots import describe_term, draw_loss_curve, find_main_term, list_terms
from flows.report.run import RunView, View
from flows.run.record.releases import find_release_before
from flows.run.record.task_scores import compare_with, compare_within, iter_summaries, iter_task_worth, read_result
from trainer.build import COMPONENT_PREFIX, read_events
from trainer.job import iter_seen_parts
from trainer.metrics import Event
from trainer.settings.model import ModelSettings
from trainer.tasks.build import BASELINE, CONTROL, rebuild_suite
from trainer.tasks.suites import compare as comparing
from trainer.tasks.suites import table
from trainer.tasks.suites.compare import SuiteComparison


def build_training_view(run: RunView) -> View | None:
    """Build the Jinja template context for a run's newest model. Returns None if there is no model.

    The context contains:

    - "model": facts about the model (see `describe_model`)
    - "figures" and "slots": counts from training
    - "training": the training settings
    - "phases", "seen" and "before": table rows
    - "result": the last evaluation
    - "loss", "caption" and "other_losses": loss curves

    Args:
        run: The run.

    Raises:
        Damaged: If the model's metrics are damaged.
    """
    model = run.find_newest("models")
    if model is None:
        return None
    events = with_judged_term([*read_events(run.place, model)])
    evaluations = [event for event in events if event["event"] == "evaluation"]
    return {
        "model": describe_model(model),
        "figures": model.ledger.figures,
        "slots": model.ledger.find_account("slots"),
        "training": model.settings["training"],
        "phases": build_phase_rows(model, run.find_by_name("shards"), events),
        "seen": build_seen_rows(model, run.find_by_name("shards"), run.find_by_name("tokens"), events),
        "start": model.facts.get("start"),
        "before": build_before_rows(model, run.find_by_name("shards"), events),
        "result": build_result_view(evaluations),
        "is_judged": any(event["loss_judged"] is not None for event in evaluations),
        "first_loss": next((event["loss_judged"] for event in evaluations if event["step"] == 0), None),
        "loss": draw_loss_curve(events, "loss-of-training") if events else "",
        "caption": describe_term(find_main_term(events)).caption,
        "other_losses": [
            (draw_loss_curve(events, f"{term}-loss-of-training".replace("_", "-"), term), describe_term(term).caption)
            for term in list_terms(events)
            if term != find_main_term(events)
        ],
    }


def with_judged_term(events: Sequence[Event]) -> list[Event]:
    """Return copies of training events, adding the keys "loss_judged" and "accuracy_judged".

    The values are the loss and accuracy of the main loss term (see `find_main_term`), or None if an event has none.
    """
    term = find_main_term(events)
    return [
        {**event, "loss_judged": event.get(f"{term}_loss"), "accuracy_judged": event.get(f"{term}_accuracy")}
        for event in events
    ]


def describe_model(model: Manifest) -> View:
    """Return the recorded facts about a model, its "family", its "size" and its shape as a dict.

    The shape has the keys "layers", "hidden_size", "heads" and "feed_forward_size".

    Args:
        model: Manifest (stored description) of the model.
    """
    settings = bind_settings(ModelSettings, model.settings["model"], "model")
    shape = zip(("layers", "hidden_size", "heads", "feed_forward_size"), settings.shape, strict=True)
    return {**model.facts, "family": settings.family, "size": settings.size, **dict(shape)}


def build_phase_rows(model: Manifest, shard_sets: Mapping[str, Manifest], events: Sequence[Event]) -> list[View]:
    """Build a row for each training phase, with its shard sets, length, first and last loss, and last evaluation.

    The keys of a row are "number" (from 1), "shards" (as text), "steps", "batch", "first" and "last" (losses; None if
    no step was recorded) and "held_out" (the last evaluation; None if there was none).

    Args:
        model: Manifest (stored description) of the model.
        shard_sets: The manifest of each shard set, by its name in the recipe.
        events: Training metrics from `with_judged_term`.
    """
    names = {manifest.content: name or manifest.name for name, manifest in shard_sets.items()}
    rows = []
    for number, settings in enumerate(model.settings["training"]["phase"]):
        within = [event for event in events if event["phase"] == number]
        steps = [event for event in within if event["event"] == "step"]
        evaluations = [event for event in within if event["event"] == "evaluation"]
        rows.append(
            {
                "number": number + 1,
                "shards": " + ".join(
                    names.get(content, "shards of another run")
                    for content in list_contents(model.settings["phases"][number])
                ),
                "steps": settings["steps"],
                "batch": settings["batch"],
                "first": steps[0]["loss_judged"] if steps else None,
                "last": steps[-1]["loss_judged"] if steps else None,
                "held_out": evaluations[-1] if evaluations else None,
            }
        )
    return rows


def list_contents(phase: Json) -> list[str]:
    """Return the content digests of the shard sets that a training phase read: one, or more for a mixture.

    Args:
        phase: The entry of the phase in the model's settings: a digest, or a list of dicts with the key "content".
    """
    return [phase] if isinstance(phase, str) else [part["content"] for part in phase]


def build_seen_rows(
    model: Manifest, shard_sets: Mapping[str, Manifest], tokens: Mapping[str, Manifest], events: Sequence[Event]
) -> list[View]:
    """Build a row for each shard set that a training phase read.

    The keys of a row are "part" (the amount that was read), "name", "share" (of the phase, 0 to 1), "held_out" (the
    last evaluation; None if there was none) and "sources" (from `compute_source_shares`).

    Args:
        model: Manifest (stored description) of the model.
        shard_sets: The manifest of each shard set, by its name in the recipe.
        tokens: The manifest of the tokenized documents, by name of the vocabulary in the recipe.
        events: Training metrics from `with_judged_term`.
    """
    sets = {manifest.name: (name or manifest.name, manifest) for name, manifest in shard_sets.items()}
    parts = list(iter_seen_parts(model))
    totals = {phase: sum(part.tokens for part in parts if part.phase == phase) for phase in {p.phase for p in parts}}
    last = {(event["phase"] + 1, event["event"]): event for event in events}
    single = [phase for phase in totals if sum(part.phase == phase for part in parts) == 1]
    return [
        {
            "part": part,
            "name": sets[part.name][0] if part.name in sets else part.name,
            "share": part.tokens / max(1, totals[part.phase]),
            "held_out": last.get(
                (part.phase, "evaluation" if part.phase in single else f"{COMPONENT_PREFIX}{part.name}")
            ),
            "sources": compute_source_shares(sets[part.name][1], tokens) if part.name in sets else [],
        }
        for part in parts
    ]


def build_before_rows(model: Manifest, shard_sets: Mapping[str, Manifest], events: Sequence[Event]) -> list[View]:
    """Build a row for each shard set, and one for all, with held-out losses before the first step and at the end.

    The result is empty if training started from random weights. The keys of a row are "name" ("together" for all shard
    sets), "share" (None for all), "before" and "after" (losses), and "guessed" (the accuracies before and after).

    Args:
        model: Manifest (stored description) of the model.
        shard_sets: The manifest of each shard set, by its name in the recipe.
        events: Training metrics from `with_judged_term`.
    """
    sets = {f"{COMPONENT_PREFIX}{manifest.name}": name or manifest.name for name, manifest in shard_sets.items()}
    first = {event["event"]: event for event in events if event["step"] == 0 and event["event"] != "step"}
    last = {event["event"]: event for event in events if event["step"] > 0}
    read = Counter[str]()
    for part in iter_seen_parts(model):
        read[f"{COMPONENT_PREFIX}{part.name}"] += part.tokens
    return [
        {
            "name": "together" if kind == "evaluation" else sets.get(kind, kind.removeprefix(COMPONENT_PREFIX)),
            "share": None if kind == "evaluation" else read[kind] / max(1, read.total()),
            "before": _get_loss(before),
            "after": _get_loss(last[kind]),
            "guessed": (before["masked_accuracy"], last[kind]["masked_accuracy"]),
        }
        for kind, before in sorted(first.items(), key=lambda one: (one[0] == "evaluation", one[0]))
        if "start" in model.facts and kind in last
    ]


def _get_loss(event: Event) -> float | None:
    """Return the masked-token loss of an evaluation event, or its total loss if it has no masked-token loss."""
    loss: float | None = event["loss"] if event["masked_loss"] is None else event["masked_loss"]
    return loss


def compute_source_shares(shards: Manifest, tokens: Mapping[str, Manifest]) -> list[tuple[str, float]]:
    """Compute the share of each source in a shard set's training tokens.

    Args:
        shards: Manifest (stored description) of the shard set.
        tokens: The manifest of the tokenized documents, by name of the vocabulary in the recipe.

    Returns:
        Pairs of a source and its share (from 0 to 1), largest first. The source is "" for tokens from an unknown
        source.
    """
    made_of = {parent.fingerprint for parent in shards.parents}
    wanted = shards.settings.get("sources") or ()
    counts = Counter[str]()
    for manifest in tokens.values():
        for part in manifest.parts if manifest.fingerprint in made_of else ():
            source = part.labels.get("source", "")
            if not wanted or source in (*wanted, ""):
                counts[source] += part.ledger.figures["train tokens"]
    total = max(1, counts.total())
    return [(source, count / total) for source, count in counts.most_common() if count]


def build_result_view(evaluations: Sequence[Mapping[str, Any]]) -> View | None:
    """Build the Jinja template context for the last evaluation. Returns None if there are no evaluations.

    The keys are "step", "loss", "entropy" (unigram entropy), "below" (how far the loss is below it), "guess" (the loss
    of guessing by frequency), "perplexity", "accuracy", "pair_accuracy", "word_accuracy", "masked_tokens" and
    "sequences".

    Args:
        evaluations: Evaluation events from `with_judged_term`, in order.
    """
    if not evaluations:
        return None
    last = evaluations[-1]
    loss, entropy = last["loss_judged"], last["unigram_entropy"]
    finite = None not in (loss, entropy)
    return {
        "step": last["step"],
        "loss": loss,
        "entropy": entropy,
        "below": entropy - loss if finite else None,
        "guess": last["unigram_loss"],
        "perplexity": math.exp(min(loss, 700.0)) if finite else None,
        "accuracy": last["accuracy_judged"],
        "pair_accuracy": last["pair_accuracy"],
        "word_accuracy": last["rare_word_accuracy"],
        "masked_tokens": last["masked_tokens"],
        "sequences": last["sequences"],
    }


def build_task_views(run: RunView) -> list[View]:
    """Build the Jinja template context for each task suite of a run, with its scores and comparisons with other models.

    The keys are "name", "seeds", "head" (column headings), "rows", "average", "summary", "notes", "comparisons" and
    "accounts" (record counts by outcome).

    Args:
        run: The run.

    Raises:
        Damaged: If stored predictions or a release are damaged.
    """
    release = find_release_before(run.place, run.record.recipe, run.record.started)
    views = []
    for name, tasks in run.find_by_name("tasks").items():
        suite = rebuild_suite(tasks)
        result = read_result(run.place, tasks, name)
        control = compare_within(run.place, tasks, CONTROL)
        comparisons = [compare_within(run.place, tasks, BASELINE), control]
        if release is not None:
            released = next((a for a in release.artifacts if (a.kind, a.name) == ("tasks", tasks.name)), None)
            other = read_manifest(run.place, released.folder) if released is not None else None
            if other is not None and other.fingerprint != tasks.fingerprint:
                called = f"{release.name} number {release.number}"
                comparisons.append(compare_with(run.place, tasks, other, ("this run", called)))
        views.append(
            {
                "name": name or suite.name,
                "seeds": suite.seeds,
                "head": table.HEAD,
                "rows": [table.format_cells(row) for row in result.rows],
                "average": table.format_average(result) if result.average is not None else "",
                "summary": [*iter_summaries(result)],
                "worth": [*iter_task_worth(result, control)],
                "notes": [*table.iter_notes()],
                "comparisons": [_build_comparison_view(each) for each in comparisons if each is not None],
                "accounts": tasks.ledger.accounts,
            }
        )
    return views


def _build_comparison_view(comparison: SuiteComparison) -> View:
    """Build the Jinja template context for a comparison of two models.

    The keys are "names" (of both models), "head" (column headings), "rows" (one per task) and "verdict" (sentences with
    the conclusions).
    """
    return {
        "names": (comparison.first, comparison.second),
        "head": comparing.HEAD,
        "rows": [comparing.format_cells(each) for each in comparison.tasks],
        "verdict": [*comparing.iter_conclusions(comparison)],
    }
