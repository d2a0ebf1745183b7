"""English text for measuring, a gigabyte of it: documentation that Debian's packages install, stripped to paragraphs.

    python -m benchmarks.debian_text --source /usr/share --target texts

HTML, manual pages, Info files, dictionaries (`dict-*`) and plain text are read in the order of their paths, and each
becomes one .txt file of its paragraphs. A paragraph is kept where it has 60 to 20,000 bytes, is mostly letters, and was
not written before by the same call: so neither menus nor what pages share come twice, and a file that is a copy leaves
nothing.
"""

import argparse
import gzip
import hashlib
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path

from lxml import etree, html

LEAST_BYTES, MOST_BYTES = 60, 20_000
LEAST_SHARE = 0.7  # of a paragraph's bytes that are letters or spaces: tables and code have fewer

_BLOCKS = ("p", "div", "li", "dt", "dd", "td", "th", "tr", "pre", "br", "section", "article", "blockquote", "table")
_HEADINGS = ("title", "h1", "h2", "h3", "h4", "h5", "h6")
_NOT_TEXT = ("script", "style", "head", "nav", "svg", "math")
_ROFF_MARKS = re.compile(r"\\f(?:\[\w*\]|\(..|.)|\\[|&%^:/,]|\\s[-+]?\d|\\\*?(?:\(..|\[\w*\])")
_ROFF_REQUEST = re.compile(r"^[.'](\S*)[ \t]*")
_LETTERS = (string.ascii_letters + " ").encode() + bytes(range(128, 256))
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # lxml reads them and will not write them
_MANUAL = re.compile(r"\.[1-9]\w*$")


def write_texts(source: Path, target: Path) -> int:
    """Write the texts of all files under `source` to `target`, which is made; returns how many characters they have."""
    target.mkdir(parents=True, exist_ok=True)
    seen: set[bytes] = set()  # of files and of paragraphs
    written = 0
    for path in sorted(source.rglob("*")):
        read = _reader(path.name.removesuffix(".gz"))
        if read is None or not path.is_file() or path.is_symlink():
            continue
        data = _content(path)
        digest = hashlib.blake2b(data, digest_size=8).digest()
        if digest in seen:
            continue
        seen.add(digest)
        text = "\n\n".join(new_paragraphs(read(data), seen))
        if text:
            name = hashlib.sha256(str(path.relative_to(source)).encode()).hexdigest()[:16]
            written += (target / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
    return written


def new_paragraphs(text: str, seen: set[bytes]) -> Iterator[str]:
    """The paragraphs of a text that are prose and not in `seen`, which learns of them."""
    for paragraph in re.split(r"\n\s*\n", text):
        words = " ".join(paragraph.split())
        data = words.encode()
        if not LEAST_BYTES <= len(data) <= MOST_BYTES:
            continue
        if len(data.translate(None, _LETTERS)) > (1 - LEAST_SHARE) * len(data):
            continue
        digest = hashlib.blake2b(data, digest_size=8).digest()
        if digest not in seen:
            seen.add(digest)
            yield words


def html_text(data: bytes) -> str:
    """The text of a page, an empty line between its blocks."""
    if not data.strip():
        return ""
    try:
        tree = html.document_fromstring(data)
    except etree.ParserError:  # a page of nothing but comments
        return ""
    etree.strip_elements(tree, *_NOT_TEXT, with_tail=False)
    for element in tree.iter(*_BLOCKS, *_HEADINGS):
        element.text = "\n\n" + _CONTROLS.sub(" ", element.text or "")
        element.tail = "\n\n" + _CONTROLS.sub(" ", element.tail or "")
    return str(tree.text_content())


def manual_text(data: bytes) -> str:
    """The text of a manual page: requests that give no text divide paragraphs, what is after others is kept."""
    lines = []
    for line in _decoded(data).splitlines():
        request = _ROFF_REQUEST.match(line)
        if request:
            kept = request[1] in ("B", "I", "BR", "IR", "RB", "RI", "BI", "IB", "Nm", "Fl", "Ar", "Xr", "Em", "Li")
            line = line[request.end() :].replace('"', "") if kept else ""
        lines.append(_ROFF_MARKS.sub("", line).replace("\\-", "-").replace("\\e", "\\"))
    return "\n".join(lines)


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _reader(name: str) -> Callable[[bytes], str] | None:
    """How a file of a name is read; None where it is not text."""
    if name.endswith((".html", ".htm", ".xhtml")):
        return html_text
    if name.endswith((".txt", ".text", ".rst", ".md", ".dict.dz")) or ".info" in name:
        return _decoded
    return manual_text if _MANUAL.search(name) else None


def _content(path: Path) -> bytes:
    """The bytes of a file, unpacked."""
    if path.name.endswith((".gz", ".dz")):
        with gzip.open(path) as file:
            return file.read()
    return path.read_bytes()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.debian_text", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--source", type=Path, default=Path("/usr/share"), help="what to read (default: /usr/share)")
    parser.add_argument("--target", type=Path, required=True, help="the folder to write to")
    arguments = parser.parse_args()
    print(f"{write_texts(arguments.source, arguments.target) / 1e6:.0f} million characters")


if __name__ == "__main__":
    main()
