"""Recognizes the folders of stores on this machine, so that what runs wrote is not read as raw text.

Cost: a few look-ups in the file system for each folder above the one that is asked for.
"""

import re
from pathlib import Path
from shlex import quote

from corpora.errors import InputError
from corpora.sources.contract import to_printable

ARTIFACT_KINDS = ("documents", "vocabularies", "models")  # kinds of artifacts, of which each store has one
_RUN, _FINGERPRINT = re.compile(r"\d{8}T\d{12}-.+"), re.compile("[0-9a-f]{24}")


def find_store(path: Path) -> Path | None:
    """Return the store folder that contains a path or is the path, or None if the path is not in a store.

    Files that no run wrote, such as raw files next to the stored results, are not considered part of the store.
    """
    whole = path.resolve()
    return next((each for each in (whole, *whole.parents) if is_store(each, None) and is_run_output(whole, each)), None)


def refuse_store(path: Path) -> None:
    """Raise an InputError if a path is inside a store, because raw files must not be read from there.

    Raises:
        InputError: If it is part of a store.
    """
    if (store := find_store(path)) is not None:
        raise InputError(
            f"{to_printable(str(path))} is not raw text: it is of the store {to_printable(str(store))}. "
            "Write the documents of a corpus first, and read the folder documents/data: "
            f"`cloze export {quote(to_printable(str(store)))} documents --kind corpora`."
        )


def is_store(folder: Path, own: Path | None) -> bool:
    """Return True if a folder is the recipe's store, or contains stage results or runs of any store.

    A folder that cannot be read is not considered a store.

    Args:
        folder: The folder.
        own: The recipe's store; None if unknown.
    """
    try:
        if own is not None and own.exists() and folder.samefile(own):
            return True
        made = (path for kind in ARTIFACT_KINDS for path in (folder / kind).glob("*/*/manifest.json"))
        runs = (folder / "runs").iterdir() if (folder / "runs").is_dir() else iter(())
        return any(_FINGERPRINT.fullmatch(each.parent.name) for each in made) or any(
            _RUN.fullmatch(run.name) for run in runs
        )
    except OSError:
        return False


def is_run_output(folder: Path, store: Path) -> bool:
    """Return True if a folder is the store, or a folder of its runs, recipes, releases or stage results.

    Args:
        folder: The store folder or a folder below it.
        store: The store folder.
    """
    parts = folder.relative_to(store).parts
    by_name = not parts or parts[0] in ("runs", "recipes", "releases") or any(map(_FINGERPRINT.fullmatch, parts))
    below = (path for pattern in ("*/manifest.json", "*/*/manifest.json") for path in folder.glob(pattern))
    return by_name or any(_FINGERPRINT.fullmatch(path.parent.name) for path in below)
