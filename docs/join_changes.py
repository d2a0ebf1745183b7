"""`python docs/join_changes.py` joins the files of `changes` to CHANGELOG.md, as a release does, and removes them.

Each becomes a point at the end of the section of the version in pyproject.toml, or of one called "Unreleased". If the
changelog begins with neither, a section of the version is put before its first one. `--check` only looks whether a
file is left: a release has none.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECTION = re.compile(r"^## .*\n", re.MULTILINE)


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Join all changes, or with `--check` only look; 1 if any is left, 2 for an argument that means nothing."""
    if [*arguments] not in ([], ["--check"]):
        return 2
    files = list_changes(root / "changes")
    if arguments:
        for path in files:
            print(f"{path} is not in CHANGELOG.md: run `python docs/join_changes.py`", file=sys.stderr)
        return 1 if files else 0
    points = [format_point(path) for path in files]
    changelog = root / "CHANGELOG.md"
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if points:
        changelog.write_text(join_points(changelog.read_text(encoding="utf-8"), points, version), encoding="utf-8")
    for path in files:
        path.unlink()
    return 0


def list_changes(folder: Path) -> list[Path]:
    """Return the files of the changes, in the order of their names."""
    return [path for path in sorted(folder.glob("*.md")) if path.name != "README.md"]


def format_point(path: Path) -> str:
    """Return the text of a change as a point of a list. Raises ValueError if it has none, a heading or a bullet."""
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    if not lines or any(line.startswith("#") for line in lines) or lines[0].startswith(("- ", "* ")):
        raise ValueError(f"{path}: write what is different for users, without a heading or a bullet.")
    return "- " + "\n  ".join(lines).replace("\n  \n", "\n\n")


def join_points(changelog: str, points: Sequence[str], version: str) -> str:
    r"""Return a changelog with points at the end of the section of a version.

    >>> join_points("# Changelog\n\n## 2.0 (not released)\n\n- One.\n\n## 1.0\n\n- Zero.\n", ["- Two."], "2.0")
    '# Changelog\n\n## 2.0 (not released)\n\n- One.\n- Two.\n\n## 1.0\n\n- Zero.\n'
    >>> join_points("# Changelog\n\n## 1.0\n\n- Zero.\n", ["- One."], "2.0")
    '# Changelog\n\n## 2.0\n\n- One.\n\n## 1.0\n\n- Zero.\n'
    """
    headings = [*SECTION.finditer(changelog)]
    first = headings[0] if headings else None
    if first is None or first[0].split()[1].strip("[]").lower() not in (version, "unreleased"):
        at = first.start() if first else len(changelog)
        return _put(changelog[:at], [f"## {version}", ""], points, changelog[at:])
    end = headings[1].start() if len(headings) > 1 else len(changelog)
    return _put(changelog[:end], [], points, changelog[end:])


def _put(before: str, heading: list[str], points: Sequence[str], after: str) -> str:
    """Return a text with points between its two parts, apart from both by an empty line if they are no points."""
    last = before.rstrip().rpartition("\n")[2]
    gap = "\n" if last.startswith(("- ", "  ")) and not heading else "\n\n"
    return before.rstrip() + gap + "\n".join([*heading, *points]) + "\n" + (f"\n{after}" if after else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
