"""Raw files for the recipes of the table: a folder of every form, made here; and a server that has some."""

import gzip
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from small_recipe import keyed_note, prose

from flows.recipes.tables import resolve_path

DOCUMENTS = 40
DUMP = "samplewiki-20260101-pages-articles-multistream"
NEWS = "CC-NEWS-20260103000000-00000.warc.gz"
STEP = """
from dataclasses import dataclass
from typing import ClassVar

from corpora.judging.steps.added import Applied


@dataclass(frozen=True, slots=True, kw_only=True)
class Shouting:
    kind: ClassVar[str] = "shouting"
    version: ClassVar[int] = 1

    def apply(self, texts, records):
        return Applied(texts, [None] * len(texts))
"""
MADE = ("boat", "clock", "bell")
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,"
INNER = tuple(f"##{letter}" for letter in LETTERS)


def put_raw_files(folder: Path) -> None:
    """All of them, and the package of a step of one's own."""
    forms = {
        "raw/notes/notes.jsonl": _lines(range(DOCUMENTS)),
        "raw/stories/one.txt": prose(301, 12) + "\n\n" + prose(302, 12),
        "raw/stories/two.txt": prose(303, 12) + "\n\n" + prose(304, 12),
        **{f"raw/texts/{n}.txt": prose(370 + n, 20) for n in range(8)},
        "raw/tables/letters.csv": "title;text\n" + "".join(f"'{n}; caf\xe9';'{prose(310 + n)}'\n" for n in range(8)),
        "raw/xml/own7.xml": _elements("notes", [_note(n) for n in range(6)]),
        "raw/xml/pubmed26n0001.xml": _elements("PubmedArticleSet", [_pubmed(n) for n in range(6)]),
        "raw/xml/article.nxml": _article(),
        "raw/xml/patent.xml": _patent(),
        "items.jsonl": json.dumps({"question": prose(3, 1)}) + "\n",
        "answers.txt": f"{prose(4, 1)}\n{prose(900, 1)}\n",
        "questions.txt": f"{prose(5, 1)}\n{prose(6, 1)}\n",
        "brought/vocab.txt": "".join(f"{piece}\n" for piece in (*SPECIALS, *LETTERS, *INNER, "the", "and")),
        "packages/shouting.py": STEP,
        "packages/shouting-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n",
        "packages/shouting-1.0.dist-info/entry_points.txt": "[cloze.steps]\nshouting = shouting:Shouting\n",
    }  # fmt: skip
    for name, text in forms.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode("windows-1252" if name.endswith(".csv") else "utf-8"))


def put_labelled_files(folder: Path) -> None:
    """Sentences with labels, as `cloze new` proposes them: is a thing in it that was made?"""
    folder.mkdir(parents=True)
    for name, numbers in (("train", range(500, 564)), ("dev", range(564, 628))):
        texts = [prose(number, 1) for number in numbers]
        lines = [f"{text}\t{'yes' if any(thing in text for thing in MADE) else 'no'}\n" for text in texts]
        (folder / f"{name}.tsv").write_text("".join(["text\tlabel\n", *lines]))


def put_rows(folder: Path, fields: Mapping[str, str]) -> str:
    """Rows that have the columns of these fields, twelve in a file; the folder."""
    folder.mkdir(parents=True)
    values = {"text": prose, "date": "2026-01-{:02}".format, "group": "group {}".format}
    rows = [
        {column: values.get(field, "{}".format)(number) for field, column in fields.items()} for number in range(1, 13)
    ]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(folder)


def _lines(numbers: Sequence[int]) -> str:
    return "".join(
        json.dumps(keyed_note(number, prose(number), author=f"author {number % 7}")) + "\n" for number in numbers
    )


def _elements(root: str, inner: Sequence[str]) -> str:
    return f"<{root}>{''.join(inner)}</{root}>\n"


def _note(number: int) -> str:
    return f'<note id="{number}"><body><p>{prose(320 + number)}</p></body></note>'


def _pubmed(number: int) -> str:
    abstract = f"<Abstract><AbstractText>{prose(330 + number)}</AbstractText></Abstract>"
    article = f"<ArticleTitle>Number {number}</ArticleTitle>{abstract}"
    citation = f'<PMID Version="1">{number + 1}</PMID><Article>{article}</Article>'
    return f"<PubmedArticle><MedlineCitation>{citation}</MedlineCitation></PubmedArticle>"


def _article() -> str:
    meta = (
        '<article-id pub-id-type="doi">10.1/a</article-id><title-group><article-title>A</article-title></title-group>'
    )
    return f"<article><front><article-meta>{meta}</article-meta></front><body><p>{prose(340)}</p></body></article>\n"


def _patent() -> str:
    published = "<publication-reference><document-id><doc-number>7</doc-number></document-id></publication-reference>"
    inner = f"{published}<invention-title>A boat</invention-title>"
    data = f"<us-bibliographic-data-grant>{inner}</us-bibliographic-data-grant>"
    return f"<us-patent-grant>{data}<description><p>{prose(350)}</p></description></us-patent-grant>\n"


@contextmanager
def publisher(folder: Path) -> Iterator[str]:
    """The address of a server that has a dump, a month of news, a crawl and a file, for the time of the block."""
    _put_published(folder)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *values: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _put_published(folder: Path) -> None:
    dump, news, crawl = "samplewiki/20260101", "crawl-data/CC-NEWS/2026/01", "crawl-data/CC-MAIN-2026-05"
    wet = f"{crawl}/segments/1/wet/a.wet.gz"
    for below in (dump, news, wet.rpartition("/")[0]):
        (folder / below).mkdir(parents=True)
    names = [f"{DUMP}.xml.bz2", f"{DUMP}-index.txt.bz2"]
    for name in names:
        shutil.copy(resolve_path(f"sample:wikipedia/{name}", folder), folder / dump / name)
    jobs = {"articlesmultistreamdump": {"status": "done", "files": {name: {} for name in names}}}
    (folder / dump / "dumpstatus.json").write_text(json.dumps({"jobs": jobs}))
    shutil.copy(resolve_path(f"sample:cc_news/{NEWS}", folder), folder / news / NEWS)
    (folder / news / "warc.paths.gz").write_bytes(gzip.compress(f"{news}/{NEWS}\n".encode()))
    (folder / wet).write_bytes(b"".join(_wet(f"https://a.example/{n}", prose(360 + n)) for n in range(4)))
    (folder / crawl / "wet.paths.gz").write_bytes(gzip.compress(f"{wet}\n".encode()))
    (folder / "notes.jsonl").write_text(_lines(range(400, 410)))
    (folder / "listed.jsonl").write_text(_lines(range(410, 420)))


def _wet(address: str, text: str) -> bytes:
    """A record of a WET file."""
    head = {"WARC-Type": "conversion", "WARC-Target-URI": address, "WARC-Date": "2026-01-03T00:00:00Z",
            "WARC-Record-ID": f"<urn:{address}>", "Content-Type": "text/plain",
            "Content-Length": str(len(text))}  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return gzip.compress(f"WARC/1.0\r\n{lines}\r\n{text}\r\n\r\n".encode())
