"""Quality rules: `reasons` beside its definition `judge`, which drops the same documents for the same reasons."""

from collections import Counter
from collections.abc import Sequence

from benchmarks.measuring import Report, Side, cleaned, described, main, size_mb, take_turns, text_column
from corpora.rules import REASONS, RulesSettings, judge, reasons


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Judge cleaned texts by all rules."""
    texts, settings = cleaned(texts), RulesSettings()
    column = text_column(texts)
    ours = [REASONS[code] for code in reasons(column, settings).tolist()]
    assert ours == [judge(text, settings) or "" for text in texts], "reasons differ from the definition's"
    sides = [
        Side(name="reasons", call=lambda _: reasons(column, settings)),
        Side(name="definition (judge)", call=lambda _: [judge(text, settings) for text in texts]),
    ]
    dropped = Counter(reason for reason in ours if reason)
    return [
        Report(
            title=described("rules", texts, rounds),
            amounts={"MB": size_mb(texts)},
            rows=take_turns(sides, rounds),
            notes=(f"all {len(ours)} verdicts equal; {dropped.total()} dropped, by {len(dropped)} different rules",),
        )
    ]


if __name__ == "__main__":
    main(benchmark)
