"""Define google-research/bert's examples: what `google_bert_examples` gives, with Python's own generator.

Promise: the same columns, ledgers and masks, so it says what the kernels mean. It is for reading and for
tests: it costs what the script costs.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.store.ledger import Account, Ledger
from corpora.store.randomness import address, fold
from shards.builders.contract import BuiltExamples
from shards.builders.examples import DocumentTokens, Examples, check_columns
from shards.builders.google_bert.builder import ScriptSettings
from shards.builders.google_bert.kernels import SPECIALS, TRIES
from shards.masks.masking import Masks, ShardVocabulary

Token = tuple[int, int]  # id, 1 where a word begins
Segment = list[Token]


class ScriptDocument(NamedTuple):
    """A document of the script's input file; `number` is its place among the columns."""

    number: int
    sentences: list[Segment]


class ScriptInstance(NamedTuple):
    """A row of the script's output."""

    copy: int
    anchor: int
    other: int
    ordinal: int
    label: int
    a: Segment
    b: Segment
    masks: dict[int, int]  # what is seen by place, ascending


def google_bert_plain(columns: DocumentTokens, settings: ScriptSettings, vocabulary: ShardVocabulary) -> BuiltExamples:
    """Return what `google_bert_examples` gives, over lists of tokens."""
    check_columns(columns)
    tokens = list(zip(columns.ids.tolist(), columns.word_starts.tolist(), strict=True))
    sentences = [tokens[i:j] for i, j in pairwise(columns.sentences.tolist())]
    spans = pairwise(columns.documents.tolist())
    documents = [ScriptDocument(number, sentences[i:j]) for number, (i, j) in enumerate(spans)]
    random, instances, ledgers = Random(settings.seed), list[ScriptInstance](), list[Ledger]()
    random.shuffle(documents)
    for copy in range(settings.copies):
        counts = Counter[str]()
        for rank in range(len(documents)):
            instances += _of_document(documents, rank, copy, settings, vocabulary, random, counts)
        ledgers.append(_ledger(len(tokens), counts))
    random.shuffle(instances)
    examples = _columns(instances, columns, vocabulary)
    dtype: npt.DTypeLike = columns.ids.dtype
    masks = Masks(
        positions=np.array([place for each in instances for place in each.masks], np.uint16),
        offsets=np.cumsum([0, *(len(each.masks) for each in instances)], dtype=np.int64),
        replacements=np.array([seen for each in instances for seen in each.masks.values()], dtype),
    )
    return BuiltExamples(examples, tuple(ledgers), masks)


def _of_document(
    documents: list[ScriptDocument],
    rank: int,
    copy: int,
    settings: ScriptSettings,
    vocabulary: ShardVocabulary,
    random: Random,
    counts: Counter[str],
) -> Iterator[ScriptInstance]:
    """The instances of one document and copy, in order; the outcomes of its tokens go to `counts`."""
    target = limit = settings.length - SPECIALS
    if random.random() < settings.short_sequence_probability:
        target = random.randint(2, limit)
    anchor, rest = documents[rank]
    ordinal = 0
    while rest:
        chunk = _run(rest, target)
        cut = random.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
        a, b, other, label = _joined(chunk[:cut]), _joined(chunk[cut:]), anchor, 0
        rest = rest[len(chunk) :]
        if len(chunk) == 1 or random.random() < 0.5:
            rest = chunk[cut:] + rest
            chosen = _drawn_document(documents, rank, random)
            begin = random.randint(0, len(chosen.sentences) - 1)
            other, b, label = chosen.number, _joined(_run(chosen.sentences[begin:], target - len(a))), 1
        placed_a, placed_b = _truncated(a, b, limit, random)
        _count(counts, label, other == anchor, (len(a), len(b)), (len(placed_a), len(placed_b)))
        masks = _masked(placed_a, placed_b, settings, vocabulary, random)
        yield ScriptInstance(copy, anchor, other, ordinal, label, placed_a, placed_b, masks)
        ordinal += 1


def _run(sentences: list[Segment], wanted: int) -> list[Segment]:
    """The first sentences: one at least, until there are `wanted` tokens."""
    size = 1
    while size < len(sentences) and sum(map(len, sentences[:size])) < wanted:
        size += 1
    return sentences[:size]


def _drawn_document(documents: list[ScriptDocument], rank: int, random: Random) -> ScriptDocument:
    """Another document if one is drawn in ten tries, else the same."""
    for _ in range(TRIES):
        drawn = random.randint(0, len(documents) - 1)
        if drawn != rank:
            break
    return documents[drawn]


def _joined(sentences: list[Segment]) -> Segment:
    return list(chain.from_iterable(sentences))


def _truncated(a: Segment, b: Segment, limit: int, random: Random) -> tuple[Segment, Segment]:
    """While both are too long, the longer (B on a tie) loses its first or last token."""
    while len(a) + len(b) > limit:
        front = random.random() < 0.5
        if len(a) > len(b):
            a = a[1:] if front else a[:-1]
        else:
            b = b[1:] if front else b[:-1]
    return a, b


def _masked(
    a: Segment, b: Segment, settings: ScriptSettings, vocabulary: ShardVocabulary, random: Random
) -> dict[int, int]:
    """Return what the model sees at the masked places of [CLS] A [SEP] B [SEP]."""
    placed = [*enumerate(a, 1), *enumerate(b, len(a) + 2)]
    groups: list[list[tuple[int, Token]]] = []
    for place, token in placed:
        if groups and settings.whole_words and not token[1]:
            groups[-1].append((place, token))
        else:
            groups.append([(place, token)])
    random.shuffle(groups)
    wanted = min(settings.most_masks, max(1, round((len(placed) + SPECIALS) * settings.rate)))
    seen: dict[int, int] = {}
    for group in groups:
        if len(seen) + len(group) <= wanted:
            seen |= {place: _seen(token, vocabulary, random) for place, token in group}
    return dict(sorted(seen.items()))


def _seen(token: Token, vocabulary: ShardVocabulary, random: Random) -> int:
    """[MASK], the token, or any token."""
    if random.random() < 0.8:
        return vocabulary.special_ids["mask"]
    return token[0] if random.random() < 0.5 else random.randint(0, vocabulary.size - 1)


def _count(counts: Counter[str], label: int, same: bool, whole: tuple[int, int], placed: tuple[int, int]) -> None:
    """Add one instance; `whole` and `placed` are tokens of A and B before and after truncation."""
    kept, own = (lengths[0] if label else sum(lengths) for lengths in (placed, whole))
    counts["placed"] += kept
    counts["truncated"] += own - kept
    counts["borrowed"] += placed[1] * label
    counts["random" if label else "next"] += 1
    counts["random_of_the_same_document"] += label and same


def _ledger(total: int, counts: Counter[str]) -> Ledger:
    outcomes = {name: counts[name] for name in ("placed", "truncated", "left_over")}
    names = ("borrowed", "next", "random", "random_of_the_same_document")
    account = Account(unit="tokens", total=total, outcomes=outcomes)
    return Ledger(accounts=(account,), figures={name: counts[name] for name in names}).check()


def _columns(instances: list[ScriptInstance], columns: DocumentTokens, vocabulary: ShardVocabulary) -> Examples:
    cls, sep = (vocabulary.special_ids["cls"], 0), (vocabulary.special_ids["sep"], 0)
    rows = [[cls, *each.a, sep, *each.b, sep] for each in instances]
    tokens = _joined(rows)
    held = [list(dict.fromkeys([each.anchor, each.other])) for each in instances]
    keys = columns.keys.tolist()
    links = [fold(fold(address(0, "example", each.copy), keys[each.anchor]), each.ordinal) for each in instances]
    dtype: npt.DTypeLike = columns.ids.dtype
    return Examples(
        ids=np.array([token for token, _ in tokens], dtype),
        offsets=np.cumsum([0, *map(len, rows)], dtype=np.int64),
        word_starts=np.array([begins for _, begins in tokens], np.uint8),
        boundary=np.array([len(each.a) + 2 for each in instances], np.uint16),
        label=np.array([each.label for each in instances], np.uint8),
        second_document=np.array([len(documents) - 1 for documents in held], np.uint16),
        documents=np.array(list(chain.from_iterable(held)), np.int32),
        document_offsets=np.cumsum([0, *map(len, held)], dtype=np.int64),
        ordinal=np.array([each.ordinal for each in instances], np.uint32),
        copy=np.array([each.copy for each in instances], np.uint16),
        example_id=np.array(links, np.uint64),
    )
