"""The inputs of judging besides the settings: the files that the settings name, and the source's statistics.

A file is read again only after it has changed. The result of reading is pickled for workers.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from corpora.judging.settings import DocumentsSettings
from corpora.judging.source_statistics import NO_STATISTICS, SourceStatistics
from corpora.judging.steps.contamination import ContaminationSettings, EvaluationIndex, build_index
from corpora.judging.steps.selection import QuestionIndex, StoriesScoreSettings, index_questions, read_questions


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingInputs:
    """Inputs of the judging steps besides settings and texts. An attribute is None if its step is disabled.

    evaluation: index of the evaluation items
    questions:  index of the questions used to score documents for selection
    statistics: statistics of the source
    """

    evaluation: EvaluationIndex | None = None
    questions: QuestionIndex | None = None
    statistics: SourceStatistics = NO_STATISTICS


NO_INPUTS = JudgingInputs()


def read_inputs(settings: DocumentsSettings) -> JudgingInputs:
    """Read the evaluation sets and question files that the settings name.

    The result is cached until the size, times or inode of a file changes.

    Raises:
        InputError: If a file cannot be read or contains no text.
    """
    paths = [*(group.path for group in settings.contamination.sets), *settings.selection.questions]
    return _read_inputs(settings.contamination, settings.selection, tuple(_read_stamp(Path(path)) for path in paths))


def _read_stamp(path: Path) -> tuple[int, ...]:
    """Return a file's size, modification time, change time and inode, or () if the file does not exist.

    They change with its content.
    """
    if not path.expanduser().exists():
        return ()
    stat = path.expanduser().stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


@lru_cache(maxsize=8)
def _read_inputs(
    contamination: ContaminationSettings, selection: StoriesScoreSettings, stamps: tuple[tuple[int, ...], ...]
) -> JudgingInputs:
    return JudgingInputs(
        evaluation=build_index(contamination) if contamination.sets else None,
        questions=index_questions(read_questions(selection.questions)) if selection.questions else None,
    )
