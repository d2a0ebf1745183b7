"""The shipped web pages: packed from their files, nested as the real ones, and read with every planted copy found."""

import hashlib
import io
import lzma
import re
import tarfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pack_openwebtext as pack
import pyarrow as pa
import pytest

from corpora.duplicates.bands import band_keys
from corpora.duplicates.signatures import signatures
from corpora.duplicates.survivors import DuplicateSettings, judge_duplicates
from corpora.duplicates.sweep import KEPT
from corpora.duplicates.verify import shingle_sets
from corpora.errors import InputError
from corpora.judging.batches import judge_records
from corpora.judging.settings import DocumentsSettings
from corpora.samples import cc_news, stories
from corpora.sources.contract import RawFile, Source, Tally
from corpora.sources.openwebtext import OpenWebTextSource
from corpora.sources.stories import StoriesSource
from corpora.sources.web.source import CcNewsSource

ARCHIVE = pack.FOLDER / pack.ARCHIVE_NAME
# Copies that were planted, by number of page: none of them adds prose.
COPIES = {"0000157", "0000160", "0000164", "0000175"}
NO_PROSE = {"0000168", "0000171"}


def unpacked(data: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    """The members of a tar in xz."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(data))) as archive:
        files = [(member, archive.extractfile(member)) for member in archive]
        return [(member, file.read() if file else b"") for member, file in files]


def subsets() -> list[tuple[tarfile.TarInfo, bytes]]:
    return unpacked(ARCHIVE.read_bytes())


def packed_pages() -> list[tuple[str, bytes]]:
    return [(member.name, text) for _, subset in subsets()[1:] for member, text in unpacked(subset)]


def documents_of(source: Source) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of documents and of dropped records of a source of one file."""
    [(name, path)] = source.files()
    data = path.read_bytes()
    file = RawFile(name=name, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data), path=str(path))
    tally = Tally()
    records = [record for piece in source.slices(file) for record in source.records(piece, tally)]
    assert tally.records == len(records)
    found = judge_records(records, source.name, DocumentsSettings())
    return found.documents.to_pylist(), found.dropped.to_pylist()


@cache
def judged() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return documents_of(OpenWebTextSource(path=str(ARCHIVE)))


def number(row: dict[str, Any]) -> str:
    title = row["title"]
    assert isinstance(title, str)
    return title[:7]


def text_of(page: str) -> str:
    [text] = [row["text"] for row in judged()[0] if number(row) == page]
    assert isinstance(text, str)
    return text


def five_grams(text: str) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return [tuple(words[i : i + 5]) for i in range(len(words) - 4)]


def test_the_pages_pack_to_the_shipped_texts() -> None:
    """Fails where a page was edited and the archive not packed again."""
    # Names and texts, not bytes: another liblzma may compress otherwise.
    assert packed_pages() == pack.read_pages(pack.PAGES)


def test_the_archive_is_nested_as_the_real_one() -> None:
    folder, *files = subsets()
    assert folder[0].isdir() and folder[0].name == "openwebtext"
    assert [member.name for member, _ in files] == [f"openwebtext/urlsf_subset00-{n}_data.xz" for n in (1, 2)]
    pages = [unpacked(subset) for _, subset in files]
    assert list(map(len, pages)) == [pack.PAGES_PER_SUBSET, 14]
    for member, text in [member for subset in pages for member in subset]:
        digest = hashlib.md5(text, usedforsecurity=False).hexdigest()
        assert re.fullmatch(rf"\d{{7}}-{digest}\.txt", member.name)
    for member, _ in [folder, *files, *pages[0], *pages[1]]:
        assert (member.mtime, member.uid, member.gid, member.uname, member.gname) == (pack.MODIFIED, 0, 0, "", "")


def test_what_is_read_and_what_is_dropped() -> None:
    documents, dropped = judged()
    reasons = {(number(row), row["step"], row["reason"]) for row in dropped}
    assert reasons == {("0000168", "rules", "gopher.min_mean_word_length"), ("0000171", "parse", "empty")}
    assert len(documents) == 26 and len({row["id"] for row in documents}) == 26
    assert {row["language"] for row in documents} == {"en"}


def test_paragraphs_stay_as_they_are() -> None:
    """Fails where a page is cut at its blank lines, or a paragraph is joined with the next."""
    broken = "0000027"
    for name, text in packed_pages():
        if name[:7] not in NO_PROSE | {broken}:
            assert text_of(name[:7]) == text.decode().strip("\n")
    assert text_of(broken).count("\n\n") == 5


def test_the_broken_encoding_is_mended() -> None:
    [page] = [text.decode() for name, text in packed_pages() if name.startswith("0000027")]
    assert "SÃ\u00b8rvik" in page and "Donâ€™t" in page and "talks.â€\x9d" in page
    text = text_of("0000027")
    assert "Sørvik, a village" in text and "the café attached" in text
    assert "\u201cDon\u2019t go where the buses go,\u201d he said." in text and "postman talks.\u201d\n" in text
    assert not re.search("[Ãâ€\x9d]", text)


def test_some_pages_have_lines_of_their_site() -> None:
    texts = "\n".join(row["text"] for row in judged()[0])
    lines = ("Share this: Email", "Comments are closed", "min read | Subscribe", "Related posts:", "(Via the Northern")
    assert [line for line in lines if line not in texts] == []


def test_every_planted_copy_is_found_and_nothing_else() -> None:
    """Fails where a copy escapes the bands, is not similar enough, or two pages are alike that should not be."""
    news = documents_of(CcNewsSource(path=str(Path(cc_news.__file__).parent)))[0]
    latest = {row["id"]: row for row in sorted(news, key=lambda row: row["revision"])}
    tales = documents_of(StoriesSource(path=str(Path(stories.__file__).parent / "stories.txt")))[0]
    rows = [*latest.values(), *tales, *judged()[0]]
    settings = DuplicateSettings()
    texts = pa.array([row["text"] for row in rows], pa.large_string())
    signed = signatures(texts, settings.signature)
    keys = band_keys(signed.signature, settings.band)
    verdicts = judge_duplicates(signed.set_hash, keys, shingle_sets(texts, settings.shingle_words), settings)
    found = {
        number(row): (rows[survivor]["source"], rows[survivor]["text"][:16], bool(exact), round(float(similarity), 1))
        for row, survivor, similarity, exact in zip(
            rows, verdicts.survivor.tolist(), verdicts.similarity, verdicts.exact, strict=True
        )
        if row["source"] == "openwebtext" and survivor != KEPT
    }
    assert found == {
        "0000157": ("cc-news", "A clipped hedge ", False, 0.9),
        "0000160": ("openwebtext", "Re: Internet dro", True, 1.0),
        "0000164": ("openwebtext", "Garden notes, se", False, 0.9),
        "0000175": ("stories", "For one winter I", False, 0.9),
    }
    removed = Counter(row["source"] for row, at in zip(rows, verdicts.survivor.tolist(), strict=True) if at != KEPT)
    assert removed["cc-news"] == 1  # the reprint


def test_the_prose_repeats_hardly_anything() -> None:
    texts = [row["text"] for row in judged()[0] if number(row) not in COPIES]
    assert len(texts) == 22
    assert all(250 <= len(text.split()) <= 320 for text in texts)
    assert 30_000 < sum(map(len, texts)) < 36_000
    grams = [gram for text in texts for gram in five_grams(text)]
    assert len(set(grams)) / len(grams) >= 0.99


@pytest.mark.parametrize("name", ["31-soup.txt", "0000031.txt", "0000031-Soup.txt"])
def test_a_page_of_another_name_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("text\n")
    with pytest.raises(InputError, match=re.escape(f"{name}: its name is not like")):
        pack.read_pages(tmp_path)


def test_a_folder_without_pages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file here ends in"):
        pack.read_pages(tmp_path)
