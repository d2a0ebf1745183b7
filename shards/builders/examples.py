"""The columns that every builder takes and gives: the tokens of a shard's documents, and the shard's examples."""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Ids, Int32s, Int64s, UInt16s, UInt32s, UInt64s

MAX_LENGTH = MAX_COPIES = (1 << 16) - 1  # what the columns of examples hold


class DocumentTokens(NamedTuple):
    """The tokenised documents of one shard, in canonical order; no sentence and no document is empty."""

    ids: Ids  # [tokens]
    word_starts: Bytes  # [tokens], 1 where a word begins
    sentences: Int64s  # [sentences + 1], into the tokens
    documents: Int64s  # [documents + 1], into the sentences
    keys: UInt64s  # [documents], hash of id and revision


class Examples(NamedTuple):
    """n examples, by copy."""

    ids: Ids  # flat, with their special tokens
    offsets: Int64s  # [n + 1], into ids
    word_starts: Bytes  # flat, 0 on specials
    boundary: UInt16s  # [n], tokens of the first segment
    label: Bytes | None  # [n], what the input says of each; None without labels
    second_document: UInt16s | None  # [n], place among its documents of the one that B is of; None with one segment
    documents: Int32s  # flat, indices of the documents that each holds, in their order
    document_offsets: Int64s  # [n + 1], into documents
    ordinal: UInt32s  # [n], number of the example in its first document and copy
    copy: UInt16s  # [n]
    example_id: UInt64s  # [n]


def check_columns(columns: DocumentTokens) -> None:
    """Check the columns against what their builder promises: offsets that fit, nothing empty."""
    sentences, documents = columns.sentences, columns.documents
    assert sentences[0] == documents[0] == 0
    assert sentences[-1] == len(columns.ids) == len(columns.word_starts)
    assert documents[-1] == len(sentences) - 1 and len(documents) - 1 == len(columns.keys)
    assert np.all(np.diff(sentences) > 0), "an empty sentence"
    assert np.all(np.diff(documents) > 0), "an empty document"
