"""`cloze dedup`: files without their duplicates, or near-duplicates of a text in a corpus."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from corpora.errors import InputError
from corpora.schema import cut_excerpt
from flows.command.arguments import STANDARD_INPUT, AsJson, Share, Workers
from flows.command.terminal import print_json, print_lines
from flows.run.record.counts_text import format_count
from flows.run.record.ledger_balance import format_bytes

if TYPE_CHECKING:
    from flows.dedup.run import DedupOutcome
    from flows.dedup.similar import SimilarDocument


def dedup(
    paths: Annotated[
        list[str],
        Parameter(
            help="Files, folders or globs, of any kind that is read; then what to write: a folder, or a file that ends "
            "in .parquet or .jsonl. With --similar: a corpus."
        ),
    ],
    /,
    *,
    similar: Annotated[
        str | None, Parameter(help="Write nothing: show the near-duplicates of this text in a corpus; - reads stdin.")
    ] = None,
    against: Annotated[str, Parameter(help="Also drop what this has: a corpus in a store, or files.")] = "",
    threshold: Annotated[Share, Parameter(help="Similarity from which a row is a near-duplicate.")] = 0.8,
    rule: Annotated[str, Parameter(help='"contained": remove only rows of which nothing is lost.')] = "similar",
    keep: Annotated[str, Parameter(help='Of several rows: the "first", the "longest" or "none".')] = "first",
    exact_only: Annotated[bool, Parameter(help="Only texts that are equal, byte for byte.", negative=())] = False,
    text: Annotated[str, Parameter(help="The column of the text; default: it is looked for.")] = "",
    id: Annotated[str, Parameter(help="The column that names a survivor; default: its file and row.")] = "",
    within: Annotated[str, Parameter(help="Look for copies only among rows with one value of this column.")] = "",
    parts: Annotated[str, Parameter(help='Cut out of texts the "lines" or "paragraphs" of earlier rows.')] = "",
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Remove duplicates from files, or find the duplicates of a text.

    Near-duplicates are compared exactly, word for word. All columns are kept. Removed rows are written as well, with
    the reason, the row that was kept instead, and the similarity.
    """
    from corpora.lean_process import hide_pandas_from_pyarrow
    from flows.run.policies import count_cores

    hide_pandas_from_pyarrow()
    if similar is not None:
        _print_similar(paths, similar, threshold, as_json)
        return
    if len(paths) < 2:
        raise InputError("Name what to read and, last, what to write: `cloze dedup raw/*.jsonl clean`.")
    *inputs, output = paths
    from flows.dedup.run import DedupSettings, dedup
    from flows.export.exported import parse_local_target

    settings = DedupSettings(
        threshold=threshold,
        rule=rule,
        text=text,
        id=id,
        within=within,
        against=against,
        keep=keep,
        exact_only=exact_only,
        parts=parts,
    )
    outcome = dedup(inputs, parse_local_target(output), settings, workers or count_cores())
    if as_json:
        print_json({"output": output, **asdict(outcome)})
    else:
        print_lines(*describe_outcome(outcome, output))


def describe_outcome(outcome: "DedupOutcome", output: str) -> Iterator[str]:
    """Yield lines that report what `cloze dedup` read, kept and removed.

    Args:
        outcome: The outcome of the command.
        output: The file or folder that was written, as the user gave it.
    """
    rows, files = format_count(outcome.rows, "row"), format_count(outcome.files, "file")
    read = f"{rows} of {files}, {format_bytes(outcome.text_bytes)}"
    removed = ", ".join(f"{number:,} {reason}" for reason, number in outcome.removed.items())
    yield f"{read}: {outcome.kept:,} kept, {outcome.rows - outcome.kept:,} removed{f' ({removed})' if removed else ''}"
    if outcome.without_text:
        yield f"{format_count(outcome.without_text, 'row')} without text: kept, and compared with nothing"
    if outcome.missing is not None:
        median, most = (f"{100 * share:.1f}%" for share in outcome.missing)
        yield f"near-duplicates: their survivors lack {median} of their shingles (median), {most} (99 of 100 below)"
    if outcome.parts_cut:
        yield f"{format_count(outcome.parts_cut, 'part')} of earlier rows cut out of texts; the removed rows have them"
    if outcome.comparisons_cut_off:
        yield f"{format_count(outcome.comparisons_cut_off, 'comparison')} cut off in crowded buckets"
    if outcome.recall is not None and outcome.recall.pairs:
        found, theory = (f"{100 * share:.1f}%" for share in (outcome.recall.found, outcome.recall.theory))
        yield f"recall on {format_count(outcome.recall.pairs, 'planted pair')}: {found}; the curve promises {theory}"
    if outcome.not_read:
        from flows.run.inputs.unread_files import describe_groups  # it knows recipes, .6 s of a process

        yield f"not read: {describe_groups(outcome.not_read, True)}"
    yield f"{output} has the rows that stay, and the removed ones next to them"


def build_similar_json(found: "SimilarDocument") -> dict[str, Any]:
    """Build the JSON object of a document that is similar to a text.

    Returns:
        A dict with the keys "id" (hexadecimal), "source", "title", "place" (location in the raw file), "similarity" (0
        to 1), "missing" (share of the text that the document lacks), "is_exact" and "excerpt".
    """
    document = found.document
    return {
        "id": document.id.hex(),
        "source": document.source,
        "title": document.title,
        "place": str(document.locator),
        "similarity": found.similarity,
        "missing": found.missing,
        "is_exact": found.is_exact,
        "excerpt": cut_excerpt(document.text),
    }


def describe_similar(found: Sequence["SimilarDocument"], threshold: float) -> Iterator[str]:
    """Yield two lines for each document that is similar to a text, or one line saying that there are none.

    Args:
        found: The similar documents.
        threshold: The minimum similarity used in the search, from 0 to 1.
    """
    if not found:
        yield f"No document is as similar as {threshold}."
    for each in found:
        document = each.document
        alike = "the same text" if each.is_exact else f"similarity {each.similarity:.3f}, missing {each.missing:.1%}"
        yield f"{document.id.hex()}  {alike}; {document.source}, {document.locator}"
        yield f"  {document.title or cut_excerpt(document.text)}"


def _print_similar(paths: list[str], text: str, threshold: float, as_json: bool) -> None:
    """Print the documents of a corpus that are similar to a text.

    Args:
        paths: The address of the corpus, as the only item.
        text: The text, or STANDARD_INPUT to read it from standard input.
        threshold: The minimum similarity, 0 to 1.
        as_json: True to print JSON.

    Raises:
        InputError: If not exactly one corpus is given, or it cannot be read.
    """
    from flows.dedup.similar import find_similar

    if len(paths) != 1:
        raise InputError("--similar asks one corpus: name its folder, or its store.")
    if text == STANDARD_INPUT:
        text = sys.stdin.buffer.read().decode(errors="replace")
    found = find_similar(paths[0], text, threshold)
    if as_json:
        print_json({"corpus": paths[0], "found": [build_similar_json(each) for each in found]})
    else:
        print_lines(*describe_similar(found, threshold))
