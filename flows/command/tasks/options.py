"""What the commands of tasks are asked for, where it is more than a few options."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.command.arguments import Share
from trainer.tasks.vectors.settings import EmbedSettings, SearchSettings

if TYPE_CHECKING:
    from trainer.tasks.formats.records import FileSettings

Model = Annotated[
    str, Parameter(help="A model's folder, an artifact's folder or short id, a release (STORE@NAME), or a store.")
]

Accept = Annotated[
    tuple[str, ...],
    Parameter(help="A finding of `cloze check` that is meant so, or `all`; several times.", negative=()),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FileAsked:
    """How a file of records is read."""

    columns: Annotated[
        list[str] | None,
        Parameter(
            name="--column", help="role=column, by name, number from 1, or path in JSON: text=sentence", negative=()
        ),
    ] = None
    format: Annotated[str, Parameter(help="The files' format, where their endings do not show it.")] = ""
    header: Annotated[bool, Parameter(help="Whether the first line of a table names the columns.")] = True
    max_unusable: Annotated[Share, Parameter(help="Largest share of records that may be unusable.")] = 0.01

    def of(self, path: Path | None, keep: Sequence[str] = ()) -> "FileSettings":
        """Return the settings of a file, or of one that is named later. Raises InputError.

        keep: columns whose values are given as they are
        """
        from flows.command.tasks.piped import absolute
        from flows.recipes.tables import parse_override
        from trainer.tasks.formats.records import KEEP_PREFIX, FileSettings

        return FileSettings(
            path="" if path is None else absolute(path),
            format=self.format,
            header=self.header,
            columns={
                **dict(parse_override(text, "--column") for text in self.columns or []),
                **{f"{KEEP_PREFIX}{column}": column for column in keep},
            },
            max_unusable=self.max_unusable,
        )


FILE_ASKED = FileAsked()


@Parameter(name="*")
@dataclass(frozen=True)
class EvaluationAsked:
    """An evaluation of a model on a suite, from its runs to its tables."""

    model: Model
    suite: Annotated[str, Parameter(help="A suite's TOML file, or one that comes with Cloze: glue, superglue.")]
    _: KW_ONLY
    data: Annotated[Path | None, Parameter(help="Folder of the tasks' files; default: the suite's own.")] = None
    output: Annotated[Path, Parameter(help="Folder for runs and tables.")] = Path("evaluation")
    answers: Annotated[
        Path | None, Parameter(help="Folder for each task's answers: a line a record, with gold answer and score.")
    ] = None
    compare: Annotated[str | None, Parameter(help="Another model, for a paired test on the same tasks.")] = None
    control: Annotated[
        bool, Parameter(help="Compare with the same model from first weights: was it worth it?", negative=())
    ] = False
    card: Annotated[Path | None, Parameter(help="A new folder for the model's files, with a model card.")] = None
    license: Annotated[str, Parameter(help="The model's license as Hugging Face spells it, for its card.")] = "unknown"
    accept: Accept = ()


Vectors = Annotated[EmbedSettings, Parameter(name="*", negative=())]
Search = Annotated[SearchSettings, Parameter(name="*")]
