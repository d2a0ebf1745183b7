"""Segment pairs next to those of google-research/bert's script: lengths, balance of labels, and what is truncated.

The figures of the script were made by it (`authors_script.py` ran commit eedf571) from the documents of this file.
With `GOOGLE_BERT` naming a checkout of github.com/google-research/bert it is run again.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from authors_script import load_script
from small_documents import CLS, SEP, documents_of

from shards.builders.segments.pairs import PairSettings, build_pairs

LENGTH, COPIES, WORDS = 48, 5, 50
# Documents of 1 to 30 sentences of 1 to 60 words: some sentences are alone, some longer than an example.
DOCUMENTS = [
    [(7 * sentence + 11 * number) % 24 + 1 if (sentence + number) % 40 else 60 for sentence in range(number % 30 + 1)]
    for number in range(120)
]


class Figures(NamedTuple):
    """What came of all copies: examples, those whose B is random, the longest and the mean one, tokens in none."""

    examples: int
    random: int
    longest: int
    mean: float
    lost: int


SCRIPT = Figures(examples=3796, random=2176, longest=48, mean=44.5, lost=19124)


def figures_of_script(folder: Path, scratch: Path) -> Figures:
    script, vocabulary = load_script(folder), scratch / "vocab.txt"
    pieces = [f"w{number}" for number in range(WORDS)]
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]) + "\n")
    lines = []
    for document in DOCUMENTS:
        lines += [*(" ".join(pieces[place % WORDS] for place in range(length)) for length in document), ""]
    made = script.instances(lines, script.tokenizer(vocabulary), LENGTH, COPIES, seed=1)
    lengths = np.array([len(each.tokens) for each in made])
    own = sum(each.tokens.index("[SEP]") - 1 if each.is_random_next else len(each.tokens) - 3 for each in made)
    return Figures(
        examples=len(made),
        random=sum(each.is_random_next for each in made),
        longest=int(lengths.max()),
        mean=round(float(lengths.mean()), 1),
        lost=COPIES * sum(map(sum, DOCUMENTS)) - own,
    )


def test_the_figures_are_those_of_the_script(tmp_path: Path) -> None:
    if not (folder := os.environ.get("GOOGLE_BERT")):
        pytest.skip("GOOGLE_BERT names no checkout of github.com/google-research/bert")
    assert figures_of_script(Path(folder), tmp_path) == SCRIPT


def test_pairs_are_as_long_as_the_scripts_and_neither_lopsided_nor_truncated() -> None:
    """Fails if examples become much shorter than the authors', if labels lean as theirs do, or if text is lost.

    What the script truncates makes its examples longer in the mean: ours end with a sentence.
    """
    columns = documents_of(DOCUMENTS, 1.0)
    pairs, ledgers = build_pairs(columns, PairSettings(length=LENGTH, copies=COPIES), cls_id=CLS, sep_id=SEP)
    lengths, outcomes = np.diff(pairs.offsets), [ledger.find_account("tokens").outcomes for ledger in ledgers]
    assert lengths.max() == SCRIPT.longest and 0.7 * SCRIPT.mean < lengths.mean() < SCRIPT.mean
    assert len(pairs.label) > SCRIPT.examples
    assert abs(pairs.label.mean() - 0.5) < 0.02 < SCRIPT.random / SCRIPT.examples - 0.5
    assert sum(each["truncated"] for each in outcomes) == 0
    assert sum(each["left_over"] for each in outcomes) < 0.01 * SCRIPT.lost
