"""Packs the files of the sample's EPUB into one archive.

Promises that the bytes are a function of the files of `epub/` alone: dates, permissions and the order of entries
are fixed, and nothing is compressed, for what a compressor writes depends on its version. Costs under a millisecond.
`python tests/corpora/samples/pack_books.py` rewrites the EPUB.

Source: EPUB 3.3, OCF ZIP container: the entry `mimetype` comes first, stored, without an extra field, and
META-INF/container.xml names the package document.
"""

import io
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "corpora" / "samples" / "books"
CONTENTS = FOLDER / "epub"
EPUB_NAME = "the-map-of-hollin-marsh.epub"

MIMETYPE = ("mimetype", b"application/epub+zip")
CONTAINER = "META-INF/container.xml"
# The first moment that a zip archive can name: it stands for no date.
DATE = (1980, 1, 1, 0, 0, 0)


def read_entries(folder: Path) -> list[tuple[str, bytes]]:
    """The files below a folder as (name in the archive, bytes), the container first, then by name."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    names.sort(key=lambda name: name != CONTAINER)
    return [(name, (folder / name).read_bytes()) for name in names]


def pack(entries: list[tuple[str, bytes]]) -> bytes:
    """An EPUB of these entries in the order given, after the one that says what it is."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as target:
        for name, data in [MIMETYPE, *entries]:
            entry = zipfile.ZipInfo(name, DATE)
            entry.create_system = 3  # Unix, which `external_attr` speaks of; Python writes the system it runs on
            entry.external_attr = 0o100644 << 16
            target.writestr(entry, data)
    return archive.getvalue()


if __name__ == "__main__":
    (FOLDER / EPUB_NAME).write_bytes(pack(read_entries(CONTENTS)))
