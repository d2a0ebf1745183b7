"""`cloze preview`: some documents of a source before and after every step, with the reason of each drop."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import RenderableType
from rich.text import Text

from corpora.errors import FileFault, InputError
from corpora.judging.batch_state import BatchState
from corpora.judging.batches import judge_records
from corpora.judging.inputs import read_inputs
from corpora.judging.samples import sample_records
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.contract import RawFile, Record, Tally, list_unhashed_files
from corpora.sources.passed_over import count_files
from corpora.store.settings import suggest
from flows.command import arguments
from flows.command.arguments import load_recipe
from flows.command.terminal import (
    EXCERPT_WIDTH,
    TITLE_WIDTH,
    VALUE_WIDTH,
    choose_printer,
    console,
    print_json,
    print_lines,
)
from flows.recipes.guessed_fields import (
    TABLE_WITHOUT_TEXT,
    describe_chosen,
    describe_fitted,
    describe_guess,
    find_files_without_text,
    get_guessable_source,
    guess_text_fields,
    refuse_source_without_text,
    with_names,
)
from flows.recipes.lock import build_store_check, list_raw_files, read_lock
from flows.recipes.privacy import to_one_line
from flows.recipes.recipe import Recipe, SourceEntry
from flows.run.inputs.unread_files import describe_unread

REASON_WIDTH, NAME_WIDTH = 400, 60  # characters


def preview(
    source: Annotated[str, Parameter(help="Name of a source of the recipe, or a folder of text.")],
    *,
    recipe: Annotated[str, Parameter(help="The recipe that has the source.")] = "demo",
    overrides: arguments.Overrides = None,
    number: Annotated[arguments.Count, Parameter(name=("--number", "-n"), help="Number of documents to show.")] = 10,
    as_json: arguments.AsJson = False,
) -> None:
    """Show documents of a source before and after every step.

    For a dropped document, the reason is shown.
    """
    named = {entry.source.name for entry in load_recipe(recipe).sources}
    folder = Path(source) if source not in named and Path(source).exists() else None
    loaded = load_recipe(None if folder else recipe, folder, overrides=overrides)
    entries = {source if folder else entry.source.name: entry for entry in loaded.sources}
    if source not in entries:
        raise InputError(f"The recipe {recipe!r} has no source {source!r}: {suggest(source, entries)}")
    looked = inspect_source(loaded, entries[source])
    entry = looked.entry
    if as_json:
        print_json([asdict(item) for item in preview_source(entry, looked.files, number, choose_printer(as_json))])
        return
    if entry.documents.needs_statistics:
        console.print(
            "Repeated lines and selection depend on the whole source: a run applies them, the preview does not."
        )
    for item in preview_source(entry, looked.files, number, print_lines):
        console.print(render_preview(item))
    fitted = describe_fitted(loaded.name, loaded.fitted) if loaded.fitted else ""
    print_lines(*filter(None, [*looked.lines, fitted, describe_chosen(loaded.name, loaded.chosen or {})]))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEffect:
    """The effect of one processing step on a record.

    Attributes:
        step: The name of the step.
        text: The text after the step; None if the step did not change the text, or dropped the record.
        drop: Why the step dropped the record; "" if it did not.
    """

    step: str
    text: str | None = None
    drop: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPreview:
    """One record, followed through all processing steps.

    Attributes:
        title: The title or key of the record; may be "".
        where: The location of the record in its raw file.
        parsed: The text before the first step.
        steps: The effects of the steps, in order.
        verdict: "kept", or "dropped: " and the reason.
    """

    title: str
    where: str
    parsed: str
    steps: tuple[StepEffect, ...]
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePreview:
    """A source and the raw files that a run would read from it now.

    Attributes:
        entry: The source's table in the recipe, with guessed text fields filled in.
        files: The raw files.
        lines: Notes for the user about guesses, and about files that are not read.
    """

    entry: SourceEntry
    files: tuple[RawFile, ...]
    lines: tuple[str, ...]


def inspect_source(recipe: Recipe, entry: SourceEntry) -> SourcePreview:
    """Determine what a run would read from a source now. Text fields are taken from the recipe's lock file, or guessed.

    Args:
        recipe: The recipe.
        entry: The source's table in the recipe.

    Raises:
        InputError: If the source has no files, or none of its tables has a text column.
    """
    files, source = list_unhashed_files(list_raw_files(entry, recipe)), entry.source  # a dump may have many gigabytes
    locked = read_lock(recipe.lock_path).guessed.get(source.name, ())
    kept, guesses = guess_text_fields([source], {source.name: locked} if locked else {}, [], {source.name: files})
    without = find_files_without_text(guesses).get(source.name, set())
    left = [file for file in files if file.path not in without]
    if not left:
        refuse_source_without_text(source, guesses[source.name])
    names = [kept_guess.name for kept_guess in kept.get(source.name, ())]
    kinds = {str(parse_raw_path(path).absolute()): TABLE_WITHOUT_TEXT for path in without}
    looked = count_files(source, left, is_excluded=build_store_check(source, recipe), kinds=kinds)
    guess = [describe_guess(source, names, guesses.get(source.name))] if names and get_guessable_source(source) else []
    return SourcePreview(
        entry=replace(entry, source=with_names(source, names)),
        files=tuple(left),
        lines=(*guess, *describe_unread({source.name: looked}, recipe.privacy.samples)),
    )


def preview_source(
    entry: SourceEntry, files: Sequence[RawFile], number: int, tell: Callable[[str], None]
) -> Iterator[RecordPreview]:
    """Pass sample records of a source through all processing steps, and yield a preview of each. Writes nothing.

    Args:
        entry: The source's table in the recipe.
        files: The raw files. Records are sampled from each kind of file.
        number: The maximum number of records.
        tell: Called with a line for each unreadable file if the source skips such files, and at the end with a line
            about wiki templates that are not in any template table.

    Raises:
        FileFault: During iteration, if a file cannot be read and the source does not skip such files.
    """
    tally = Tally()

    def leave_out(fault: FileFault) -> None:
        if entry.on_damage != "skip":
            raise fault
        tell(f"{entry.source.name}: left out as unreadable: {to_one_line(fault.reason, REASON_WIDTH)}")

    for record in islice(sample_records(entry.source, files, leave_out, tally), number):
        yield preview_record(record, entry)
    unknown = tally.unknown_templates.list_most_frequent()
    if unknown:
        tell(f"{entry.source.name}: templates in sentences that no table names, most used first:")
    for template in unknown:
        name, example = to_one_line(template.name, NAME_WIDTH), to_one_line(template.example, REASON_WIDTH)
        tell(f"  {template.number:,} {name}: {example}")


def preview_record(record: Record, entry: SourceEntry) -> RecordPreview:
    """Pass one record of a raw file through all processing steps, and return the effect of each step.

    Args:
        record: The record.
        entry: The source's table in the recipe, with the settings of the steps.
    """
    passed: list[StepEffect] = []
    text = record.text

    def watch(step: str, batch: BatchState) -> None:
        nonlocal text
        [drop] = batch.drops
        if drop is not None:
            if not passed or not passed[-1].drop:
                detail = f" ({drop.detail})" if drop.detail else ""
                passed.append(StepEffect(step=drop.step, drop=f"{drop.step}: {drop.reason}{detail}"))
            return
        now = batch.texts[0].as_py()
        passed.append(StepEffect(step=step, text=None if now == text else now))
        text = now

    judge_records([record], entry.source.name, entry.documents, read_inputs(entry.documents), watch)
    return RecordPreview(
        title=record.title or record.key or "",
        where=str(record.locator),
        parsed=record.text,
        steps=tuple(passed),
        verdict=f"dropped: {passed[-1].drop}" if passed[-1].drop else "kept",
    )


def render_preview(preview: RecordPreview) -> RenderableType:
    """Render a record for the terminal: its text before and after every step, and whether it is kept."""
    kept = preview.verdict == "kept"
    head = Text.assemble(
        (to_one_line(preview.title or "(no title)", TITLE_WIDTH), "bold"),
        "  ",
        (to_one_line(preview.verdict, VALUE_WIDTH), "green" if kept else "red"),
        (f"\n  {to_one_line(preview.where, 2 * VALUE_WIDTH)}", "dim"),
    )
    width = max(len(step.step) for step in (*preview.steps, StepEffect(step="parsed")))
    head.append(f"\n  {'parsed':{width}}", "dim").append(f" {to_one_line(preview.parsed, 2 * EXCERPT_WIDTH)}")
    for step in preview.steps:
        head.append(f"\n  {step.step:{width}}", "dim")
        if step.drop:
            head.append(f" dropped: {to_one_line(step.drop, VALUE_WIDTH)}", "red")
        elif step.text is None:
            head.append(" as it was", "dim")
        else:
            head.append(f" {to_one_line(step.text, 2 * EXCERPT_WIDTH)}")
    return head.append("\n")
