"""The vocabularies of a run for its report: size, tokens, tokens per word and unknown tokens, next to each other.

Promise: tokens per word are shown only if words and tokens were counted in one corpus. Each algorithm has its own rule
for words, so the figures of two algorithms are not about the same words. Figures are those that the stage `measures`
stored, and those of the tokens stage's ledger (its counts). Every token that is shown goes through `privacy.Privacy`:
it may be a word of a document.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from corpora.store.manifest import Manifest
from flows.report.run import RunView, View
from flows.run.record.ledger_balance import filter_kind, find_parent
from tokenizers_train.measures.build import read_measures
from tokenizers_train.measures.measure import list_ordinary_ids, list_unused_pieces
from tokenizers_train.vocabularies.vocabulary import Vocabulary

MAX_SPLITS, PIECE_CHARACTERS, WORD_CHARACTERS = 12, 60, 60

ALGORITHM_NAMES = {"wordpiece": "WordPiece", "byte-bpe": "byte-level BPE", "unigram": "Unigram"}


def build_vocabulary_views(run: RunView) -> list[View]:
    """Build the Jinja template context for each vocabulary of a run, with its size and quality measures.

    The keys are "name", "asked" (size in the recipe), "brought" (True if it was not trained), "distinct_words",
    "tokens_a_word", "sample", "measured", "drift" and those of `_describe_vocabulary`.

    Args:
        run: The run.
    """
    views: list[View] = []
    for name, manifest in run.find_by_name("vocabularies").items():
        vocabulary = run.find_vocabulary(manifest)
        assert vocabulary is not None, "it is among the run's artifacts"
        made_with = [tokens for tokens in filter_kind(run.manifests, "tokens") if find_parent(tokens, [manifest])]
        tokens = made_with[-1] if made_with else None
        views.append(
            {
                "name": name,
                "asked": manifest.settings["size"],
                "brought": "files" in manifest.settings,
                "distinct_words": manifest.ledger.figures.get("distinct words", 0),
                "tokens_a_word": compute_tokens_per_word(tokens),
                "sample": run.token_samples.get(tokens.folder) if tokens is not None else None,
                "measured": build_measures_view(run, manifest, vocabulary),
                "drift": build_drift_rows(tokens),
                **_describe_vocabulary(vocabulary),
            }
        )
    return views


def _describe_vocabulary(vocabulary: Vocabulary) -> View:
    """Return facts about a vocabulary as template context.

    The keys are "algorithm", "case", "size", "specials" (special tokens), "unknown" (the unknown token) and "beginning"
    (number of tokens that begin a word).
    """
    return {
        "algorithm": ALGORITHM_NAMES.get(vocabulary.algorithm, vocabulary.algorithm),
        "case": "lower-case" if vocabulary.lowercase else "cased",
        "size": vocabulary.size,
        "specials": [vocabulary.tokens[id] for id in vocabulary.special_ids.values()],
        "unknown": vocabulary.special_tokens.get("unk", "none"),
        "beginning": sum(vocabulary.is_word_start(id) for id in list_ordinary_ids(vocabulary)),
    }


def compute_tokens_per_word(tokens: Manifest | None) -> float | None:
    """Compute the number of training tokens per word of the corpus. Returns None if words were not counted.

    Args:
        tokens: Manifest (description) of the tokenized documents; None if there are none.
    """
    figures = tokens.ledger.figures if tokens is not None else {}
    words = figures.get("train words", 0)
    return figures["train tokens"] / words if words else None


def build_measures_view(run: RunView, manifest: Manifest, vocabulary: Vocabulary) -> View | None:
    """Build the Jinja template context for the quality measures of a vocabulary, such as its tokens per word.

    Args:
        run: The run.
        manifest: Manifest (stored description) of the vocabulary.
        vocabulary: The vocabulary.

    Returns:
        A dict with the keys "corpus" (measures of all words), "sources" ((name, measures) pairs), "sizes" (measures by
        vocabulary size), "unused" (number of unused tokens) and "splits" (rows of words that take many tokens). None if
        the run did not measure the vocabulary.
    """
    stored = next((m for m in filter_kind(run.manifests, "measures") if find_parent(m, [manifest])), None)
    if stored is None:
        return None
    measured = read_measures(run.place, stored)
    return {
        "corpus": measured.corpus,
        "sources": sorted(
            ((name, each) for name, each in measured.sources.items() if each.words),
            key=lambda source: (-(source[1].fertility or 0.0), source[0]),
        ),
        "sizes": dict(sorted({**measured.sizes, vocabulary.size: measured.corpus}.items())) if measured.sizes else {},
        "unused": len(list_unused_pieces(vocabulary, measured.counts)),
        "splits": _build_split_rows(run, vocabulary, measured.splits),
    }


def _build_split_rows(run: RunView, vocabulary: Vocabulary, splits: Iterable[Mapping[str, Any]]) -> list[View]:
    """Build a row for each of the words that are split into the most tokens. Empty if texts must not be shown.

    The keys of a row are "word", "pieces" (its tokens) and "count".

    Args:
        run: The run.
        vocabulary: The vocabulary.
        splits: Dictionaries with a "word", its "count" and the "ids" of its tokens.
    """
    if run.privacy.samples != "text":
        return []
    return [
        {
            "word": run.privacy.show(split["word"].strip(), WORD_CHARACTERS),
            "pieces": [run.privacy.show(vocabulary.format_token(id), PIECE_CHARACTERS) for id in split["ids"]],
            "count": split["count"],
        }
        for split in islice(splits, MAX_SPLITS)
    ]


def sum_by_generation(tokens: Manifest | None) -> dict[int, Counter[str]]:
    """Sum the counts of tokenized documents for each generation (the raw files that one run added).

    Args:
        tokens: Manifest (description) of the tokenized documents; None if there are none.

    Returns:
        The counts of each generation by name, such as "train tokens", by generation number in ascending order. Empty if
        `tokens` is None.
    """
    sums: dict[int, Counter[str]] = {}
    for part in tokens.parts if tokens is not None else ():
        if "generation" in part.labels:
            sums.setdefault(int(part.labels["generation"]), Counter()).update(part.ledger.figures)
    return dict(sorted(sums.items()))


def build_drift_rows(tokens: Manifest | None) -> list[View]:
    """Build a row for each generation of tokenized documents, with its tokens per word and share of unknown tokens.

    A generation is the raw files that one run added. Generations for which words were not counted are omitted. The keys
    of a row are "generation", "words", "tokens", "tokens_a_word" and "unknown" (a share from 0 to 1).

    Args:
        tokens: Manifest (description) of the tokenized documents; None if there are none.
    """
    return [
        {
            "generation": generation,
            "words": figures["train words"],
            "tokens": figures["train tokens"],
            "tokens_a_word": figures["train tokens"] / figures["train words"],
            "unknown": figures["train unknown tokens"] / figures["train tokens"],
        }
        for generation, figures in sum_by_generation(tokens).items()
        if figures["train words"] and figures["train tokens"]
    ]
