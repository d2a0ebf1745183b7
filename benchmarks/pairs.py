"""Segment pairs: `build_pairs` next to its definition `pairs_plain`, which makes the same examples.

With static masks next to `create_pretraining_data.py` of google-research/bert, where `GOOGLE_BERT` names a checkout: it
makes other examples of the same documents, told by their number. Both sides take tokens and give examples and masks of
as many copies. Its tokenizer is not measured: the tokens of a line have spaces between them, and reading them from a
file is a hundredth of its time. Neither is what it writes. Ours counts ledgers and surfaces besides.
"""

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.google_bert import AuthorsScript, SpacedTokens, load_script
from benchmarks.measuring import Report, Side, cleaned, described, main, size_mb, take_turns, text_column
from shards.builders.contract import Common
from shards.builders.examples import DocumentTokens
from shards.builders.google_bert import ScriptSettings
from shards.builders.pairs import PairSettings, SegmentPairInput, build_pairs
from shards.builders.pairs_plain import pairs_plain
from shards.builders.segments import SegmentPairs
from shards.documents import ShardRange, documents_plain
from shards.masks.masking import MaskSettings, ShardVocabulary, draw_masks, vocabulary_facts
from shards.schema import id_type, token_schema
from shards.tokens import tokenise
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.learning.wordpiece import train_wordpiece
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.counts import count_by

COPIES = 10  # the script's own dupe_factor


class Tokenised(NamedTuple):
    """Documents as tokens, and the vocabulary they were made with."""

    columns: DocumentTokens
    vocabulary: Vocabulary

    def pairs(self, seed: int) -> SegmentPairs:
        """Examples of up to 128 tokens."""
        return build_pairs(self.columns, PairSettings(seed=seed), **self.ends)[0]

    @property
    def ends(self) -> dict[str, int]:
        """The ids that are at the ends of segments."""
        return {f"{role}_id": self.vocabulary.special_ids[role] for role in ("cls", "sep")}


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Examples of up to 128 tokens from cleaned texts, tokenised before; a new seed for every call."""
    texts = cleaned(texts)
    tokenised = tokenise_texts(texts)
    columns, ends = tokenised.columns, tokenised.ends
    ours, ledgers = build_pairs(columns, PairSettings(), **ends)
    plain, plain_ledgers = pairs_plain(columns, PairSettings(), **ends)
    for name, one, other in zip(SegmentPairs._fields, ours, plain, strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other), f"{name} differs from the definition's"
    assert ledgers == plain_ledgers, "ledgers differ from the definition's"
    sides = [
        Side(name="build_pairs", call=lambda seed: build_pairs(columns, PairSettings(seed=seed), **ends)),
        Side(
            name="definition (pairs_plain)",
            call=lambda seed: pairs_plain(columns, PairSettings(seed=seed), **ends),
        ),
    ]
    amounts = {"MB": size_mb(texts), "K examples": len(ours.label) / 1000, "M tokens": len(ours.ids) / 1e6}
    notes = (f"all {len(ours.label)} examples and the ledger equal the definition's",)
    reports = [
        Report(title=described("pairs", texts, rounds), amounts=amounts, rows=take_turns(sides, rounds), notes=notes)
    ]
    if folder := os.environ.get("GOOGLE_BERT"):
        reports.append(with_masks(texts, tokenised, load_script(Path(folder)), rounds))
    return reports


def with_masks(texts: Sequence[str], tokenised: Tokenised, script: AuthorsScript, rounds: int) -> Report:
    """Examples of up to 128 tokens with static masks: CPU time by the example, ours and the script's."""
    known, lines = lines_of(tokenised)
    vocabulary = ShardVocabulary(tokenised.vocabulary.size, tokenised.vocabulary.special_ids)
    facts = vocabulary_facts(vocabulary)

    def ours(seed: int) -> int:
        """How many examples were made, each with its masks."""
        common = Common(128, COPIES, seed, MaskSettings(kind="static"))
        made = SegmentPairInput().build(tokenised.columns, common, vocabulary).examples
        draw_masks(
            made.ids,
            made.offsets,
            made.word_starts,
            made.example_id,
            made.copy.astype(np.uint64),
            common.masking,
            facts,
        )
        return len(made.example_id)

    def theirs(seed: int) -> int:
        return len(script.instances(lines, known, ScriptSettings(copies=COPIES, seed=seed)))

    sides = [Side(name="build and static masks", call=ours), Side(name="create_training_instances", call=theirs)]
    made, their_number = ours(0), theirs(0)
    rows = take_turns(sides, rounds)
    by_example = rows[1].median / their_number / (rows[0].median / made)
    by_token = rows[1].median / rows[0].median
    notes = (
        f"{COPIES} copies: {made} examples here, {their_number} of the script",
        f"an example of the script takes {by_example:.0f} times ours, a token of the documents {by_token:.0f} times",
    )
    tokens = len(tokenised.columns.ids) / 1e6
    return Report(
        title=described("pairs with static masks", texts, rounds), amounts={"M tokens": tokens}, rows=rows, notes=notes
    )


def lines_of(tokenised: Tokenised) -> tuple[SpacedTokens, list[str]]:
    """The documents as the script reads them: a sentence a line, its tokens known; a blank line after a document."""
    tokens, columns = tokenised.vocabulary.tokens, tokenised.columns
    sentences = [
        " ".join(tokens[id] for id in columns.ids[first:last].tolist())
        for first, last in pairwise(columns.sentences.tolist())
    ]
    documents = pairwise(columns.documents.tolist())
    lines = [line for first, last in documents for line in (*sentences[first:last], "")]
    return SpacedTokens({token: id for id, token in enumerate(tokens)}), lines


def tokenise_texts(texts: Sequence[str]) -> Tokenised:
    """Texts tokenised as the tokens stage does it, by a vocabulary learnt from them."""
    column, number = text_column(texts), len(texts)
    vocabulary = train_wordpiece(count_by(BertWords(lowercase=True), column), VocabularySettings())
    ids = np.random.default_rng(0).bytes(16 * number)
    batch = pa.record_batch(
        {
            "id": pa.array([ids[16 * row : 16 * row + 16] for row in range(number)], pa.binary(16)),
            "revision": pa.array(np.zeros(number, np.int64)),
            "source": pa.array(["texts"] * number),
            "held_out": pa.array(np.zeros(number, np.bool_)),
            "text": column,
        }
    )
    table = tokenise(batch, Encoder(vocabulary), token_schema(id_type(vocabulary.size)), 42)
    return Tokenised(columns=documents_plain(table, ShardRange()).tokens, vocabulary=vocabulary)


if __name__ == "__main__":
    main(benchmark)
