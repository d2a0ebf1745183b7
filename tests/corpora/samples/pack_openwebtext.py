"""Packs the pages of the sample into an archive of the form that OpenWebText has.

Promises that names, order and texts are a function of the page files alone: no date, owner or folder enters
them. What xz makes of them may differ from one liblzma to another. Costs a tenth of a second.
`python tests/corpora/samples/pack_openwebtext.py` rewrites the archive if a page is another.

The form is that of the download of 2019 (Gokaslan and Cohen, OpenWebText Corpus): a tar in xz with a folder of
subsets, each of them again a tar in xz. A page's name is its number and the MD5 of its text.
"""

import hashlib
import io
import lzma
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "corpora" / "samples" / "openwebtext"
PAGES = FOLDER / "pages"
ARCHIVE_NAME = "openwebtext.tar.xz"

# The real subsets hold some four hundred pages; of so few, the archive has two subsets.
PAGES_PER_SUBSET = 14
MODIFIED = 1_546_300_800  # of every member: the first second of 2019, in UTC


def read_pages(folder: Path) -> list[tuple[str, bytes]]:
    """All pages of a folder as (name in the archive, text), in the order of their numbers.

    A file's name is a number of seven digits and a slug; the newline that ends it is not part of the text.
    """
    texts = {path.name[:7]: path.read_bytes().removesuffix(b"\n") for path in sorted(folder.glob("*.txt"))}
    return [
        (f"{number}-{hashlib.md5(text, usedforsecurity=False).hexdigest()}.txt", text) for number, text in texts.items()
    ]


def tar(members: Mapping[str, bytes | None]) -> bytes:
    """A tar of files by name, and of folders, which have no content, in the order given."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.mtime = MODIFIED
            if content is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content or b""))
    return packed.getvalue()


def pack(pages: Sequence[tuple[str, bytes]]) -> bytes:
    """The archive of pages in the order given."""
    starts = range(0, len(pages), PAGES_PER_SUBSET)
    subsets = [lzma.compress(tar(dict(pages[start : start + PAGES_PER_SUBSET]))) for start in starts]
    files = {f"openwebtext/urlsf_subset00-{number}_data.xz": subset for number, subset in enumerate(subsets, 1)}
    return lzma.compress(tar({"openwebtext": None, **files}))


def untar(data: bytes) -> list[tuple[str, bytes]]:
    """Return names and bytes of the files of a tar in xz."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(data))) as archive:
        files = [(member.name, archive.extractfile(member)) for member in archive]
        return [(name, file.read()) for name, file in files if file]


def unpack(data: bytes) -> list[tuple[str, bytes]]:
    """Return the pages of an archive as `read_pages` does those of a folder."""
    return [page for _, subset in untar(data) for page in untar(subset)]


if __name__ == "__main__":
    # If the pages are the same the archive stays: another liblzma may compress otherwise.
    if unpack((FOLDER / ARCHIVE_NAME).read_bytes()) != read_pages(PAGES):
        (FOLDER / ARCHIVE_NAME).write_bytes(pack(read_pages(PAGES)))
