"""How long records of runs are kept; none of it decides what is built."""

from dataclasses import dataclass

from corpora.store.settings import check_range


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How much is kept of runs that have ended.

    runs:         records and reports of the recipe in its store, the newest; the last ten completed stay in any case
    history_days: under `cloze serve` and `cloze ui`, how long the orchestrator's own database keeps runs
    """

    runs: int = 500
    history_days: float = 30.0

    def __post_init__(self) -> None:
        check_range("retention.runs", self.runs, 1, 1e9)
        check_range("retention.history_days", self.history_days, 0.1, 36_500)
