"""Content digests: `content_of`, which does not know how rows were cut, next to its definition and to sha256.

Rows of a document, of a sentence, of 500 tokens, and of a counted word. The definition, `content_plain`, hashes
row by row. Nothing else digests rows in this way, so sha256 of the Arrow IPC bytes, made again for each call, only
measures what reading the bytes once costs.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from benchmarks.measuring import Report, Side, cleaned, figure, main, take_turns, text_column
from corpora.store.digests.content import Content, content_of, content_plain
from corpora.text.sentences.splitter import split_sentences

CUT_ROWS = 7  # rows of a piece in the check that cutting does not matter
ROW_TOKENS, SENTENCE_TOKENS = 500, 20


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare digests of cleaned texts, of their sentences, and of their words: as tokens and counted."""
    texts = cleaned(texts)
    raw = [text.encode() for text in texts]
    spans = ((data, span) for data, text in zip(raw, texts, strict=True) for span in split_sentences(text))
    sentences = [data[start:end].decode() for data, (start, end) in spans]
    words = [word for text in texts for word in text.split()]
    return [
        _compare("content, a row a document", _text_rows(texts), rounds),
        _compare("content, a row a sentence", _text_rows(sentences), rounds),
        _compare(f"content, a row {ROW_TOKENS} tokens", _token_rows(words), rounds),
        _compare("content, a row a counted word", _counted_words(words), rounds),
    ]


def _text_rows(texts: Sequence[str]) -> pa.Table:
    return pa.table({"number": pa.array(np.arange(len(texts))), "text": text_column(texts)})


def _token_rows(words: Sequence[str]) -> pa.Table:
    """Return words as ids in the order in which they appear, in the columns that tokens of documents have."""
    word_ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
    ids = np.fromiter((word_ids[word] for word in words), np.int64, len(words)).astype(np.uint16)
    columns = {"ids": ids, "word_starts": ids % 4 > 0}
    lists = {name: _lists(pa.array(values), ROW_TOKENS) for name, values in columns.items()}
    rows = len(lists["ids"])
    lengths = _lists(
        pa.array(np.full(rows * ROW_TOKENS // SENTENCE_TOKENS, 20, np.int32)), ROW_TOKENS // SENTENCE_TOKENS
    )
    return pa.table({"revision": pa.array(np.arange(rows)), **lists, "sentence_lengths": lengths})


def _lists(values: pa.Array, length: int) -> pa.Array:
    """Return values in lists of a length; the last one may be shorter."""
    offsets = np.minimum(np.arange(0, len(values) + length, length), len(values))
    return pa.LargeListArray.from_arrays(pa.array(offsets), values)


def _counted_words(words: Sequence[str]) -> pa.Table:
    counts = sorted(Counter(words).items())
    return pa.table({"word": text_column([word for word, _ in counts]), "count": [count for _, count in counts]})


def _compare(what: str, table: pa.Table, rounds: int) -> Report:
    pieces = [content_of(table.slice(at, CUT_ROWS)) for at in range(0, table.num_rows, CUT_ROWS)]
    assert content_of(table) == sum(pieces, Content()), "the content depends on how the rows are cut"
    assert content_of(table) == content_plain(table), "the contents differ"
    sides = [
        Side(name="content_of", call=lambda _: content_of(table)),
        Side(name="content_plain", call=lambda _: content_plain(table)),
        Side(name="sha256 of IPC bytes", call=lambda _: hashlib.sha256(_ipc(table)).digest()),
    ]
    megabytes = table.nbytes / 1e6
    return Report(
        title=f"{what}: {figure(megabytes)} MB in {table.num_rows} rows, medians of {rounds} rounds",
        amounts={"MB": megabytes, "K rows": table.num_rows / 1000},
        rows=take_turns(sides, rounds),
        notes=(
            f"the content of {len(pieces)} pieces of {CUT_ROWS} rows, added up, equals that of the whole",
            "content_plain gives an equal one",
        ),
    )


def _ipc(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


if __name__ == "__main__":
    main(benchmark)
