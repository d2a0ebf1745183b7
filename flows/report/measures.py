"""The quality of a run's vocabularies, for its report: figures by source and size, pieces, drift.

Promise: figures are those that the stage `measures` stored, and the tokens stage's ledger; where a run has neither,
nothing is shown in their place. Words and pieces pass `privacy.Privacy`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from markupsafe import Markup

from corpora.store.manifest import Manifest
from flows.report.drawing.plot import Plot, around, from_zero
from flows.report.run import RunView
from flows.run.record.ledger_balance import made_from, of_kind
from tokenizers_train.measures.build import Measured, read_measures
from tokenizers_train.measures.measure import Measures, rarest_pieces, unused_pieces
from tokenizers_train.vocabularies.vocabulary import Vocabulary

SPLITS, RAREST = 12, 16
PIECE_CHARACTERS, WORD_CHARACTERS = 60, 60

View = dict[str, Any]


def measured_view(run: RunView, manifest: Manifest, vocabulary: Vocabulary, name: str) -> View | None:
    """Return the measures of one vocabulary; None where it was not measured. name: of its figure in the page"""
    stored = next((m for m in of_kind(run.manifests, "measures") if made_from(m, [manifest])), None)
    if stored is None:
        return None
    measured = read_measures(run.place, stored)
    sizes = by_size(measured, vocabulary.size)
    return {
        "corpus": measured.corpus,
        "sources": sorted(
            ((name, each) for name, each in measured.sources.items() if each.words),
            key=lambda source: (-(source[1].fertility or 0.0), source[0]),
        ),
        "sizes": sizes,
        "curve": Markup(fertility_curve(sizes, vocabulary.size, name)) if len(sizes) > 1 else None,
        "unused": len(unused_pieces(vocabulary, measured.counts)),
        "rarest": _rarest(run, vocabulary, measured.counts),
        "splits": _split_rows(run, vocabulary, measured.splits),
    }


def by_size(measured: Measured, own: int) -> dict[int, Measures]:
    """Return the figures of each size, ascending, the vocabulary's own among them; none if sizes were not measured."""
    return dict(sorted({**measured.sizes, own: measured.corpus}.items())) if measured.sizes else {}


def _rarest(run: RunView, vocabulary: Vocabulary, counts: Sequence[int]) -> list[tuple[str, int]]:
    ids = rarest_pieces(vocabulary, counts, RAREST)
    shown = ((run.privacy.show(vocabulary.display(id), PIECE_CHARACTERS), counts[id]) for id in ids)
    return [(piece, count) for piece, count in shown if piece]


def _split_rows(run: RunView, vocabulary: Vocabulary, splits: Iterable[Mapping[str, Any]]) -> list[View]:
    """Return the words that cost most tokens, with their pieces; none where no text may be shown."""
    if run.privacy.mode != "text":
        return []
    return [
        {
            "word": run.privacy.show(split["word"].strip(), WORD_CHARACTERS),
            "pieces": [run.privacy.show(vocabulary.display(id), PIECE_CHARACTERS) for id in split["ids"]],
            "count": split["count"],
        }
        for split in islice(splits, SPLITS)
    ]


def fertility_curve(sizes: Mapping[int, Measures], own: int, name: str) -> str:
    """Return tokens a word against the size of the vocabulary, as a figure in a page.

    own: the size of the vocabulary at hand, which is marked; name: what the figure is, letters and dashes
    """
    points = [(float(size), measures.fertility or 0.0) for size, measures in sizes.items()]
    mine = (float(own), sizes[own].fertility or 0.0)
    across = from_zero(points[-1][0], "tokens in the vocabulary", 7)
    plot = Plot(width=345.6, height=158.4, across=across, up=around([up for _, up in points], "tokens a word"))
    x, y = plot.x(mine[0]), plot.y(mine[1])
    diamond = f'<path d="M{x:.2f} {y - 4:.2f}l4 4l-4 4l-4 -4z" fill="{plot.colours.ink}"/>'
    anchor, aside = ("end", -6) if x > (plot.left + plot.right) / 2 else ("start", 6)
    caption = plot.text(x + aside, y - 6, "this one", anchor)
    curve = [plot.line(points, plot.colours.bar, 1.4), plot.dots(points, plot.colours.bar, 1.8)]
    return plot.picture(name, [*curve, diamond, caption])


def drift_rows(tokens: Manifest | None) -> list[View]:
    """Return tokens a word and unknown tokens by generation of the corpus, where words were counted."""
    sums: dict[int, Counter[str]] = {}
    for part in tokens.parts if tokens is not None else ():
        if "generation" in part.labels:
            sums.setdefault(int(part.labels["generation"]), Counter()).update(part.ledger.figures)
    return [
        {
            "generation": generation,
            "words": figures["train words"],
            "tokens": figures["train tokens"],
            "tokens_a_word": figures["train tokens"] / figures["train words"],
            "unknown": figures["train unknown tokens"] / figures["train tokens"],
        }
        for generation, figures in sorted(sums.items())
        if figures["train words"] and figures["train tokens"]
    ]
