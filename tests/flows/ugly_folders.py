"""Thirty kinds of folders as people have them, made the same each time: what is in them, and what must be said of it.

A maker writes a folder and returns a `Planted`: the texts that must be kept, and what the first screen must say of what
is lost. Texts are those of `planted_texts`. `size` is how many files the kinds with many or large ones have.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import socket
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from planted_texts import mark, text

CUT = 40  # bytes that a cut file lacks
LANGUAGES = ("en", "de", "ja", "ar")


@dataclass(frozen=True, kw_only=True)
class Planted:
    """What a run of a folder must come to. kept: numbers of the texts that are documents in the end

    said: what the screen must say, of every loss; fitted: what it must say of the rules, at the first run
    overrides: of the run
    """

    kept: Sequence[int]
    said: Sequence[str] = ()
    fitted: str = ""
    overrides: Sequence[str] = ()


def put(folder: Path, name: str, data: str | bytes) -> Path:
    """Write a file, and the folders above it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def texts(folder: Path, numbers: Sequence[int], name: str = "text-{}.txt") -> Sequence[int]:
    """Write texts, each in a file of its own."""
    for number in numbers:
        put(folder, name.format(number), text(number))
    return numbers


def zst(data: bytes) -> bytes:
    """Bytes as zstd packs them."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zst,
}


def docx(content: str) -> bytes:
    """A document of Word with some paragraphs."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = "".join(f"<w:p><w:r><w:t>{line}</w:t></w:r></w:p>" for line in content.split("\n\n"))
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        types = f'<Override PartName="/word/document.xml" ContentType="{kind}"/>'
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{TYPES}">{types}</Types>')
        relation = f'<Relationship Id="r1" Type="{office}" Target="word/document.xml"/>'
        archive.writestr("_rels/.rels", f'<Relationships xmlns="{RELATIONS}">{relation}</Relationships>')
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>')
    return packed.getvalue()


TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"


def parquet(columns: dict[str, list[str]]) -> bytes:
    """A file of Parquet."""
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def table(names: Sequence[str], rows: Sequence[Sequence[str]], delimiter: str = ",") -> str:
    """A table with a first row of names."""
    sink = io.StringIO()
    csv.writer(sink, delimiter=delimiter).writerows([names, *rows])
    return sink.getvalue()


def page(content: str) -> str:
    """A web page as a browser saves it."""
    body = "".join(f"<p>{paragraph}</p>" for paragraph in content.split("\n\n"))
    menu = "<nav><ul><li><a href='/'>Home</a></li><li><a href='/a'>About</a></li></ul></nav>"
    return f"<html><head><title>Notes</title></head><body>{menu}<article>{body}</article></body></html>"


def lines(numbers: Sequence[int], field: str = "text") -> str:
    """Texts as JSON lines."""
    return "".join(json.dumps({field: text(number)}, ensure_ascii=False) + "\n" for number in numbers)


def deep_tree(folder: Path, size: int) -> Planted:
    """Folders in folders, a hidden one, and files of a version control."""
    for number in range(12):
        put(folder, "".join(f"d{level}/" for level in range(number)) + f"note {number}.md", text(number))
    put(folder, ".hidden/.kept.txt", text(12))
    put(folder, ".git/objects/ab/cdef", b"\0\1")
    return Planted(kept=range(13), said=["Not read: 1 file"])


def four_languages(folder: Path, size: int) -> Planted:
    for number in range(24):
        put(folder, f"{number}.txt", text(number, language=LANGUAGES[number % 4]))
    return Planted(kept=range(24), fitted="all languages are kept")


def one_in_twenty_broken(folder: Path, size: int) -> Planted:
    kept = texts(folder, range(38))
    put(folder, "broken.docx", docx(text(38))[:-CUT])
    put(folder, "broken.txt.gz", gzip.compress(text(39).encode())[:-CUT])
    return Planted(kept=kept, said=["broken.docx", "broken.txt.gz"])


def cut_and_whole_packings(folder: Path, size: int) -> Planted:
    for number, (ending, pack) in enumerate(PACK.items()):
        put(folder, f"whole.txt{ending}", pack(text(number).encode()))
        put(folder, f"cut.jsonl{ending}", pack(lines([50 + number]).encode())[:-CUT])
    return Planted(kept=texts(folder, range(4, 12), "{}.txt") and range(12), said=[f"cut.jsonl{end}" for end in PACK])


def damaged_formats(folder: Path, size: int) -> Planted:
    """A mixed folder of 35 files, of every kind one that is damaged."""
    kept = texts(folder, range(27))
    warc = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 900\r\n\r\nHTTP/1.1 200 OK\r\n"
    damaged = {
        "a.docx": docx(text(90))[:-CUT],
        "b.pdf": b"%PDF-1.7\n1 0 obj\n<< /Type",
        "c.epub": b"PK\3\4" + bytes(90),
        "d.parquet": parquet({"text": [text(91)]})[:-CUT],
        "e.warc.gz": gzip.compress(warc)[:-4],
        "f.warc": warc,
        "g.txt": b"\xff\xfe\0",
        "h.md": text(92).encode()[:99] + b"\0" + text(92).encode(),
    }
    for name, data in damaged.items():
        put(folder, name, data)
    return Planted(kept=kept, said=[name for name in damaged if name != "g.txt"])


def odd_field_names(folder: Path, size: int) -> Planted:
    rows = [[f"#{number}", text(number).replace("\n", " "), "x"] for number in range(9)]
    put(folder, "Export (1).csv", table(["Nr.", "Nachricht / Text", "Ä%"], rows, ";"))
    nested = [json.dumps({"id": number, "pay load": {"körper": text(number)}}) for number in range(9, 18)]
    put(folder, "dump.jsonl", "\n".join(nested))
    put(folder, "t.parquet", parquet({"本文": [text(number) for number in range(18, 24)], "番号": list("abcdef")}))
    return Planted(kept=range(24), said=["Nachricht / Text", "körper", "本文"])


def tables_that_differ(folder: Path, size: int) -> Planted:
    put(folder, "a.csv", table(["body", "n"], [[text(number), "1"] for number in range(6)]))
    put(folder, "b.tsv", table(["n", "story"], [["2", text(number)] for number in range(6, 12)], "\t"))
    put(folder, "prices.csv", table(["item", "price"], [[f"{n}", f"{n * 3}.50"] for n in range(40)]))
    return Planted(kept=range(12), said=["Not read: 1 file"])


def duplicates(folder: Path, size: int) -> Planted:
    texts(folder, range(12))
    for copy in range(8):
        put(folder, f"copy of ({copy})/text-3.txt", text(3))
    put(folder, "text-4 (edited).txt", text(4) + "One more line that somebody added later.\n")
    return Planted(kept=range(12), said=["exact duplicate", "near duplicate"])


def empty_files(folder: Path, size: int) -> Planted:
    for number in range(5):
        put(folder, f"empty-{number}.txt", "")
    put(folder, "blank.md", " \n\n\t")
    put(folder, "nothing.jsonl", "")
    return Planted(kept=texts(folder, range(10)), said=["Empty: 6 files", "parse: empty"])


NAMES = (
    *(
        "文件 一.txt",
        "ملف.txt",
        "🎉 party.txt",
        "two\nlines.txt",
        "tab\there.txt",
        "bell\a\x1b[31m.txt",
        "\u202egnp.txt",
    ),
    *("quote\"s'.txt", "back\\slash.txt", "{braces}.txt", "[markup].txt", "$(x) `y`.txt", "-n.txt", " .txt", "%s.TXT"),
    *("e\u0301.txt", "\u00e9.txt", "x" * 251 + ".txt", "a#b?c*d.txt", "name\r.txt"),
)


def names(folder: Path, size: int) -> Planted:
    for number, name in enumerate(NAMES):
        put(folder, name, text(number))
    put(folder, "bad\x1b[31m\n.docx", b"PK")
    return Planted(kept=range(len(NAMES)), said=["bad\ufffd[31m .docx"])


def names_that_are_not_utf8(folder: Path, size: int) -> Planted:
    kept = texts(folder, range(6))
    for number, name in enumerate((b"caf\xe9.txt", b"d\xfcnn/\xff\xfe.txt", b"caf\xe9.jsonl", b"\xa4.parquet"), 6):
        data = text(number).encode()
        if name.endswith(b"jsonl"):
            data = lines([number]).encode()
        elif name.endswith(b"parquet"):
            data = parquet({"text": [text(number)]})
        put(folder, os.fsdecode(name), data)
    put(folder, os.fsdecode(b"kaputt\xe9.txt.gz"), gzip.compress(text(60).encode())[:-CUT])
    put(folder, os.fsdecode(b"fig\xe9.png"), b"\x89PNG")
    return Planted(kept=[*kept, 6, 7, 8, 9], said=[r"kaputt\xe9.txt.gz", "Not read: 1 file"])


def links(folder: Path, size: int) -> Planted:
    kept = texts(folder, range(8))
    outside = put(folder.parent, f"{folder.name} outside/far.txt", text(8))
    (folder / "out.txt").symlink_to(outside)
    (folder / "broken.txt").symlink_to("nowhere.txt")
    (folder / "loop-a.txt").symlink_to("loop-b.txt")
    (folder / "loop-b.txt").symlink_to("loop-a.txt")
    (folder / "long.txt").symlink_to("y" * 300)
    (folder / "up").symlink_to("..")
    (folder / "self").symlink_to(".")
    said = ["3 dangling links", "1 file whose path is too long", "broken.txt", "Not read: 6 files"]
    return Planted(kept=[*kept, 8], said=said)


def pipes_and_sockets(folder: Path, size: int) -> Planted:
    os.mkfifo(folder / "pipe.txt")
    here = os.open(folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:  # its address may have 108 bytes
        listener.bind(f"/proc/self/fd/{here}/socket.txt")
    os.close(here)
    return Planted(kept=texts(folder, range(8)), said=["Not read: 2 files"])


def closed_files(folder: Path, size: int) -> Planted:
    kept = texts(folder, range(8))
    put(folder, "secret.txt", text(8)).chmod(0)
    put(folder, "closed/in.txt", text(9))
    (folder / "closed").chmod(0)
    if os.access(folder / "secret.txt", os.R_OK):  # this user may read everything
        return Planted(kept=[*kept, 8, 9])
    return Planted(kept=kept, said=["1 file without permission (secret.txt)", "1 unreadable folder (closed)"])


def many_tiny_files(folder: Path, size: int) -> Planted:
    for number in range(size):
        put(folder, f"{number // 1000}/{number}.txt", text(number, 2))
    return Planted(kept=range(size), fitted="short texts")


def one_large_file(folder: Path, size: int) -> Planted:
    with (folder / "all.jsonl").open("w", encoding="utf-8") as sink:
        sink.writelines(lines([number]) for number in range(size))
    return Planted(kept=range(size))


def encodings(folder: Path, size: int) -> Planted:
    for number in range(12):
        codec = ("cp1252", "utf-16", "utf-8-sig", "utf-32")[number % 4]
        put(folder, f"{number}.txt", text(number, language="de").replace("\n", "\r\n").encode(codec))
    return Planted(kept=range(12))


def damaged_lines(folder: Path, size: int) -> Planted:
    """Of 34 lines, three are damaged: more than one in a hundred."""
    whole = lines(range(31)).splitlines(keepends=True)
    put(folder, "log.jsonl", "".join([*whole[:9], '{"text": "cut of\n', *whole[9:20], "[1, 2]\n", *whole[20:], "{\n"]))
    return Planted(kept=range(31), said=["3 records are damaged", "log.jsonl: bytes"])


def ragged_tables(folder: Path, size: int) -> Planted:
    good = table(["id", "text"], [[f"{number}", text(number)] for number in range(12)])
    put(folder, "a.csv", good)
    put(folder, "open.csv", table(["id", "text"], [["1", text(40)]]) + '2,"never closed\n')
    put(folder, "short.csv", table(["id", "text"], [["1", text(12)], ["2"], ["3", text(13), "more", "fields"]]))
    return Planted(kept=range(13), said=["open.csv", "records are damaged"])


def saved_pages(folder: Path, size: int) -> Planted:
    for number in range(10):
        put(folder, f"page {number}.html", page(text(number)))
        put(folder, f"page {number}_files/style.css", "body { color: red }")
        put(folder, f"page {number}_files/logo.png", b"\x89PNG\r\n\x1a\n")
    return Planted(kept=range(10), said=["Not read: 20 files"])


def source_code(folder: Path, size: int) -> Planted:
    for number in range(10):
        put(folder, f"package{number}/README.md", f"# Package {number}\n\n{text(number)}")
        put(folder, f"package{number}/main.py", "print(1)\n" * 20)
        put(folder, f"package{number}/Makefile", "all:\n\techo\n")
    return Planted(kept=range(10), said=["Not read: 20 files"])


def log_lines(folder: Path, size: int) -> Planted:
    for number in range(10):
        rows = [
            f"10:{n:02d}:{number} INFO [w{n}] {mark(number) if not n else 'took'} {n * (number + 1)}ms"
            for n in range(60)
        ]
        put(folder, f"{number}.txt", "\n".join(rows))
    return Planted(kept=range(10), fitted="rules switched off")


def endings(folder: Path, size: int) -> Planted:
    """Endings in capitals, doubled, unknown and missing."""
    for number, name in enumerate(("A.TXT", "b.Md", "c.JSONL", "d.HTML", "e.tar.txt", "f.txt.GZ", ".txt")):
        data = {2: lines([number]), 3: page(text(number))}.get(number, text(number)).encode()
        put(folder, name, gzip.compress(data) if name.endswith("GZ") else data)
    for name in ("README", "x.dat", "y.log1", "z."):
        put(folder, name, text(50))
    return Planted(kept=range(7), said=["Not read: 4 files"])


def office(folder: Path, size: int) -> Planted:
    for number in range(8):
        put(folder, f"report {number}.docx", docx(text(number)))
    put(folder, "~$report 1.docx", b"\x06owner" + bytes(150))
    put(folder, "locked.docx", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600))
    return Planted(kept=range(8), said=["1 record is encrypted", "locked.docx"])


def odd_parquet(folder: Path, size: int) -> Planted:
    put(folder, "a.parquet", parquet({"text": [text(number) for number in range(10)]}))
    column = pa.array([text(10).encode(), b"\xff\xfe", text(11).encode()]).cast(pa.binary()).view(pa.string())
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": column}), sink)
    put(folder, "b.parquet", sink.getvalue())
    return Planted(kept=range(12), said=["1 record is damaged", "b.parquet"])


def a_store_inside(folder: Path, size: int) -> Planted:
    """A folder in which somebody ran before: what is in its store is no input."""
    put(folder, "store/runs/20260101T000000000000-old/run.json", "{}")
    put(folder, "store/corpora/old/part.txt", text(70))
    return Planted(kept=texts(folder, range(8)))


def other_archives(folder: Path, size: int) -> Planted:
    for name in ("a.7z", "b.rar", "c.tar", "d.tar.gz", "e.iso"):
        put(folder, name, b"7z\xbc\xaf'\x1c" + bytes(100))
    return Planted(kept=texts(folder, range(8)), said=["Not read: 5 files"])


def too_large(folder: Path, size: int) -> Planted:
    put(folder, "long.txt", text(50) * 40)
    put(folder, "lines.jsonl", lines(range(8, 12)) + json.dumps({"text": text(51) * 40}) + "\n")
    return Planted(
        kept=[*texts(folder, range(8)), *range(8, 12)],
        said=["2 records are too large", "long.txt", "lines.jsonl"],
        overrides=["source.max_record_bytes=20000"],
    )


def line_ends(folder: Path, size: int) -> Planted:
    """Files of Windows, of old Macintosh, without an end, and with zero-width signs."""
    for number, end in enumerate(("\r\n", "\r", "\n\n\n", "\u2028\n")):
        put(folder, f"{number}.txt", text(number).replace("\n", end))
    put(folder, "4.txt", text(4).rstrip())
    put(folder, "5.jsonl", lines(range(5, 9)).replace("\n", "\r\n\r\n").rstrip())
    return Planted(kept=range(9))


def broken_among_few(folder: Path, size: int) -> Planted:
    """Of three files, one can be read to its end, one is cut and one is empty."""
    put(folder, "cut.txt.xz", lzma.compress(text(50).encode())[:-CUT])
    put(folder, "empty.txt", "")
    return Planted(kept=texts(folder, [1]), said=["cut.txt.xz", "Empty: 1 file"])


KINDS: dict[str, Callable[[Path, int], Planted]] = {
    maker.__name__: maker
    for maker in (
        *(deep_tree, four_languages, one_in_twenty_broken, cut_and_whole_packings, damaged_formats),
        *(odd_field_names, tables_that_differ, duplicates, empty_files, names, names_that_are_not_utf8, links),
        *(pipes_and_sockets, closed_files, many_tiny_files, one_large_file, encodings, damaged_lines, ragged_tables),
        *(saved_pages, source_code, log_lines, endings, office, odd_parquet, a_store_inside, other_archives),
        *(too_large, line_ends, broken_among_few),
    )
}
