"""Vocabularies in figures: what `cloze vocabulary` prints as JSON, and makes its tables from."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.measures.measure import longest_pieces, ordinary_ids, overlap
from tokenizers_train.measures.texts import TextMeasures, cut_apart, cut_text, measure_lines
from tokenizers_train.vocabularies.vocabulary import Vocabulary

WORDS_APART, LONGEST = 12, 8

Facts = dict[str, Any]


def vocabulary_facts(vocabulary: Vocabulary) -> Facts:
    """Return the facts of a vocabulary."""
    special = [*vocabulary.special_tokens.values(), *vocabulary.further_special_tokens]
    return {
        "size": vocabulary.size,
        "algorithm": vocabulary.algorithm,
        "words": vocabulary.word_rule.settings if vocabulary.word_rule is not None else None,
        "special_tokens": {token: vocabulary.id_of(token) for token in special},
        "ordinary": len(ordinary_ids(vocabulary)),
        "longest": [vocabulary.tokens[id] for id in longest_pieces(vocabulary, LONGEST)],
    }


def text_facts(vocabulary: Vocabulary, text: str) -> Facts:
    """Return the figures of a text and its pieces."""
    cut = cut_text(vocabulary, text)
    pieces = [
        {"id": piece.id, "token": vocabulary.tokens[piece.id], "start": piece.start, "end": piece.end}
        for piece in cut.pieces
    ]
    return {"text": measures_facts(cut.measures), "pieces": pieces}


def measures_facts(measures: TextMeasures) -> Facts:
    """Return the figures of a text, with their quotients."""
    return {
        **asdict(measures),
        "tokens_a_word": measures.fertility,
        "bytes_a_token": measures.bytes_a_token,
        "unknown_share": measures.unknown_share,
    }


def comparison_facts(
    names: tuple[str, str], vocabularies: tuple[Vocabulary, Vocabulary], lines: Iterable[str], beginning: str
) -> Facts:
    """Compare two vocabularies on the lines of one text. beginning: of the text, for words cut in other places"""
    figures = measure_lines(*map(Encoder, vocabularies), lines=lines)
    first, second = (cut_text(each, beginning) for each in vocabularies)
    return {
        "vocabularies": [
            {"name": name, **vocabulary_facts(each), "text": measures_facts(measures)}
            for name, each, measures in zip(names, vocabularies, figures, strict=True)
        ],
        "overlap": asdict(overlap(*vocabularies)),
        "cut_apart": [
            {"word": word, "pieces": [[*ours], [*theirs]]}
            for word, (ours, theirs) in cut_apart(first, second, WORDS_APART).items()
        ],
    }
