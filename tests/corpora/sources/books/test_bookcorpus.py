"""The books source: files and tars, encodings, identity, damage, and the real books next to the checkout."""

import csv
import gzip
import io
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
from source_reading import raw_files, reasons

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.books.encoding import guess_encoding
from corpora.sources.books.source import BookCorpusSource
from corpora.sources.contract import Record, Tally

PARAGRAPH = "It was late in the evening when the lamp went out,\nand nobody in the house spoke of it again.\n\n"
PROSE = PARAGRAPH * 40
WORDS = 40 * 20
GUTENBERG = (
    "The Project Gutenberg EBook of The Sky, by Ann Lee\n\nTitle: The Sky\n\nAuthor: Ann Lee\n\n"
    "Release Date: October 2, 2004 [EBook #77]\nLast Updated: {updated}\n\nLanguage: English\n\n"
    "Character set encoding: {encoding}\n\n*** START OF THIS PROJECT GUTENBERG EBOOK THE SKY ***\n\n"
    "Produced by Bob Ray\n\nCHAPTER I\n\n{prose}End of Project Gutenberg's The Sky, by Ann Lee\n\n"
    "*** END OF THIS PROJECT GUTENBERG EBOOK THE SKY ***\n\nSection 1. General Terms of Use\n"
)


def epub(body: str, number: int = 78) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("META-INF/container.xml", '<c><rootfile full-path="a.opf"/></c>')
        archive.writestr(
            "a.opf",
            "<package><metadata><title>The Moon</title><creator>Lee, Ann</creator><rights>CC0</rights>"
            f"<language>en</language><identifier>http://www.gutenberg.org/ebooks/{number}</identifier></metadata>"
            '<manifest><item id="a" href="a.html"/></manifest><spine><itemref idref="a"/></spine></package>',
        )
        archive.writestr("a.html", f"<html><body>{body}</body></html>")
    return stream.getvalue()


EPUB = epub("<h1>I</h1>" + f"<p>{PARAGRAPH}</p>" * 40)
LOCKED = io.BytesIO(EPUB)
with zipfile.ZipFile(LOCKED, "a") as locked_archive:
    locked_archive.writestr(
        "META-INF/encryption.xml",
        '<e><EncryptedData><EncryptionMethod Algorithm="aes"/><CipherReference URI="a.html"/></EncryptedData></e>',
    )


def read(source: BookCorpusSource) -> list[Record]:
    """All records; the tally and the bytes that each locator names are checked."""
    tally, records = Tally(), []
    for file in raw_files(source):
        (piece,) = source.slices(file)
        for record in source.records(piece, tally):
            found = source.raw_record(Path(file.path), record.locator)
            assert len(found) == record.locator.length
            assert found == record.raw or (record.drop and record.drop.reason in ("too large", "damaged", "not a book"))
            records.append(record)
    assert tally.records == len(records)
    return records


def write_tar(path: Path, members: dict[str, bytes | None], mode: str) -> Path:
    """A tar of files, of folders (None) and of one link."""
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            info.size = len(data or b"")
            tar.addfile(info, io.BytesIO(data or b""))
        link = tarfile.TarInfo("books1/epubtxt/same.epub.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "one.epub.txt"
        tar.addfile(link)
    return path


MEMBERS: dict[str, bytes | None] = {
    "books1": None,
    "books1/epubtxt": None,
    "books1/epubtxt/one.epub.txt": PROSE.encode(),
    "books1/epubtxt/" + "a-very-long-name-" * 12 + ".epub.txt": ("Another. " + PROSE).encode(),
    "books1/2018/moon.epub": EPUB,
    "books1/zipped.txt.gz": gzip.compress(("Zipped. " + PROSE).encode()),
    "books1/empty.txt": b"",
    "books1/._one.epub.txt": b"\0\5\x16\7",
    "books1/LICENSE": b"CC0",
    "books1/broken.epub": b"<html>403 Forbidden</html>",
}
MEMBER_REASONS = [None, None, None, None, "empty", "not a book", "not a book", "damaged", "not a book"]


def test_a_folder_of_books(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "a.txt").write_bytes(GUTENBERG.format(updated="", encoding="UTF-8", prose=PROSE).encode())
    (tmp_path / "b.epub").write_bytes(EPUB)
    (tmp_path / "c.epub.txt").write_bytes(b"A Title\r\n\r\n" + PROSE.replace("\n", "\r\n").encode())
    (tmp_path / "more" / "d.txt.gz").write_bytes(gzip.compress(PROSE.encode()) + gzip.compress(PROSE.encode()))
    (tmp_path / "cover.jpg").write_bytes(b"\xff\xd8")
    sky, moon, plain, zipped = read(BookCorpusSource(path=str(tmp_path)))
    paragraph = " ".join(PARAGRAPH.split())
    assert sky.text == "\n\n".join(["CHAPTER I", *[paragraph] * 40])
    assert (sky.key, sky.title, sky.group, sky.date) == ("gutenberg:77", "The Sky", "Ann Lee", "2004-10-02")
    assert (sky.revision, sky.url, sky.meta) == (
        20041002,
        "https://www.gutenberg.org/ebooks/77",
        '{"language": "English"}',
    )
    assert moon.text == "\n\n".join(["I", *[paragraph] * 40])
    assert (moon.key, moon.title, moon.group, moon.license) == ("gutenberg:78", "The Moon", "Ann Lee", "CC0")
    assert plain.text == "\n\n".join(["A Title", *[paragraph] * 40])
    assert (plain.key, plain.title, plain.group, plain.revision, plain.url) == (None, "c", None, None, None)
    assert zipped.text == "\n\n".join([paragraph] * 80) and zipped.title == "d"
    assert (zipped.locator.stream, plain.locator.stream) == (0, -1)


def test_editions_of_a_gutenberg_book_are_revisions_of_one(tmp_path: Path) -> None:
    for name, updated in [("new", "January 14, 2018"), ("old", "")]:
        text = GUTENBERG.format(updated=updated, encoding="UTF-8", prose=PROSE + name)
        (tmp_path / f"{name}.txt").write_text(text)
    new, old = read(BookCorpusSource(path=str(tmp_path)))
    assert new.key == old.key == "gutenberg:77" and new.raw != old.raw
    assert new.revision is not None and old.revision is not None and new.revision > old.revision


@pytest.mark.parametrize(("ending", "mode"), [(".tar", "w"), (".tar.gz", "w:gz"), (".tgz", "w:gz")])
def test_every_member_of_a_tar_is_a_record(tmp_path: Path, ending: str, mode: str) -> None:
    path = write_tar(tmp_path / f"books1{ending}", MEMBERS, mode)
    records = read(BookCorpusSource(path=str(path)))
    assert reasons(records) == MEMBER_REASONS
    assert [record.title for record in records[:4]] == ["one", "a-very-long-name-" * 12, "The Moon", "zipped"]
    assert [record.raw for record in records[:4]] == [MEMBERS[name] for name in list(MEMBERS)[2:6]]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one.epub.txt").write_bytes(PROSE.encode())
    (alone,) = read(BookCorpusSource(path=str(tmp_path / "folder")))
    assert alone.text == records[0].text and alone.raw == records[0].raw  # so its id is the same


@pytest.mark.parametrize(("ending", "mode"), [(".tar", "w"), (".tar.gz", "w:gz")])
def test_a_tar_that_is_cut_off_is_refused_wherever_that_is(tmp_path: Path, ending: str, mode: str) -> None:
    path = write_tar(tmp_path / f"books1{ending}", MEMBERS, mode)
    data = path.read_bytes()
    tar_end = 1024 if mode == "w" else 0
    whole = len(data.rstrip(b"\0")) if mode == "w" else len(data)
    stops = [*range(0, whole + tar_end // 2, max(whole // 60, 1)), whole - 1, whole - 8]
    assert len(stops) > 50
    for stop in stops:
        path.write_bytes(data[:stop])
        with pytest.raises(
            InputError, match=rf"{re.escape(str(path))} is .*at its byte \d+, so its books .* Get the file again"
        ):
            read(BookCorpusSource(path=str(path)))
    path.write_bytes(data)
    assert len(read(BookCorpusSource(path=str(path)))) == len(MEMBER_REASONS)


def test_a_damaged_book_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / "a.epub").write_bytes(EPUB[:-50])
    (tmp_path / "b.txt").write_bytes(PROSE.encode() + b"\0\0")
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(PROSE.encode())[:-5])
    (tmp_path / "d.txt.gz").write_bytes(b"no gzip")
    (tmp_path / "e.txt").write_bytes(b"\xff\xfeA")
    (tmp_path / "f.epub").write_bytes(LOCKED.getvalue())
    (tmp_path / "g.txt").write_bytes(PROSE.encode())
    records = read(BookCorpusSource(path=str(tmp_path)))
    assert reasons(records) == ["damaged", "damaged", "damaged", "damaged", "damaged", "drm", None]
    assert [bool(record.drop and record.drop.damaged) for record in records] == [True] * 5 + [False] * 2
    details = [record.drop.detail for record in records if record.drop]
    assert all(details) and details[5] == "a.html is encrypted"
    for detail, says in zip(details, ["zip", "a zero at byte", "cut off", "damaged gzip", "utf-16", ""], strict=True):
        assert says in detail


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (gzip.compress(b"") * 20_000 + gzip.compress(PROSE.encode()) + bytes(700), None),
        (b"", "damaged"),
        (gzip.compress(PROSE.encode()) + b"more", "damaged"),
        (gzip.compress(PROSE.encode()) + gzip.compress(b"a")[:9], "damaged"),
    ],
)
def test_a_packed_book_may_be_in_many_streams(tmp_path: Path, packed: bytes, reason: str | None) -> None:
    """Fails if what follows the first stream is left out, or refused, or copied once for each stream before it."""
    (tmp_path / "a.txt.gz").write_bytes(packed)
    (record,) = read(BookCorpusSource(path=str(tmp_path)))
    assert reasons([record]) == [reason]
    assert record.raw == (PROSE.encode() if reason is None else record.raw)


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    bomb = epub("<p>" + "0" * 200_000 + "</p>")
    (tmp_path / "a.txt").write_bytes(PROSE.encode() * 40)
    (tmp_path / "b.epub").write_bytes(bomb)
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(PROSE.encode() * 40))
    write_tar(tmp_path / "d.tar", {"one.txt": PROSE.encode() * 40, "two.txt": PROSE.encode()}, "w")
    limit = len(PROSE) * 40 - 1
    records = read(BookCorpusSource(path=str(tmp_path), max_record_bytes=limit))
    assert len(bomb) > limit
    assert reasons(records) == ["too large"] * 4 + [None, "not a book"]
    assert reasons(read(BookCorpusSource(path=str(tmp_path), max_record_bytes=300_000))) == [None, "no prose"] + [
        None
    ] * 3 + ["not a book"]


def test_a_book_without_prose_is_dropped(tmp_path: Path) -> None:
    index = "INDEX\n\n" + "".join(f"Abbey, {page}, {page + 7}; Aberdeen, {page}, 33.\n\n" for page in range(900))
    (tmp_path / "a.txt").write_text(index)
    (tmp_path / "b.txt").write_text(PARAGRAPH * 3)
    (tmp_path / "c.txt").write_text(PROSE)
    first, second, third = read(BookCorpusSource(path=str(tmp_path)))
    assert first.drop is not None and (first.drop.reason, first.drop.damaged) == ("no prose", False)
    assert second.drop is not None and second.drop.detail == "60 words of running text"
    assert third.drop is None
    assert reasons(read(BookCorpusSource(path=str(tmp_path), min_prose_words=60))) == ["no prose", None, None]
    assert reasons(read(BookCorpusSource(path=str(tmp_path), min_prose_words=WORDS + 1))) == ["no prose"] * 3


def test_odd_members_of_a_tar_are_drops_and_a_path_means_nothing(tmp_path: Path) -> None:
    kinds = [("../../up.txt", tarfile.REGTYPE), ("/etc/down.txt", tarfile.REGTYPE), ("tty.txt", tarfile.CHRTYPE)]
    kinds += [("pipe.txt", tarfile.FIFOTYPE), ("hard.txt", tarfile.LNKTYPE), ("disk.txt", tarfile.BLKTYPE)]
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, kind in kinds:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, "/etc/passwd", len(PROSE) if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(PROSE.encode()))
    records = read(BookCorpusSource(path=str(tmp_path / "a.tar")))
    assert reasons(records) == [None, None, *["not a book"] * 4]
    assert [record.title for record in records[:2]] == ["up", "down"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


WORDLESS = {
    "a table": "".join(f"{n:4}  {n * 7 % 61:02}.{n * 3 % 60:02}  {n % 9}.{n % 7} m\n" for n in range(2_000)),
    "an index": "".join(f"lamps, broken, {n}, {n + 9}; in windows, {n + 30}. See light.\n" for n in range(2_000)),
    "a catalogue": "".join(f"THE LAMP {n}\nBy ANN LEE\nCloth, 12mo. Price, $1.{n % 90:02}\n\n" for n in range(1_000)),
    "a program": '    return {key: value + 1 for key, value in window.items() if value != "out."}\n\n' * 900,
    "verse of nothing": "* * * *\n\n" * 3_000,
}


@pytest.mark.parametrize("kind", WORDLESS)
def test_what_holds_no_prose_is_dropped_with_the_reason(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.txt").write_text(WORDLESS[kind])
    [found] = read(BookCorpusSource(path=str(tmp_path)))
    assert found.drop is not None and found.drop.reason in ("no prose", "empty") and not found.drop.damaged


def test_files_and_settings(tmp_path: Path) -> None:
    for name in ("b.txt", "a.EPUB", "c.tar.gz", "d.pdf"):
        (tmp_path / name).write_bytes(b"")
    source = BookCorpusSource(name="novels", path=str(tmp_path))
    assert [name for name, _ in source.files()] == ["a.EPUB", "b.txt", "c.tar.gz"]
    assert source.settings() == {"min_prose_words": 500, "max_record_bytes": 50_000_000}
    with pytest.raises(InputError, match=r"d\.pdf is none of \.txt"):
        BookCorpusSource(path=str(tmp_path / "d.pdf")).files()
    with pytest.raises(InputError, match="nothing in"):
        BookCorpusSource(path=str(tmp_path / "*.jsonl")).files()
    with pytest.raises(InputError, match="Is it the file that was read"):
        source.raw_record(tmp_path / "b.txt", Locator(file="b.txt", sha256="", length=5))


MATTER = re.compile(  # words and paragraphs that only those write who give a book away
    r"""Gutenberg | \be-?texts?\b | electronic\ works? | public\ domain | Distributed\ Proof | (?-i:Produced\ by)
      | Transcriber | Small\ Print | Smashwords | \bISBN\b | all\ rights\ reserved | \bcopyright\ (?:\(c\)|©|\d{4}|by)
      | re-?sold\ or\ given | https?:// | www\. | \S@\w+\.(?:com|org|net)\b
      | ^(?:table\ of\ )?contents$ | ^(?:list\ of\ )?illustrations$""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)


def read_path(path: Path) -> str:
    (record,) = read(BookCorpusSource(path=str(path)))
    return record.text


def test_books_are_read_and_none_keeps_a_word_of_gutenberg(shared: Path, tmp_path: Path) -> None:
    """Every twentieth text, and an EPUB."""
    texts = sorted((shared / "data" / "books" / "txt").glob("*.txt"))[::20]
    for path in (*texts, min((shared / "data" / "books").rglob("*.epub"))):
        (tmp_path / path.name).symlink_to(path)
    records = assert_books_alone(tmp_path, len(texts) + 1)
    assert sum("gutenberg" in record.raw.lower().decode("latin-1") for record in records) > 3


@pytest.mark.long
def test_all_books_are_read_and_none_keeps_a_word_of_gutenberg(shared: Path) -> None:
    records = assert_books_alone(shared / "data" / "books", 91 + 5)
    assert sum("gutenberg" in record.raw.lower().decode("latin-1") for record in records) >= 77
    size = sum(len(record.text) for record in records)
    assert 39_000_000 < size < 43_000_000  # of 41.15 MB of text and five EPUBs, 78 licences of 20 KB cut
    with (shared / "data" / "books" / "BOOKS.tsv").open(encoding="utf-8", newline="") as lines:
        stated = {row["file"]: row["encoding"] for row in csv.DictReader(lines, delimiter="\t")}
    told = {
        (stated[name], guess_encoding(record.raw)) for record in records if (name := record.locator.file)[-1] == "t"
    }
    assert told == {(name, name) for name in ("ascii", "utf-8", "utf-8-sig")} | {("latin-1", "cp1252")}


def assert_books_alone(folder: Path, number: int) -> list[Record]:
    """The records of a folder: so many, all of prose, without a word of who gave them away."""
    records = read(BookCorpusSource(path=str(folder)))
    assert len(records) == number and reasons(records) == [None] * number
    assert [(record.title, match[0]) for record in records for match in MATTER.finditer(record.text)] == []
    paragraphs = [text for record in records for text in record.text.split("\n\n")]
    assert sum("\n" in text for text in paragraphs) < 0.02 * len(paragraphs)  # verse and titles, no wrapped prose
    return records


@pytest.mark.parametrize(
    ("name", "opening", "end"),
    [
        ("emma_158", "Emma Woodhouse, handsome, clever, and rich", "in the perfect happiness of the union.\n\nFINIS"),
        ("the-call-of-the-wild_215_callw10", "Old longings nomadic leap,\nChafing", "which is the song of the pack."),
        ("frankenstein_84_frank14", "Letter 1\n\nTO Mrs. Saville, England", "waves and lost in darkness and distance."),
        ("the-star-hyacinths_26292", "The robbery of the Dosey Asteroids Shipping Station", ""),
        ("the-time-machine_35", "The Time Traveller (for so it will be convenient", "lived on in the heart of man."),
        ("dubliners_2814", "There was no hope for him this time", "upon all the living and the dead."),
        ("los-pazos-de-ulloa_18005", "Por m\xe1s que el jinete trataba", "Par\xeds, Marzo de 1886."),
        ("a-princess-of-mars_62", "To My Son Jack\n\nFOREWORD", "something tells me that I shall soon know."),
        ("jungle-tales-of-tarzan_106", "Tarzan's First Love\n\nTEEKA, STRETCHED", "was Tarzan of the Apes."),
        ("novels100_Kipling_Captains_1896", "I ploughed the land with horses", '"Me too," quoth Harvey Cheyne.'),
    ],
)
def test_a_book_begins_and_ends_with_its_own_words(shared: Path, name: str, opening: str, end: str) -> None:
    text = read_path(shared / "data" / "books" / "txt" / f"{name}.txt")
    assert opening in text[:600], text[:600]
    assert text.endswith(end), text[-300:]
    assert not re.search(r"(?i)produced by|transcriber|copyright|contents", text[:300] + text[-300:])
