"""The training of a run's model for its report: what was trained on what, how well it does, and the curves.

Promise: every number is the model's manifest's (settings, facts, ledger) or is in its table of metrics. A held-out
loss is next to two of guessing by frequency alone: the unigram entropy of the same tokens, which knows how frequent
each is among themselves (of few tokens a low bound), and what the frequencies of the training text cost.
Cost: the metrics are read whole, about 130 bytes a logged step.

The tasks of a run for its report: scores with intervals, and what they are compared with.

Promise: every number is drawn from what the artifact keeps of the answers of each seed. The tables are those of
`cloze evaluate`. A model is compared with its baseline, with itself from first weights, and with what was released when
the run began.
Cost: as `flows.run.record.task_scores`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from corpora.generic_types import Json
from corpora.store.manifest import Manifest
from corpora.store.settings import bind_settings
from corpora.store.stage import read_manifest
from flows.report.plots import loss_curve, main_term, terms_of, words_of
from flows.report.run import RunView, View
from flows.run.record.releases import release_before
from flows.run.record.task_scores import comparison_with, comparison_within, result_in, summaries
from trainer.build import COMPONENT_PREFIX, read_events
from trainer.job import iter_seen_parts
from trainer.metrics import Event
from trainer.settings.model import ModelSettings
from trainer.tasks.build import BASELINE, CONTROL, suite_in
from trainer.tasks.suites import compare as comparing
from trainer.tasks.suites import table
from trainer.tasks.suites.compare import SuiteComparison


def training_view(run: RunView) -> View | None:
    """Return the newest model of a run; None if there is none."""
    model = run.newest("models")
    if model is None:
        return None
    events = judged([*read_events(run.place, model)])
    evaluations = [event for event in events if event["event"] == "evaluation"]
    return {
        "model": model_facts(model),
        "figures": model.ledger.figures,
        "slots": model.ledger.find_account("slots"),
        "training": model.settings["training"],
        "phases": phase_rows(model, run.of_each("shards"), events),
        "seen": seen_rows(model, run.of_each("shards"), run.of_each("tokens"), events),
        "start": model.facts.get("start"),
        "before": before_rows(model, run.of_each("shards"), events),
        "result": result_of(evaluations),
        "is_judged": any(event["loss_judged"] is not None for event in evaluations),
        "first_loss": next((event["loss_judged"] for event in evaluations if event["step"] == 0), None),
        "loss": loss_curve(events, "loss-of-training") if events else "",
        "caption": words_of(main_term(events)).caption,
        "other_losses": [
            (loss_curve(events, f"{term}-loss-of-training".replace("_", "-"), term), words_of(term).caption)
            for term in terms_of(events)
            if term != main_term(events)
        ],
    }


def judged(events: Sequence[Event]) -> list[Event]:
    """Return the events with the loss and the accuracy of the term by which the model is judged, under own names."""
    term = main_term(events)
    return [
        {**event, "loss_judged": event.get(f"{term}_loss"), "accuracy_judged": event.get(f"{term}_accuracy")}
        for event in events
    ]


def model_facts(model: Manifest) -> View:
    """Return family, size and shape of a model."""
    settings = bind_settings(ModelSettings, model.settings["model"], "model")
    shape = zip(("layers", "hidden_size", "heads", "feed_forward_size"), settings.shape, strict=True)
    return {**model.facts, "family": settings.family, "size": settings.size, **dict(shape)}


def phase_rows(model: Manifest, shard_sets: Mapping[str, Manifest], events: Sequence[Event]) -> list[View]:
    """Return one row a phase: what it read and how long, its first and last loss, and its last evaluation."""
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
                    for content in contents_of(model.settings["phases"][number])
                ),
                "steps": settings["steps"],
                "batch": settings["batch"],
                "first": steps[0]["loss_judged"] if steps else None,
                "last": steps[-1]["loss_judged"] if steps else None,
                "held_out": evaluations[-1] if evaluations else None,
            }
        )
    return rows


def contents_of(phase: Json) -> list[str]:
    """Return the contents that a phase read: of one shard set, or of a mixture."""
    return [phase] if isinstance(phase, str) else [part["content"] for part in phase]


def seen_rows(
    model: Manifest, shard_sets: Mapping[str, Manifest], tokens: Mapping[str, Manifest], events: Sequence[Event]
) -> list[View]:
    """Return one row for each shard set that a phase read: the amount, its share, how it was judged, its sources."""
    sets = {manifest.name: (name or manifest.name, manifest) for name, manifest in shard_sets.items()}
    parts = list(iter_seen_parts(model))
    whole = {phase: sum(part.tokens for part in parts if part.phase == phase) for phase in {p.phase for p in parts}}
    judged = {(event["phase"] + 1, event["event"]): event for event in events}
    alone = [phase for phase in whole if sum(part.phase == phase for part in parts) == 1]
    return [
        {
            "part": part,
            "name": sets[part.name][0] if part.name in sets else part.name,
            "share": part.tokens / max(1, whole[part.phase]),
            "held_out": judged.get(
                (part.phase, "evaluation" if part.phase in alone else f"{COMPONENT_PREFIX}{part.name}")
            ),
            "sources": source_shares(sets[part.name][1], tokens) if part.name in sets else [],
        }
        for part in parts
    ]


def before_rows(model: Manifest, shard_sets: Mapping[str, Manifest], events: Sequence[Event]) -> list[View]:
    """Return one row for each shard set that was judged before the first step, and one for all together, with its
    held-out losses then and at the end; none for a model that began with random weights."""
    sets = {f"{COMPONENT_PREFIX}{manifest.name}": name or manifest.name for name, manifest in shard_sets.items()}
    first = {event["event"]: event for event in events if event["step"] == 0 and event["event"] != "step"}
    last = {event["event"]: event for event in events if event["step"] > 0}
    read = Counter[str]()
    for part in iter_seen_parts(model):
        read[f"{COMPONENT_PREFIX}{part.name}"] += part.tokens
    return [
        {
            "name": "together" if named == "evaluation" else sets.get(named, named.removeprefix(COMPONENT_PREFIX)),
            "share": None if named == "evaluation" else read[named] / max(1, read.total()),
            "before": _loss(before),
            "after": _loss(last[named]),
            "guessed": (before["masked_accuracy"], last[named]["masked_accuracy"]),
        }
        for named, before in sorted(first.items(), key=lambda one: (one[0] == "evaluation", one[0]))
        if "start" in model.facts and named in last
    ]


def _loss(event: Event) -> float | None:
    """Return the masked loss, or the whole loss where nothing is masked."""
    loss: float | None = event["loss"] if event["masked_loss"] is None else event["masked_loss"]
    return loss


def source_shares(shards: Manifest, tokens: Mapping[str, Manifest]) -> list[tuple[str, float]]:
    """Return the sources of a shard set by their parts of its tokens in training, largest first; "" if unnamed."""
    made_of = {parent.fingerprint for parent in shards.parents}
    wanted = shards.settings.get("sources") or ()
    counts = Counter[str]()
    for manifest in tokens.values():
        for part in manifest.parts if manifest.fingerprint in made_of else ():
            source = part.labels.get("source", "")
            if not wanted or source in (*wanted, ""):
                counts[source] += part.ledger.figures["train tokens"]
    whole = max(1, counts.total())
    return [(source, count / whole) for source, count in counts.most_common() if count]


def result_of(evaluations: Sequence[Mapping[str, Any]]) -> View | None:
    """Return the last evaluation in the figures of its words; None if nothing was held out."""
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


def task_views(run: RunView) -> list[View]:
    """Return a view of each task artifact of a run, by its name in the recipe."""
    release = release_before(run.place, run.record.recipe, run.record.started)
    views = []
    for name, tasks in run.of_each("tasks").items():
        suite = suite_in(tasks)
        result = result_in(run.place, tasks, name)
        control = comparison_within(run.place, tasks, CONTROL)
        comparisons = [comparison_within(run.place, tasks, BASELINE)]
        if release is not None:
            released = next((a for a in release.artifacts if (a.kind, a.name) == ("tasks", tasks.name)), None)
            other = read_manifest(run.place, released.folder) if released is not None else None
            if other is not None and other.fingerprint != tasks.fingerprint:
                called = f"{release.name} number {release.number}"
                comparisons.append(comparison_with(run.place, tasks, other, ("this run", called)))
        views.append(
            {
                "name": name or suite.name,
                "seeds": suite.seeds,
                "head": table.HEAD,
                "rows": [table.format_cells(row) for row in result.rows],
                "average": table.format_average(result) if result.average is not None else "",
                "summary": [*summaries(result), *([comparing.format_worth(control)] if control is not None else [])],
                "notes": [*table.iter_notes()],
                "comparisons": [_comparison_view(each) for each in comparisons if each is not None],
                "accounts": tasks.ledger.accounts,
            }
        )
    return views


def _comparison_view(comparison: SuiteComparison) -> View:
    return {
        "names": (comparison.first, comparison.second),
        "head": comparing.HEAD,
        "rows": [comparing.format_cells(each) for each in comparison.tasks],
        "verdict": [*comparing.iter_conclusions(comparison)],
    }
