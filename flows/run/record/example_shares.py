"""Reports on the examples of a shard set besides their number: shares, and whether their looks give labels away.

Promise: sums cover the ledgers of all shards; looks and lost neighbours are those of `PARTS` shards of a split at even
distances. Cost: the counts of looks of these shards; if rows are deleted, which documents their examples hold.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.tables import read_part_table
from flows.run.record.counts_text import counted
from flows.run.record.lengths import spread
from shards.reading.epoch_rows import count_lost_neighbors
from shards.reading.files.shard_set import ShardSet
from shards.surfaces import SURFACES, SUSPECT_ACCURACY, SurfaceAccuracy, measure_surface_accuracy

PARTS = 12  # of a split
MOST_LOST = 0.1  # of the tokens, without a warning
SURELY = "surface accuracy at least"
# The ledger's names for the examples of label 0 and those of label 1.
FIGURES_OF_LABELS: Mapping[str, tuple[str, str]] = {
    "next-sentence": ("next", "random"),
    "sentence-order": ("in_order", "swapped"),
}

Share = tuple[str, float, float, str]  # name, part, whole, of what


def shares_of(place: Place, shards: Manifest) -> Iterator[Share]:
    """Yield the shares of a shard set, in the order in which a person reads them."""
    figures, examples = shards.ledger.figures, shards.count_rows("examples")
    whole, lost = _tokens(shards)
    for outcome, part in lost.items():
        yield f"{outcome.replace('_', ' ')} token share", part, whole, "tokens"
    yield "fill", figures.get("example tokens", 0), examples * shards.facts["length"], "places"
    if (names := FIGURES_OF_LABELS.get(shards.facts.get("labels") or "")) is not None:
        first, second = (figures.get(name, 0) for name in names)
        yield f"{names[1].replace('_', ' ')} share", second, first + second, "examples"
    if "without_partner" in figures:
        alone = figures["without_partner"]
        yield "without partner share", alone, alone + examples, "chunks"
    if "cut_sentences" in figures:
        yield "cut sentence share", figures["cut_sentences"], examples, "examples"
    if shards.count_rows("deleted"):
        yield "lost neighbour share", *lost_share(place, shards), "examples"


def _tokens(shards: Manifest) -> tuple[int, dict[str, int]]:
    """Return the tokens of all copies, and those in no example, by what became of them."""
    accounts = [account for account in shards.ledger.accounts if account.unit.startswith("tokens of copy ")]
    lost = {name: sum(each.outcomes.get(name, 0) for each in accounts) for name in ("truncated", "left_over")}
    return sum(account.total for account in accounts), lost


def label_deviation(shards: Manifest) -> float | None:
    """Return how many standard deviations of a fair coin the labels are from one half; None without labels."""
    names = FIGURES_OF_LABELS.get(shards.facts.get("labels") or "")
    first, second = (shards.ledger.figures.get(name, 0) for name in names) if names is not None else (0, 0)
    return abs(first - second) / float(first + second) ** 0.5 if first + second else None


def lost_share(place: Place, shards: Manifest) -> tuple[int, int]:
    """Count the examples with one document deleted and another not, and all examples that were checked."""
    counts = [
        count_lost_neighbors(shard_set, part)
        for split in shards.facts["splits"]
        for shard_set in (ShardSet(place, shards, split),)
        for part in spread(shard_set.parts, PARTS)
    ]
    return sum(lost for lost, _ in counts), sum(examples for _, examples in counts)


def surface_of(place: Place, shards: Manifest) -> SurfaceAccuracy | None:
    """Return how well the labels are guessed from looks; None if there are none, or no shard counted looks."""
    return measure_surface_accuracy({split: _looks(place, shards, split) for split in shards.facts["splits"]})


def _looks(place: Place, shards: Manifest, split: str) -> pa.Table:
    """Read the counts of looks of some shards of a split, shard after shard."""
    of_split = (part for part in shards.parts if part.labels.get("split") == split)
    holding = [part for part in of_split if any(file.table == "surfaces" for file in part.files)]
    batches = [
        batch
        for part in spread(holding, PARTS)
        for batch in read_part_table(place, shards.stage_folder, part, "surfaces", SURFACES.names)
    ]
    return pa.Table.from_batches(batches, SURFACES)


def telling_looks(figures: Mapping[str, float]) -> list[str]:
    """Return a warning for each shard set whose looks give labels away. figures: of a run, by name"""
    return [
        surface_warning(name.removeprefix(SURELY).strip(" ()"), value)
        for name, value in figures.items()
        if name.startswith(SURELY) and value > SUSPECT_ACCURACY
    ]


def surface_warning(name: str, at_least: float) -> str:
    """Return the warning for a shard set whose looks give labels away. name: empty for the only one"""
    return (
        f"{f'shards/{name}' if name else 'shards'}: the labels of at least {at_least:.0%} of the examples are guessed "
        "with no word read, from the lengths of both segments and where they begin and end; up to "
        f"{SUSPECT_ACCURACY:.0%} means nothing. A model learns that in place of the text: longer examples, or "
        "documents of more sentences, give less away."
    )


def nothing_said(name: str, shards: Manifest) -> str | None:
    """Return the message for a shard set that made no example of its documents to train on; None if it made some."""
    train = [part for part in shards.parts if part.labels.get("split") == "train"]
    documents = sum(part.ledger.figures["documents"] for part in train)
    if not documents or any(part.count_rows("examples") for part in train):
        return None
    why = _REASONS.get(str(shards.facts.get("input")), "They are too short or too few.")
    return f"shards/{name}: no example came of {counted(documents, 'document')} to train on. {why}"


def warnings_of(shards: Manifest) -> list[str]:
    """Return what a person should know of a shard set: no example, or much of its text is in none."""
    if (empty := nothing_said(shards.name, shards)) is not None:
        return [empty]
    whole, lost = _tokens(shards)
    left = sum(lost.values())
    if left <= MOST_LOST * whole:
        return []
    what = " and ".join(name.replace("_", " ") for name, number in lost.items() if number)
    kind = str(shards.facts.get("input"))
    remedy = _LOSSES.get(kind, "Longer examples (shards.length) may hold more.")
    return [
        (
            f"shards/{shards.name}: {left / whole:.0%} of the tokens ({left:,} of {whole:,}) are in no example: they "
            f'are {what}. {remedy} input = "full-sentences" leaves nothing over.'
        )
    ]


_LOSSES = {
    "segment-pair": "A chunk that no text of another document is like has no pair: add documents.",
    "sentence-order": "Sentences alone in their document lose five tokens at both ends where they are cut, and those "
    "with which documents begin or end alike (`alike_tokens`) would tell the order.",
    "sentence-pair": "Of an odd number of sentences one is alone, and a pair needs one like it in another document: "
    "add documents.",
    "single": "Sequences under shards.min_tokens are left over.",
}
_REASONS = {
    "segment-pair": 'input = "segment-pair" takes the random B of a pair from another document, and finds none: add '
    'documents, or set input = "full-sentences" (no pairs) or "sentence-order" (both segments of one document).',
    "sentence-order": 'input = "sentence-order" takes both segments from one document, and here none is long '
    'enough: raise shards.length, or set input = "full-sentences" or "segment-pair".',
}
