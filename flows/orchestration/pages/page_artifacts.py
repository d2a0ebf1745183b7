"""Artifacts of a run on the orchestrator's pages: ledgers, samples of dropped documents, lineage, summaries."""

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any

from corpora.schema import DROPPED, dropped_rows
from corpora.store.manifest import Manifest, Part
from corpora.store.places.address import without_password
from corpora.store.places.place import Place
from corpora.store.tables import read_table
from flows.orchestration.pages.markdown import (
    as_address,
    in_code,
    in_row,
    plain,
    show_once,
)
from flows.orchestration.pages.report_server import keep_store, report_path
from flows.recipes.recipe import Recipe
from flows.recipes.settings.privacy import Privacy
from flows.report.drawing.lineage import Box, draw_lineage
from flows.run.pipeline import Outcome
from flows.run.policies import SAMPLES, SAMPLES_EACH
from flows.run.record.counts_text import ASIDE, counted, rows_called, rows_in_words
from flows.run.record.run_record import FlowRun, StageRecord
from flows.run.stage_kinds import stage_order

Made = tuple[str, str]  # kind and name of an artifact

MOST_BOXES = 8  # of one kind in a picture
MOST_TAGS = 12  # of sources
CLOUD = re.compile(r"https://api\.prefect\.cloud/api/accounts/([^/]+)/workspaces/([^/]+)/?")


def leave_artifacts(place: Place, manifest: Manifest, privacy: str) -> None:
    """Show the ledger as a table artifact, and samples of the dropped documents."""
    name = manifest.stage_folder
    described = f"{name}: {summary(manifest)}"
    show_once(f"ledger-{name}", ledger_table(manifest), described)
    for table in ("dropped", "removed"):
        samples = dropped_samples(place, manifest, table, Privacy(privacy))
        if samples:
            described = f"{name}: samples of the {rows_in_words(manifest)[table]}, by reason"
            show_once(f"{table}-{name}", samples, described)


def name_run(recipe: str, began: str) -> str:
    """Return the name of the flow run of a recipe's run. began: when, in ISO 8601 with the zone"""
    return f"{recipe} {datetime.fromisoformat(began).astimezone():%Y-%m-%d %H:%M:%S %Z}".rstrip()


def flow_called(recipe: str) -> str:
    """Return the name of a recipe's flow, so that the orchestrator keeps the runs of each recipe apart.

    >>> flow_called("tickets"), flow_called("R&D/notes")
    ('tickets', 'R-D-notes')
    """
    return re.sub("[/%&<>]", "-", recipe)


def parameters_of(recipe: Recipe) -> dict[str, Any]:
    """Return what a person wants to see of a run as the parameters of its flow run."""
    return {"recipe_name": recipe.name, "recipe_toml": recipe.text}


def flow_run_at(api: str, flow_run_id: str, embedded: bool = False) -> FlowRun:
    """Return a flow run of an API, with its page if that is known. embedded: a server that has no UI"""
    ui = "" if embedded else ui_of(api)
    return FlowRun(id=flow_run_id, page=f"{ui}/runs/flow-run/{flow_run_id}" if ui else "")


def ui_of(api: str) -> str:
    """Return the address of the UI that shows the runs of an API; "" if it is unknown.

    Of the API of the user's profile it is PREFECT_UI_URL, where that is set.

    >>> ui_of("http://127.0.0.1:4200/api"), ui_of("https://api.prefect.cloud/api/accounts/a/workspaces/w")
    ('http://127.0.0.1:4200', 'https://app.prefect.cloud/account/a/workspace/w')
    """
    if api == os.environ.get("CLOZE_PREFECT_API") and (given := os.environ.get("CLOZE_PREFECT_UI")):
        return without_password(given).rstrip("/")
    if cloud := CLOUD.fullmatch(api):
        return f"https://app.prefect.cloud/account/{cloud[1]}/workspace/{cloud[2]}"
    return without_password(api).removesuffix("/api") if api.endswith("/api") else ""


def report_shown(place: Place, run_id: str, flow_run_id: str, own: bool, tell: Callable[[str], None]) -> str:
    """Return the place of a run's report, as Markdown for its flow run. own: a server of this home shows the page"""
    lines = ["The same page is in the store; this writes it again and says where it is:", ""]
    if own:
        try:
            keep_store(Path(os.environ["PREFECT_HOME"]), flow_run_id, place)
            lines[:0] = [f"[The report of this run]({report_path(flow_run_id, run_id)}), once it has ended.", ""]
        except OSError as error:
            tell(f"The UI will not lead to the report of this run: {error}")
    return "\n".join([*lines, in_code(report_command(place, run_id))])


def report_command(place: Place, run_id: str) -> str:
    """Return the command that writes the report of a run again and says where it is."""
    return f"cloze report {quote(place.at(''))} --run {run_id}"


def ledger_table(manifest: Manifest) -> list[dict[str, str]]:
    """Return every account and figure of a manifest as rows."""
    rows = []
    for account in manifest.ledger.accounts:
        rows.append({"unit": account.unit, "outcome": "in", "count": f"{account.total:,}"})
        rows += [{"unit": account.unit, "outcome": o, "count": f"{n:,}"} for o, n in account.outcomes.items()]
    rows += [{"unit": name, "outcome": "", "count": f"{n:,}"} for name, n in manifest.ledger.figures.items()]
    return rows or [
        {"unit": rows_called(manifest.kind, table)[1], "outcome": "rows", "count": f"{content.rows:,}"}
        for table, content in manifest.tables.items()
    ]


def dropped_samples(place: Place, manifest: Manifest, table: str, privacy: Privacy) -> list[dict[str, str]]:
    """Return the first dropped documents of each reason, as far as privacy lets their text be shown."""
    seen = Counter[str]()
    rows: list[dict[str, str]] = []
    for row in dropped_rows(read_table(place, manifest, table, DROPPED.names)):
        reason = f"{row.step}: {row.reason}"
        seen[reason] += 1
        if seen[reason] <= SAMPLES_EACH:
            texts = {"title": row.title, "excerpt": row.excerpt, "detail": row.detail}
            shown = {name: privacy.show(text) for name, text in texts.items()}
            rows.append({"reason": reason, **shown, "where": privacy.where(row.locator)})
        if len(rows) >= SAMPLES:
            break
    return rows


def line(record: StageRecord, manifest: Manifest) -> str:
    """Describe one stage in one line for the terminal."""
    what = manifest.stage_folder
    how = f"{record.state} {record.parts_built}/{record.parts} parts" if record.parts_built else record.state
    return f"{what:32} {how:22} {record.seconds:7.1f} s   {summary(manifest)}   ({record.reason})"


def summary(manifest: Manifest) -> str:
    """Describe the contents of an artifact in a few words."""
    return ", ".join(text for table, text in rows_in_words(manifest).items() if table not in ASIDE)


def conclusion(outcome: Outcome) -> str:
    """Describe the results of a run in a few words."""
    examples = sum(manifest.rows("examples") for manifest in outcome.shard_sets.values())
    trained = ", a model trained on them" if outcome.model is not None else ""
    learnt = f", fine-tuned on {counted(len(outcome.tasks), 'task')}" if outcome.tasks else ""
    return f"{counted(examples, 'example')}{trained}{learnt}"


def parts_built(parts: Sequence[Part]) -> str:
    """Describe the work of a range task in a few words."""
    return f"{counted(len(parts), 'part')} built"


def lineage(manifests: Sequence[Manifest], report: str = "") -> str:
    """Return the lineage in Markdown: a picture, where the report is, and all fingerprints and contents.

    report: the command that shows where the report of the run is
    """
    lines = [f"![what came from what]({picture(manifests)})", ""]
    lines += [*(("The report of this run, once it has ended:", "", in_code(report), "") if report else ())]
    lines += ["| artifact | fingerprint | content |", "|---|---|---|"]
    for manifest in manifests:
        lines.append(f"| {in_row(manifest.stage_folder)} | `{manifest.fingerprint}` | `{manifest.content}` |")
    return "\n".join(lines)


def picture(manifests: Sequence[Manifest]) -> str:
    """Draw the lineage: return an address that holds its picture, which both of the orchestrator's UIs show.

    All generations of a kind and name share one box, which shows the newest; with many sources, the last share one.
    """
    manifests = sorted(manifests, key=lambda manifest: stage_order(manifest.kind))  # a settled corpus comes first
    newest = {(manifest.kind, manifest.name): manifest for manifest in manifests}
    names: dict[str, list[str]] = {}
    for kind, name in newest:
        names.setdefault(kind, []).append(name)
    drawn = {(kind, name): _box_of(kind, name, names[kind]) for kind, name in newest}
    boxes = {
        drawn[made]: Box(key=drawn[made], title=manifest.kind, texts=(drawn[made][1], *_texts(manifest)))
        for made, manifest in reversed(newest.items())
    }
    for made, box in drawn.items():
        if box != made:
            boxes[box] = Box(key=box, title=box[0], texts=(box[1],))
    ordered = [boxes[key] for key in dict.fromkeys(drawn.values())]
    between = dict.fromkeys((drawn[old], drawn[new]) for old, new in arrows(manifests))
    return as_address(draw_lineage(ordered, list(between)))


def _box_of(kind: str, name: str, names: Sequence[str]) -> Made:
    """Return the box in which an artifact is drawn: its own, or one with others of its kind if there are many."""
    if len(names) <= MOST_BOXES or name in names[: MOST_BOXES - 1]:
        return kind, name
    return kind, f"{len(names) - MOST_BOXES + 1:,} more"


def _texts(manifest: Manifest) -> list[str]:
    return summary(manifest).split(", ")


def run_tags(recipe: Recipe, kind: str) -> list[str]:
    """Return the tags that make a flow run easy to find: its recipe, its sources, and its kind.

    kind: builds, or nothing new
    """
    sources = [f"source: {entry.source.name}" for entry in recipe.sources[:MOST_TAGS]]
    trains = ["trains"] if recipe.model is not None else []
    return [plain(tag) for tag in (f"recipe: {recipe.name}", kind, *trains, *sources)]


def arrows(manifests: Sequence[Manifest]) -> list[tuple[Made, Made]]:
    """Return what was made from what, by kind and name, without links that a longer path implies."""
    by_fingerprint = {m.fingerprint: (m.kind, m.name) for m in manifests}
    parents: dict[Made, dict[Made, None]] = {made: {} for made in by_fingerprint.values()}
    for manifest in manifests:
        made = by_fingerprint[manifest.fingerprint]
        sources = (
            by_fingerprint[parent.fingerprint] for parent in manifest.parents if parent.fingerprint in by_fingerprint
        )
        parents[made].update((parent, None) for parent in sources if parent != made)
    behind: dict[Made, set[Made]] = {}  # each kind comes after those it is made from, so theirs exist already
    for made, direct in parents.items():
        behind[made] = {further for parent in direct for further in (parent, *behind[parent])}
    return [
        (parent, made)
        for made, direct in parents.items()
        for parent in direct
        if not any(parent in behind[other] for other in direct)
    ]
