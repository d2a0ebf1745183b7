"""Unigram vocabularies: training from word counts next to tokenizers' and sentencepiece's trainers.

The reference begins with texts, so cutting and counting words is measured on our side as well, with its own words
(`pre_tokenizers.Metaspace`). sentencepiece is measured where it is installed, from the same word counts (its format
"tsv", one thread, all characters covered). Its method is the reference's, its seeds and its pruning are not: the
report shows how much the vocabularies share.
"""

import importlib.util
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from benchmarks.measuring import Report, Side, cleaned, main, side_by_side
from tokenizers_train.learning.unigram import UnigramSettings, train_unigram
from tokenizers_train.words.table import COUNTS, WordCounts

SIZES = (8_000, 30_000)


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare vocabularies of 8,000 and 30,000 pieces from cleaned texts."""
    texts = [" ".join(text.split()) for text in cleaned(texts)]
    counts = metaspace_counts(texts)
    return [compare(texts, counts, size, rounds) for size in SIZES]


def compare(texts: Sequence[str], counts: WordCounts, size: int, rounds: int) -> Report:
    """Compare one size of vocabulary."""
    settings = UnigramSettings(size=size)
    ours, theirs = train_unigram(counts, settings), reference(texts, size)
    sides = [
        Side(name="training", call=lambda _: train_unigram(counts, settings)),
        Side(name="tokenizers' cutting of words", call=lambda _: metaspace_counts(texts)),
        Side(name="tokenizers' trainer, both", call=lambda _: reference(texts, size)),
    ]
    notes = [f"{shared(ours, theirs):.2%} of the reference's {len(theirs)} pieces, from {counts.num_rows} words"]
    if importlib.util.find_spec("sentencepiece"):
        sides.append(Side(name="sentencepiece", call=lambda _: sentencepiece(counts, size)))
        notes.append(f"{shared(ours, sentencepiece(counts, size)):.2%} of sentencepiece's")
    return side_by_side(f"unigram, {size} pieces", texts, sides, rounds, notes)


def shared(ours: Sequence[tuple[str, float]], theirs: Sequence[str]) -> float:
    """Return the share of their pieces that are ours."""
    return len({piece for piece, _ in ours} & {*theirs}) / len(theirs)


def metaspace_counts(texts: Sequence[str]) -> WordCounts:
    """Return the reference's words, counted."""
    split = pre_tokenizers.Metaspace().pre_tokenize_str
    counts = Counter(word for text in texts for word, _ in split(text))
    words = sorted(counts)
    return pa.table([words, [counts[word] for word in words]], schema=COUNTS)


def reference(texts: Sequence[str], size: int) -> list[str]:
    """Return UnigramTrainer's pieces."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=size, show_progress=False, unk_token=None)
    tokenizer.train_from_iterator(texts, trainer)
    return [piece for piece, _ in json.loads(tokenizer.to_str())["model"]["vocab"]]


def sentencepiece(counts: WordCounts, size: int) -> list[str]:
    """Return sentencepiece's pieces but for the unknown one, fewer where it cannot find as many."""
    trainer = importlib.import_module("sentencepiece").SentencePieceTrainer
    with tempfile.TemporaryDirectory() as folder:
        words, model = Path(folder) / "words.tsv", Path(folder) / "model"
        rows = zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True)
        words.write_text("".join(f"{word}\t{count}\n" for word, count in rows), encoding="utf-8")
        trainer.train(
            input=str(words),
            input_format="tsv",
            model_prefix=str(model),
            vocab_size=size + 1,
            hard_vocab_limit=False,
            character_coverage=1.0,
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            bos_id=-1,
            eos_id=-1,
            num_threads=1,
            minloglevel=2,
        )
        lines = model.with_suffix(".vocab").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[0] for line in lines[1:]]


if __name__ == "__main__":
    main(benchmark)
