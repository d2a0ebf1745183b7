"""`cloze dedup`: files without their duplicates, with no recipe and no store.

Calls one module, and shows the result.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from corpora.errors import InputError
from flows.command.arguments import AsJson, Workers
from flows.command.terminal.output import print_json, say

duplicates_app = App(name="duplicates")


@duplicates_app.command
def dedup(
    paths: Annotated[
        list[str],
        Parameter(
            help="Files, folders or globs; last the output: a folder, or a file ending in .parquet or .jsonl.",
            negative=(),
        ),
    ],
    *,
    against: Annotated[str, Parameter(help="Also drop what this has: a corpus in a store, or files.")] = "",
    threshold: Annotated[float, Parameter(help="Similarity from which a row is a near-duplicate.")] = 0.8,
    shingle_words: Annotated[int, Parameter(help="Consecutive words that are compared.")] = 5,
    rule: Annotated[str, Parameter(help='"contained": remove only rows of which nothing is lost.')] = "similar",
    keep: Annotated[str, Parameter(help='Of several rows: the "first", the "longest" or "none".')] = "first",
    exact_only: Annotated[bool, Parameter(help="Only texts that are equal, byte for byte.", negative=())] = False,
    text: Annotated[str, Parameter(help="The column of the text; default: it is looked for.")] = "",
    id: Annotated[str, Parameter(help="The column that names a survivor; default: its file and row.")] = "",
    within: Annotated[str, Parameter(help="Look for copies only among rows with one value of this column.")] = "",
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Write files without their duplicates.

    Near-duplicates are compared exactly, word for word. All columns are kept; removed rows are written too, with the
    reason, the survivor and the similarity.
    """
    from corpora.lean_process import arrays_without_pandas
    from flows.run.policies import default_workers

    arrays_without_pandas()
    from flows.command.duplicates.display import summary
    from flows.dedup.run import DedupSettings, dedup

    if len(paths) < 2:
        raise InputError("Name what to read, and last what to write: `cloze dedup INPUT... OUTPUT`.")
    *inputs, output = paths
    settings = DedupSettings(
        threshold=threshold,
        shingle_words=shingle_words,
        rule=rule,
        text=text,
        id=id,
        within=within,
        against=against,
        keep=keep,
        exact_only=exact_only,
    )
    outcome = dedup(inputs, Path(output), settings, workers or default_workers())
    if as_json:
        print_json({"output": output, **asdict(outcome)})
    else:
        say(*summary(outcome, output))
