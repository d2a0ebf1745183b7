"""Masks: `put_masks` next to its definition and transformers' DataCollatorForLanguageModeling.

Every side is given batches of 256 examples of up to 128 tokens and makes what a model reads: the ids with the
replacements in them, and the originals. `put_masks` leaves the ids as they are stored, end to end, with the masked
places and their labels; its rows of int64 are the two arrays of the collator. Every call is another epoch. The
collator draws from torch's generator, so its masks differ; it gets the special tokens, as its own examples
do, which spares it the search. Its row is left out where transformers or torch is not installed.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.measuring import Report, Side, cleaned, main, side_by_side, text_column
from corpora.kernels.arrays import Bytes, Ids, Int64s, UInt64s
from shards.builders.segments.pairs import PairSettings, build_pairs
from shards.documents import DocumentSelection, select_documents_plain
from shards.masks.masking import (
    MaskedTokens,
    Masks,
    MaskSettings,
    MaskVocabulary,
    build_mask_vocabulary,
    draw_masks,
    mask_tokens,
    to_flat_positions,
)
from shards.masks.plain import draw_masks_plain
from shards.reading.records import MaskedRows, to_rows, to_rows_plain
from shards.schema import build_token_schema, choose_id_type
from shards.tokens import tokenize_batch
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.learning.wordpiece import train_wordpiece
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.counts import count_words

BATCH_ROWS = 256
TOKENS, COINS = MaskSettings(), MaskSettings(count="independent")
WORDS, NGRAMS, SPANS = (MaskSettings(unit=unit) for unit in ("whole-word", "n-gram", "span"))


class Batch(NamedTuple):
    """Examples as `draw_masks` takes them."""

    ids: Ids
    offsets: Int64s
    word_starts: Bytes
    example_ids: UInt64s


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare masks of the examples of cleaned texts."""
    texts = cleaned(texts)
    batches, vocabulary = example_batches(texts)
    facts, pad = build_mask_vocabulary(vocabulary), vocabulary.special_ids["pad"]
    drawn = _check(batches, facts, pad)
    sides = [
        Side(name="put_masks", call=lambda epoch: [mask(b, epoch, TOKENS, facts) for b in batches]),
        Side(name="  as rows of int64", call=lambda epoch: [rows(b, epoch, facts, pad) for b in batches]),
        Side(name="  each by itself", call=lambda epoch: [mask(b, epoch, COINS, facts) for b in batches]),
        Side(name="  whole words", call=lambda epoch: [mask(b, epoch, WORDS, facts) for b in batches]),
        Side(name="  n-grams", call=lambda epoch: [mask(b, epoch, NGRAMS, facts) for b in batches]),
        Side(name="  spans", call=lambda epoch: [mask(b, epoch, SPANS, facts) for b in batches]),
        Side(
            name="definition (masks_plain)",
            call=lambda epoch: [draw_masks_plain(*b, epoch, TOKENS, facts) for b in batches],
        ),
    ]
    notes = [f"all {drawn} masks equal the definition's, of every row; the rows of int64 as well"]
    if find_spec("transformers") is None or find_spec("torch") is None:
        notes.append("transformers or torch is not installed (extras `reference` and `trainer`): no row for them")
    else:
        sides.append(Side(name="DataCollatorForLanguageModeling", call=collator(vocabulary, batches)))
    num_examples, num_tokens = sum(len(b.example_ids) for b in batches), sum(len(b.ids) for b in batches)
    amounts = {"K examples": num_examples / 1000, "M tokens": num_tokens / 1e6}
    return [side_by_side("masks", texts, sides, rounds, notes, amounts)]


def example_batches(texts: Sequence[str]) -> tuple[list[Batch], Vocabulary]:
    """Return examples of texts, pairs of up to 128 tokens, in batches, and a vocabulary learnt from the same texts."""
    column, number = text_column(texts), len(texts)
    vocabulary = train_wordpiece(count_words(BertWords(lowercase=True), column), VocabularySettings())
    ids = np.random.default_rng(0).bytes(16 * number)
    documents = pa.record_batch(
        {
            "id": pa.array([ids[16 * row : 16 * row + 16] for row in range(number)], pa.binary(16)),
            "revision": pa.array(np.zeros(number, np.int64)),
            "source": pa.array(["texts"] * number),
            "held_out": pa.array(np.zeros(number, np.bool_)),
            "language": pa.array(["en"] * number),
            "text": column,
        }
    )
    table = tokenize_batch(documents, Encoder(vocabulary), build_token_schema(choose_id_type(vocabulary.size)), 42)
    tokens, ends = select_documents_plain(table, DocumentSelection()).tokens, vocabulary.special_ids
    pairs, _ = build_pairs(tokens, PairSettings(seed=42), cls_id=ends["cls"], sep_id=ends["sep"])
    batches = []
    for first in range(0, len(pairs.label), BATCH_ROWS):
        offsets = pairs.offsets[first : first + BATCH_ROWS + 1]
        span = slice(offsets[0], offsets[-1])
        example_ids = pairs.example_id[first : first + BATCH_ROWS]
        batches.append(Batch(pairs.ids[span], offsets - offsets[0], pairs.word_starts[span], example_ids))
    return batches, vocabulary


def mask(batch: Batch, epoch: int, settings: MaskSettings, facts: MaskVocabulary) -> tuple[Ids, MaskedTokens]:
    """Return what the model sees of a batch, the masked places and their labels."""
    seen = batch.ids.copy()
    return seen, mask_tokens(seen, *batch[1:], epoch, settings, facts)


def rows(batch: Batch, epoch: int, facts: MaskVocabulary, pad_id: int) -> MaskedRows:
    """Return the same as rows of one length."""
    seen, masked = mask(batch, epoch, TOKENS, facts)
    return to_rows(seen, batch.offsets, masked, pad_id)


def _check(batches: Sequence[Batch], facts: MaskVocabulary, pad_id: int) -> int:
    """Check the kernels against the definition; return the number of masks compared."""
    drawn = 0
    for settings in (TOKENS, COINS, WORDS, NGRAMS, SPANS):
        for batch in batches:
            ours, plain = draw_masks(*batch, 0, settings, facts), draw_masks_plain(*batch, 0, settings, facts)
            for name, one, other in zip(Masks._fields, ours, plain, strict=True):
                assert one.dtype == other.dtype and np.array_equal(one, other), f"{name} differ from the definition's"
            drawn += len(ours.positions)
            seen, masked = mask(batch, 0, settings, facts)
            places = to_flat_positions(batch.offsets, ours)
            assert np.array_equal(masked.flat_positions, places) and np.array_equal(masked.targets, batch.ids[places])
            both = (write(seen, batch.offsets, masked, pad_id) for write in (to_rows, to_rows_plain))
            assert all(np.array_equal(*arrays) for arrays in zip(*both, strict=True)), "rows differ"
    return drawn


def collator(vocabulary: Vocabulary, batches: Sequence[Batch]) -> Callable[[int], list[Any]]:
    """Return transformers' collator over the same batches, each example a dictionary of lists as it wants them."""
    torch, collate = import_module("torch"), their_collator(vocabulary)
    torch.set_num_threads(1)
    is_special = build_mask_vocabulary(vocabulary).is_special
    given = []
    for batch in batches:
        rows = np.split(batch.ids, batch.offsets[1:-1])
        given.append([{"input_ids": r.tolist(), "special_tokens_mask": is_special[r].tolist()} for r in rows])

    def call(seed: int) -> list[Any]:
        torch.manual_seed(seed)
        return [collate([dict(example) for example in examples]) for examples in given]

    call(0)
    return call


def their_collator(vocabulary: Vocabulary) -> Callable[[list[Any]], Any]:
    """Return DataCollatorForLanguageModeling with a vocabulary and the usual share of masks."""
    transformers = import_module("transformers")
    roles = ("pad", "unk", "cls", "sep", "mask")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=vocabulary.to_tokenizer(),
        **{f"{role}_token": vocabulary.tokens[vocabulary.special_ids[role]] for role in roles},
    )
    collator: Callable[[list[Any]], Any] = transformers.DataCollatorForLanguageModeling(
        tokenizer, mlm=True, mlm_probability=TOKENS.rate
    )
    return collator


if __name__ == "__main__":
    main(benchmark)
