"""Files of records that commands of tasks read, and records that come through a pipe.

A pipe is `-` or `/dev/stdin`, the standard input, or a named one, as a shell's `<(...)`. Its records are read once, and
the trainer is a process of its own, so they are written to a file first. Its ending is what its beginning looks like:
`.parquet`, `.xlsx`, `.jsonl`, `.json`, `.tsv` (a tab in the first line), `.csv` (the name of a column there), else
`.txt`. Cost: the disk holds all of it for the time of the command.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import Parameter

from corpora.errors import InputError
from corpora.store.places.pipes import open_file
from flows.command.arguments import STANDARD_INPUT, Share
from flows.signals import open_scratch_folder
from trainer.tasks.formats.records import FileSettings

if TYPE_CHECKING:
    from trainer.tasks.formats.records import FileSettings


ENDINGS_BY_START = {b"PAR1": ".parquet", b"PK\x03\x04": ".xlsx", b"{": ".jsonl", b"[": ".json"}
SEPARATORS = (b",", b";", b"|")
HEAD_BYTES = 1 << 16


def is_pipe(path: Path) -> bool:
    """Return True if a path is standard input or a named pipe."""
    return str(path) == STANDARD_INPUT or path.is_fifo()


def to_absolute(path: Path) -> str:
    """Return an absolute path as a string. The path of a pipe is returned unchanged."""
    return str(path if is_pipe(path) else path.resolve())


@contextmanager
def hold_piped_file(file: FileSettings) -> Iterator[FileSettings]:
    """Make a file of records available as a regular file within the block.

    The records of a pipe are copied to a temporary file.

    Args:
        file: The settings of the file. They are yielded unchanged if it is not a pipe.

    Yields:
        The settings of the regular file.

    Raises:
        InputError: If the pipe is empty.
    """
    if not is_pipe(Path(file.path)):
        yield file
        return
    with open_scratch_folder() as scratch:
        if file.path == STANDARD_INPUT:
            copy = _copy_stream(cast(BufferedReader, sys.stdin.buffer), scratch, file)
        else:
            with open_file(Path(file.path)) as stream:
                copy = _copy_stream(stream, scratch, file)
        yield replace(file, path=str(copy))


def _copy_stream(stream: BufferedReader, scratch: Path, file: FileSettings) -> Path:
    """Copy the records of a pipe to a file with a suitable file extension, and return the file's path.

    Args:
        stream: The pipe.
        scratch: The folder in which the file is written.
        file: The settings of the pipe. Its column names help to recognize its format.

    Raises:
        InputError: If the pipe is empty.
    """
    head = stream.read(HEAD_BYTES)
    if not head.strip():
        raise InputError(f"Nothing came through {file.path}: write the records to it, or name a file.")
    copy = scratch / f"piped{guess_ending(head, file)}"
    with copy.open("wb") as out:
        out.write(head)
        shutil.copyfileobj(stream, out)
    return copy


def guess_ending(head: bytes, file: FileSettings) -> str:
    """Guess the file extension of a file of records from its first bytes, such as ".jsonl"; ".txt" by default.

    Args:
        head: The first bytes.
        file: The file's settings. Their column names are used to distinguish CSV from plain text.

    >>> [guess_ending(head, FileSettings(path="-")) for head in (b'{"text": 1}', b"id;text", b"Once, a wolf")]
    ['.jsonl', '.csv', '.txt']
    """
    for mark, ending in ENDINGS_BY_START.items():
        if head.lstrip().startswith(mark):
            return ending
    first = head.lstrip().partition(b"\n")[0]
    if b"\t" in first:
        return ".tsv"
    names = {column.encode() for column in (*file.columns.values(), file.get_column("text"))}
    cells = ({cell.strip(b' "\r') for cell in first.split(sign)} for sign in SEPARATORS if sign in first)
    return ".csv" if any(each & names for each in cells) else ".txt"


Accept = Annotated[
    tuple[str, ...],
    Parameter(help="A finding of `cloze check` that is meant so, or `all`; several times.", negative=()),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Command-line options for reading a file of records."""

    columns: Annotated[
        list[str] | None,
        Parameter(
            name="--column", help="role=column, by name, number from 1, or path in JSON: text=sentence", negative=()
        ),
    ] = None
    format: Annotated[str, Parameter(help="The files' format, where their endings do not show it.")] = ""
    header: Annotated[bool, Parameter(help="Whether the first line of a table names the columns.")] = True
    max_unusable: Annotated[Share, Parameter(help="Largest share of records that may be unusable.")] = 0.01

    def to_settings(self, path: Path | None, keep: Sequence[str] = ()) -> "FileSettings":
        """Build the settings of a file of records from these options.

        Args:
            path: The path of the file. If None, the path in the settings is "", and the caller must set it.
            keep: Names of columns to return unchanged with each record.

        Raises:
            InputError: If an option is not valid.
        """
        from flows.recipes.tables import parse_override
        from trainer.tasks.formats.records import KEEP_PREFIX, FileSettings

        return FileSettings(
            path="" if path is None else to_absolute(path),
            format=self.format,
            header=self.header,
            columns={
                **dict(parse_override(text, "--column") for text in self.columns or []),
                **{f"{KEEP_PREFIX}{column}": column for column in keep},
            },
            max_unusable=self.max_unusable,
        )


DEFAULT_FILE_OPTIONS = FileOptions()
