"""The README's table of the ten commands to know first: `python docs/readme_commands.py` writes it; `--check` looks.

Which ten these are, and what each does, is what the program says of itself, as in the reference. Cost: two seconds.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from flows.command.reference import commands_table

README = Path(__file__).resolve().parents[1] / "README.md"
ROWS = re.compile(r"(?:^\| `cloze .+\n)+", re.MULTILINE)
NUM_COMMANDS = 10


def main(arguments: Sequence[str], path: Path = README) -> int:
    """Write the table, or with `--check` only look; 1 if it lags, 2 for an argument that means nothing."""
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
    rows = commands_table().splitlines(keepends=True)[2 : 2 + NUM_COMMANDS]
    return ROWS.sub(lambda match: "".join(rows), page, count=1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
