"""The endings of packed files. It imports nothing, so that a command's help can name formats at no cost."""

PACKED_ENDINGS = (".gz", ".zst", ".bz2", ".xz")
ZIP_ENDING = ".zip"
ENCRYPTED, OTHER_PACKING = "encrypted member of a .zip", "member of a .zip in another packing"
MAX_ENDING_CHARACTERS = 10  # characters: what is longer is part of a name
OWNER_MARK = "~$"  # begins the name of a file in which Office notes who has a document open
BARE = "file without ending"


def with_packed_endings(*endings: str) -> tuple[str, ...]:
    """Return the file extensions, each followed by its combinations with the extensions of compressed files.

    >>> with_packed_endings(".txt")
    ('.txt', '.txt.gz', '.txt.zst', '.txt.bz2', '.txt.xz')
    """
    return (*endings, *(ending + outer for outer in PACKED_ENDINGS for ending in endings))


def is_packed(name: str) -> bool:
    """Return True if a file name has the extension of a compressed file: .gz, .zst, .bz2 or .xz, in any case."""
    return name.lower().endswith(PACKED_ENDINGS)


def find_ending(name: str) -> str:
    """Return a file name's extension in lower case, or BARE if it has none.

    A compressed file's extension includes that of its content.

    >>> find_ending("Report.PDF"), find_ending("c4.json.gz"), find_ending("README"), find_ending("No. 7 (final)")
    ('.pdf', '.json.gz', 'file without ending', 'file without ending')
    """
    stem, ending = _split_ending(name.lower())
    if ending in PACKED_ENDINGS:
        ending = _split_ending(stem)[1] + ending
    return ending or BARE


def _split_ending(name: str) -> tuple[str, str]:
    """Split a file name into the part before its extension, and the extension with its dot ("" if there is none).

    An extension has at most 10 letters and digits.
    """
    stem, dot, last = name.rpartition(".")
    return (stem, dot + last) if stem and last.isalnum() and len(last) <= MAX_ENDING_CHARACTERS else (name, "")
