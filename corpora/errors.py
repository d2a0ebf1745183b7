"""The errors that a user can fix.

One family, so that the command line can tell the user's mistakes from ours: an `InputError` is printed as one
paragraph and ends with exit code 2; anything else is a fault of the program and keeps its traceback.
"""

from collections.abc import Iterable, Sequence
from typing import Self


class InputError(ValueError):
    """Something the user gave is wrong: the message says what, where, and how to fix it."""


class FileFault(InputError):
    """A raw file that cannot be read.

    reason: the message without its advice
    source: the name of the source that has the file
    file:   its name in that source
    sha256: of its content
    path:   where it is on this machine
    others: further files that the same work could not read
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
        """Return this fault with others attached, and with those attached to them."""
        flat = (each for other in others for each in (other, *other.others))
        fields = (self.reason, self.source, self.file, self.sha256, self.path)
        return type(self)(*fields, (*self.others, *flat))


class UnreadableFile(FileFault):
    """A raw file whose content cannot be read: reading the same bytes in the same way fails in the same way."""

    def __str__(self) -> str:
        return (
            f'{self.reason} To go on without the file, set on_damage = "skip" in the [[source]] {self.source!r}: '
            "it is then left out, counted and named, and read again once it is another file."
        )


class LostFile(FileFault):
    """A raw file that was there when the run began, and since is gone, closed to this user, or another one."""


def raise_all(faults: Sequence[FileFault]) -> None:
    """Raise the first fault, with the others attached to it; do nothing if there are none."""
    if faults:
        raise faults[0].with_others(faults[1:])
