"""The vocabularies of a run for its report: size, pieces, tokens a word and unknown tokens, side by side.

Promise: tokens a word are shown where words and tokens were counted over one corpus, and left out where they were not.
Each algorithm has its own rule for words, so the figures of two algorithms are not about the same words.
Every piece passes `privacy.Privacy`: it may be a word of a document.
"""

from typing import Any

from corpora.store.manifest import Manifest
from flows.report.measures import drift_rows, measured_view
from flows.report.run import RunView
from flows.run.record.ledger_balance import made_from, of_kind
from tokenizers_train.measures.measure import longest_pieces, ordinary_ids
from tokenizers_train.vocabularies.vocabulary import Vocabulary

LONGEST_PIECES = 16
PIECE_CHARACTERS = 60

ALGORITHM_NAMES = {"wordpiece": "WordPiece", "byte-bpe": "byte-level BPE", "unigram": "Unigram"}

View = dict[str, Any]


def vocabulary_views(run: RunView) -> list[View]:
    """Return each vocabulary in numbers, with its special tokens, longest pieces and measures."""
    views: list[View] = []
    for name, manifest in run.of_each("vocabularies").items():
        vocabulary = run.vocabulary_of(manifest)
        assert vocabulary is not None, "it is among the run's artifacts"
        made_with = [tokens for tokens in of_kind(run.manifests, "tokens") if made_from(tokens, [manifest])]
        tokens = made_with[-1] if made_with else None
        views.append(
            {
                "name": name,
                "asked": manifest.settings["size"],
                "brought": "files" in manifest.settings,
                "distinct_words": manifest.ledger.figures.get("distinct words", 0),
                "longest": _longest(run, vocabulary),
                "tokens_a_word": tokens_a_word(tokens),
                "sample": run.token_samples.get(tokens.folder) if tokens is not None else None,
                "measured": measured_view(run, manifest, vocabulary, f"fertility-of-{len(views) + 1}"),
                "drift": drift_rows(tokens),
                **_facts(vocabulary),
            }
        )
    return views


def _facts(vocabulary: Vocabulary) -> View:
    """Return the facts that the tokens themselves give."""
    return {
        "algorithm": ALGORITHM_NAMES.get(vocabulary.algorithm, vocabulary.algorithm),
        "case": "lower-case" if vocabulary.lowercase else "cased",
        "size": vocabulary.size,
        "specials": [vocabulary.tokens[id] for id in vocabulary.special_ids.values()],
        "unknown": vocabulary.special_tokens.get("unk", "none"),
        "beginning": sum(vocabulary.begins_word(id) for id in ordinary_ids(vocabulary)),
    }


def _longest(run: RunView, vocabulary: Vocabulary) -> list[str]:
    """Return the longest pieces as they may be shown."""
    shown = (vocabulary.display(id) for id in longest_pieces(vocabulary, LONGEST_PIECES))
    return [piece for piece in (run.privacy.show(text, PIECE_CHARACTERS) for text in shown) if piece]


def tokens_a_word(tokens: Manifest | None) -> float | None:
    """Return training tokens for each word of the corpus; None where none were counted."""
    figures = tokens.ledger.figures if tokens is not None else {}
    words = figures.get("train words", 0)
    return figures["train tokens"] / words if words else None
