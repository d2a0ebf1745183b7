"""The pages that the program itself fills: `python docs/program_pages.py` writes them again; `--check` only looks.

They are docs/reference.md, by `flows.command.reference`, the README's table of the ten commands to know first, and the
table of things and formats in docs/guide-sources.md, by the cases that its test reads.
Cost: two seconds, most of them for the import of the program.
"""

import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from flows.command import reference

README = Path(__file__).resolve().parents[1] / "README.md"
ROWS = re.compile(r"(?:^\| `cloze .+\n)+", re.MULTILINE)
NUM_COMMANDS = 10
SOURCES = README.parent / "docs" / "guide-sources.md"
THINGS = README.parent / "tests" / "corpora" / "cases" / "things.toml"
FORMATS = "page wiki EPUB .docx .pptx .xlsx PDF JATS PubMed patents Markdown mail CSV JSON".split()
THING_ROWS = re.compile(r"^\| in the text \|.+\n(?:^\|.+\n)+", re.MULTILINE)


def replace_things(page: str) -> str:
    """Return a page with the table of things and formats."""
    rows = [["in the text", "what is read", "formats that have it"], ["---"] * 3]
    for thing, cells in tomllib.loads(THINGS.read_text(encoding="utf-8")).items():
        held = {name.partition(" ")[0] for name in cells}
        rows.append([thing, cells["says"], name_formats([name for name in FORMATS if name in held])])
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return THING_ROWS.sub(lambda match: table, page, count=1)


def name_formats(held: Sequence[str]) -> str:
    """Return formats in a few words: by their names, or by those that are not among them if these are fewer.

    >>> name_formats(FORMATS), name_formats(FORMATS[1:]), name_formats(["page", "mail"])
    ('all', 'all but page', 'page, mail')
    """
    missing = [name for name in FORMATS if name not in held]
    if len(missing) >= len(held):
        return ", ".join(held)
    return f"all but {', '.join(missing)}" if missing else "all"


def main(arguments: Sequence[str], path: Path = README, replace: Callable[[str], str] | None = None) -> int:
    """Write the table of a page, or with `--check` only look; 1 if it lags, 2 for an argument that means nothing."""
    replace = replace or replace_rows
    if [*arguments] not in ([], ["--check"]):
        return 2
    page = path.read_text(encoding="utf-8")
    if not arguments:
        path.write_text(replace(page), encoding="utf-8")
    elif page != replace(page):
        print(f"{path.name} lags behind the program: run `make fix`", file=sys.stderr)
        return 1
    return 0


def replace_rows(page: str) -> str:
    """Return a page with the rows of its first table of commands as the program has them."""
    rows = reference.render_commands_table().splitlines(keepends=True)[2 : 2 + NUM_COMMANDS]
    return ROWS.sub(lambda match: "".join(rows), page, count=1)


if __name__ == "__main__":
    sys.exit(max(reference.main(sys.argv[1:]), main(sys.argv[1:]), main(sys.argv[1:], SOURCES, replace_things)))
