"""`llms.txt`, the list of the site's pages for language models: `python docs/list_of_pages.py`; `--check` only looks.

The sections and their order are those of index.md; a page has its title and the first sentence of its text. Addresses
are those of the pages' Markdown on the site.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parent
LIST = DOCS / "llms.txt"
TOCTREE = re.compile(r"```\{toctree\}\n:caption: (?P<caption>.+)\n(?P<options>(?::.+\n)*)\n(?P<pages>(?:.+\n)+)```")


def main(arguments: Sequence[str], path: Path = LIST) -> int:
    """Write the list, or with `--check` only look; 1 where it lags, 2 for an argument that means nothing."""
    if [*arguments] not in ([], ["--check"]):
        return 2
    if not arguments:
        path.write_text(list_of_pages(), encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != list_of_pages():
        print(f"{path.name} lags behind the pages: run `python docs/list_of_pages.py`", file=sys.stderr)
        return 1
    return 0


def list_of_pages() -> str:
    """Return the whole list."""
    title, summary = summary_of((DOCS / "index.md").read_text(encoding="utf-8"))
    blocks = [f"# {title}", f"> {summary}"]
    for caption, pages in sections():
        blocks += [f"## {caption}", "\n".join(map(entry, pages))]
    return "\n\n".join(blocks) + "\n"


def sections() -> Iterator[tuple[str, list[Path]]]:
    """Yield each section of the site with its pages, in the order in which a reader sees them."""
    for block in TOCTREE.finditer((DOCS / "index.md").read_text(encoding="utf-8")):
        names = block["pages"].split()
        yield block["caption"], [path for name in names if (path := DOCS / f"{name}.md").exists()]


def entry(page: Path) -> str:
    """Return the line of a page."""
    title, summary = summary_of(page.read_text(encoding="utf-8"))
    return f"- [{title}](_sources/{page.relative_to(DOCS).as_posix()}.txt): {summary}"


def summary_of(page: str) -> tuple[str, str]:
    """Return the title of a page, and the first sentence of its first paragraph without links.

    >>> summary_of("# A page\\n\\nWhat it\\nis, [as](x.md) said. More.\\n")
    ('A page', 'What it is, as said.')
    """
    title, paragraph = re.match(r"# (.+)\n\n((?:.+\n)+)", page).groups()  # type: ignore[union-attr]
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(paragraph.split()))
    return title, re.split(r"(?<=[.:?]) (?=[A-Z`])", text)[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
