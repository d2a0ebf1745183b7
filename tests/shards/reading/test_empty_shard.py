"""A shard in which no document has a partner: no examples, and still a table, masks or not."""

from pathlib import Path

import pyarrow as pa
import pytest

from shards.build import to_example_table
from shards.documents import DocumentSelection, select_documents_plain
from shards.masks.masking import MaskSettings, ShardVocabulary, build_mask_vocabulary
from shards.schema import build_example_schema, build_token_schema
from shards.settings import ShardSettings
from tokenizers_train.vocabularies.bert import SPECIAL_TOKENS
from tokenizers_train.vocabularies.vocabulary import build_bert_vocabulary


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_one_document_alone_gives_an_empty_table(kind: str, tmp_path: Path) -> None:
    """Fails if the masks of no example cannot be joined, as in a held-out split of a single document."""
    words = build_bert_vocabulary((*SPECIAL_TOKENS.values(), "a", "b"))
    table = pa.Table.from_pylist(
        [
            {
                "shuffle": 7,
                "id": b"0123456789abcdef",
                "revision": 1,
                "source": "a",
                "held_out": True,
                "ids": [5, 6, 5, 6],
                "word_starts": [True] * 4,
                "sentence_lengths": [2, 2],
            }
        ],
        build_token_schema(pa.uint16()),
    )
    documents = select_documents_plain(table, DocumentSelection(held_out=True))
    settings = ShardSettings(masking=MaskSettings(kind=kind))
    built = settings.own.build(documents.tokens, settings.common, ShardVocabulary(words.size, words.special_ids))
    [ledger] = built.ledgers
    assert ledger.find_account("tokens").outcomes["left_over"] == 4
    rows = to_example_table(built, documents, settings, words, build_mask_vocabulary(words))
    assert rows.num_rows == 0
    assert rows.schema == build_example_schema(pa.uint16(), labels=True, pairs=True, static_masks=kind == "static")
