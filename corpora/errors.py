"""The errors that a user can fix.

One family, so that the command line can tell the user's mistakes from ours: an `InputError` is printed as one
paragraph and ends with exit code 2; anything else is a fault of the program and keeps its traceback.
"""

from collections.abc import Iterable, Sequence
from typing import Self


class InputError(ValueError):
    """An error that the user can fix. The message says what is wrong, where, and how to fix it."""


class FileFault(InputError):
    """A raw input file that cannot be read.

    Attributes:
        reason: The error message, without the advice that `str()` adds.
        source: Name of the source (a `[[source]]` table of the recipe) that the file belongs to.
        file: Name of the file in the source.
        sha256: SHA-256 digest of the file's content.
        path: Path of the file on this machine.
        others: The errors of other files that could not be read by the same task.
    """

    def __init__(
        self, reason: str, source: str, file: str, sha256: str, path: str, others: "tuple[FileFault, ...]" = ()
    ) -> None:
        super().__init__(reason, source, file, sha256, path, others)
        self.reason, self.source, self.file, self.sha256, self.path = reason, source, file, sha256, path
        self.others = others

    def __str__(self) -> str:
        return self.reason

    def with_others(self, others: "Iterable[FileFault]") -> Self:
        """Return a copy of this error with more `others`: the given errors, and the errors in their own `others`."""
        flat = (each for other in others for each in (other, *other.others))
        fields = (self.reason, self.source, self.file, self.sha256, self.path)
        return type(self)(*fields, (*self.others, *flat))


class UnreadableFile(FileFault):
    """A raw input file with content that cannot be parsed. Reading the same bytes again would fail again."""

    def __str__(self) -> str:
        return (
            f'{self.reason} To go on without the file, set on_damage = "skip" in the [[source]] {self.source!r}: '
            "it is then left out, counted and named, and read again once it is another file."
        )


class LostFile(FileFault):
    """A raw input file that existed when the run began and has since been deleted, replaced, or made unreadable."""


def raise_all(faults: Sequence[FileFault]) -> None:
    """Raise the first of several errors, with the others attached to it. Do nothing if the sequence is empty.

    Raises:
        FileFault: A copy of the first error, with all the others in its attribute `others`.
    """
    if faults:
        raise faults[0].with_others(faults[1:])
