"""WordPiece vocabularies: `count_words` and `train_wordpiece` beside tokenizers' WordPieceTrainer.

The trainer breaks ties by the order of a hash map, another in every run. Given its letters in our order it makes
the same list of tokens, and that is checked; how many tokens differ where it is left alone is said.
"""

from collections.abc import Sequence

from tokenizers import Tokenizer, models, trainers

from benchmarks.measuring import Report, Side, cleaned, described, main, size_mb, take_turns, text_column
from tokenizers_train.counts import count_words
from tokenizers_train.vocabulary import SPECIAL_TOKENS, VocabularySettings
from tokenizers_train.wordpiece import spell, train_wordpiece
from tokenizers_train.words import bert_normalizer, bert_pre_tokenizer

SPECIALS = [*SPECIAL_TOKENS.values()]


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """A vocabulary of at most 30,522 tokens from cleaned texts."""
    texts, settings = cleaned(texts), VocabularySettings()
    column = text_column(texts)
    counts = count_words(column, settings.lowercase)
    ours = train_wordpiece(counts, settings)
    letters = spell(counts, settings.limit_alphabet).letters
    assert list(ours.tokens) == reference(texts, settings, letters), "tokens differ from the trainer's"
    alone = reference(texts, settings, [])
    sides = [
        Side(
            name="count_words and train_wordpiece",
            call=lambda _: train_wordpiece(count_words(column, settings.lowercase), settings),
        ),
        Side(name="  count_words", call=lambda _: count_words(column, settings.lowercase)),
        Side(name="  train_wordpiece", call=lambda _: train_wordpiece(counts, settings)),
        Side(name="WordPieceTrainer", call=lambda _: reference(texts, settings, [])),
    ]
    apart = len({*ours.tokens} ^ {*alone})
    return [
        Report(
            title=described("vocabulary", texts, rounds),
            amounts={"MB": size_mb(texts)},
            rows=take_turns(sides, rounds),
            notes=(
                f"all {ours.size} tokens, from {counts.num_rows} words, equal the trainer's given our order of letters",
                f"left alone it has {len(alone)} tokens, and {apart} are in only one of the two vocabularies",
            ),
        )
    ]


def reference(texts: Sequence[str], settings: VocabularySettings, letters: list[str]) -> list[str]:
    """The trainer's tokens in the order of their ids."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=SPECIAL_TOKENS["unk"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = bert_normalizer(settings.lowercase), bert_pre_tokenizer()
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


if __name__ == "__main__":
    main(benchmark)
