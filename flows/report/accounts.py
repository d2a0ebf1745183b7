"""The accounts of a run: from raw records to examples, each step's ledger and each edge between two steps.

Promise: numbers come from the manifests' ledgers and row counts alone, and nothing is made to fit: a step or an
edge that does not balance is told as it is. Reads no data, only manifests.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest

COPY_OF_TOKENS = "tokens of copy "


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One account on the way: `total` units came in, and the outcomes say where each went."""

    title: str
    unit: str
    total: int
    outcomes: Mapping[str, int]

    @property
    def found(self) -> int:
        """How many are accounted for."""
        return sum(self.outcomes.values())

    @property
    def balances(self) -> bool:
        """Whether the outcomes add up to the total."""
        return self.found == self.total

    def __str__(self) -> str:
        terms = " + ".join(f"{count:,} {name}" for name, count in self.outcomes.items())
        return f"{self.total:,} {self.unit} {'=' if self.balances else '≠'} {terms or 0}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What one stage gave and what the next one received, counted on either side."""

    title: str
    unit: str
    given: int
    received: int

    @property
    def balances(self) -> bool:
        """Whether nothing appeared or vanished in between."""
        return self.given == self.received

    def __str__(self) -> str:
        return f"{self.title}: {self.given:,} {'=' if self.balances else '≠'} {self.received:,} {self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """All steps and edges of a run, as far as it came, and the headline numbers in their order."""

    steps: tuple[Step, ...]
    edges: tuple[Edge, ...]
    headline: Mapping[str, int]

    @property
    def balances(self) -> bool:
        """Whether every step and every edge does."""
        return not self.wrong

    @property
    def wrong(self) -> list[str]:
        """The steps and edges that do not balance, as sentences."""
        items: list[Step | Edge] = [*self.steps, *self.edges]
        return [str(item) for item in items if not item.balances]


def of_kind(manifests: Iterable[Manifest], kind: str) -> list[Manifest]:
    """The manifests of one kind, each once, in order."""
    return list({manifest.folder: manifest for manifest in manifests if manifest.kind == kind}.values())


def newest(manifests: Iterable[Manifest], kind: str) -> Manifest | None:
    """The last manifest of a kind: of several generations', the one that covers them all."""
    found = of_kind(manifests, kind)
    return found[-1] if found else None


def accounts_of(manifests: Sequence[Manifest]) -> Accounts:
    """The accounts of a run's manifests, given in the order in which the run made them."""
    parsed = of_kind(manifests, "documents")
    verdicts, corpus = newest(manifests, "verdicts"), newest(manifests, "corpora")
    tokens, shards = newest(manifests, "tokens"), newest(manifests, "shards")
    return Accounts(
        steps=tuple(_steps(parsed, verdicts, tokens, shards)),
        edges=tuple(_edges(parsed, verdicts, corpus, tokens, shards)),
        headline=_headline(parsed, verdicts, tokens, shards),
    )


def _steps(
    parsed: list[Manifest], verdicts: Manifest | None, tokens: Manifest | None, shards: Manifest | None
) -> Iterable[Step]:
    if parsed:
        records = records_account(parsed)
        yield _step("Parse, clean and filter", records)
    if verdicts is not None:
        yield _step("Revisions, forgets and duplicates", verdicts.ledger.account("documents"))
    if tokens is not None:
        yield _step("Tokenise", tokens.ledger.account("documents"))
    for account in copy_accounts(shards):
        yield _step(f"Build examples, copy {account.unit.removeprefix(COPY_OF_TOKENS)}", account)


def _step(title: str, account: Account) -> Step:
    unit = "tokens" if account.unit.startswith(COPY_OF_TOKENS) else account.unit
    counts = sorted(account.outcomes.items(), key=lambda item: (":" in item[0], -item[1], item[0]))
    named = {name if ":" in name else name.replace("_", " "): count for name, count in counts}
    return Step(title=title, unit=unit, total=account.total, outcomes=named)


def records_account(parsed: Iterable[Manifest]) -> Account:
    """The account of raw records, over all sources and generations."""
    return sum((manifest.ledger for manifest in parsed), Ledger()).account("records")


def copy_accounts(shards: Manifest | None) -> list[Account]:
    """The accounts of tokens of a shard set, one for each copy, in the order of copies."""
    accounts = shards.ledger.accounts if shards is not None else ()
    copies = [account for account in accounts if account.unit.startswith(COPY_OF_TOKENS)]
    return sorted(copies, key=lambda account: int(account.unit.removeprefix(COPY_OF_TOKENS)))


def _edges(
    parsed: list[Manifest],
    verdicts: Manifest | None,
    corpus: Manifest | None,
    tokens: Manifest | None,
    shards: Manifest | None,
) -> Iterable[Edge]:
    if parsed and verdicts is not None:
        given = records_account(parsed).outcomes.get("documents", 0)
        judged = verdicts.ledger.account("documents").total
        yield Edge(title="Documents parsed and judged", unit="documents", given=given, received=judged)
    if verdicts is not None and corpus is not None:
        kept = verdicts.ledger.account("documents").outcomes.get("kept", 0)
        live = corpus.rows("documents") - corpus.rows("deleted")
        yield Edge(title="Documents kept and in the corpus", unit="documents", given=kept, received=live)
    if corpus is not None and tokens is not None:
        rows, taken = corpus.rows("documents"), tokens.ledger.account("documents").total
        title = "Rows of the corpus (deleted ones too) and rows tokenised"
        yield Edge(title=title, unit="documents", given=rows, received=taken)
    if tokens is not None:
        for account in copy_accounts(shards):
            title = f"Tokens written and taken up by {account.unit.removeprefix('tokens of ')}"
            yield Edge(title=title, unit="tokens", given=num_tokens(tokens), received=account.total)


def num_tokens(tokens: Manifest) -> int:
    """Tokens of a tokens artifact, of all splits."""
    figures = tokens.ledger.figures
    return figures.get("train tokens", 0) + figures.get("held-out tokens", 0)


def _headline(
    parsed: list[Manifest], verdicts: Manifest | None, tokens: Manifest | None, shards: Manifest | None
) -> dict[str, int]:
    numbers: dict[str, int] = {}
    if parsed:
        records = records_account(parsed)
        numbers |= {"raw records": records.total, "documents": records.outcomes.get("documents", 0)}
    if verdicts is not None:
        numbers["kept"] = verdicts.ledger.account("documents").outcomes.get("kept", 0)
    if tokens is not None:
        numbers["tokens"] = num_tokens(tokens)
    if shards is not None:
        numbers["examples"] = shards.rows("examples")
    return numbers


def losses(steps: Iterable[Step]) -> list[tuple[str, int]]:
    """Documents and records that went, by reason, most first: outcomes that are "dropped: " or "removed: "."""
    lost = [
        (name, count)
        for step in steps
        for name, count in step.outcomes.items()
        if name.startswith(("dropped: ", "removed: "))
    ]
    return sorted(lost, key=lambda item: (-item[1], item[0]))


def size_bytes(manifest: Manifest) -> int:
    """Bytes of all files of an artifact."""
    return sum(file.size_bytes for part in manifest.parts for file in part.files)


def readable_bytes(size: int) -> str:
    """A size for people.

    >>> readable_bytes(1_530_000)
    '1.5 MB'
    """
    for bound, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if size >= bound:
            return f"{size / bound:.1f} {unit}"
    return f"{size} B"
