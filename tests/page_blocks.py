"""The blocks of code on the pages, as a renderer finds them, and which pages are run from top to bottom."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from checkout import ROOT, files_below
from markdown_it import MarkdownIt

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *files_below("docs", suffix=".md")]
PRINTING = ("one-document.md", "api.md", "guide-own-loop.md", "index.md")  # Python with what it prints: test_docs.py
WALKED = ("tutorial.md", *(path.name for path in files_below("docs/howto")))  # test_walkthroughs.py
HERE = re.compile(r"<<'(\w+)'(.*?)\n(?s:.*?)^\1$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block with its language, or an indented one, whose language is empty."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def all_blocks() -> tuple[Block, ...]:
    """Return the blocks of all pages in their order."""
    return tuple(block for page in PAGES for block in blocks_of(page.name, page.read_text(encoding="utf-8")))


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """Yield the blocks of a page's text."""
    for token in MarkdownIt().parse(text):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            yield Block(page=page, line=token.map[0] + 1, language=token.info.strip(), text=token.content)


def blocks(page: str, *languages: str) -> list[Block]:
    """Return the blocks of a page in some languages."""
    return [block for block in all_blocks() if block.page == page and block.language in languages]


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the words of each command that a block of a shell shows, without variables, files and what it prints."""
    lines = HERE.sub(r"\2", block.text.replace("\\\n", " ")).splitlines()
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        yield from (words for words in split_commands([*lexer]) if words)


def split_commands(words: list[str]) -> Iterator[list[str]]:
    """Yield what is between the operators of a shell."""
    command: list[str] = []
    for before, word in pairwise(["", *words, ";"]):
        if set(word) <= set("();|&"):
            yield command
            command = []
        elif not set(word) <= set("<>") and not (before and set(before) <= set("<>")):
            command += [word] if command or not re.match(r"\w+=|(do|then|else)$", word) else []
