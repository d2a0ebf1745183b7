"""Records that could not be read: a line for the terminal with how many, the first of them by name, and why.

A damaged, locked or too large file or row is one record that its source drops and counts; no other record is lost by
it. Cost: nothing without such a record; else the dropped rows of the parts that have the first of them.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from shlex import quote

from corpora.schema import DROPPED, DroppedDocument, iter_dropped
from corpora.sources.passed_over import UNOPENED, Looked
from corpora.store.manifest import Manifest, compute_fingerprint
from corpora.store.places.place import Place
from corpora.store.tables import read_part_table
from flows.recipes.lock import Lock
from flows.recipes.settings.privacy import Privacy, visible
from flows.run.faults.skipped_files import left_out_files
from flows.run.inputs.unread_files import LOST
from flows.run.record.counts_text import counted
from flows.run.record.run_record import QUARANTINED, SetAside

REASONS = ("damaged", "encrypted", "drm", "too large")  # of the step that parses
ASIDE = {
    "damaged": "damaged record",
    "encrypted": "encrypted record",
    "drm": "locked record",
    "quarantined": QUARANTINED,
}
NAMED, CHARACTERS = 10, 100  # records, and of why each could not be read


NOWHERE = (0, "")  # the place of a file that is in no generation


def find_set_aside(
    lock: Lock, documents: Sequence[Manifest], looked: Mapping[str, Looked], before: Collection[SetAside]
) -> tuple[SetAside, ...]:
    """Return what a run goes on without because it cannot be read.

    documents: of all sources and generations; looked: by source, files that are not read
    before: what the complete run before it went on without
    """
    places = lock.places
    found = [
        (kind, number, manifest.folder)
        for manifest in documents
        for reason, kind in ASIDE.items()
        if (number := manifest.ledger.find_account("records").outcomes.get(f"dropped: parse: {reason}", 0))
    ]
    files = left_out_files(lock, documents)
    left_out = Counter((file.source, places.get((file.source, file.sha256), NOWHERE)[0]) for file in files)
    found += [("unreadable file", number, f"{name} {came}") for (name, came), number in left_out.items()]
    found += [
        (group.kind, group.number, f"{source} {compute_fingerprint(names=group.names)}")
        for source, files in looked.items()
        for group in files.passed_over
        if group.kind in (*UNOPENED, LOST)
    ]
    known = {(each.kind, each.place): each.number for each in before}
    return tuple(
        SetAside(kind=kind, number=number, place=place, new=max(0, number - known.get((kind, place), 0)))
        for kind, number, place in found
    )


def unread_lines(place: Place, documents: Manifest, samples: str) -> list[str]:
    """Return a line for each reason why records of a source could not be read; none of other stages. Raises Damaged.

    samples: the recipe's `privacy.samples`
    """
    if documents.kind != "documents":
        return []
    outcomes = documents.ledger.find_account("records").outcomes
    numbers = {reason: outcomes.get(f"dropped: parse: {reason}", 0) for reason in REASONS}
    folder = quote(place.to_address(documents.folder))
    lines = []
    for reason, number in numbers.items():
        if number:
            first = ", ".join(_named(row, samples) for row in islice(_rows(place, documents, reason), NAMED))
            more = f" and {number - NAMED:,} more" if number > NAMED else ""
            what = counted(number, f"record is {reason} and left out", f"records are {reason} and left out")
            lines.append(f"{documents.name}: {what}: {first}{more}. `cloze inspect {folder}` shows them.")
    return lines


def _rows(place: Place, documents: Manifest, reason: str) -> Iterator[DroppedDocument]:
    """Yield the dropped rows of a reason, from the parts that have some."""
    with_some = (
        part
        for part in documents.parts
        if part.ledger.find_account("records").outcomes.get(f"dropped: parse: {reason}")
    )
    tables = (read_part_table(place, documents.stage_folder, part, "dropped", DROPPED.names) for part in with_some)
    return (row for row in iter_dropped(chain.from_iterable(tables)) if (row.step, row.reason) == ("parse", reason))


def _named(row: DroppedDocument, samples: str) -> str:
    detail = f" ({visible(row.detail, CHARACTERS)})" if row.detail and samples == "text" else ""
    return f"{Privacy(samples).where(row.locator)}{detail}"
