"""What a run leaves on the orchestrator's pages: ledgers, samples of dropped documents, lineage, in a few words."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence

from corpora.schema import DROPPED, dropped_rows
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.tables import read_table
from flows.orchestration.pages import ProgressBar, in_diagram, in_row, show_markdown, show_table
from flows.recipes.privacy import Privacy
from flows.run.pipeline import Outcome
from flows.run.policies import SAMPLES, SAMPLES_EACH
from flows.run.records import StageRecord
from flows.run.units import counted, rows_called, rows_in_words

Made = tuple[str, str]  # kind and name of an artifact


def leave_artifacts(place: Place, manifest: Manifest, privacy: str) -> None:
    """The ledger as a table artifact, and samples of the dropped documents."""
    name = manifest.stage_folder
    described = f"{name}: {summary(manifest)}"
    show_table(f"ledger-{name}", ledger_table(manifest), described)
    for table in ("dropped", "removed"):
        samples = dropped_samples(place, manifest, table, Privacy(privacy))
        if samples:
            described = f"{name}: samples of the {rows_in_words(manifest)[table]}, by reason"
            show_table(f"{table}-{name}", samples, described)


def run_called(recipe: str) -> str:
    """What a run of a recipe that begins now is called."""
    return f"{recipe} {time.strftime('%Y-%m-%d %H:%M:%S')}"


def progress_bar(recipe: str) -> ProgressBar:
    """The bar on the page of a run."""
    return ProgressBar(key=f"progress-{recipe}", description=f"{recipe}: parts built")


def show_lineage(recipe: str, manifests: Sequence[Manifest]) -> None:
    """What came from what in a run, on its page."""
    show_markdown(f"lineage-{recipe}", lineage(manifests), f"{recipe}: what came from what, and how much of it")


def ledger_table(manifest: Manifest) -> list[dict[str, str]]:
    """Every account and figure of a manifest as rows."""
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
    """The first dropped documents of each reason, as far as privacy lets their text be shown."""
    seen = Counter[str]()
    rows: list[dict[str, str]] = []
    for row in dropped_rows(read_table(place, manifest, table, DROPPED.names)):
        reason = f"{row.step}: {row.reason}"
        seen[reason] += 1
        if seen[reason] <= SAMPLES_EACH:
            texts = {"detail": row.detail, "title": row.title, "excerpt": row.excerpt}
            shown = {name: privacy.show(text) for name, text in texts.items()}
            rows.append({"reason": reason, "where": privacy.where(row.locator), **shown})
        if len(rows) >= SAMPLES:
            break
    return rows


def line(record: StageRecord, manifest: Manifest) -> str:
    """One stage as one line for the terminal."""
    what = manifest.stage_folder
    how = f"{record.state} {record.parts_built}/{record.parts} parts" if record.parts_built else record.state
    return f"{what:32} {how:22} {record.seconds:7.1f} s   {summary(manifest)}   ({record.reason})"


def summary(manifest: Manifest) -> str:
    """What came out, in a few words."""
    return ", ".join(rows_in_words(manifest).values())


def whole_in_store(manifest: Manifest) -> str:
    """What is said of a stage that is reused."""
    return f"whole in the store: {summary(manifest)}"


def conclusion(outcome: Outcome) -> str:
    """What came of a run, in a few words."""
    examples = sum(manifest.rows("examples") for manifest in outcome.shard_sets.values())
    trained = ", a model trained on them" if outcome.model is not None else ""
    return f"{counted(examples, 'example')}{trained}"


def parts_built(number: int) -> str:
    """What a range task did, in a few words."""
    return f"{counted(number, 'part')} built"


def lineage(manifests: Sequence[Manifest]) -> str:
    """What came from what, in Markdown: a diagram, and the fingerprint and content of everything."""
    lines = ["```mermaid", *diagram(manifests), "```", ""]
    lines += ["| artifact | fingerprint | content |", "|---|---|---|"]
    for manifest in manifests:
        lines.append(f"| {in_row(manifest.stage_folder)} | `{manifest.fingerprint}` | `{manifest.content}` |")
    return "\n".join(lines)


def diagram(manifests: Sequence[Manifest]) -> Iterator[str]:
    """The lines of a Mermaid flowchart. All generations of a kind and name are one box, which tells the newest."""
    yield '%%{init: {"flowchart": {"nodeSpacing": 16, "rankSpacing": 28, "padding": 8}}}%%'
    yield "flowchart TD"
    newest = {(m.kind, m.name): m for m in manifests}
    boxes = {what: f"n{number}" for number, what in enumerate(newest)}
    for what, manifest in newest.items():
        told = [f"<b>{manifest.kind}</b>", in_diagram(manifest.name), *summary(manifest).split(", ")]
        yield f'    {boxes[what]}["{"<br/>".join(told)}"]'
    yield from (f"    {boxes[old]} --> {boxes[new]}" for old, new in arrows(manifests))


def arrows(manifests: Sequence[Manifest]) -> list[tuple[Made, Made]]:
    """What was made from what, by kind and name: but for what a way over others says already."""
    known = {m.fingerprint: (m.kind, m.name) for m in manifests}
    parents: dict[Made, dict[Made, None]] = {made: {} for made in known.values()}
    for manifest in manifests:
        made = known[manifest.fingerprint]
        found = (known[parent.fingerprint] for parent in manifest.parents if parent.fingerprint in known)
        parents[made].update((parent, None) for parent in found if parent != made)
    behind: dict[Made, set[Made]] = {}  # each kind comes after those it is made from, so theirs are known
    for made, direct in parents.items():
        behind[made] = {further for parent in direct for further in (parent, *behind[parent])}
    return [
        (parent, made)
        for made, direct in parents.items()
        for parent in direct
        if not any(parent in behind[other] for other in direct)
    ]
