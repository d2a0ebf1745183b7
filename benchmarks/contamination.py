"""Matching by words: the steps `contamination`, `selection` and `privacy`, each next to plain Python that finds
the same.

Evaluation items are made of the text itself: of every tenth document forty words, in capitals and wrapped again,
so that matches are known beforehand. The questions of the Stories score are made in the same way.
"""

from collections.abc import Sequence

from benchmarks.measuring import Report, Side, cleaned, main, side_by_side, text_column
from corpora.judging.steps.contamination import ContaminationSettings, EvaluationIndex, index_items, meet
from corpora.judging.steps.evaluation_sets import Item
from corpora.judging.steps.privacy import PersonalDataSettings, mask_private, mask_text
from corpora.judging.steps.selection import Question, index_questions, score_text, scores
from corpora.text.words import words

ITEM_WORDS = 40
EVERY = 10


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare meetings, scores and masks of cleaned texts."""
    texts = cleaned(texts)
    return [meetings(texts, rounds), stories(texts, rounds), masks(texts, rounds)]


def pieces(texts: Sequence[str]) -> list[str]:
    """Return forty words from the middle of every tenth text, written differently."""
    spoken = (words(text) for text in texts[::EVERY])
    return [" --\n".join(text_words[len(text_words) // 2 :][:ITEM_WORDS]).upper() for text_words in spoken]


def meetings(texts: Sequence[str], rounds: int) -> Report:
    """Measure which documents meet an item."""
    items = [Item("pieces", number, piece) for number, piece in enumerate(pieces(texts), 1)]
    column, index = text_column(texts), index_items(items, ContaminationSettings())
    runs = plain_runs(index)
    ours = [meeting is not None for meeting in meet(column, index)]
    assert ours == [plain_meets(text, index, runs) for text in texts], "meetings differ from plain Python's"
    sides = [
        Side(name="meet", call=lambda _: meet(column, index)),
        Side(name="plain Python", call=lambda _: [plain_meets(text, index, runs) for text in texts]),
    ]
    notes = [f"all {len(ours)} verdicts equal; {sum(ours)} documents meet one of {len(index.items)} items"]
    return side_by_side("contamination", texts, sides, rounds, notes)


def plain_runs(index: EvaluationIndex) -> set[tuple[str, ...]]:
    """Return the runs of n words of all items, and items of fewer words whole."""
    n, spoken = index.long.length, [tuple(words(item.text)) for item in index.items]
    return {item_words[at : at + n] for item_words in spoken for at in range(max(len(item_words) - n, 0) + 1)}


def plain_meets(text: str, index: EvaluationIndex, runs: set[tuple[str, ...]]) -> bool:
    """Return whether a text holds one of the runs."""
    text_words, lengths = tuple(words(text)), range(index.short.length, index.long.length + 1)
    return any(text_words[at : at + n] in runs for n in lengths for at in range(len(text_words) - n + 1))


def stories(texts: Sequence[str], rounds: int) -> Report:
    """Measure the score of documents."""
    questions: list[Question] = [(piece,) for piece in pieces(texts)[:10]]
    column, index = text_column(texts), index_questions(questions)
    ours = scores(column, index).tolist()
    assert ours == [score_text(text, questions) for text in texts], "scores differ from the definition's"
    sides = [
        Side(name="scores", call=lambda _: scores(column, index)),
        Side(name="definition (score_text)", call=lambda _: [score_text(text, questions) for text in texts]),
    ]
    notes = [f"all {len(ours)} scores equal; the highest is {max(ours)} millionths"]
    return side_by_side("Stories score", texts, sides, rounds, notes)


def masks(texts: Sequence[str], rounds: int) -> Report:
    """Measure masking of all kinds of private data."""
    column, settings = text_column(texts), PersonalDataSettings(email=True, ip=True, phone=True)
    masked, counts = mask_private(column, settings)
    assert masked.to_pylist() == [mask_text(text, settings)[0] for text in texts], "masks differ from the definition's"
    sides = [
        Side(name="mask_private", call=lambda _: mask_private(column, settings)),
        Side(name="definition (mask_text)", call=lambda _: [mask_text(text, settings) for text in texts]),
    ]
    notes = [f"all {len(texts)} texts equal; masked: {counts or 'nothing'}"]
    return side_by_side("privacy", texts, sides, rounds, notes)


if __name__ == "__main__":
    main(benchmark)
