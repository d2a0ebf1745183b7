"""Vocabularies: counting and training next to tokenizers' trainers, for WordPiece and byte-level BPE.

WordPieceTrainer breaks ties by the order of a hash map, another in every run. Given its letters in our order it
makes the same list of tokens, and that is checked; how many tokens differ where it is left alone is said. BpeTrainer
needs no help: tokens and merges are equal as it comes. rustbpe is measured where it is installed.

With `--law 32,128,512` both are measured once at each of these sizes in MB, to see how cost grows with the text, which
is taken as it is. tokenizers' trainers are left out where they would take longer than `--seconds`.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from benchmarks.measuring import (
    Report,
    Side,
    cleaned,
    described,
    figure,
    load_texts,
    main,
    size_mb,
    spread,
    take_turns,
    text_column,
)
from tokenizers_train.learning.byte_bpe import train_byte_bpe
from tokenizers_train.learning.wordpiece import spell, train_wordpiece
from tokenizers_train.vocabularies.bert import SPECIAL_TOKENS
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.vocabularies.roberta import SPECIAL_TOKENS as ROBERTA_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.bert import BertWords, bert_pre_tokenizer
from tokenizers_train.words.counts import count_by
from tokenizers_train.words.gpt2 import gpt2_pre_tokenizer
from tokenizers_train.words.table import WordCounts

# GPT-2's words (Radford et al. 2019, the encoder published with the paper), for trainers that are told.
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPECIALS = [*SPECIAL_TOKENS.values()]


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Vocabularies of at most 30,522 and 50,265 tokens from cleaned texts."""
    texts = cleaned(texts)
    return [compare_wordpiece(texts, rounds), compare_byte_bpe(texts, rounds)]


def compare_wordpiece(texts: Sequence[str], rounds: int) -> Report:
    """WordPiece, lower-cased, of BERT's size."""
    column, settings = text_column(texts), VocabularySettings()
    counts = count_by(settings.word_rule, column)
    ours = train_wordpiece(counts, settings)
    letters = spell(counts, settings.limit_alphabet).letters
    assert list(ours.tokens) == wordpiece_reference(texts, settings, letters), "tokens differ from the trainer's"
    alone = wordpiece_reference(texts, settings, [])
    apart = len({*ours.tokens} ^ {*alone})
    sides = [
        Side(
            name="counting and training",
            call=lambda _: train_wordpiece(count_by(settings.word_rule, column), settings),
        ),
        Side(name="  counting", call=lambda _: count_by(settings.word_rule, column)),
        Side(name="  training", call=lambda _: train_wordpiece(counts, settings)),
        Side(name="tokenizers' trainer", call=lambda _: wordpiece_reference(texts, settings, [])),
    ]
    return Report(
        title=described("vocabulary, wordpiece", texts, rounds),
        amounts={"MB": size_mb(texts)},
        rows=take_turns(sides, rounds),
        notes=(
            f"all {ours.size} tokens, from {counts.num_rows} words, equal the trainer's given our order of letters",
            f"left alone it has {len(alone)} tokens, and {apart} are in only one of the two vocabularies",
        ),
    )


def compare_byte_bpe(texts: Sequence[str], rounds: int) -> Report:
    """Byte-level BPE of RoBERTa's size."""
    column, settings = text_column(texts), VocabularySettings(algorithm="byte-bpe", size=50265)
    counts = count_by(settings.word_rule, column)
    ours = train_byte_bpe(counts, settings)
    assert list(ours.tokens) == byte_bpe_reference(texts, settings), "tokens differ from the trainer's"
    notes = [f"all {ours.size} tokens, from {counts.num_rows} words, equal the trainer's"]
    sides = [
        Side(
            name="counting and training",
            call=lambda _: train_byte_bpe(count_by(settings.word_rule, column), settings),
        ),
        Side(name="  counting", call=lambda _: count_by(settings.word_rule, column)),
        Side(name="  training", call=lambda _: train_byte_bpe(counts, settings)),
        Side(name="tokenizers' trainer", call=lambda _: byte_bpe_reference(texts, settings)),
    ]
    if find_spec("rustbpe"):
        theirs = rustbpe_pieces(texts, len(BYTE_LETTERS) + len(ours.merges))
        notes.append(compared_with_rustbpe(ours, theirs))
        sides.append(Side(name="rustbpe", call=lambda _: rustbpe_pieces(texts, len(theirs))))
    return Report(
        title=described("vocabulary, byte-bpe", texts, rounds),
        amounts={"MB": size_mb(texts)},
        rows=take_turns(sides, rounds),
        notes=tuple(notes),
    )


def rustbpe_pieces(texts: Sequence[str], size: int) -> list[bytes]:
    """The pieces that rustbpe learns, in their order, the single bytes first."""
    tokenizer = import_module("rustbpe").Tokenizer()
    tokenizer.train_from_iterator(iter(texts), size, pattern=GPT2_PATTERN)
    return [bytes(piece) for piece, _ in tokenizer.get_mergeable_ranks()]


def compared_with_rustbpe(ours: Vocabulary, theirs: Sequence[bytes]) -> str:
    """How many of the pieces are the same, and in the same order."""
    values = {letter: byte for byte, letter in enumerate(BYTE_LETTERS)}
    learnt = [bytes(values[letter] for letter in left + right) for left, right in ours.merges]
    found = theirs[len(BYTE_LETTERS) :]
    same = next(
        (number for number, pair in enumerate(zip(learnt, found, strict=False)) if pair[0] != pair[1]), len(found)
    )
    return (
        f"rustbpe learns {len(found)} pieces where ours are {len(learnt)}: the first {same} are equal, and "
        f"{len({*learnt} ^ {*found})} are in only one of the two"
    )


def wordpiece_reference(texts: Sequence[str], settings: VocabularySettings, letters: list[str]) -> list[str]:
    """WordPieceTrainer's tokens in the order of their ids."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=SPECIAL_TOKENS["unk"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertWords(lowercase=True).normalizer, bert_pre_tokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.size,
        min_frequency=settings.min_frequency,
        limit_alphabet=settings.limit_alphabet,
        special_tokens=SPECIALS + letters,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids: dict[str, int] = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def byte_bpe_reference(texts: Sequence[str], settings: VocabularySettings) -> list[str]:
    """BpeTrainer's tokens in the order of their ids; <mask> comes last, so the trainer is told of the others."""
    *first, mask = ROBERTA_TOKENS.values()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = gpt2_pre_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=settings.size - 1,
        min_frequency=settings.min_frequency,
        special_tokens=first,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids: dict[str, int] = tokenizer.get_vocab()
    return [*sorted(ids, key=ids.__getitem__), mask]


# How cost grows.

Result = TypeVar("Result")
Reference = Callable[[Sequence[str]], object]


def law(folder: Path | None, sizes: Sequence[float], most_seconds: float) -> Iterator[str]:
    """A line for each algorithm and size in MB: CPU seconds of counting, of training and of the reference."""
    texts = load_texts(folder, max(sizes))
    yield f"{'':12}{'MB':>8}{'words':>10}{'counting':>10}{'training':>10}{'reference':>10}{'times':>8}"
    for settings in (VocabularySettings(), VocabularySettings(algorithm="byte-bpe", size=50265)):
        train, reference = _pair_for(settings)
        per_mb = 0.0
        for size in sorted(sizes):
            part = spread(texts, size)
            column, amount = text_column(part), size_mb(part)
            counting, counts = _timed(count_by, settings.word_rule, column)
            training, _ = _timed(train, counts, settings)
            figures = [f"{figure(amount):>8}{counts.num_rows:>10}{figure(counting):>10}{figure(training):>10}"]
            if per_mb * amount <= most_seconds:
                seconds, _ = _timed(reference, part)
                per_mb = seconds / amount
                figures.append(f"{figure(seconds):>10}{figure(seconds / (counting + training)):>8}")
            yield f"{settings.algorithm:12}{''.join(figures)}"


def _pair_for(
    settings: VocabularySettings,
) -> tuple[Callable[[WordCounts, VocabularySettings], Vocabulary], Reference]:
    """Our trainer and the reference's."""
    if settings.algorithm == "byte-bpe":
        return train_byte_bpe, lambda texts: byte_bpe_reference(texts, settings)
    return train_wordpiece, lambda texts: wordpiece_reference(texts, settings, [])


def _timed(call: Callable[..., Result], *arguments: object) -> tuple[float, Result]:
    """CPU seconds of one call, and what it returned."""
    start = time.process_time()
    found = call(*arguments)
    return time.process_time() - start, found


def main_law() -> None:
    """The command line of the law."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vocabulary")
    parser.add_argument("--text", type=Path, help="a folder of .txt files, in place of what any machine has")
    parser.add_argument("--law", required=True, help="sizes in MB, as in 32,128,512")
    parser.add_argument(
        "--seconds", type=float, default=480.0, help="the most that a reference may take (default: 480)"
    )
    arguments = parser.parse_args()
    list(law(None, [0.2], arguments.seconds))  # compiles the kernels, or loads them
    for line in law(arguments.text, [float(size) for size in arguments.law.split(",")], arguments.seconds):
        print(line, flush=True)


if __name__ == "__main__":
    if "--law" in sys.argv:
        main_law()
    else:
        main(benchmark)
