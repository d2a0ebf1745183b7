"""Quality rules: `reasons` next to its definition `judge`, and next to datatrove's filters where it is installed.

The definition drops the same documents for the same reasons. datatrove's two filters for Gopher's rules cut words
by spaCy's rules, which part punctuation from words, so counts and some verdicts differ. Both filters look at every
text, as `reasons` does, and share the words. datatrove is not among this project's requirements: to compare, run this
in an environment that has `datatrove` and `spacy`, too.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec

from benchmarks.measuring import Report, Side, cleaned, main, side_by_side, text_column
from corpora.judging.steps.rules import REASONS, RulesSettings, judge, reasons


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare judging cleaned texts by all rules."""
    texts, settings = cleaned(texts), RulesSettings()
    column = text_column(texts)
    ours = [REASONS[code] for code in reasons(column, settings).tolist()]
    assert ours == [judge(text, settings) or "" for text in texts], "reasons differ from the definition's"
    sides = [
        Side(name="reasons", call=lambda _: reasons(column, settings)),
        Side(name="definition (judge)", call=lambda _: [judge(text, settings) for text in texts]),
    ]
    dropped = Counter(reason for reason in ours if reason)
    notes = [f"all {len(ours)} verdicts equal; {dropped.total()} dropped, by {len(dropped)} different rules"]
    if all(map(find_spec, ("datatrove", "spacy"))):
        keeps = gopher_filters()
        kept = [keeps(text) for text in texts]
        sides.append(Side(name="datatrove, Gopher quality and repetition", call=lambda _: [*map(keeps, texts)]))
        alike = sum(keep != bool(reason) for keep, reason in zip(kept, ours, strict=True))
        notes.append(
            f"datatrove {version('datatrove')} with spacy {version('spacy')} drops {len(kept) - sum(kept)}; "
            f"{alike} verdicts are alike"
        )
    return [side_by_side("rules", texts, sides, rounds, notes)]


def gopher_filters() -> Callable[[str], bool]:
    """Return whether datatrove keeps a text: both filters with their defaults, words cut once for both."""
    filters = import_module("datatrove.pipeline.filters")
    document = import_module("datatrove.data").Document
    both = filters.GopherQualityFilter(), filters.GopherRepetitionFilter()

    def keeps(text: str) -> bool:
        datatrove_document = document(text=text, id="")
        verdicts = [each.filter(datatrove_document) for each in both]
        return all(verdict is True for verdict in verdicts)

    return keeps


if __name__ == "__main__":
    main(benchmark)
