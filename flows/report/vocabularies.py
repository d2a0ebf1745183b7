"""The vocabularies of a run for its report: size, pieces, tokens a word and unknown tokens, side by side.

Promise: tokens a word is told where words and tokens were counted over one corpus, and left out where they were not.
What a word is, each algorithm has its own rule for, so the figures of two algorithms are not of the same words.
Every piece passes `samples.Privacy`: it may be a word of a document.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from corpora.store.manifest import Manifest, Part
from flows.report.accounts import made_from, of_kind
from flows.report.run import RunView
from tokenizers_train.vocabulary import BYTE_BPE, Vocabulary

LONGEST_PIECES = 16
PIECE_CHARACTERS = 60

ALGORITHM_NAMES = {"wordpiece": "WordPiece", "byte-bpe": "byte-level BPE"}

View = dict[str, Any]


def vocabulary_views(run: RunView) -> list[View]:
    """Each vocabulary in numbers, with its special tokens and longest pieces."""
    views = []
    for name, manifest in run.of_each("vocabularies").items():
        vocabulary = run.vocabulary_of(manifest)
        assert vocabulary is not None, "it is among the run's artifacts"
        counts = made_from(manifest, of_kind(run.manifests, "counts"))
        made_with = [tokens for tokens in of_kind(run.manifests, "tokens") if made_from(tokens, [manifest])]
        tokens = made_with[-1] if made_with else None
        views.append(
            {
                "name": name,
                "asked": manifest.settings["size"],
                "distinct_words": manifest.ledger.figures.get("distinct words", 0),
                "longest": [shown for id in longest_pieces(vocabulary) if (shown := _shown(run, vocabulary, id))],
                "tokens_a_word": tokens_a_word(counts, tokens),
                "by_source": tokens_a_word_by_source(counts, tokens),
                "sample": run.token_samples.get(tokens.folder) if tokens is not None else None,
                **_facts(vocabulary),
            }
        )
    return views


def _facts(vocabulary: Vocabulary) -> View:
    """What the tokens themselves tell."""
    return {
        "algorithm": ALGORITHM_NAMES[vocabulary.algorithm],
        "case": "lower-case" if vocabulary.lowercase else "cased",
        "size": vocabulary.size,
        "specials": list(vocabulary.special_tokens.values()),
        "unknown": vocabulary.special_tokens["unk"],
        "beginning": sum(vocabulary.begins_word(id) for id in ordinary_ids(vocabulary)),
    }


def _shown(run: RunView, vocabulary: Vocabulary, id: int) -> str:
    return run.privacy.show(vocabulary.display(id), PIECE_CHARACTERS)


def ordinary_ids(vocabulary: Vocabulary) -> list[int]:
    """The ids that text can have: neither special nor kept for words added later."""
    special = set(vocabulary.special_ids.values())
    return [id for id, token in enumerate(vocabulary.tokens) if id not in special and not token.startswith("[unused")]


def longest_pieces(vocabulary: Vocabulary) -> list[int]:
    """The ids of the longest pieces, the mark of a continued word or of a space not counted."""

    def letters(id: int) -> int:
        begins = vocabulary.begins_word(id)
        mark = int(begins) if vocabulary.algorithm == BYTE_BPE else 2 * (not begins)
        return len(vocabulary.display(id)) - mark

    return sorted(ordinary_ids(vocabulary), key=lambda id: (-letters(id), vocabulary.tokens[id]))[:LONGEST_PIECES]


def tokens_a_word(counts: Manifest | None, tokens: Manifest | None) -> float | None:
    """Training tokens for each word counted; None where the two were not counted over the same corpus."""
    if counts is None or tokens is None or counts.parents[0] not in tokens.parents:
        return None
    words = counts.ledger.figures.get("words", 0)
    return tokens.ledger.figures["train tokens"] / words if words else None


def tokens_a_word_by_source(counts: Manifest | None, tokens: Manifest | None) -> dict[str, float]:
    """The same for each source, the most tokens a word first: where the vocabulary fits least."""
    if counts is None or tokens is None or tokens_a_word(counts, tokens) is None:
        return {}
    words, pieces = _by_source(counts.parts, "words"), _by_source(tokens.parts, "train tokens")
    shares = {source: pieces[source] / count for source, count in words.items() if count}
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def _by_source(parts: Iterable[Part], figure: str) -> Counter[str]:
    """A figure of each source that labels parts."""
    sums = Counter[str]()
    for part in parts:
        if "source" in part.labels:
            sums[part.labels["source"]] += part.ledger.figures.get(figure, 0)
    return sums
