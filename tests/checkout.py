"""The files of the checkout that belong to the project: what tests look at when they look at "every file".

Runs, tools and people leave other files in a checkout: stores, models, recipes, notebooks. No test depends on those.
"""

import os
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("corpora", "tokenizers_train", "shards", "trainer", "flows", "cloze")


@cache
def checkout_files() -> tuple[Path, ...]:
    """Return the files that git tracks, in order of their paths; without git all that `.gitignore` does not name."""
    return tuple(sorted(path for path in tracked_files(ROOT) or unignored_files(ROOT) if path.is_file()))


def files_below(*folders: str, suffix: str = "") -> list[Path]:
    """Return the files of the checkout in folders of it, at any depth, whose names end with the suffix."""
    roots = [ROOT / folder for folder in folders]
    return [path for path in checkout_files() if path.name.endswith(suffix) and any(map(path.is_relative_to, roots))]


def tracked_files(root: Path) -> list[Path]:
    """Return the files that git tracks in a checkout, those that were deleted too; none if git cannot tell."""
    if not (root / ".git").exists():  # the repository of a folder above would not know an export
        return []
    try:
        return [root / name for name in git(root, "ls-files", "-z").split("\0") if name]
    except FileNotFoundError:
        return []


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints in a folder, whoever owns it; "" if it fails. What a hook has set is of another folder."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=folder, env=own, stdout=subprocess.PIPE, text=True, check=False).stdout


def unignored_files(root: Path) -> list[Path]:
    """Return the files in a checkout that no pattern of its `.gitignore` names."""
    lines = (root / ".gitignore").read_text(encoding="utf-8").split()
    anchored = {line.strip("/") for line in lines if line.startswith("/")}
    names = [".git", *(line.strip("/") for line in lines if not line.startswith("/"))]

    def below(folder: Path) -> Iterator[Path]:
        for path in folder.iterdir():
            ignored = any(fnmatch(path.name, name) for name in names)
            if ignored or path.relative_to(root).as_posix() in anchored:
                continue
            if path.is_dir():
                yield from below(path)
            else:
                yield path

    return list(below(root))
