"""The accounts of a run, from raw records to examples: each step's ledger, and each edge between two steps.

Promise: numbers come only from the manifests' ledgers and row counts, and nothing is made to fit: a step or an edge
that does not balance is reported as it is. Reads no data, only manifests. A run may have several vocabularies, token
artifacts and shard sets: each has steps and edges of its own, under the name that the recipe gives it.

`sample_lengths` counts the tokens of documents and examples, of all rows or of the rows of a few parts at even
distances. Promise: the same artifact gives the same sample. Cost: the ids of at most `most` parts are read.

`list_warnings` and the functions before it report on the examples of a shard set: shares, and whether their looks (the
lengths and ends of their segments) give labels away. Promise: sums cover the ledgers of all shards; looks and lost
neighbours are those of `MAX_SPLIT_PARTS` shards of a split at even distances. Cost: the counts of looks of these
shards; if rows are deleted, which documents their examples hold.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.generic_types import Item
from corpora.kernels.arrays import Int64s
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, Part
from corpora.store.places.place import Place
from corpora.store.tables import read_part_table
from flows.run.record.counts_text import format_count
from flows.run.stage_kinds import STAGES
from shards.reading.epoch_rows import count_lost_neighbors
from shards.reading.files.shard_set import ShardSet
from shards.surfaces import SURFACES, SUSPECT_ACCURACY, SurfaceAccuracy, measure_surface_accuracy

COPY_OF_TOKENS = "tokens of copy "


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAccount:
    """The counts of one step of a run: the number of items that it received, by what happened to them.

    Attributes:
        title: Description of the step, such as "Find raw files".
        unit: What is counted, such as "records".
        total: Number of items that the step received.
        outcomes: Number of items by outcome, such as "kept" or "dropped: parse: empty".
    """

    title: str
    unit: str
    total: int
    outcomes: Mapping[str, int]

    @property
    def found(self) -> int:
        """The sum of the outcomes: the number of items for which an outcome was counted."""
        return sum(self.outcomes.values())

    @property
    def balances(self) -> bool:
        """True if the outcomes add up to the total, so that every item has exactly one outcome."""
        return self.found == self.total

    def __str__(self) -> str:
        terms = " + ".join(f"{count:,} {name}" for name, count in self.outcomes.items())
        return f"{self.total:,} {self.unit} {'=' if self.balances else '≠'} {terms or 0}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A comparison between the number of items that one step wrote and the number that the next step read.

    Attributes:
        title: Description of what is compared.
        unit: What is counted, such as "documents".
        given: Number of items that the first step wrote.
        received: Number of items that the next step read.
        unlabelled: Number of additional items that the next step may have read, from files that are not assigned to a
            source.
    """

    title: str
    unit: str
    given: int
    received: int
    unlabelled: int = 0

    @property
    def balances(self) -> bool:
        """True if no item was added or lost between the two steps."""
        return self.given <= self.received <= self.given + self.unlabelled

    def __str__(self) -> str:
        more = f" and up to {self.unlabelled:,} more" if self.unlabelled else ""
        return f"{self.title}: {self.given:,}{more} {'=' if self.balances else '≠'} {self.received:,} {self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The counts of all steps that a run completed, and its main totals.

    Attributes:
        steps: The counts of each step, in the order of the run.
        edges: Comparisons of each step's output with the next step's input.
        headline: Totals by unit (such as "tokens"), then by the name of the artifact with the count. The name is "" if
            there is only one.
    """

    steps: tuple[StepAccount, ...]
    edges: tuple[Edge, ...]
    headline: Mapping[str, Mapping[str, int]]

    @property
    def balances(self) -> bool:
        """True if no item is lost in a step or between two steps."""
        return not self.wrong

    @property
    def wrong(self) -> list[str]:
        """Descriptions of the steps and comparisons with counts that do not add up."""
        items: list[StepAccount | Edge] = [*self.steps, *self.edges]
        return [str(item) for item in items if not item.balances]


def filter_kind(manifests: Iterable[Manifest], kind: str) -> list[Manifest]:
    """Return the distinct manifests (artifact descriptions) of one kind, such as "tokens", in order."""
    return list({manifest.folder: manifest for manifest in manifests if manifest.kind == kind}.values())


def find_newest(manifests: Iterable[Manifest], kind: str) -> Manifest | None:
    """Return the last manifest (artifact description) of a kind, or None if there is none.

    The last one covers the raw files of all runs. (Parsed documents are an exception: each source has separate
    artifacts.)
    """
    matches = filter_kind(manifests, kind)
    return matches[-1] if matches else None


def find_newest_by_name(manifests: Sequence[Manifest], kind: str) -> dict[str, Manifest]:
    """Return the last manifest (artifact description) of each name, for artifacts of one kind.

    Args:
        manifests: Descriptions of a run's artifacts, in the order of the run.
        kind: The kind, such as "tokens".

    Returns:
        The manifests by the name of their table in the recipe. A single manifest has the name "".
    """
    by_name = {manifest.name: manifest for manifest in manifests if manifest.kind == kind}
    corpus = find_newest(manifests, "corpora")
    prefix = f"{corpus.name}-" if corpus is not None else ""
    return {name.removeprefix(prefix) if len(by_name) > 1 else "": manifest for name, manifest in by_name.items()}


def find_parent(manifest: Manifest, candidates: Iterable[Manifest]) -> Manifest | None:
    """Return the first manifest that describes an input of an artifact, or None if there is none.

    Args:
        manifest: Description of the artifact.
        candidates: Descriptions of the possible inputs.
    """
    parents = {(parent.role, parent.fingerprint) for parent in manifest.parents}
    return next((candidate for candidate in candidates if (candidate.kind, candidate.fingerprint) in parents), None)


def build_accounts(manifests: Sequence[Manifest]) -> Accounts:
    """Build the step counts of a run from the manifests (descriptions) of its artifacts, in the order of the run."""
    return Accounts(
        steps=tuple(_iter_steps(manifests)),
        edges=(*_iter_document_edges(manifests), *_iter_token_edges(manifests)),
        headline=_count_headline(manifests),
    )


def _iter_steps(manifests: Sequence[Manifest]) -> Iterable[StepAccount]:
    parsed = filter_kind(manifests, "documents")
    if any("left_out" in manifest.settings for manifest in parsed):
        yield _build_step("Find raw files", sum_raw_files(parsed))
    for kind, described in STAGES.items():
        for name, ledger in _collect_ledgers(manifests, kind).items():
            for account in sorted(ledger.accounts, key=_to_sort_key):
                if found := next(filter(None, (re.fullmatch(unit, account.unit) for unit in described.steps)), None):
                    groups = {"unit": account.unit, "name": f" ({name})" if name else "", **found.groupdict()}
                    title = described.steps[found.re.pattern].format_map(groups)
                    yield replace(_build_step(title, account), unit=groups["unit"])


def _collect_ledgers(manifests: Sequence[Manifest], kind: str) -> dict[str, Ledger]:
    """Return the ledgers (record counts by outcome) of the artifacts of one kind, by artifact name.

    If sources have separate artifacts of this kind, the result is their sum, under the name "".

    Args:
        manifests: Descriptions of a run's artifacts, in the order of the run.
        kind: The kind, such as "tokens".
    """
    if STAGES[kind].is_per_source:
        return {"": sum((manifest.ledger for manifest in filter_kind(manifests, kind)), Ledger())}
    return {name: manifest.ledger for name, manifest in find_newest_by_name(manifests, kind).items()}


def add_name(what: str, name: str) -> str:
    """Append a name in parentheses to a text, as in "tokens (small)". Returns the text unchanged if the name is ""."""
    return f"{what} ({name})" if name else what


def _build_step(title: str, account: Account) -> StepAccount:
    counts = sorted(account.outcomes.items(), key=lambda item: (":" in item[0], -item[1], item[0]))
    named = {name if ":" in name else name.replace("_", " "): count for name, count in counts}
    return StepAccount(title=title, unit=account.unit, total=account.total, outcomes=named)


def sum_records(parsed: Iterable[Manifest]) -> Account:
    """Sum the counts of raw records (read, and by outcome) over artifacts of parsed documents."""
    return sum((manifest.ledger for manifest in parsed), Ledger()).find_account("records")


def sum_raw_files(parsed: Iterable[Manifest]) -> Account:
    """Sum the counts of raw files (in total, read, and skipped as unreadable) over artifacts of parsed documents."""
    total = read = left_out = 0
    for manifest in parsed:
        [raw] = (parent for parent in manifest.parents if parent.role == "raw")
        files = int(raw.name.removesuffix(" files"))
        total += files
        left_out += len(manifest.settings.get("left_out", ()))
        read += manifest.facts.get("raw files read", files)
    return Account(unit="raw files", total=total, outcomes={"read": read, "left out: unreadable": left_out})


def list_copy_accounts(shards: Manifest) -> list[Account]:
    """Return the token counts of each copy of a shard set's data (the same text with different masks), by copy number.

    Each has the total number of tokens, and the number by outcome, such as "truncated".
    """
    copies = [account for account in shards.ledger.accounts if account.unit.startswith(COPY_OF_TOKENS)]
    return sorted(copies, key=_to_sort_key)


def _to_sort_key(account: Account) -> list[str]:
    """Return a key for sorting accounts by unit. Numbers sort numerically, such as copy 2 before copy 10."""
    return [word.zfill(9) if word.isdigit() else word for word in account.unit.split()]


def _iter_document_edges(manifests: Sequence[Manifest]) -> Iterable[Edge]:
    """Yield comparisons of the numbers of documents that were parsed, deduplicated, kept in the corpus, and tokenized.

    A comparison is omitted if the run has no artifact for one of its two steps.
    """
    parsed, verdicts, corpus = (
        filter_kind(manifests, "documents"),
        find_newest(manifests, "verdicts"),
        find_newest(manifests, "corpora"),
    )
    if parsed and verdicts is not None:
        given = sum_records(parsed).outcomes.get("documents", 0)
        judged = verdicts.ledger.find_account("documents").total
        yield Edge(title="Documents parsed and judged", unit="documents", given=given, received=judged)
    if verdicts is not None and corpus is not None:
        kept = verdicts.ledger.find_account("documents").outcomes.get("kept", 0)
        live = corpus.count_rows("documents") - corpus.count_rows("deleted")
        yield Edge(title="Documents kept and in the corpus", unit="documents", given=kept, received=live)
    for name, tokens in find_newest_by_name(manifests, "tokens").items():
        if corpus is not None:
            rows, taken = corpus.count_rows("documents"), tokens.ledger.find_account("documents").total
            title = add_name("Rows of the corpus (deleted ones too) and rows tokenised", name)
            yield Edge(title=title, unit="documents", given=rows, received=taken)


def _iter_token_edges(manifests: Sequence[Manifest]) -> Iterable[Edge]:
    """Yield comparisons of the number of stored tokens with the number that each copy of each shard set read."""
    written = list(find_newest_by_name(manifests, "tokens").values())
    for name, shards in find_newest_by_name(manifests, "shards").items():
        tokens = find_parent(shards, written)
        if tokens is None:
            continue
        given, unlabelled = count_tokens_for(tokens, shards)
        for account in list_copy_accounts(shards):
            title = add_name(f"Tokens written and taken up by {account.unit.removeprefix('tokens of ')}", name)
            yield Edge(title=title, unit="tokens", given=given, received=account.total, unlabelled=unlabelled)


def count_tokens_for(tokens: Manifest, shards: Manifest) -> tuple[int, int]:
    """Count the stored tokens that a shard set (training data) was built from.

    Args:
        tokens: Manifest (description) of the tokens artifact.
        shards: Manifest of the shard set.

    Returns:
        The number of tokens that come from the shard set's sources, and the number of additional tokens that may come
        from them: those in files that are not assigned to a source (documents that a later run restored).
    """
    sources = shards.settings.get("sources")
    if not sources:
        return count_tokens(tokens.parts), 0
    taken = [part for part in tokens.parts if part.labels.get("source") in sources]
    return count_tokens(taken), count_tokens(part for part in tokens.parts if "source" not in part.labels)


def count_tokens(parts: Iterable[Part]) -> int:
    """Count the tokens of the train and held-out splits in parts (file sets) of a tokens artifact."""
    return sum(part.ledger.figures[f"{split} tokens"] for part in parts for split in ("train", "held-out"))


def _count_headline(manifests: Sequence[Manifest]) -> dict[str, dict[str, int]]:
    parsed, verdicts = filter_kind(manifests, "documents"), find_newest(manifests, "verdicts")
    tokens, shards, models = (find_newest_by_name(manifests, kind) for kind in ("tokens", "shards", "models"))
    numbers: dict[str, dict[str, int]] = {}
    if parsed:
        records = sum_records(parsed)
        numbers |= {"raw records": {"": records.total}, "documents": {"": records.outcomes.get("documents", 0)}}
    if verdicts is not None:
        numbers["kept"] = {"": verdicts.ledger.find_account("documents").outcomes.get("kept", 0)}
    counted = {
        "tokens": {name: count_tokens(manifest.parts) for name, manifest in tokens.items()},
        "examples": {name: manifest.count_rows("examples") for name, manifest in shards.items()},
        "training steps": {name: manifest.ledger.figures["steps"] for name, manifest in models.items()},
    }
    return numbers | {unit: counts for unit, counts in counted.items() if counts}


def list_losses(steps: Iterable[StepAccount]) -> list[tuple[str, int]]:
    """List the outcomes for dropped or removed items as (outcome, count) pairs, largest count first."""
    lost = [
        (name, count)
        for step in steps
        for name, count in step.outcomes.items()
        if name.startswith(("dropped: ", "removed: "))
    ]
    return sorted(lost, key=lambda item: (-item[1], item[0]))


def list_edits(manifest: Manifest) -> list[tuple[str, int]]:
    """List the edits and findings in an artifact's documents, as (description, count) pairs.

    These are removed or repaired lines, masked personal data, and matches with test data. Zero counts are omitted.

    Args:
        manifest: Manifest of the parsed documents.
    """
    edits = ("lines repaired in part", "lines removed: ", "masked: ", "meets ")
    return [(name, count) for name, count in manifest.ledger.figures.items() if name.startswith(edits) and count]


def sum_bytes(manifest: Manifest) -> int:
    """Return the total size in bytes of an artifact's files."""
    return sum(file.size_bytes for part in manifest.parts for file in part.files)


def format_bytes(size: int) -> str:
    """Format a size, given in bytes, as B, kB, MB or GB (powers of 1,000).

    >>> format_bytes(1_530_000)
    '1.5 MB'
    """
    for bound, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if size >= bound:
            return f"{size / bound:.1f} {unit}"
    return f"{size} B"


MAX_LENGTH_PARTS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthSample:
    """The number of tokens in each row of a sample of an artifact's table.

    Attributes:
        lengths: int64 array (n,), the number of tokens of each row.
        unknown: Total number of unknown tokens in these rows.
        parts: Number of parts (file sets) that were read.
        all_parts: Number of parts that contain rows.
    """

    lengths: Int64s
    unknown: int
    parts: int
    all_parts: int

    @property
    def total(self) -> int:
        """Total number of tokens in the sampled rows."""
        return int(self.lengths.sum())

    def compute_quantile(self, share: float) -> int:
        """Return a quantile of the lengths, such as the median for a share of 0.5. The sample must not be empty."""
        return int(np.quantile(self.lengths, share, method="inverted_cdf"))


def sample_lengths(
    place: Place, manifest: Manifest, table: str, unknown_id: int | None = None, most: int = MAX_LENGTH_PARTS
) -> LengthSample:
    """Read the number of tokens in each row of a table, from evenly spaced parts (file sets).

    Args:
        place: The store.
        manifest: Manifest (description) of the artifact that contains the table.
        table: Name of a table with a list column `ids`.
        unknown_id: Id of the unknown token. If None, unknown tokens are not counted.
        most: Maximum number of parts to read.

    Returns:
        The lengths; empty if the table has no rows.

    Raises:
        Damaged: If a file is damaged.
    """
    holding = [part for part in manifest.parts if part.count_rows(table)]
    chosen = spread(holding, most)
    lengths, unknown = [np.zeros(0, np.int64)], 0
    for part in chosen:
        for batch in read_part_table(place, manifest.stage_folder, part, table, ("ids",)):
            column = batch.column("ids")
            lengths.append(pc.list_value_length(column).to_numpy().astype(np.int64))
            if unknown_id is not None:
                unknown += int(np.count_nonzero(column.flatten().to_numpy() == unknown_id))
    return LengthSample(lengths=np.concatenate(lengths), unknown=unknown, parts=len(chosen), all_parts=len(holding))


def spread(parts: Sequence[Item], most: int) -> list[Item]:
    """Return at most `most` evenly spaced items of a sequence, in order."""
    if len(parts) <= most:
        return list(parts)
    return [parts[index * len(parts) // most] for index in range(most)]


MAX_SPLIT_PARTS = 12  # of a split
MAX_LOST_SHARE = 0.1  # of the tokens, without a warning
LOWER_BOUND_NAME = "surface accuracy at least"
# The ledger's names for the examples of label 0 and those of label 1.
LABEL_FIGURES: Mapping[str, tuple[str, str]] = {
    "next-sentence": ("next", "random"),
    "sentence-order": ("in_order", "swapped"),
}

Share = tuple[str, float, float, str]  # name, part, whole, of what


def iter_shares(place: Place, shards: Manifest) -> Iterator[Share]:
    """Yield shares of a shard set (training data), such as the share of truncated tokens, in display order.

    Args:
        place: The store.
        shards: Manifest (description) of the shard set.

    Yields:
        Tuples (name, part, whole, unit). The share is part / whole, and `unit` is what both numbers count.
    """
    figures, examples = shards.ledger.figures, shards.count_rows("examples")
    whole, lost = _count_lost_tokens(shards)
    for outcome, part in lost.items():
        yield f"{outcome.replace('_', ' ')} token share", part, whole, "tokens"
    yield "fill", figures.get("example tokens", 0), examples * shards.facts["length"], "places"
    if (names := LABEL_FIGURES.get(shards.facts.get("labels") or "")) is not None:
        first, second = (figures.get(name, 0) for name in names)
        yield f"{names[1].replace('_', ' ')} share", second, first + second, "examples"
    if "without_partner" in figures:
        alone = figures["without_partner"]
        yield "without partner share", alone, alone + examples, "chunks"
    if "cut_sentences" in figures:
        yield "cut sentence share", figures["cut_sentences"], examples, "examples"
    if shards.count_rows("deleted"):
        yield "lost neighbour share", *count_lost(place, shards), "examples"


def _count_lost_tokens(shards: Manifest) -> tuple[int, dict[str, int]]:
    """Count the tokens in all copies of a shard set's data, and the unused tokens by reason.

    The reasons are "truncated" and "left_over".
    """
    accounts = list_copy_accounts(shards)
    lost = {name: sum(each.outcomes.get(name, 0) for each in accounts) for name in ("truncated", "left_over")}
    return sum(account.total for account in accounts), lost


def compute_label_deviation(shards: Manifest) -> float | None:
    """Compute how much the counts of a shard set's two labels differ, in standard deviations of a fair coin.

    Returns None if the shard set (training data) has no labels.
    """
    names = LABEL_FIGURES.get(shards.facts.get("labels") or "")
    first, second = (shards.ledger.figures.get(name, 0) for name in names) if names is not None else (0, 0)
    return abs(first - second) / float(first + second) ** 0.5 if first + second else None


def count_lost(place: Place, shards: Manifest) -> tuple[int, int]:
    """Count the examples that contain both deleted and remaining documents, in a sample of the shards.

    Args:
        place: The store.
        shards: Manifest (description) of the shard set.

    Returns:
        The number of such examples, and the number of examples in the sample.
    """
    counts = [
        count_lost_neighbors(shard_set, part)
        for split in shards.facts["splits"]
        for shard_set in (ShardSet(place, shards, split),)
        for part in spread(shard_set.parts, MAX_SPLIT_PARTS)
    ]
    return sum(lost for lost, _ in counts), sum(examples for _, examples in counts)


def measure_surface(place: Place, shards: Manifest) -> SurfaceAccuracy | None:
    """Measure how well the labels of a shard set can be guessed from surface features such as segment lengths.

    Returns None if there are no labels, or the shards contain no counts of surface features.

    Args:
        place: The store.
        shards: Manifest (description) of the shard set.
    """
    return measure_surface_accuracy({split: _read_looks(place, shards, split) for split in shards.facts["splits"]})


def _read_looks(place: Place, shards: Manifest, split: str) -> pa.Table:
    """Read the counts of surface features (such as segment lengths) in a sample of a split's shards.

    Args:
        place: The store.
        shards: Manifest (description) of the shard set.
        split: Name of the split, such as "train".

    Returns:
        One table with the columns of SURFACES. It has no rows if there are no counts.
    """
    of_split = (part for part in shards.parts if part.labels.get("split") == split)
    holding = [part for part in of_split if any(file.table == "surfaces" for file in part.files)]
    batches = [
        batch
        for part in spread(holding, MAX_SPLIT_PARTS)
        for batch in read_part_table(place, shards.stage_folder, part, "surfaces", SURFACES.names)
    ]
    return pa.Table.from_batches(batches, SURFACES)


def list_surface_warnings(figures: Mapping[str, float]) -> list[str]:
    """Return a warning for each shard set whose labels can be guessed from surface features such as segment lengths.

    Args:
        figures: Values of a run's metrics, by name.
    """
    return [
        describe_surface(name.removeprefix(LOWER_BOUND_NAME).strip(" ()"), value)
        for name, value in figures.items()
        if name.startswith(LOWER_BOUND_NAME) and value > SUSPECT_ACCURACY
    ]


def describe_surface(name: str, at_least: float) -> str:
    """Build the warning for a shard set whose labels can be guessed from surface features.

    Args:
        name: Name of the shard set in the recipe; "" if it is the only one.
        at_least: Lower bound of the share (0 to 1) of correctly guessed labels.
    """
    return (
        f"{f'shards/{name}' if name else 'shards'}: the labels of at least {at_least:.0%} of the examples are guessed "
        "with no word read, from the lengths of both segments and where they begin and end; up to "
        f"{SUSPECT_ACCURACY:.0%} means nothing. A model learns that in place of the text: longer examples, or "
        "documents of more sentences, give less away."
    )


def explain_no_examples(name: str, shards: Manifest) -> str | None:
    """Build the error message for a shard set without any training examples.

    Returns None if it has examples, or if there are no documents to train on.

    Args:
        name: Name of the shard set.
        shards: Manifest (description) of the shard set.
    """
    train = [part for part in shards.parts if part.labels.get("split") == "train"]
    documents = sum(part.ledger.figures["documents"] for part in train)
    if not documents or any(part.count_rows("examples") for part in train):
        return None
    why = _NO_EXAMPLE_REASONS.get(str(shards.facts.get("input")), "They are too short or too few.")
    return f"shards/{name}: no example came of {format_count(documents, 'document')} to train on. {why}"


def list_warnings(shards: Manifest) -> list[str]:
    """List the warnings about a shard set that has no training examples or that omits much of the text.

    Args:
        shards: Manifest (description) of the shard set.
    """
    if (empty := explain_no_examples(shards.name, shards)) is not None:
        return [empty]
    whole, lost = _count_lost_tokens(shards)
    left = sum(lost.values())
    if left <= MAX_LOST_SHARE * whole:
        return []
    what = " and ".join(name.replace("_", " ") for name, number in lost.items() if number)
    kind = str(shards.facts.get("input"))
    remedy = _LOSS_REMEDIES.get(kind, "Longer examples (shards.length) may hold more.")
    return [
        (
            f"shards/{shards.name}: {left / whole:.0%} of the tokens ({left:,} of {whole:,}) are in no example: they "
            f'are {what}. {remedy} input = "full-sentences" leaves nothing over.'
        )
    ]


_LOSS_REMEDIES = {
    "segment-pair": "A chunk that no text of another document is like has no pair: add documents.",
    "sentence-order": "Sentences alone in their document lose five tokens at both ends where they are cut, and those "
    "with which documents begin or end alike (`alike_tokens`) would tell the order.",
    "sentence-pair": "Of an odd number of sentences one is alone, and a pair needs one like it in another document: "
    "add documents.",
    "single": "Sequences under shards.min_tokens are left over.",
}
_NO_EXAMPLE_REASONS = {
    "segment-pair": 'input = "segment-pair" takes the random B of a pair from another document, and finds none: add '
    'documents, or set input = "full-sentences" (no pairs) or "sentence-order" (both segments of one document).',
    "sentence-order": 'input = "sentence-order" takes both segments from one document, and here none is long '
    'enough: raise shards.length, or set input = "full-sentences" or "segment-pair".',
}
