"""Side by side: what a step of Cloze costs next to the tool that defines or usually does it.

    python -m benchmarks.signatures            the documentation of the standard library as text
    python -m benchmarks.encode --text FOLDER  the .txt files of a folder

Each module is one comparison on one text in one process. It first checks both sides for the same output, where
that is defined, and ends with an AssertionError if they differ; only then does it measure. The meaning of a figure is
explained in `measuring`; results, and what is slow, are in docs/performance.md, whose tables `figures` makes of the
calls that `record` keeps. Others are of other kinds: `whole_run` shows how the cost of each stage grows with the text,
`faults` harms stores and runs and reports the outcome, `stop_words` measures the table by which documents are judged in
their own language.
"""
