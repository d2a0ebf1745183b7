"""`cloze dedup`: files without their duplicates. `cloze similar`: near-duplicates of a text in a corpus.

Calls one module, and shows the result.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from flows.command.arguments import STANDARD_INPUT, AsJson, Workers
from flows.command.terminal.output import print_json, say

duplicates_app = App(name="duplicates")


@duplicates_app.command
def dedup(
    inputs: Annotated[list[str], Parameter(help="Files, folders or globs, of any kind that is read.")],
    output: Annotated[str, Parameter(help="What to write: a folder, or a file that ends in .parquet or .jsonl.")],
    /,
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
    parts: Annotated[str, Parameter(help='Cut out of texts the "lines" or "paragraphs" of earlier rows.')] = "",
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
        parts=parts,
    )
    outcome = dedup(inputs, Path(output), settings, workers or default_workers())
    if as_json:
        print_json({"output": output, **asdict(outcome)})
    else:
        say(*summary(outcome, output))


@duplicates_app.command
def similar(
    corpus: Annotated[str, Parameter(help="A corpus: its folder, or a store.")],
    text: Annotated[str, Parameter(help="The text itself; - reads standard input.")],
    *,
    threshold: Annotated[float, Parameter(help="Similarity from which a document is shown.")] = 0.5,
    as_json: AsJson = False,
) -> None:
    """Find near-duplicates of a text in a corpus.

    Each is compared exactly, word for word.
    """
    from corpora.lean_process import arrays_without_pandas

    arrays_without_pandas()
    from corpora.duplicates.verify import threshold_ratio
    from flows.command.duplicates.display import similar_facts, similar_lines
    from flows.dedup.similar import CorpusIndex

    threshold_ratio(threshold)
    if text == STANDARD_INPUT:
        text = sys.stdin.buffer.read().decode(errors="replace")
    found = CorpusIndex(corpus).similar(text, threshold)
    if as_json:
        print_json({"corpus": corpus, "found": [similar_facts(each) for each in found]})
    else:
        say(*similar_lines(found, threshold))
