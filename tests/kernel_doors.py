"""Every function through which a column of texts reaches the kernels, run on columns at the very edge of memory.

Run as a program it passes each door texts whose bytes end where a page begins that may not be read, and texts that
begin where one ends: a load past either end is a segmentation fault. Then bytes that are no text: each door refuses
them. It prints what it is at, so that the last line names what failed.
"""

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from random import Random

import numpy as np
import pyarrow as pa

from corpora.duplicates.build import hash_texts
from corpora.duplicates.signatures import SignatureSettings, compute_signatures
from corpora.duplicates.verify import build_shingle_sets
from corpora.errors import InputError
from corpora.judging.steps.clean import CleanSettings, clean
from corpora.judging.steps.contamination import ContaminationSettings, Item, find_evaluation_matches, index_items
from corpora.judging.steps.language import LanguageSettings, detect_languages
from corpora.judging.steps.lines import LineSettings, edit_lines, hash_lines
from corpora.judging.steps.privacy import PersonalDataSettings, mask_private
from corpora.judging.steps.selection import index_questions, score_documents
from corpora.text.buffers import to_text_buffers
from corpora.text.counts.kernels import measure_texts
from corpora.text.ngrams import hash_ngrams
from corpora.text.sentences.splitter import sentence_offsets
from shards.schema import build_token_schema, choose_id_type
from shards.tokens import tokenize_batch
from tokenizers_train.encoding.encoder import Encoder, encode_plain
from tokenizers_train.learning.byte_bpe import train_byte_bpe
from tokenizers_train.learning.unigram import UnigramSettings, count_characters, train_unigram
from tokenizers_train.learning.wordpiece import train_wordpiece
from tokenizers_train.measures.measure import encode_counted_words
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.vocabularies.settings import BYTE_BPE, VocabularySettings
from tokenizers_train.vocabularies.vocabulary import (
    build_albert_vocabulary,
    build_bert_vocabulary,
    build_roberta_vocabulary,
)
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.counts import count_words, merge_counts
from tokenizers_train.words.gpt2 import Gpt2Words
from tokenizers_train.words.sentencepiece import SentencePieceWords
from tokenizers_train.words.table import COUNTS_SCHEMA

PAGE = mmap.PAGESIZE
PIECES = (
    *("the", "The", " ", "\n", "\n\n", ".", "?", '"', "\u201c", "``", "''", "1,000.5", "[12]", "javascript", "&amp;"),
    *("a@b.org", "10.0.0.1", "+49 30 1234567", "x" * 15, "y" * 16, "z" * 40, "\x00", "\x7f", "\u0085", "\u00e9"),
    *("e\u0301", "\u0130", "\u00df", "\u4e2d", "\u0915\u0941", "\ud55c", "\U0001f600", "\U00020000", "\u2581"),
    *("\u3000", "\ufeff", "\u00e2\u20ac\u2122"),
)
INVALID = (
    b"\xff",
    b"\x80",
    b"a\xc3",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xf8\x88\x80\x80\x80",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"ok \xfe",
)

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDPIECE = Encoder(build_bert_vocabulary((*SPECIALS, "the", "t", "##h", "##e", "x", "##x", ".", "\u4e2d", "\u00e9")))
BYTES = Encoder(
    build_roberta_vocabulary(("<s>", "<pad>", "</s>", "<unk>", *BYTE_LETTERS, "th", "<mask>"), (("t", "h"),))
)
UNIGRAM = Encoder(
    build_albert_vocabulary([("\u2581", -2.0), ("\u2581the", -3.0), ("x", -2.5), ("xx", -4.0), ("\u4e2d", -5.0)])
)
ITEMS = index_items([Item("set", 1, "the the the the the the the the")], ContaminationSettings(n=8))
QUESTIONS = index_questions([("the", "x", "the", "y")])
EVERY_LINE = LineSettings(
    terminal_punctuation=True,
    min_words=1,
    max_word_characters=20,
    drop_javascript=True,
    drop_policy=True,
    strip_citations=True,
)


def _encoded(encoder: Encoder) -> Callable[[pa.Array], object]:
    def door(texts: pa.Array) -> object:
        _, offsets = to_text_buffers(texts)
        plainly = encode_plain(encoder.vocabulary, texts, offsets[:-1], offsets[1:])
        found = encoder.encode_sentences(texts, offsets[:-1], offsets[1:])
        assert found.ids.tolist() == plainly.ids.tolist(), "other ids"
        return found

    return door


def _counted(texts: pa.Array) -> pa.Table:
    """The texts as though each were a word that occurs once."""
    return pa.table([texts, np.ones(len(texts), np.int64)], schema=COUNTS_SCHEMA)


def _tokenised(texts: pa.Array) -> pa.Table:
    size, ids = len(texts), [bytes([number]) * 16 for number in range(len(texts))]
    columns = {"id": pa.array(ids, pa.binary(16)), "revision": pa.array(range(size), pa.int64()), "text": texts}
    columns |= {"source": pa.array(["a"] * size), "held_out": pa.array([False] * size)}
    columns["language"] = pa.nulls(size, pa.string())
    batch = pa.RecordBatch.from_pydict(columns)
    return tokenize_batch(batch, WORDPIECE, build_token_schema(choose_id_type(WORDPIECE.vocabulary.size)), seed=1)


def _settled(train: Callable[[pa.Table], object]) -> Callable[[pa.Array], object]:
    """Training of words; too few words are no fault of memory."""

    def door(texts: pa.Array) -> object:
        to_text_buffers(texts)
        try:
            return train(_counted(texts))
        except InputError as error:
            return error

    return door


DOORS: dict[str, Callable[[pa.Array], object]] = {
    "corpora.duplicates.build.hash_texts": hash_texts,
    "corpora.duplicates.signatures.compute_signatures": lambda texts: compute_signatures(texts, SignatureSettings()),
    "corpora.duplicates.verify.build_shingle_sets": build_shingle_sets,
    "corpora.judging.steps.clean.clean_and_count": lambda texts: [
        clean(texts, CleanSettings(profile=profile, quotes="straight", widths="narrow"))
        for profile in ("cased", "uncased", "roberta-brief")
    ],
    "corpora.judging.steps.contamination.find_evaluation_matches": lambda texts: find_evaluation_matches(texts, ITEMS),
    "corpora.judging.steps.language.detect_languages": lambda texts: detect_languages(texts, LanguageSettings()),
    "corpora.judging.steps.lines.edit_lines": lambda texts: edit_lines(texts, EVERY_LINE),
    "corpora.judging.steps.lines.hash_lines": hash_lines,
    "corpora.judging.steps.privacy.mask_private": lambda texts: mask_private(
        texts, PersonalDataSettings(email=True, ip=True, phone=True)
    ),
    "corpora.judging.steps.selection.score_documents": lambda texts: score_documents(texts, QUESTIONS),
    "corpora.text.counts.kernels.measure_texts": measure_texts,
    "corpora.text.ngrams.hash_ngrams": lambda texts: hash_ngrams(texts, 3),
    "shards.tokens.tokenize_batch": _tokenised,
    "tokenizers_train.encoding.encoder.encode_sentences": lambda texts: [
        _encoded(encoder)(texts) for encoder in (WORDPIECE, BYTES, UNIGRAM)
    ],
    "tokenizers_train.encoding.encoder.encode_plain": _encoded(WORDPIECE),
    "tokenizers_train.learning.byte_bpe.lay_out_words": _settled(
        lambda words: train_byte_bpe(words, VocabularySettings(algorithm=BYTE_BPE, size=300))
    ),
    "tokenizers_train.learning.unigram.count_characters": _settled(count_characters),
    "tokenizers_train.learning.unigram.spell_characters": _settled(
        lambda words: train_unigram(words, UnigramSettings(size=60))
    ),
    "tokenizers_train.learning.wordpiece.spell_letters": _settled(
        lambda words: train_wordpiece(words, VocabularySettings(size=200))
    ),
    "tokenizers_train.measures.measure.encode_counted_words": lambda texts: encode_counted_words(
        UNIGRAM, _counted(texts)
    ),
    "tokenizers_train.measures.texts._measure_column": _encoded(BYTES),
    "tokenizers_train.words.counts.merge_two_counts": lambda texts: merge_counts([_counted(texts), _counted(texts)]),
    "tokenizers_train.words.counts.count_words": lambda texts: [
        count_words(rule, texts) for rule in (BertWords(lowercase=True), Gpt2Words(), SentencePieceWords())
    ],
}
"""By the function that asks for a column's buffers: how it is called."""


def guarded(data: bytes, at_end: bool) -> pa.Buffer:
    """A buffer of these bytes next to a page that may not be read: behind its end, or before its beginning."""
    room = -(-max(1, len(data)) // PAGE) * PAGE
    memory = mmap.mmap(-1, room + 2 * PAGE)
    start = PAGE + room - len(data) if at_end else PAGE
    memory[start : start + len(data)] = data
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (address, address + PAGE + room):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), PAGE, 0) == 0
    return pa.foreign_buffer(address + start, len(data), memory)


def column_of(rows: Sequence[bytes], at_end: bool) -> pa.Array:
    """A large_string column whose bytes and offsets lie at the edge of a page."""
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64).tobytes()
    return pa.LargeStringArray.from_buffers(len(rows), guarded(offsets, at_end), guarded(b"".join(rows), at_end))


def columns(number: int) -> Iterator[list[bytes]]:
    """Rows of text: each piece alone, and pieces at random."""
    draw = Random(1)
    for piece in PIECES:
        yield [piece.encode()]
    for _ in range(number):
        yield ["".join(draw.choices(PIECES, k=draw.randrange(9))).encode() for _ in range(draw.randrange(6))]


def main(number: int) -> None:
    """Run every door on every column."""
    for name, door in DOORS.items():
        print(name, flush=True)
        for rows in columns(number):
            for at_end in (True, False):
                column = column_of(rows, at_end)
                assert column.to_pylist() == [row.decode() for row in rows]
                door(column)
                sliced = column[1:]
                door(sliced)
                if name == "shards.tokens.tokenize_batch":
                    sentence_offsets(*to_text_buffers(sliced))
        for invalid in INVALID:
            try:
                door(column_of([b"the", invalid], at_end=True))
            except InputError as error:
                assert "valid UTF-8" in str(error), error
            else:
                raise AssertionError(f"{name} takes {invalid!r}")
    print("all")


if __name__ == "__main__":
    main(int(sys.argv[1]))
