"""The shipped web pages: packed from their files, nested as the real ones, and read with every planted copy found."""

from collections import Counter
from typing import Any

import pack_openwebtext as pack
import pyarrow as pa
from shipped import documents, dropped

from corpora.duplicates.signatures import compute_band_keys, compute_signatures
from corpora.duplicates.survivors import DuplicateSettings, judge_duplicates
from corpora.duplicates.sweep import KEPT
from corpora.duplicates.verify import build_shingle_sets

ARCHIVE = pack.FOLDER / pack.ARCHIVE_NAME
NO_PROSE = {"0000168", "0000171"}


def number(row: dict[str, Any]) -> str:
    return str(row["title"])[:7]


def text_of(page: str) -> str:
    [text] = [row["text"] for row in documents("openwebtext") if number(row) == page]
    return str(text)


def test_the_pages_pack_to_the_shipped_texts() -> None:
    """Fails if a page was edited and the archive not packed again."""
    # Names and texts, not bytes: another liblzma may compress otherwise.
    assert pack.unpack(ARCHIVE.read_bytes()) == pack.read_pages(pack.PAGES)


def test_what_is_read_and_what_is_dropped() -> None:
    rows, reasons = documents("openwebtext"), {(number(r), r["step"], r["reason"]) for r in dropped("openwebtext")}
    assert reasons == {("0000168", "rules", "gopher.min_mean_word_length"), ("0000171", "parse", "empty")}
    assert len(rows) == 26 and len({row["id"] for row in rows}) == 26
    assert {row["language"] for row in rows} == {"en"}


def test_paragraphs_stay_as_they_are() -> None:
    """Fails if a page is cut at its blank lines, or a paragraph is joined with the next."""
    broken = "0000027"
    for name, text in pack.unpack(ARCHIVE.read_bytes()):
        if name[:7] not in NO_PROSE | {broken}:
            assert text_of(name[:7]) == text.decode().strip("\n")
    assert text_of(broken).count("\n\n") == 5


def test_every_planted_copy_is_found_and_nothing_else() -> None:
    """Fails if a copy escapes the bands, is not similar enough, or two pages are alike that should not be."""
    latest = {row["id"]: row for row in sorted(documents("cc_news"), key=lambda row: int(row["revision"]))}
    rows = [*latest.values(), *documents("stories"), *documents("openwebtext")]
    settings = DuplicateSettings()
    texts = pa.array([row["text"] for row in rows], pa.large_string())
    signed = compute_signatures(texts, settings.signature)
    keys = compute_band_keys(signed.signature, settings.band)
    verdicts = judge_duplicates(signed.set_hash, keys, build_shingle_sets(texts, settings.shingle_words), settings)
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
