"""`cloze preview`: some documents of a source before and after every step, and why each dropped one goes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from corpora.errors import UnreadableFile
from corpora.judging.batch_state import BatchState
from corpora.judging.batches import judge_records
from corpora.judging.inputs import read_inputs
from corpora.judging.samples import sample_records
from corpora.sources.contract import RawFile, Record
from corpora.sources.passed_over import look
from flows.recipes.lock import own_store
from flows.recipes.recipe import Recipe, SourceEntry
from flows.run.looking import looked_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What one step did to a record. text: as it is now, None where the step left it as it was, or dropped it."""

    step: str
    text: str | None = None
    drop: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """One record on its way: as its source gives it, after each step, and where it ends."""

    title: str
    where: str
    parsed: str
    steps: tuple[Passed, ...]
    verdict: str


def preview_source(
    entry: SourceEntry, number: int = 10, tell: Callable[[str], None] = lambda line: None
) -> Iterator[Preview]:
    """Records of every kind of file of a source through all steps, with the recipe's settings. Writes nothing.

    tell: hears of files that cannot be read, where the source leaves them out
    """

    def leave_out(fault: UnreadableFile) -> None:
        if entry.on_damage != "skip":
            raise fault
        tell(f"{entry.source.name}: left out as unreadable: {fault.said}")

    for record in islice(sample_records(entry.source, _raw_files(entry), leave_out), number):
        yield preview_record(record, entry)


def preview_record(record: Record, entry: SourceEntry) -> Preview:
    """One record through all steps."""
    passed: list[Passed] = []
    text = record.text

    def watch(step: str, batch: BatchState) -> None:
        nonlocal text
        [drop] = batch.drops
        if drop is not None:
            if not passed or not passed[-1].drop:
                detail = f" ({drop.detail})" if drop.detail else ""
                passed.append(Passed(step=drop.step, drop=f"{drop.step}: {drop.reason}{detail}"))
            return
        now = batch.texts[0].as_py()
        passed.append(Passed(step=step, text=None if now == text else now))
        text = now

    judge_records([record], entry.source.name, entry.documents, read_inputs(entry.documents), watch)
    return Preview(
        title=record.title or record.key or "",
        where=str(record.locator),
        parsed=record.text,
        steps=tuple(passed),
        verdict=f"dropped: {passed[-1].drop}" if passed[-1].drop else "kept",
    )


def look_lines(recipe: Recipe, entry: SourceEntry) -> list[str]:
    """What is where the source's raw files are and the source does not read, in lines."""
    found = look(entry.source, _raw_files(entry), apart=own_store(entry.source, recipe))
    return looked_lines({entry.source.name: found}, recipe.privacy.samples)


def _raw_files(entry: SourceEntry) -> list[RawFile]:
    """The files of a source; they are not hashed, a dump may have many gigabytes."""
    return [
        RawFile(name=name, sha256="", size_bytes=path.stat().st_size, path=str(path))
        for name, path in entry.source.files()
    ]
