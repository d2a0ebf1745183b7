"""`cloze dedup`: files without their duplicates, or near-duplicates of a text in a corpus.

It calls one module, and shows the result.
"""

import sys
from dataclasses import asdict
from typing import Annotated

from cyclopts import App, Parameter

from corpora.errors import InputError
from flows.command.arguments import STANDARD_INPUT, AsJson, Share, Workers
from flows.command.terminal.output import print_json, say

duplicates_app = App(name="duplicates")


@duplicates_app.command
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
    """Write files without their duplicates, or find those of a text.

    Near-duplicates are compared exactly, word for word. All columns are kept; removed rows are written too, with the
    reason, the survivor and the similarity.
    """
    from corpora.lean_process import hide_pandas_from_pyarrow
    from flows.run.policies import count_cores

    hide_pandas_from_pyarrow()
    if similar is not None:
        _show_similar(paths, similar, threshold, as_json)
        return
    if len(paths) < 2:
        raise InputError("Name what to read and, last, what to write: `cloze dedup raw/*.jsonl clean`.")
    *inputs, output = paths
    from flows.command.dedup_display import summary
    from flows.dedup.run import DedupSettings, dedup
    from flows.export.exported import local_target

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
    outcome = dedup(inputs, local_target(output), settings, workers or count_cores())
    if as_json:
        print_json({"output": output, **asdict(outcome)})
    else:
        say(*summary(outcome, output))


def _show_similar(paths: list[str], text: str, threshold: float, as_json: bool) -> None:
    """Show the documents of a corpus that are similar to a text."""
    from flows.command.dedup_display import similar_facts, similar_lines
    from flows.dedup.similar import find_similar

    if len(paths) != 1:
        raise InputError("--similar asks one corpus: name its folder, or its store.")
    if text == STANDARD_INPUT:
        text = sys.stdin.buffer.read().decode(errors="replace")
    found = find_similar(paths[0], text, threshold)
    if as_json:
        print_json({"corpus": paths[0], "found": [similar_facts(each) for each in found]})
    else:
        say(*similar_lines(found, threshold))
