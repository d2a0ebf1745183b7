"""The pages that the program itself fills: `python docs/program_pages.py` writes them again; `--check` only looks.

They are docs/reference.md, by `flows.command.reference`, and the README's table of the ten commands to know first.
Cost: two seconds, most of them for the import of the program.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from flows.command import reference

README = Path(__file__).resolve().parents[1] / "README.md"
ROWS = re.compile(r"(?:^\| `cloze .+\n)+", re.MULTILINE)
NUM_COMMANDS = 10


def main(arguments: Sequence[str], path: Path = README) -> int:
    """Write the README's table, or with `--check` only look; 1 if it lags, 2 for an argument that means nothing."""
    if [*arguments] not in ([], ["--check"]):
        return 2
    page = path.read_text(encoding="utf-8")
    if not arguments:
        path.write_text(replace_rows(page), encoding="utf-8")
    elif page != replace_rows(page):
        print(f"{path.name} lags behind the program: run `make fix`", file=sys.stderr)
        return 1
    return 0


def replace_rows(page: str) -> str:
    """Return a page with the rows of its first table of commands as the program has them."""
    rows = reference.commands_table().splitlines(keepends=True)[2 : 2 + NUM_COMMANDS]
    return ROWS.sub(lambda match: "".join(rows), page, count=1)


if __name__ == "__main__":
    sys.exit(max(reference.main(sys.argv[1:]), main(sys.argv[1:])))
