"""Quality rules: `reasons` next to its definition `judge`, which drops the same documents for the same reasons."""

from collections import Counter
from collections.abc import Sequence

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
    return [side_by_side("rules", texts, sides, rounds, notes)]


if __name__ == "__main__":
    main(benchmark)
