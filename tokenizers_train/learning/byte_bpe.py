"""Byte-level BPE vocabularies, trained from counts of GPT-2's words.

The rule (Radford et al. 2019, section 2.2, as Hugging Face's BpeTrainer has it): a word is its bytes, all 256 of
which are in the alphabet, so that no text is unknown, and `merges` joins them until the vocabulary is full or no
pair is frequent enough.

Promise: the vocabulary is a function of counts and settings: that which BpeTrainer learns from the same text with
the whole alphabet of bytes. Ids, which decide between equally frequent pairs, are given in this order: <s> <pad>
</s> <unk> as RoBERTa has them, the bytes in the order of their letters, pieces as they are made, further special
tokens, <mask>.

Cost: that of `merges`; then twice as long again for the files of a tokenizer of 50,265 tokens.
"""

import numpy as np
import pyarrow.compute as pc

from corpora.errors import InputError
from tokenizers_train.learning.merges import Words, lay_out_words, learn_merges
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS, SPECIAL_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary, roberta_vocabulary
from tokenizers_train.words.table import WordCounts


def train_byte_bpe(counts: WordCounts, settings: VocabularySettings) -> Vocabulary:
    """Train a byte-level BPE vocabulary of at most `settings.size` tokens.

    Raises InputError where there are no words.
    """
    words = spell_bytes(counts)
    first, last = list(SPECIAL_TOKENS.values())[:-1], SPECIAL_TOKENS["mask"]
    room = settings.size - len(SPECIAL_TOKENS) - len(settings.special_tokens) - len(words.letters)
    pieces, merges = list(words.letters), []
    for left, right in zip(*learn_merges(words, room, settings.min_frequency).T.tolist(), strict=True):
        merges.append((pieces[left], pieces[right]))
        pieces.append(pieces[left] + pieces[right])
    tokens = (*first, *pieces, *settings.special_tokens, last)
    return roberta_vocabulary(tokens, tuple(merges), settings.special_tokens)


def spell_bytes(counts: WordCounts) -> Words:
    """The words as bytes, each with the number of its letter in the order of letters.

    Raises InputError where there is no word at all.
    """
    if not counts.num_rows:
        raise InputError("There are no words to train a vocabulary from: every document is empty or was dropped.")
    order = np.argsort([ord(letter) for letter in BYTE_LETTERS])
    ranks = np.empty(256, np.int32)
    ranks[order] = np.arange(256, dtype=np.int32)
    num_bytes = pc.sum(pc.binary_length(counts["word"])).as_py()
    return lay_out_words(counts, sorted(BYTE_LETTERS), (ranks, ranks), num_bytes)
