"""What the page of a run shows. The one place that sends text to the orchestrator, which reads it as Markdown.

Titles, excerpts and locators come from anywhere, names from a recipe. As Markdown they could load pictures from other
machines in a reader's browser, make links, or hide their text. Everything that a page shows is escaped here: cells of
tables, descriptions and tags by `escape_markdown`, and our own Markdown is assembled from `escape_cell`, `escape_alt`,
`format_code_line`, pictures, and the address of a report (`server_guard.py`).

Log lines, names of runs and messages of states are not read as Markdown; one UI makes links of addresses in a log,
which show where they lead.

Promise: no text loads anything, links anywhere or draws. It is shown on one line. Costs one API call each; if the API
is lost, or a run has no server, nothing (`recording.py`), and Prefect is not imported.

`Progress` is the first artifact of a run, which shows where it is by a line for each group of its stages:

    group        state       stages            parts      now
    data         done        14                22 of 22
    vocabulary   under way   3, 1 reused       4 of 6     measures/demo: 0 of 1 parts
    shards       next
    train        waits
    tasks        waits

If the run fails, the line in which it did says why, and so does the text above. It costs a request at most every
PROGRESS_SECONDS, and one when a group begins or the run ends.
"""

import json
import os
import re
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any
from uuid import UUID

from corpora.schema import DROPPED, iter_dropped
from corpora.store.manifest import Manifest
from corpora.store.places.address import without_password
from corpora.store.places.place import Place
from corpora.store.stage import Stage
from corpora.store.tables import read_table
from flows.orchestration.recording import get_recording, send_to_api
from flows.orchestration.server_guard import get_report_path, record_store
from flows.recipes.privacy import Privacy
from flows.recipes.recipe import Recipe
from flows.report.lineage_picture import Box, draw_lineage
from flows.run.pipeline import Outcome
from flows.run.plan_run import NEW, UNCHANGED
from flows.run.policies import MAX_SAMPLES, MAX_SAMPLES_PER_REASON, PROGRESS_SECONDS
from flows.run.record.counts_text import MINOR_TABLES, choose_row_words, describe_progress, describe_rows, format_count
from flows.run.record.run_record import FlowRun, StageRecord
from flows.run.record.run_status import StageProgress
from flows.run.stage_kinds import STAGES, get_stage_index

Row = Mapping[str, str]
Data = float | str | Sequence[Row]  # a bar from 0 to 100, Markdown of our own, or a table

JOINER = "\u2060"  # invisible everywhere, and not part of any construct

# Parts of a picture, link or definition, of an element or entity, of a fence, of an address that becomes a link.
_BROKEN = re.compile(r"\]|[<&`~@]|:(?=/)|www(?=\.)", re.IGNORECASE)
_BLOCK = re.compile(r"(?=[#>|=+*~`\-]|\d+[.)](\s|$))")


def escape_markdown(text: str) -> str:
    """Escape a string so that Markdown shows it as plain text on one line, and a plain-text viewer shows it unchanged.

    Inserts an invisible character wherever an image, link, HTML element, diagram or block could begin. Backslashes are
    not enough, because Prefect has two UIs: one renders table cells as Markdown, the other renders descriptions, and
    one turns even escaped URLs into links. Emphasis is not escaped.

    >>> escape_markdown("![x](http://a.example) is\\n<b>bold</b>").replace(JOINER, "\\u2022")
    '![x]•(http:•//a.example) is <•b>bold<•/b>'
    >>> escape_markdown("rules: gopher.min_words, 1,234 of 5%")
    'rules: gopher.min_words, 1,234 of 5%'
    """
    line = _BROKEN.sub(lambda match: match[0] + JOINER, " ".join(text.split()))
    return JOINER + line if _BLOCK.match(line) else line


def escape_cell(text: str) -> str:
    """Escape a string for a cell of a Markdown table, like `escape_markdown` but including vertical bars."""
    return escape_markdown(text).replace("\\", "\\\\").replace("|", r"\|")


def escape_alt(text: str) -> str:
    """Escape a string for the alternative text of a Markdown image, like `escape_markdown` but without brackets."""
    return re.sub(r"[\[\]\\]", "", escape_markdown(text))


def format_code_line(text: str) -> str:
    """Format a string as a one-line Markdown code block, so that it is shown unchanged and can be copied."""
    return f"    {' '.join(text.split())}"


def to_data_url(svg: str) -> str:
    """Convert the text of an SVG image to a data URL."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def to_artifact_key(text: str) -> str:
    """Convert a string to a key that Prefect accepts for an artifact: lower-case letters, digits and dashes.

    >>> to_artifact_key("progress-R&D")
    'progress-r-d'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def show_artifact(key: str, data: Data, description: str) -> None:
    """Show a percentage, a table or Markdown as a Prefect artifact on the page of the current flow run or task run.

    Args:
        key: The name of the artifact, which `to_artifact_key` converts to Prefect's key.
        data: A percentage as a float, Markdown that needs no escaping, or table rows, which are escaped.
        description: One line of plain text, which is escaped.
    """
    LiveArtifact(key=key).show(data, description)


def add_tags(flow_run_id: UUID, tags: Iterable[str]) -> None:
    """Add tags to a Prefect flow run, after the tags that it already has.

    Args:
        flow_run_id: The id of the flow run.
        tags: The tags, which the caller must already have escaped.
    """
    from prefect.client.orchestration import get_client

    def change() -> None:
        with get_client(sync_client=True) as client:
            existing = client.read_flow_run(flow_run_id).tags
            client.update_flow_run(flow_run_id, tags=[*dict.fromkeys([*existing, *tags])])

    send_to_api(change)


def log(line: str, level: str = "info") -> None:
    """Write a line to the log of the current Prefect flow run or task run, if there is one.

    Args:
        line: The line to write.
        level: The log level in lower case, such as "info" or "warning".
    """
    recording = get_recording()
    if recording is not None and recording.buffer is not None:
        recording.buffer.add_line(line, level)
    if recording is None or recording.is_lost:
        return
    from prefect.logging import get_run_logger
    from prefect.runtime import flow_run

    if flow_run.id is not None:
        getattr(get_run_logger(), level)("%s", line)


def build_artifact(key: str, data: float | str | Sequence[Row], description: str) -> dict[str, Any]:
    """Build a Prefect artifact (something shown on a run's page) in the form that Prefect's API accepts.

    Args:
        key: The name of the artifact, which `to_artifact_key` converts to Prefect's key.
        data: A percentage as a float, Markdown as a string, or table rows. Strings must already be escaped.
        description: One line of Markdown, already escaped.

    Returns:
        A dict with the keys "key", "type", "data" and "description".
    """
    kinds: dict[type, str] = {float: "progress", str: "markdown"}
    contents = data if isinstance(data, (float, str)) else json.dumps(data)
    return {
        "key": to_artifact_key(key),
        "type": kinds.get(type(data), "table"),
        "data": contents,
        "description": description,
    }


def escape_braces(name: str) -> str:
    """Escape braces in the name of a Prefect flow run or task run, because Prefect formats the name as a template.

    >>> escape_braces("tickets {2026}").format()
    'tickets {2026}'
    """
    return name.replace("{", "{{").replace("}", "}}")


@dataclass(kw_only=True)
class LiveArtifact:
    """A Prefect artifact on the current run's page that is updated in place: the first `show` creates it.

    Attributes:
        key: The name of the artifact, which `to_artifact_key` converts to Prefect's key.
    """

    key: str
    _id: UUID | None = None

    def show(self, data: Data, description: str) -> None:
        """Create the artifact, or replace its contents.

        Args:
            data: A percentage as a float, Markdown that needs no escaping, or table rows, which are escaped.
            description: One line of plain text, which is escaped.
        """
        rows = data
        if not isinstance(data, (float, str)):
            rows = [{n: escape_markdown(t) for n, t in row.items()} for row in data]
        escaped, artifact_id = escape_markdown(description), self._id
        if (recording := get_recording()) is not None and recording.buffer is not None:
            recording.buffer.artifacts[to_artifact_key(self.key)] = build_artifact(self.key, rows, escaped)
        elif artifact_id is None:
            self._id = send_to_api(lambda: self._create(rows, escaped))
        else:
            send_to_api(lambda: self._update(artifact_id, rows, escaped))

    def _create(self, data: Data, description: str) -> UUID | None:
        from prefect import artifacts

        key = to_artifact_key(self.key)
        if isinstance(data, float):
            artifact_id = artifacts.create_progress_artifact(data, key=key, description=description)
        elif isinstance(data, str):
            artifact_id = artifacts.create_markdown_artifact(data, key=key, description=description)
        else:
            rows = [dict(row) for row in data]
            artifact_id = artifacts.create_table_artifact(rows, key=key, description=description)
        assert isinstance(artifact_id, UUID)
        return artifact_id

    def _update(self, artifact_id: UUID, data: Data, description: str) -> None:
        from prefect.client.orchestration import get_client
        from prefect.client.schemas.actions import ArtifactUpdate

        contents = data if isinstance(data, (float, str)) else json.dumps(data)
        with get_client(sync_client=True) as client:
            client.update_artifact(artifact_id, ArtifactUpdate(data=contents, description=description))


KindAndName = tuple[str, str]  # kind and name of an artifact

OBVIOUS_REASONS = (NEW, UNCHANGED)  # reasons why a stage is built, or reused, that say no more than its state
MAX_BOXES_PER_KIND = 8  # of one kind in a picture
MAX_SOURCE_TAGS = 12  # of sources
CLOUD_API = re.compile(r"https://api\.prefect\.cloud/api/accounts/([^/]+)/workspaces/([^/]+)/?")


def show_ledger(place: Place, manifest: Manifest, privacy: str) -> None:
    """Show a table of an artifact's record counts, and samples of its dropped and removed documents.

    The table has the number of records read, and the number with each outcome.

    Args:
        place: The store that contains the artifact (the stored result of a pipeline stage).
        manifest: The artifact's manifest (its description).
        privacy: How document text is shown in samples: "text", "hashed" or "none" (the recipe's `[privacy] samples`).
    """
    name = manifest.stage_folder
    description = ": ".join(filter(None, [name, summarize_manifest(manifest)]))
    show_artifact(f"ledger-{name}", build_ledger_rows(manifest), description)
    for table in ("dropped", "removed"):
        samples = sample_dropped(place, manifest, table, Privacy(privacy))
        if samples:
            description = f"{name}: samples of the {describe_rows(manifest)[table]}, by reason"
            show_artifact(f"{table}-{name}", samples, description)


def name_run(recipe: str, began: str) -> str:
    """Return the name of a run's Prefect flow run: the recipe's name and the local time at which the run began.

    Args:
        recipe: The name of the recipe.
        began: When the run began, in ISO 8601 with the time zone.
    """
    return f"{recipe} {datetime.fromisoformat(began).astimezone():%Y-%m-%d %H:%M:%S %Z}".rstrip()


def to_flow_name(recipe: str) -> str:
    """Return the name of a recipe's Prefect flow: the recipe's name without the characters that Prefect forbids.

    Prefect groups the runs of a recipe by this name.

    >>> to_flow_name("tickets"), to_flow_name("R&D/notes")
    ('tickets', 'R-D-notes')
    """
    return re.sub("[/%&<>]", "-", recipe)


def build_flow_parameters(recipe: Recipe) -> dict[str, Any]:
    """Build the parameters of a recipe's Prefect flow run, which are only displayed on its page.

    Returns:
        A dict with the keys "recipe_name" and "recipe_toml" (the recipe's text).
    """
    return {"recipe_name": recipe.name, "recipe_toml": recipe.text}


def describe_flow_run(api: str, flow_run_id: str, embedded: bool = False) -> FlowRun:
    """Return a Prefect flow run's id with the URL of its page in Prefect's UI, which is "" if unknown.

    Args:
        api: The URL of the Prefect API.
        flow_run_id: The id of the flow run.
        embedded: True if the API belongs to a server without a UI.
    """
    ui = "" if embedded else find_ui(api)
    return FlowRun(id=flow_run_id, page=f"{ui}/runs/flow-run/{flow_run_id}" if ui else "")


def find_ui(api: str) -> str:
    """Return the URL of the UI for a Prefect API, or "" if it is unknown.

    For the API of the user's Prefect profile, PREFECT_UI_URL is used if it is set.

    Args:
        api: The URL of the API.

    >>> find_ui("http://127.0.0.1:4200/api"), find_ui("https://api.prefect.cloud/api/accounts/a/workspaces/w")
    ('http://127.0.0.1:4200', 'https://app.prefect.cloud/account/a/workspace/w')
    """
    if api == os.environ.get("CLOZE_PREFECT_API") and (given := os.environ.get("CLOZE_PREFECT_UI")):
        return without_password(given).rstrip("/")
    if cloud := CLOUD_API.fullmatch(api):
        return f"https://app.prefect.cloud/account/{cloud[1]}/workspace/{cloud[2]}"
    return without_password(api).removesuffix("/api") if api.endswith("/api") else ""


def render_report_link(
    place: Place, run_id: str, flow_run_id: str, has_own_server: bool, tell: Callable[[str], None]
) -> str:
    """Render a link to a run's report, or a command that opens it, as Markdown for the page of its flow run.

    Args:
        place: The store of the run.
        run_id: The id of the run.
        flow_run_id: The id of its flow run.
        has_own_server: True if the page is shown by a server that Cloze started, so that a link works. If False, the
            Markdown only contains the command that regenerates the report.
        tell: Called with a message if the link is omitted because the server cannot be told where the store is.
    """
    lines = ["The same page is in the store; this writes it again and says where it is:", ""]
    if has_own_server:
        try:
            record_store(Path(os.environ["PREFECT_HOME"]), flow_run_id, place)
            lines[:0] = [f"[The report of this run]({get_report_path(flow_run_id, run_id)}), once it has ended.", ""]
        except OSError as error:
            tell(f"The UI will not lead to the report of this run: {error}")
    return "\n".join([*lines, format_code_line(format_report_command(place, run_id))])


def format_report_command(place: Place, run_id: str) -> str:
    """Return the shell command that regenerates a run's report and prints its path: "cloze report STORE --run RUN".

    Args:
        place: The store of the run.
        run_id: The id of the run.
    """
    return f"cloze report {quote(place.to_address(''))} --run {run_id}"


def build_ledger_rows(manifest: Manifest) -> list[dict[str, str]]:
    """Build table rows with the record counts and metrics in a manifest (the description of a stored result).

    If the manifest has none, builds one row for each table of the artifact, with its number of rows.

    Returns:
        Dicts with the keys "unit" (what is counted, such as "documents"), "outcome" ("in" for all records read) and
        "count".
    """
    rows = []
    for account in manifest.ledger.accounts:
        rows.append({"unit": account.unit, "outcome": "in", "count": f"{account.total:,}"})
        rows += [{"unit": account.unit, "outcome": o, "count": f"{n:,}"} for o, n in account.outcomes.items()]
    rows += [{"unit": name, "outcome": "", "count": f"{n:,}"} for name, n in manifest.ledger.figures.items()]
    return rows or [
        {"unit": choose_row_words(manifest.kind, table)[1], "outcome": "rows", "count": f"{content.rows:,}"}
        for table, content in manifest.tables.items()
    ]


def sample_dropped(place: Place, manifest: Manifest, table: str, privacy: Privacy) -> list[dict[str, str]]:
    """Return the first few dropped documents of an artifact for each reason, up to MAX_SAMPLES in total.

    Args:
        place: The store that contains the artifact.
        manifest: The artifact's manifest (its description).
        table: The name of the table to read, "dropped" or "removed".
        privacy: Determines how much of the documents' text is shown.

    Returns:
        Table rows with the keys "reason", "title", "excerpt", "detail" and "where" (the document's location in the
        raw files). Empty if the artifact has no such table.

    Raises:
        Damaged: If the table is damaged.
    """
    seen = Counter[str]()
    rows: list[dict[str, str]] = []
    for row in iter_dropped(read_table(place, manifest, table, DROPPED.names)):
        reason = f"{row.step}: {row.reason}"
        seen[reason] += 1
        if seen[reason] <= MAX_SAMPLES_PER_REASON:
            texts = {"title": row.title, "excerpt": row.excerpt, "detail": row.detail}
            shown = {name: privacy.show(text) for name, text in texts.items()}
            rows.append({"reason": reason, **shown, "where": privacy.format_locator(row.locator)})
        if len(rows) >= MAX_SAMPLES:
            break
    return rows


def describe_stage(record: StageRecord, manifest: Manifest) -> str:
    """Describe a finished pipeline stage in one line for the terminal: its name, state, duration and contents.

    The line includes the reason why the stage was built or reused, unless it is obvious.

    Args:
        record: What the run did with the stage.
        manifest: The description of the stage's stored result.
    """
    what = manifest.stage_folder
    some = 0 < record.parts_built < record.parts
    how = f"{record.state} {record.parts_built:,} of {record.parts:,} parts" if some else record.state
    why = f"({record.reason})" if record.reason not in OBVIOUS_REASONS else ""
    more = filter(None, [summarize_manifest(manifest), why])
    return "   ".join([f"{what:32} {how:22} {record.seconds:7.1f} s", *more])


def summarize_manifest(manifest: Manifest) -> str:
    """Summarize an artifact's contents in a few words: the row counts of its non-empty tables, as in "5 documents".

    If all tables are empty, only the first one is listed. For a model, the summary is the number of training steps.
    """
    if manifest.kind == "models":
        return format_count(manifest.ledger.figures["steps"], "training step")
    texts = {table: text for table, text in describe_rows(manifest).items() if table not in MINOR_TABLES}
    return ", ".join([text for table, text in texts.items() if manifest.tables[table].rows] or [*texts.values()][:1])


def summarize_outcome(outcome: Outcome) -> str:
    """Summarize the results of a run in a few words, as in "1,200 examples, a model trained on them"."""
    examples = sum(manifest.count_rows("examples") for manifest in outcome.shard_sets.values())
    trained = ", a model trained on them" if outcome.model is not None else ""
    learnt = f", fine-tuned on {format_count(len(outcome.tasks), 'task')}" if outcome.tasks else ""
    return f"{format_count(examples, 'example')}{trained}{learnt}"


def render_lineage(manifests: Sequence[Manifest], report: str = "") -> str:
    """Render the lineage of a run's artifacts (which one was built from which) as Markdown for a Prefect page.

    The Markdown has a diagram, the report command, and a table of the artifacts' digests.

    Args:
        manifests: The artifacts' manifests (descriptions of the stored results).
        report: The shell command that prints the path of the run's report; "" omits it.
    """
    lines = [f"![what came from what]({render_lineage_picture(manifests)})", ""]
    lines += [*(("The report of this run, once it has ended:", "", format_code_line(report), "") if report else ())]
    lines += ["| artifact | fingerprint | content |", "|---|---|---|"]
    for manifest in manifests:
        lines.append(f"| {escape_cell(manifest.stage_folder)} | `{manifest.fingerprint}` | `{manifest.content}` |")
    return "\n".join(lines)


def render_lineage_picture(manifests: Sequence[Manifest]) -> str:
    """Draw the lineage of artifacts (which one was built from which), and return the SVG drawing as a data URL.

    Artifacts with the same kind and name share a box, which shows the newest one. If a kind has more than
    MAX_BOXES_PER_KIND names, the last names share a box.

    Args:
        manifests: The artifacts' manifests (descriptions of the stored results).
    """
    manifests = sorted(manifests, key=lambda manifest: get_stage_index(manifest.kind))  # a settled corpus comes first
    newest = {(manifest.kind, manifest.name): manifest for manifest in manifests}
    names: dict[str, list[str]] = {}
    for kind, name in newest:
        names.setdefault(kind, []).append(name)
    drawn = {(kind, name): _choose_box(kind, name, names[kind]) for kind, name in newest}
    boxes = {
        drawn[product]: Box(
            key=drawn[product],
            title=manifest.kind,
            texts=(drawn[product][1], *summarize_manifest(manifest).split(", ")),
        )
        for product, manifest in reversed(newest.items())
    }
    for product, box in drawn.items():
        if box != product:
            boxes[box] = Box(key=box, title=box[0], texts=(box[1],))
    ordered = [boxes[key] for key in dict.fromkeys(drawn.values())]
    between = dict.fromkeys((drawn[old], drawn[new]) for old, new in find_arrows(manifests))
    return to_data_url(draw_lineage(ordered, list(between)))


def _choose_box(kind: str, name: str, names: Sequence[str]) -> KindAndName:
    """Return the (kind, name) label of the box for an artifact in a lineage diagram.

    If there are many artifacts of a kind, the last ones share a box with a name such as "5 more".

    Args:
        kind: The artifact's kind.
        name: The artifact's name.
        names: All names of that kind, in drawing order.
    """
    if len(names) <= MAX_BOXES_PER_KIND or name in names[: MAX_BOXES_PER_KIND - 1]:
        return kind, name
    return kind, f"{len(names) - MAX_BOXES_PER_KIND + 1:,} more"


def run_tags(recipe: Recipe, kind: str) -> list[str]:
    """Build the tags that make a flow run easy to find: its recipe, its kind and its sources. They are escaped.

    Args:
        recipe: The recipe of the run.
        kind: "builds", or "nothing new" if the store already has everything. "" becomes an empty tag.
    """
    sources = [f"source: {entry.source.name}" for entry in recipe.sources[:MAX_SOURCE_TAGS]]
    trains = ["trains"] if recipe.model is not None else []
    return [escape_markdown(tag) for tag in (f"recipe: {recipe.name}", kind, *trains, *sources)]


def find_arrows(manifests: Sequence[Manifest]) -> list[tuple[KindAndName, KindAndName]]:
    """Find the arrows of a lineage diagram. They lead from each artifact to the artifacts built from it.

    Omits an arrow if a longer path connects the same artifacts.

    Args:
        manifests: The artifacts' manifests (descriptions). Each must come after those of its inputs.

    Returns:
        Pairs (input, output), each a (kind, name) pair.
    """
    by_fingerprint = {m.fingerprint: (m.kind, m.name) for m in manifests}
    parents: dict[KindAndName, dict[KindAndName, None]] = {product: {} for product in by_fingerprint.values()}
    for manifest in manifests:
        product = by_fingerprint[manifest.fingerprint]
        sources = (
            by_fingerprint[parent.fingerprint] for parent in manifest.parents if parent.fingerprint in by_fingerprint
        )
        parents[product].update((parent, None) for parent in sources if parent != product)
    # Each kind comes after those it is made from, so their ancestors are known already.
    ancestors: dict[KindAndName, set[KindAndName]] = {}
    for product, direct in parents.items():
        ancestors[product] = {further for parent in direct for further in (parent, *ancestors[parent])}
    return [
        (parent, product)
        for product, direct in parents.items()
        for parent in direct
        if not any(parent in ancestors[other] for other in direct)
    ]


@dataclass(slots=True)
class _Group:
    """The progress of a group of pipeline stages. Dicts are keyed by stage folder, `KIND/NAME`.

    Attributes:
        missing: Number of parts (output files) to build for each stage.
        built: Number of parts built so far for each stage.
        ended: Final state of each finished stage.
        now: What the group is doing now, or why it failed.
        failed: True if the run failed in this group.
    """

    missing: dict[str, int] = field(default_factory=dict)
    built: dict[str, int] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)  # to their state
    now: str = ""
    failed: bool = False


class Progress:
    """Tracks the pipeline stages of a run, and shows the run's progress as a table on its page in Prefect's UI.

    Not thread-safe: callers must hold a lock around each call.

    Args:
        recipe: The recipe, which determines the groups of stages that are shown.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._name = recipe.name
        self._artifact = LiveArtifact(key=f"progress-{recipe.name}")
        self._groups = {kind.group: _Group() for kind in STAGES.values() if kind.list_artifact_names(recipe, {})}
        self._shown, self._is_over = 0.0, False

    def begin(self, stage: Stage, missing: int) -> None:
        """Record that a stage will be built.

        Args:
            stage: The stage.
            missing: The number of its parts (output files) to build.
        """
        group = self._groups.setdefault(STAGES[stage.kind].group, _Group())
        is_first = not group.missing
        group.missing[stage.stage_folder], group.built[stage.stage_folder] = missing, 0
        group.ended.pop(stage.stage_folder, None)
        if is_first:
            self.show()

    def advance(self, what: str, built: int, pace: StageProgress) -> None:
        """Record that parts (output files) of a stage have been built, or that training steps have been done.

        Args:
            what: The stage's folder, `KIND/NAME`, followed by " steps" if training steps are counted.
            built: The number of parts or steps so far.
            pace: The stage's progress and speed.
        """
        if self._is_over:  # it failed, and other tasks go on to their end
            return
        folder, now = what.removesuffix(" steps"), time.monotonic()
        group = self._groups[STAGES[folder.partition("/")[0]].group]
        if folder == what:
            group.built[folder] = built
        group.now = f"{folder}: {describe_progress(what, pace.to_json(now))}"
        if now - self._shown >= PROGRESS_SECONDS:
            self.show()

    def finish(self, folder: str, state: str) -> None:
        """Record that a stage is complete.

        Args:
            folder: The stage's folder in the store, `KIND/NAME`.
            state: "built", "reused" or another state of a `StageRecord`.
        """
        self._groups[STAGES[folder.partition("/")[0]].group].ended[folder] = state

    def fail(self, why: str) -> None:
        """Show that the run failed, and why. The reason is shown in the table rows of the groups that were being built.

        Args:
            why: The message of the error.
        """
        begun = [name for name, group in self._groups.items() if group.missing]
        is_open = [name for name in begun if len(self._groups[name].ended) < len(self._groups[name].missing)]
        [failed] = (is_open or begun)[-1:] or [next(iter(self._groups))]
        self._groups[failed].failed, self._groups[failed].now = True, why
        self._is_over = True
        self.show(f"failed in {failed}. {why}")

    def end(self, text: str) -> None:
        """Show that the run has ended.

        Args:
            text: A short summary of the run's results.
        """
        self._is_over = True
        self.show(text)

    def show(self, text: str = "") -> None:
        """Show the current progress of the run on its page.

        What a group is doing now is also in the line above the table, because the UI cuts the cells of a table.

        Args:
            text: How the run ended, or "" while it is running.
        """
        self._shown, rows = time.monotonic(), self.list_rows()
        now = [f"{row['group']}, {row['now']}".rstrip(", ") for row in rows if row["state"] == "under way"]
        self._artifact.show(rows, f"{self._name}: {text or '; '.join(now) or 'begins'}")

    def list_rows(self) -> list[dict[str, str]]:
        """Return a table row for each group of pipeline stages in the recipe, in build order.

        Each row has the keys "group", "state" ("done", "under way", "next", "waits" or "failed"), "stages", "parts" and
        "now".
        """
        last = next((group for group in reversed(self._groups.values()) if group.missing), None)
        coming = next((group for group in self._groups.values() if not group.missing and not self._is_over), None)
        return [
            {"group": name, **_format_cells(group, self._is_over or group is not last, group is coming)}
            for name, group in self._groups.items()
        ]


def _format_cells(group: _Group, is_past: bool, is_next: bool) -> dict[str, str]:
    """Format the table cells "state", "stages", "parts" and "now" of a group of stages.

    Args:
        group: The group.
        is_past: True if no more stages of this group can begin, because a later group has begun or the run has ended.
        is_next: True if this group will begin next.
    """
    is_open, reused = len(group.ended) < len(group.missing), list(group.ended.values()).count("reused")
    waits = "next" if is_next else "waits"
    states = {"failed": group.failed, waits: not group.missing, "done": is_past and not is_open, "under way": True}
    state = next(state for state, holds in states.items() if holds)
    built, missing = sum(group.built.values()), sum(group.missing.values())
    return {
        "state": state,
        "stages": f"{len(group.ended)}{f', {reused} reused' if reused else ''}" if group.missing else "",
        "parts": f"{built:,} of {missing:,}" if missing else "",
        "now": group.now if state in ("failed", "under way") else "",
    }
