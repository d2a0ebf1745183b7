"""The errors that a user can fix.

One family, so that the command line can tell the user's mistakes from ours: an `InputError` is printed as one
paragraph and ends with exit code 2; anything else is a fault of the program and keeps its traceback.
"""


class InputError(ValueError):
    """Something the user gave is wrong: the message says what, where, and how to fix it."""


class UnreadableFile(InputError):
    """A raw file whose content cannot be read: reading the same bytes in the same way fails in the same way.

    reason: the paragraph without it; source, file, sha256: which file of which source; path: where it lies
    """

    def __init__(self, reason: str, source: str, file: str, sha256: str, path: str) -> None:
        super().__init__(reason, source, file, sha256, path)
        self.reason, self.source, self.file, self.sha256, self.path = reason, source, file, sha256, path

    def __str__(self) -> str:
        return (
            f'{self.reason} To go on without the file, set on_damage = "skip" in the [[source]] {self.source!r}: '
            "it is then left out, counted and named, and read again once it is another file."
        )
