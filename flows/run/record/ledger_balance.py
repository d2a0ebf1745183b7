"""The accounts of a run: from raw records to examples, each step's ledger and each edge between two steps.

Promise: numbers come from the manifests' ledgers and row counts alone, and nothing is made to fit: a step or an
edge that does not balance is reported as it is. Reads no data, only manifests.

A run may have several vocabularies, token artifacts and shard sets: each has steps and edges of its own, under the
name that the recipe gives it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, Part
from flows.run.stage_kinds import STAGES

COPY_OF_TOKENS = "tokens of copy "


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAccount:
    """The account of one step: `total` units came in, and the outcomes say where each went."""

    title: str
    unit: str
    total: int
    outcomes: Mapping[str, int]

    @property
    def found(self) -> int:
        """The number of units that are accounted for."""
        return sum(self.outcomes.values())

    @property
    def balances(self) -> bool:
        """True if the outcomes add up to the total."""
        return self.found == self.total

    def __str__(self) -> str:
        terms = " + ".join(f"{count:,} {name}" for name, count in self.outcomes.items())
        return f"{self.total:,} {self.unit} {'=' if self.balances else '≠'} {terms or 0}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Compares what one stage gave with what the next one received, counted on either side.

    unlabelled: what the first may have given in addition, in parts whose labels do not say so
    """

    title: str
    unit: str
    given: int
    received: int
    unlabelled: int = 0

    @property
    def balances(self) -> bool:
        """True if nothing appeared or vanished in between."""
        return self.given <= self.received <= self.given + self.unlabelled

    def __str__(self) -> str:
        more = f" and up to {self.unlabelled:,} more" if self.unlabelled else ""
        return f"{self.title}: {self.given:,}{more} {'=' if self.balances else '≠'} {self.received:,} {self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """All steps and edges of a run, as far as it came, and the headline numbers in their order.

    headline: unit -> name -> count; the name is "" if the run has one artifact that counts this unit
    """

    steps: tuple[StepAccount, ...]
    edges: tuple[Edge, ...]
    headline: Mapping[str, Mapping[str, int]]

    @property
    def balances(self) -> bool:
        """True if every step and every edge balances."""
        return not self.wrong

    @property
    def wrong(self) -> list[str]:
        """The steps and edges that do not balance, as sentences."""
        items: list[StepAccount | Edge] = [*self.steps, *self.edges]
        return [str(item) for item in items if not item.balances]


def of_kind(manifests: Iterable[Manifest], kind: str) -> list[Manifest]:
    """The manifests of one kind, each once, in order."""
    return list({manifest.folder: manifest for manifest in manifests if manifest.kind == kind}.values())


def newest(manifests: Iterable[Manifest], kind: str) -> Manifest | None:
    """The last manifest of a kind: of several generations, the one that covers all of them."""
    matches = of_kind(manifests, kind)
    return matches[-1] if matches else None


def newest_of_each(manifests: Sequence[Manifest], kind: str) -> dict[str, Manifest]:
    """The last manifest of each name of a kind, by the name that the recipe gives it; "" if there is only one."""
    by_name = {manifest.name: manifest for manifest in manifests if manifest.kind == kind}
    corpus = newest(manifests, "corpora")
    prefix = f"{corpus.name}-" if corpus is not None else ""
    return {name.removeprefix(prefix) if len(by_name) > 1 else "": manifest for name, manifest in by_name.items()}


def made_from(manifest: Manifest, candidates: Iterable[Manifest]) -> Manifest | None:
    """The first of the candidates that is a parent of an artifact."""
    parents = {(parent.role, parent.fingerprint) for parent in manifest.parents}
    return next((candidate for candidate in candidates if (candidate.kind, candidate.fingerprint) in parents), None)


def accounts_of(manifests: Sequence[Manifest]) -> Accounts:
    """The accounts of a run's manifests, given in the order in which the run made them."""
    return Accounts(
        steps=tuple(_steps(manifests)),
        edges=(*_document_edges(manifests), *_token_edges(manifests)),
        headline=_headline(manifests),
    )


def _steps(manifests: Sequence[Manifest]) -> Iterable[StepAccount]:
    parsed = of_kind(manifests, "documents")
    if any("left_out" in manifest.settings for manifest in parsed):
        yield _step("Find raw files", files_account(parsed))
    for kind, described in STAGES.items():
        for name, ledger in _ledgers(manifests, kind).items():
            for account in sorted(ledger.accounts, key=_numbered):
                if found := next(filter(None, (re.fullmatch(unit, account.unit) for unit in described.steps)), None):
                    groups = {"unit": account.unit, "name": f" ({name})" if name else "", **found.groupdict()}
                    title = described.steps[found.re.pattern].format_map(groups)
                    yield replace(_step(title, account), unit=groups["unit"])


def _ledgers(manifests: Sequence[Manifest], kind: str) -> dict[str, Ledger]:
    """Return the ledgers of a kind by the names of its artifacts; those of all sources and generations as one."""
    if STAGES[kind].of_source:
        return {"": sum((manifest.ledger for manifest in of_kind(manifests, kind)), Ledger())}
    return {name: manifest.ledger for name, manifest in newest_of_each(manifests, kind).items()}


def titled(what: str, name: str) -> str:
    """Return the name of something of one artifact of several."""
    return f"{what} ({name})" if name else what


def _step(title: str, account: Account) -> StepAccount:
    counts = sorted(account.outcomes.items(), key=lambda item: (":" in item[0], -item[1], item[0]))
    named = {name if ":" in name else name.replace("_", " "): count for name, count in counts}
    return StepAccount(title=title, unit=account.unit, total=account.total, outcomes=named)


def records_account(parsed: Iterable[Manifest]) -> Account:
    """The account of raw records, over all sources and generations."""
    return sum((manifest.ledger for manifest in parsed), Ledger()).find_account("records")


def files_account(parsed: Iterable[Manifest]) -> Account:
    """The account of raw files, over all sources and generations: read, or left out by the lock."""
    total = read = left_out = 0
    for manifest in parsed:
        [raw] = (parent for parent in manifest.parents if parent.role == "raw")
        files = int(raw.name.removesuffix(" files"))
        total += files
        left_out += len(manifest.settings.get("left_out", ()))
        read += manifest.facts.get("raw files read", files)
    return Account(unit="raw files", total=total, outcomes={"read": read, "left out: unreadable": left_out})


def copy_accounts(shards: Manifest) -> list[Account]:
    """The accounts of tokens of a shard set, one for each copy, in the order of copies."""
    copies = [account for account in shards.ledger.accounts if account.unit.startswith(COPY_OF_TOKENS)]
    return sorted(copies, key=_numbered)


def _numbered(account: Account) -> list[str]:
    """Return what sorts accounts by their units, and copy 2 before copy 10."""
    return [word.zfill(9) if word.isdigit() else word for word in account.unit.split()]


def _document_edges(manifests: Sequence[Manifest]) -> Iterable[Edge]:
    """Yield the edges from the parsed documents to the rows that were tokenised."""
    parsed, verdicts, corpus = (
        of_kind(manifests, "documents"),
        newest(manifests, "verdicts"),
        newest(manifests, "corpora"),
    )
    if parsed and verdicts is not None:
        given = records_account(parsed).outcomes.get("documents", 0)
        judged = verdicts.ledger.find_account("documents").total
        yield Edge(title="Documents parsed and judged", unit="documents", given=given, received=judged)
    if verdicts is not None and corpus is not None:
        kept = verdicts.ledger.find_account("documents").outcomes.get("kept", 0)
        live = corpus.count_rows("documents") - corpus.count_rows("deleted")
        yield Edge(title="Documents kept and in the corpus", unit="documents", given=kept, received=live)
    for name, tokens in newest_of_each(manifests, "tokens").items():
        if corpus is not None:
            rows, taken = corpus.count_rows("documents"), tokens.ledger.find_account("documents").total
            title = titled("Rows of the corpus (deleted ones too) and rows tokenised", name)
            yield Edge(title=title, unit="documents", given=rows, received=taken)


def _token_edges(manifests: Sequence[Manifest]) -> Iterable[Edge]:
    """Yield the edges from each token artifact to every copy of the shard sets that are made from it."""
    written = list(newest_of_each(manifests, "tokens").values())
    for name, shards in newest_of_each(manifests, "shards").items():
        tokens = made_from(shards, written)
        if tokens is None:
            continue
        given, unlabelled = tokens_for(tokens, shards)
        for account in copy_accounts(shards):
            title = titled(f"Tokens written and taken up by {account.unit.removeprefix('tokens of ')}", name)
            yield Edge(title=title, unit="tokens", given=given, received=account.total, unlabelled=unlabelled)


def tokens_for(tokens: Manifest, shards: Manifest) -> tuple[int, int]:
    """Count the tokens of the sources that a shard set takes, and those of parts without a source label.

    A part of documents that came back with a later generation has no source label: it may hold any source.
    """
    sources = shards.settings.get("sources")
    if not sources:
        return num_tokens(tokens.parts), 0
    taken = [part for part in tokens.parts if part.labels.get("source") in sources]
    return num_tokens(taken), num_tokens(part for part in tokens.parts if "source" not in part.labels)


def num_tokens(parts: Iterable[Part]) -> int:
    """Count the tokens in parts of a tokens artifact, of all splits."""
    return sum(part.ledger.figures[f"{split} tokens"] for part in parts for split in ("train", "held-out"))


def _headline(manifests: Sequence[Manifest]) -> dict[str, dict[str, int]]:
    parsed, verdicts = of_kind(manifests, "documents"), newest(manifests, "verdicts")
    tokens, shards, models = (newest_of_each(manifests, kind) for kind in ("tokens", "shards", "models"))
    numbers: dict[str, dict[str, int]] = {}
    if parsed:
        records = records_account(parsed)
        numbers |= {"raw records": {"": records.total}, "documents": {"": records.outcomes.get("documents", 0)}}
    if verdicts is not None:
        numbers["kept"] = {"": verdicts.ledger.find_account("documents").outcomes.get("kept", 0)}
    counted = {
        "tokens": {name: num_tokens(manifest.parts) for name, manifest in tokens.items()},
        "examples": {name: manifest.count_rows("examples") for name, manifest in shards.items()},
        "training steps": {name: manifest.ledger.figures["steps"] for name, manifest in models.items()},
    }
    return numbers | {unit: counts for unit, counts in counted.items() if counts}


def losses(steps: Iterable[StepAccount]) -> list[tuple[str, int]]:
    """List lost documents and records by reason, most first: outcomes that are "dropped: " or "removed: "."""
    lost = [
        (name, count)
        for step in steps
        for name, count in step.outcomes.items()
        if name.startswith(("dropped: ", "removed: "))
    ]
    return sorted(lost, key=lambda item: (-item[1], item[0]))


def edits_of(manifest: Manifest) -> list[tuple[str, int]]:
    """List what steps changed or met in documents that they did not drop: lines, personal data, evaluation items."""
    edits = ("lines repaired in part", "lines removed: ", "masked: ", "meets ")
    return [(name, count) for name, count in manifest.ledger.figures.items() if name.startswith(edits) and count]


def size_bytes(manifest: Manifest) -> int:
    """Return the bytes of all files of an artifact."""
    return sum(file.size_bytes for part in manifest.parts for file in part.files)


def readable_bytes(size: int) -> str:
    """Format a size for people.

    >>> readable_bytes(1_530_000)
    '1.5 MB'
    """
    for bound, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if size >= bound:
            return f"{size / bound:.1f} {unit}"
    return f"{size} B"
