"""The examples that BERT's authors made: those of google-research/bert's `create_pretraining_data.py`, one for one.

`compat = "google-bert"` of segment pairs is for repeating what was trained on that script's output. The documents
of a shard, in their order, are its input file: every sentence a line, a blank line after each document. The shard's
rows are the script's instances (commit eedf571, Python 3) in its order, shuffled as it does: the same tokens, segments,
labels ("is_random_next"), masked positions, replacements and labels of masks. So are its faults:
- a chunk of one sentence always gets a random B, so short documents have more of them than true ones;
- the target length is drawn once for a document and copy, not for every chunk;
- B is random text of the same document where ten tries find no other one; its label is 1 all the same;
- the number of masks is a share of the length with [CLS] and [SEP]; random tokens may be any token, special ones too;
- with whole words a B that begins inside a word joins the last word of A.

Exempt from addressed randomness: one `random.Random(seed)` a shard gives every number in the script's order, so
copies cannot be built apart, and another document anywhere changes all examples. It stays a function of settings and
columns. An example's id is that of other pairs, a hash of (anchor's key, copy, ordinal of its chunk in the document).

What is not the script's is tokenisation: ids are those of the vocabulary. A word continues where a token is no word
start, which in WordPiece is where the script reads `##`.

Promise: for every copy, total = placed + truncated, over the tokens of the anchors; tokens borrowed for random Bs are a
figure of their own. `shards.builders.google_bert.plain` is the definition; here kernels do the work.
Cost: 5 microseconds an example of 128 tokens, 11 of 512 (one x86-64 core); in passing, 88 bytes for every example.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Ids, Int64s, UInt16s
from corpora.store.ledger import Account, Ledger
from corpora.store.randomness import address, fold
from shards.builders.contract import BuiltExamples, Common
from shards.builders.examples import DocumentTokens, Examples, check_columns
from shards.builders.google_bert.kernels import (
    A_LENGTH,
    A_START,
    A_WHOLE,
    ANCHOR,
    B_LENGTH,
    B_START,
    B_WHOLE,
    LABEL,
    MASK,
    MASKED,
    ORDINAL,
    OTHER,
    PLAN_WIDTH,
    SAME,
    SPECIALS,
    plan_examples,
)
from shards.builders.google_bert.python_random import python_random, shuffle
from shards.builders.segments.plan_kernels import write_examples
from shards.masks.masking import LONGEST_MASKED, Masks, MaskSettings, ShardVocabulary
from shards.measures.surfaces import Segments, count_surfaces
from tokenizers_train.vocabularies.settings import WORDPIECE
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.bert import BertWords

NAME = "google-bert"
_ROWS = 1 << 14  # of a plan made in one go
_FREE = ("rate", "max_predictions", "seed")  # of masks: flags of the script, and what nothing is drawn by


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSettings:
    """The script's flags, named as ours are; the defaults are the script's.

    length:          max_seq_length
    short_sequence_probability: short_seq_prob
    copies:          dupe_factor
    seed:            random_seed
    rate:            masked_lm_prob
    whole_words:     do_whole_word_mask
    max_predictions: max_predictions_per_seq; None for no bound
    """

    length: int = 128
    short_sequence_probability: float = 0.1
    copies: int = 10
    seed: int = 12345
    rate: float = 0.15
    whole_words: bool = False
    max_predictions: int | None = 20

    @property
    def most_masks(self) -> int:
        """Bound on the masks of an example."""
        return self.max_predictions or LONGEST_MASKED


def check_masks(masking: MaskSettings) -> None:
    """Raise InputError for masks that the script does not make."""
    usual = {each.name: getattr(MaskSettings(), each.name) for each in fields(masking)}
    script: dict[str, tuple[Any, ...]] = {name: (value,) for name, value in usual.items() if name not in _FREE}
    for key, choices in (script | {"kind": ("static",), "unit": ("token", "whole-word")}).items():
        value = getattr(masking, key)
        if value not in choices:
            raise InputError(
                f"shards.masking.{key} = {value!r} does not go with shards.compat = {NAME!r}, whose masks are those of "
                f"the authors' script: set it to {' or '.join(map(repr, choices))}, or leave compat out."
            )


def check_algorithm(algorithm: str) -> None:
    """Raise InputError for a vocabulary that the script cannot read, as far as its algorithm shows."""
    if algorithm != WORDPIECE:
        raise InputError(
            f"shards.compat = {NAME!r} needs a WordPiece vocabulary, which is what the authors' script reads, and this "
            f'one is of algorithm {algorithm!r}. Choose a vocabulary of algorithm = "wordpiece", or leave compat out.'
        )


def check_vocabulary(words: Vocabulary) -> None:
    """Raise InputError for a vocabulary in which `##` does not continue a word of BERT's."""
    check_algorithm(words.algorithm)
    prefix = words.content["model"]["continuing_subword_prefix"]
    if prefix != "##" or not isinstance(words.word_rule, BertWords):
        raise InputError(
            f"shards.compat = {NAME!r} needs a vocabulary that cuts texts into BERT's words and writes ## before what "
            f"continues one; this one {f'writes {prefix!r}' if prefix != '##' else 'cuts them otherwise'}. Choose "
            "another vocabulary, or leave compat out."
        )


def script_settings(common: Common, short_sequence_probability: float) -> ScriptSettings:
    """The flags that a recipe's settings mean."""
    masking = common.masking
    return ScriptSettings(
        length=common.length,
        short_sequence_probability=short_sequence_probability,
        copies=common.copies,
        seed=common.seed,
        rate=masking.rate,
        whole_words=masking.unit == "whole-word",
        max_predictions=masking.max_predictions,
    )


def google_bert_examples(
    columns: DocumentTokens, settings: ScriptSettings, vocabulary: ShardVocabulary
) -> BuiltExamples:
    """The script's examples in its order, one checked ledger a copy, and the masks."""
    check_columns(columns)
    state = python_random(settings.seed)
    order = np.arange(len(columns.keys), dtype=np.int64)
    shuffle(state, order)
    parts = [_plan(columns, settings, vocabulary.size, state, order) for _ in range(settings.copies)]
    ledgers = tuple(_ledger(columns, plan) for plan, _, _ in parts)
    plan, positions, seen = (np.concatenate([part[each] for part in parts]) for each in range(3))
    copies = np.repeat(np.arange(settings.copies, dtype=np.uint16), [len(part[0]) for part in parts])
    shuffled = np.arange(len(plan), dtype=np.int64)
    shuffle(state, shuffled)
    masked = _offsets(plan[:, MASKED])
    places = _runs(masked[:-1][shuffled], plan[shuffled, MASKED])
    plan, copies, positions, seen = plan[shuffled], copies[shuffled], positions[places], seen[places]
    examples = _examples(columns, plan, copies, vocabulary)
    masks = _masks(examples, plan, positions, seen, vocabulary.special_ids["mask"])
    return BuiltExamples(examples, ledgers, masks, _surfaces(columns, plan, examples, settings.length - SPECIALS))


def _surfaces(columns: DocumentTokens, plan: Int64s, examples: Examples, room: int) -> Int64s:
    """Count the looks of examples, which give their labels away, as those of other pairs."""
    segments = Segments(plan[:, A_START], plan[:, A_LENGTH], plan[:, B_START], plan[:, B_LENGTH])
    return count_surfaces(columns.sentences, segments, plan[:, LABEL].astype(np.uint8), examples.example_id, room=room)


def _plan(
    columns: DocumentTokens, settings: ScriptSettings, vocabulary_size: int, state: Int64s, order: Int64s
) -> tuple[Int64s, UInt16s, Int64s]:
    """One copy: a row of the plan for each example, and the positions of its masks with what is seen there."""
    limit, cursor = settings.length - SPECIALS, np.zeros(4, np.int64)
    rows = np.empty((_ROWS, PLAN_WIDTH), np.int64)
    most = min(settings.most_masks, settings.length)
    positions, seen = np.empty(max(_ROWS, 2 * most), np.uint16), np.empty(max(_ROWS, 2 * most), np.int64)
    pieces = [(rows[:0], positions[:0], seen[:0])]
    while cursor[0] < len(order):
        num, total = plan_examples(
            columns.word_starts, columns.sentences, columns.documents, order, limit,
            float(settings.short_sequence_probability), float(settings.rate), settings.most_masks,
            settings.whole_words, vocabulary_size, state, cursor, rows, positions, seen,
        )  # fmt: skip
        pieces.append((rows[:num].copy(), positions[:total].copy(), seen[:total].copy()))
    plan, positions, seen = (np.concatenate([part[each] for part in pieces]) for each in range(3))
    return plan, positions, seen


def _ledger(columns: DocumentTokens, plan: Int64s) -> Ledger:
    """The ledger of one copy: tokens that came in against those that its plan places and cuts away."""
    follows = plan[:, LABEL] == 0
    placed = int(plan[:, A_LENGTH].sum() + plan[follows, B_LENGTH].sum())
    whole = int(plan[:, A_WHOLE].sum() + plan[follows, B_WHOLE].sum())
    outcomes = {"placed": placed, "truncated": whole - placed, "left_over": 0}
    figures = {
        "borrowed": int(plan[~follows, B_LENGTH].sum()),
        "next": int(follows.sum()),
        "random": int((~follows).sum()),
        "random_of_the_same_document": int((~follows & (plan[:, ANCHOR] == plan[:, OTHER])).sum()),
    }
    account = Account(unit="tokens", total=len(columns.ids), outcomes=outcomes)
    return Ledger(accounts=(account,), figures=figures).check()


def _examples(columns: DocumentTokens, plan: Int64s, copies: UInt16s, vocabulary: ShardVocabulary) -> Examples:
    """The planned examples, written out. One whose B is of its own document lists that once, whatever its label."""
    offsets = _offsets(plan[:, A_LENGTH] + plan[:, B_LENGTH] + SPECIALS)
    ids, word_starts = np.empty(offsets[-1], columns.ids.dtype), np.empty(offsets[-1], np.uint8)
    ends = vocabulary.special_ids["cls"], vocabulary.special_ids["sep"]
    write_examples(columns.ids, columns.word_starts, plan, offsets, *ends, ids, word_starts)
    borrows = plan[:, ANCHOR] != plan[:, OTHER]
    held = np.stack([np.ones(len(plan), bool), borrows], axis=1)
    anchors = fold(address(0, "example", copies), columns.keys[plan[:, ANCHOR]])
    return Examples(
        ids=ids,
        offsets=offsets,
        word_starts=word_starts,
        boundary=(plan[:, A_LENGTH] + 2).astype(np.uint16),
        label=plan[:, LABEL].astype(np.uint8),
        second_document=borrows.astype(np.uint16),
        documents=plan[:, [ANCHOR, OTHER]][held].astype(np.int32),
        document_offsets=_offsets(held.sum(axis=1)),
        ordinal=plan[:, ORDINAL].astype(np.uint32),
        copy=copies,
        example_id=fold(anchors, plan[:, ORDINAL].astype(np.uint64)),
    )


def _masks(examples: Examples, plan: Int64s, positions: UInt16s, seen: Int64s, mask_id: int) -> Masks:
    """The masks with ids for what is seen."""
    offsets = _offsets(plan[:, MASKED])
    originals = examples.ids[np.repeat(examples.offsets[:-1], plan[:, MASKED]) + positions]
    replacements: Ids = np.select([seen == MASK, seen == SAME], [mask_id, originals], seen).astype(examples.ids.dtype)
    return Masks(positions, offsets, replacements)


def _offsets(lengths: Int64s) -> Int64s:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _runs(starts: Int64s, lengths: Int64s) -> Int64s:
    """Runs of places end to end, each from a start on."""
    first = np.repeat(starts - _offsets(lengths)[:-1], lengths)
    return first + np.arange(len(first), dtype=np.int64)
