"""Sentences as the ids of a Unigram vocabulary: the most probable pieces of each word.

Promise: `UnigramEngine` gives the ids that Hugging Face's Unigram model gives (Kudo 2018, section 3.2): the sums of
scores are the same 64 bits, equal ones are decided the same way, and characters in a row that no piece covers are one
unknown token. A sentence is encoded by itself, and its first word, as every word, begins with U+2581 (see
`words.sentencepiece`), so a sentence needs no space before it if it follows another one.

How: text is cut at ASCII white space, and the ids of chunks of up to 16 bytes that are one word of few pieces are
cached under the chunk's own bytes, capitals and quotation marks included.

Cost: 68 MB/s of CPU time on English novels with all words known, 39 with none known; the reference's batches had 1.1:
60 and 35 times (30,000 pieces, on a busy machine). A word not known takes 0.6 microseconds. Memory: four MiB of words
known, and some 200 bytes for each byte of the longest chunk without white space while it is encoded, of these only
those touched that it needs.
"""

from collections.abc import Sequence

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Ids, Int64s
from corpora.text.buffers import check_texts, make_read_only
from tokenizers_train.encoding.encoded import EncodedSentences, choose_id_dtype
from tokenizers_train.encoding.piece_cache import build_piece_cache
from tokenizers_train.encoding.trie import build_trie
from tokenizers_train.encoding.unigram_kernels import UnigramModel, encode_ranges
from tokenizers_train.vocabularies.albert import UNKNOWN_PENALTY
from tokenizers_train.words.sentencepiece import SentencePieceWords

_MAX_SCORE = 1e100  # so that the sum of a text's scores is a number
_BYTES_PER_TOKEN = 3  # fewer than in any language's prose: where tokens are shorter, the arrays are made longer


class UnigramEngine:
    """Encodes sentences with a Unigram vocabulary (see `encoded.Engine`) and caches short words.

    Args:
        pieces: The tokens and their scores, in the order of their ids.
        unknown_id: The id for characters that no piece covers.
        words: The rule that splits text into words.

    Raises:
        InputError: If a token occurs twice, if `unknown_id` is None or out of range, if a score is NaN or its absolute
            value is at least 1e100, or if all scores are above 10.
    """

    def __init__(self, pieces: Sequence[tuple[str, float]], unknown_id: int | None, words: SentencePieceWords) -> None:
        lowest = min((score for _, score in pieces), default=0.0)
        if unknown_id is None or not 0 <= unknown_id < len(pieces):
            raise InputError(
                f"The unknown token of the vocabulary has the id {unknown_id}, and its {len(pieces)} tokens have the "
                "ids from 0 on: name the token that stands for what no piece covers."
            )
        _check_scores(pieces, lowest)
        self._words = words
        self._model = UnigramModel(
            trie=build_trie([token.encode() for token, _ in pieces], range(len(pieces))),
            scores=np.array([score for _, score in pieces], np.float64),
            unknown_id=unknown_id,
            unknown_score=lowest - UNKNOWN_PENALTY,
        )
        self._dtype = choose_id_dtype(len(pieces))
        self._cache = build_piece_cache()

    def encode(self, data: Bytes, starts: Int64s, ends: Int64s) -> EncodedSentences:
        """Encode each sentence data[starts[s]:ends[s]] separately with Unigram.

        The sentences may be in any order.

        Returns:
            The most probable Unigram tokens of the sentences, in the given order, without special tokens.

        Raises:
            InputError: If a sentence is not inside the data, splits a UTF-8 character or is not valid UTF-8.
        """
        check_texts(data, starts, ends)
        data, starts, ends = make_read_only(data), make_read_only(starts), make_read_only(ends)
        room = int((ends - starts).sum()) // _BYTES_PER_TOKEN + 64
        ids: Ids = np.empty(room, self._dtype)
        word_starts, offsets = np.zeros(room, np.uint8), np.zeros(len(starts) + 1, np.int64)
        state = np.array([0, -1, 0], np.int64)
        rules, lowercase = self._words.character_rules, self._words.lowercase
        while not encode_ranges(
            data, starts, ends, rules, lowercase, self._model, self._cache, ids, word_starts, offsets, state
        ):
            ids, word_starts = _extend_arrays(ids, word_starts, int(state[2]))
        num_tokens = int(state[2])
        return EncodedSentences(ids[:num_tokens], offsets, word_starts[:num_tokens])


def _check_scores(pieces: Sequence[tuple[str, float]], lowest: float) -> None:
    """Check that each score is a usable number, and that unknown characters do not get positive scores.

    Args:
        pieces: The tokens and their scores.
        lowest: The lowest score.

    Raises:
        InputError: If a score is NaN or its absolute value is at least 1e100, or if `lowest` is above 10.
    """
    for token, score in pieces:
        if not abs(score) < _MAX_SCORE or lowest > UNKNOWN_PENALTY:
            raise InputError(
                f"The score of the token {token!r} is {score}, and scores are logarithms of probabilities: bring the "
                "files of the vocabulary again."
            )


def _extend_arrays(ids: Ids, word_starts: Bytes, used: int) -> tuple[Ids, Bytes]:
    """Return copies of both arrays with twice the length. The first `used` entries are kept.

    In the copy of `word_starts`, all later entries are zero, as `encode_ranges` requires.
    """
    more_ids, more_starts = np.empty(2 * len(ids), ids.dtype), np.zeros(2 * len(ids), np.uint8)
    more_ids[:used], more_starts[:used] = ids[:used], word_starts[:used]
    return more_ids, more_starts
