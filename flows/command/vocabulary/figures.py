"""Vocabularies in figures: the output of `cloze vocabulary`, as values, and as JSON for scripts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from corpora.store.manifest import Json
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.measures.measure import Overlap, longest_pieces, ordinary_ids, overlap
from tokenizers_train.measures.texts import (
    CutText,
    Disagreement,
    TextMeasures,
    cut_apart,
    cut_texts,
    disagreement,
    measure_lines,
)
from tokenizers_train.vocabularies.vocabulary import Vocabulary

WORDS_APART = 12
LONGEST = 8  # pieces that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyComparison:
    """Two vocabularies side by side.

    overlap:      the pieces they share
    figures:      what each makes of the whole text
    cuts:         the paragraph on which they differ most, by each
    disagreement: in that paragraph
    cut_apart:    words of the paragraph cut in other places, by each
    """

    names: tuple[str, str]
    vocabularies: tuple[Vocabulary, Vocabulary]
    overlap: Overlap
    figures: tuple[TextMeasures, TextMeasures]
    cuts: tuple[CutText, CutText]
    disagreement: Disagreement
    cut_apart: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]


def compare_vocabularies(
    names: tuple[str, str],
    vocabularies: tuple[Vocabulary, Vocabulary],
    lines: Iterable[str],
    paragraphs: Sequence[str],
) -> VocabularyComparison:
    """Compare two vocabularies on one text, which is read once, and on the paragraph on which they differ most."""
    first, second = vocabularies
    ours_theirs = list(zip(cut_texts(first, paragraphs), cut_texts(second, paragraphs), strict=True))
    cuts = max(ours_theirs, key=lambda pair: disagreement(*pair).share)
    ours, theirs = measure_lines(Encoder(first), Encoder(second), lines=lines)
    return VocabularyComparison(
        names=names,
        vocabularies=vocabularies,
        overlap=overlap(first, second),
        figures=(ours, theirs),
        cuts=cuts,
        disagreement=disagreement(*cuts),
        cut_apart=cut_apart(*cuts, WORDS_APART),
    )


def special_tokens(vocabulary: Vocabulary) -> list[str]:
    """Return the special tokens, those that play a known role first."""
    return [*vocabulary.special_tokens.values(), *vocabulary.further_special_tokens]


def vocabulary_facts(vocabulary: Vocabulary) -> dict[str, Json]:
    """Return the facts of a vocabulary."""
    return {
        "size": vocabulary.size,
        "algorithm": vocabulary.algorithm,
        "words": vocabulary.word_rule.settings if vocabulary.word_rule is not None else None,
        "special_tokens": {token: vocabulary.id_of(token) for token in special_tokens(vocabulary)},
        "ordinary": len(ordinary_ids(vocabulary)),
        "longest": [vocabulary.tokens[id] for id in longest_pieces(vocabulary, LONGEST)],
    }


def text_figures(vocabulary: Vocabulary, cut: CutText) -> dict[str, Json]:
    """Return a text's figures and its pieces."""
    pieces: list[Json] = [
        {"id": piece.id, "token": vocabulary.tokens[piece.id], "start": piece.start, "end": piece.end}
        for piece in cut.pieces
    ]
    return {"text": measures_facts(cut.measures), "pieces": pieces}


def measures_facts(measures: TextMeasures) -> dict[str, Json]:
    """Return the figures of a text, with their quotients."""
    return {
        **asdict(measures),
        "tokens_a_word": measures.fertility,
        "bytes_a_token": measures.bytes_a_token,
        "unknown_share": measures.unknown_share,
    }


def comparison_facts(both: VocabularyComparison) -> dict[str, Json]:
    """Return a comparison for scripts."""
    sides: list[Json] = [
        {"name": name, **vocabulary_facts(each), "text": measures_facts(figures), "tokens": tokens_of(each, cut)}
        for name, each, figures, cut in zip(both.names, both.vocabularies, both.figures, both.cuts, strict=True)
    ]
    return {
        "vocabularies": sides,
        "overlap": {**asdict(both.overlap), "by_rank": list(both.overlap.by_rank)},
        "paragraph": both.cuts[0].text,
        "disagreement": {**asdict(both.disagreement), "share": both.disagreement.share},
        "cut_apart": [
            {"word": word, "pieces": [[*ours], [*theirs]]} for word, (ours, theirs) in both.cut_apart.items()
        ],
    }


def tokens_of(vocabulary: Vocabulary, cut: CutText) -> list[Json]:
    """Return the tokens of a text as the vocabulary writes them."""
    return [vocabulary.tokens[piece.id] for piece in cut.pieces]
