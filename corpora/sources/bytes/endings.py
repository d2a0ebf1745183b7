"""The endings of packed files. It imports nothing, so that a command's help can name formats at no cost."""

PACKED_ENDINGS = (".gz", ".zst", ".bz2", ".xz")


def packed(*endings: str) -> tuple[str, ...]:
    """Endings, and each with every ending of a packed file after it.

    >>> packed(".txt")
    ('.txt', '.txt.gz', '.txt.zst', '.txt.bz2', '.txt.xz')
    """
    return (*endings, *(ending + outer for outer in PACKED_ENDINGS for ending in endings))


def is_packed(name: str) -> bool:
    """Whether a file's name says that it is packed."""
    return name.lower().endswith(PACKED_ENDINGS)
