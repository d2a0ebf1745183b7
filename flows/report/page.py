"""The page: what a run took in, what came out, what went and why, and how to look each of it up.

Promises: one HTML file that asks nothing of any network; every value is escaped by the template; a run that
failed half way gives a page of what there is. The same store and record give the same bytes.
Cost: 0.2 s of CPU time for a store of 40 documents, half of it the figures, and matplotlib's import before; what
is read of a larger store is bounded as `samples` and `figures` say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from corpora.schema import Dropped
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.stage import read_manifest, read_table
from flows.report import accounts, figures, samples
from flows.report.examples import LABELS, ShownToken, example_masks, sample_examples, shown_tokens
from flows.runs import RunRecord
from shards.reader import ShardSet
from tokenizers_train.vocabulary import CONTINUATION, SPECIAL_TOKENS

SAMPLES_OF_A_REASON = 3
DUPLICATES = 6
EXAMPLES = 3
LONGEST_PIECES = 16
RECIPE_CHARACTERS = 20_000
HIDDEN = "▪"  # stands for a token whose text may not be shown

View = dict[str, Any]  # what the template reads, by name


@dataclass(frozen=True)
class RunView:
    """A run's record and the artifacts that it names, as far as the store has them."""

    place: Place
    record: RunRecord
    privacy: samples.Privacy

    @cached_property
    def manifests(self) -> list[Manifest]:
        """In the order in which the run made or reused them, each once."""
        folders = dict.fromkeys(stage.folder for stage in self.record.stages)
        found = (read_manifest(self.place, folder) for folder in folders)
        return [manifest for manifest in found if manifest is not None]

    def newest(self, kind: str) -> Manifest | None:
        """The last artifact of a kind."""
        return accounts.newest(self.manifests, kind)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The vocabulary's tokens by id; empty where there is no vocabulary yet."""
        manifest = self.newest("vocabularies")
        batches = read_table(self.place, manifest, "tokens") if manifest is not None else iter([])
        return tuple(token for batch in batches for token in batch.column("token").to_pylist())


def build_page(place: Place, record: RunRecord, privacy: str) -> str:
    """The report of a run as one HTML page. `privacy`: text, hashed or none. Raises InputError for another."""
    run = RunView(place, record, samples.Privacy(privacy))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["size"] = accounts.readable_bytes
    environment.filters["bounded"] = samples.visible
    template = environment.from_string((files("flows.report") / "template.html").read_text(encoding="utf-8"))
    summed = accounts.accounts_of(run.manifests)
    return template.render(
        record=record,
        recipe_text=record.recipe_toml[:RECIPE_CHARACTERS],
        privacy=privacy,
        accounts=summed,
        losses=_shares(accounts.losses(summed.steps)),
        sources=source_rows(run),
        splits=split_rows(run),
        reasons=reason_groups(run),
        pairs=pair_views(run),
        lengths=length_views(run),
        vocabulary=vocabulary_view(run),
        examples=example_views(run),
        artifacts=artifact_rows(run),
        stages=_timed_stages(record),
        labels=LABELS,
    )


def _shares(losses: Sequence[tuple[str, int]]) -> list[View]:
    """Reasons with their counts, and each bar's length as a share of the longest, in percent."""
    most = max((count for _, count in losses), default=1)
    return [{"name": name, "count": count, "bar": round(100 * count / most, 2)} for name, count in losses]


def source_rows(run: RunView) -> list[View]:
    """One row for each source and generation: raw files, records, documents, bytes of text."""
    rows = []
    for manifest in accounts.of_kind(run.manifests, "documents"):
        records = manifest.ledger.account("records")
        rows.append(
            {
                "name": manifest.name,
                "kind": manifest.settings["source"]["kind"],
                "raw": ", ".join(raw.name.removesuffix(" files") for raw in manifest.parents if raw.role == "raw"),
                "records": records.total,
                "dropped": records.starting("dropped"),
                "documents": manifest.rows("documents"),
                "text_bytes": manifest.ledger.figures.get("text bytes", 0),
            }
        )
    return rows


def split_rows(run: RunView) -> list[View]:
    """One row for each split of the shards: files, documents, examples by label, tokens, bytes."""
    shards = run.newest("shards")
    rows = []
    for split in shards.facts["splits"] if shards is not None else ():
        parts = [part for part in shards.parts if part.labels.get("split") == split] if shards is not None else []
        sums = {name: sum(part.ledger.figures.get(name, 0) for part in parts) for name in ("next", "random")}
        rows.append(
            {
                "name": split,
                "parts": len(parts),
                "examples": sum(part.rows("examples") for part in parts),
                "next": sums["next"],
                "random": sums["random"],
                "tokens": sum(part.ledger.figures.get("example tokens", 0) for part in parts),
                "bytes": sum(file.size_bytes for part in parts for file in part.files),
            }
        )
    return rows


def reason_groups(run: RunView) -> list[View]:
    """Reasons with samples, grouped by artifact: what each source dropped, what the corpus did not take."""
    parsed = [
        (manifest, samples.dropped_reasons(run.place, manifest, SAMPLES_OF_A_REASON))
        for manifest in accounts.of_kind(run.manifests, "documents")
    ]
    corpus = run.newest("corpora")
    removed = samples.removed_reasons(run.place, corpus, SAMPLES_OF_A_REASON) if corpus is not None else []
    groups = [(f"Dropped from {manifest.name}", reasons) for manifest, reasons in parsed]
    groups.append(("Removed from the corpus", removed))
    return [
        {"title": title, "reasons": [_reason_view(run, reason) for reason in reasons]}
        for title, reasons in groups
        if reasons
    ]


def _reason_view(run: RunView, reason: samples.Reason) -> View:
    rows = [_dropped_view(run.privacy, row) for row in reason.rows]
    return {"name": reason.name, "count": reason.count, "rows": rows}


def _dropped_view(privacy: samples.Privacy, row: Dropped) -> View:
    return {
        "id": row.id.hex() if row.id is not None else "",
        "title": privacy.show(row.title),
        "detail": privacy.show(row.detail, samples.DETAIL_CHARACTERS),
        "where": privacy.where(row.locator),
        "excerpt": privacy.show(row.excerpt, samples.EXCERPT_CHARACTERS),
        "survivor": row.survivor.hex() if row.survivor is not None else "",
        "similarity": f"{row.similarity:.3f}" if row.similarity is not None else "",
    }


def pair_views(run: RunView) -> list[View]:
    """Duplicates beside their survivors, the least similar first."""
    verdicts = run.newest("verdicts")
    pairs = samples.duplicate_pairs(run.place, verdicts, DUPLICATES) if verdicts is not None else []
    views = []
    for pair in pairs:
        sides = []
        for role, document in (("removed", pair.removed), ("stays", pair.survivor)):
            title, excerpt = samples.title_and_excerpt(document, run.privacy)
            where = run.privacy.where(document.locator)
            sides.append({"role": role, "title": title, "excerpt": excerpt, "where": where, "source": document.source})
        views.append({"reason": pair.reason, "similarity": f"{pair.similarity:.3f}", "sides": sides})
    return views


def length_views(run: RunView) -> list[View]:
    """Histograms of documents' and examples' lengths in tokens."""
    tokens, shards = run.newest("tokens"), run.newest("shards")
    unknown = run.tokens.index(SPECIAL_TOKENS["unk"]) if run.tokens else 0
    wanted = (
        ("Documents", tokens, "tokens", True, "tokens a document, logarithmic"),
        ("Examples", shards, "examples", False, "tokens an example, [CLS] and [SEP] included"),
    )
    views = []
    for title, manifest, table, logarithmic, unit in wanted:
        if manifest is None or not manifest.rows(table):
            continue
        sample = figures.sample_lengths(run.place, manifest, table, unknown)
        svg = figures.histogram(sample.lengths, f"lengths-of-{table}", unit, logarithmic)
        views.append({"title": title, "sample": sample, "rows": len(sample.lengths), "svg": Markup(svg)})
    return views


def vocabulary_view(run: RunView) -> View | None:
    """The vocabulary in numbers, with its special tokens and longest pieces; None where there is none."""
    manifest = run.newest("vocabularies")
    if manifest is None:
        return None
    ordinary = [token for token in run.tokens if not (token.startswith("[") and token.endswith("]"))]
    longest = sorted(ordinary, key=lambda token: (-len(token.removeprefix(CONTINUATION)), token))[:LONGEST_PIECES]
    return {
        "size": len(run.tokens),
        "asked": manifest.settings["size"],
        "algorithm": manifest.settings["algorithm"],
        "case": "lower-case" if manifest.settings["lowercase"] else "cased",
        "specials": [token for token in run.tokens if token in SPECIAL_TOKENS.values()],
        "continuing": sum(token.startswith(CONTINUATION) for token in ordinary),
        "distinct_words": manifest.ledger.figures.get("distinct words", 0),
        "longest": [shown for token in longest if (shown := run.privacy.show(token, 60))],
        "tokens_a_word": tokens_a_word(run),
    }


def tokens_a_word(run: RunView) -> str:
    """Training tokens for each word counted, where both were counted over the same corpus; else nothing."""
    counts, tokens = run.newest("counts"), run.newest("tokens")
    if counts is None or tokens is None or counts.parents[0] not in tokens.parents:
        return ""
    words = counts.ledger.figures.get("words", 0)
    return f"{tokens.ledger.figures['train tokens'] / words:.3f}" if words else ""


def example_views(run: RunView) -> list[View]:
    """A few training examples, each token with its segment and mask."""
    shards = run.newest("shards")
    if shards is None or not run.tokens:
        return []
    views = []
    for number, example in sample_examples(ShardSet(run.place, shards), EXAMPLES):
        tokens = shown_tokens(example, run.tokens, example_masks(shards, example))
        text = " ".join(token.text for token in tokens)
        views.append(
            {
                "number": number,
                "label": example.label,
                "length": len(tokens),
                "masked": sum(token.kind not in ("plain", "special") for token in tokens),
                "document": example.document.hex(),
                "partner": example.partner.hex() if example.partner is not None else "",
                "digest": run.privacy.show(text) if run.privacy.mode == "hashed" else "",
                "tokens": [_token_view(token, run.privacy.mode == "text") for token in tokens],
            }
        )
    return views


def _token_view(token: ShownToken, readable: bool) -> View:
    """A token for the template; where text may not be shown, only special tokens are."""
    text, seen = token.text, token.seen
    if not readable:
        text, seen = (piece if piece in SPECIAL_TOKENS.values() else HIDDEN for piece in (text, seen))
    return {"text": text, "seen": seen, "segment": "ab"[token.segment], "kind": token.kind}


def artifact_rows(run: RunView) -> list[View]:
    """Every artifact: what names it, what came out, how much of it there is."""
    return [
        {
            "name": f"{manifest.kind}/{manifest.name}",
            "fingerprint": manifest.fingerprint,
            "content": manifest.content,
            "parents": [f"{parent.role}/{parent.name} {parent.fingerprint}" for parent in manifest.parents],
            "parts": len(manifest.parts),
            "tables": {table: content.rows for table, content in manifest.tables.items()},
            "bytes": accounts.size_bytes(manifest),
        }
        for manifest in run.manifests
    ]


def _timed_stages(record: RunRecord) -> list[Mapping[str, Any]]:
    longest = max((stage.seconds for stage in record.stages), default=0.0) or 1.0
    return [{"record": stage, "bar": round(100 * stage.seconds / longest, 2)} for stage in record.stages]
