"""Content digests: `content_of`, which does not know how rows were cut, next to sha256 of the file's bytes, which does.

Twice: rows of a document each, and rows of a sentence each. Nothing else digests rows in this way, so sha256 of
the Arrow IPC bytes, made again for each call, is only a measure of what reading the bytes once costs.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from benchmarks.measuring import Report, Side, cleaned, described, main, size_mb, take_turns, text_column
from corpora.store.content import Content, content_of
from corpora.text.sentences.splitter import split_sentences

CUT_ROWS = 7  # rows of a piece in the check that cutting does not matter


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Digests of cleaned texts, and of their sentences."""
    texts = cleaned(texts)
    raw = [text.encode() for text in texts]
    spans = ((data, span) for data, text in zip(raw, texts, strict=True) for span in split_sentences(text))
    sentences = [data[start:end].decode() for data, (start, end) in spans]
    return [
        _compare("content, a row a document", texts, rounds),
        _compare("content, a row a sentence", sentences, rounds),
    ]


def _compare(what: str, texts: Sequence[str], rounds: int) -> Report:
    table = pa.table({"number": pa.array(np.arange(len(texts))), "text": text_column(texts)})
    pieces = [content_of(table.slice(at, CUT_ROWS)) for at in range(0, table.num_rows, CUT_ROWS)]
    assert content_of(table) == sum(pieces, Content()), "the content depends on how the rows are cut"
    sides = [
        Side(name="content_of", call=lambda _: content_of(table)),
        Side(name="sha256 of IPC bytes", call=lambda _: hashlib.sha256(_ipc(table)).digest()),
    ]
    return Report(
        title=described(what, texts, rounds, "rows"),
        amounts={"MB": size_mb(texts), "K rows": len(texts) / 1000},
        rows=take_turns(sides, rounds),
        notes=(f"the content of {len(pieces)} pieces of {CUT_ROWS} rows, added up, equals that of the whole",),
    )


def _ipc(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


if __name__ == "__main__":
    main(benchmark)
