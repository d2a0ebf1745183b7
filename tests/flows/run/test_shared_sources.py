"""Real samples of all five sources, from raw file to shards: the ledger against counts taken by other means.

The counts come from the standard library's readers and regular expressions over decompressed bytes, which share no code
with the sources.
"""

import bz2
import gzip
import io
import lzma
import re
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from small_recipe import Run, run_lock

from corpora.sources.contract import StatCache
from corpora.store.places.place import Place
from corpora.store.tables import read_table
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import parse_recipe
from flows.run.record.ledger_balance import build_accounts

pytestmark = [pytest.mark.slow, pytest.mark.long]

RECIPE = """
store = "{store}"
source = [
    {{ kind = "wikipedia", path = "{sample}/wikipedia/enwiki-sample-pages-articles-multistream.xml.bz2" }},
    {{ kind = "bookcorpus", path = "{sample}/books" }},
    {{ kind = "cc-news", path = "{sample}/cc-news/warc" }},
    {{ kind = "openwebtext", path = "{sample}/openwebtext/openwebtext.tar.xz" }},
    {{ kind = "stories", path = "{sample}/stories/common-crawl-text/*.jsonl*" }},
]
vocabulary = [
    {{ name = "wordpiece", size = 4000 }},
    {{ name = "byte-bpe", algorithm = "byte-bpe", size = 4000 }},
]
shards = [
    {{ name = "bert", vocabulary = "wordpiece" }},
    {{ name = "roberta", vocabulary = "byte-bpe", input = "full-sentences", length = 512 }},
]
"""


@pytest.fixture(scope="module")
def sample(shared: Path) -> Path:
    return shared / "data" / "sample"


@pytest.fixture(scope="module")
def finished(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("five")
    recipe = parse_recipe(RECIPE.format(store=folder / "store", sample=sample), folder / "five.toml", {})
    return run_lock(Place(recipe.store), recipe, resolve_raw_files(recipe, Lock(), StatCache()).lock)


def warc_types(sample: Path) -> Counter[str]:
    """Records of the archives by type: a header line of each."""
    data = b"".join(gzip.decompress(path.read_bytes()) for path in (sample / "cc-news" / "warc").glob("*.warc.gz"))
    return Counter(kind.decode() for kind in re.findall(rb"^WARC-Type: (\w+)\r\n", data, re.MULTILINE))


def subset_pages(sample: Path) -> list[bytes]:
    """The pages of OpenWebText: members of the tars inside of the tar."""
    pages = []
    with tarfile.open(sample / "openwebtext" / "openwebtext.tar.xz") as outer:
        for subset in filter(tarfile.TarInfo.isfile, outer):
            with tarfile.open(fileobj=io.BytesIO(lzma.decompress(outer.extractfile(subset).read()))) as inner:  # type: ignore[union-attr]
                pages += [inner.extractfile(page).read() for page in inner if page.isfile()]  # type: ignore[union-attr]
    return pages


def lines_of(path: Path) -> int:
    data = path.read_bytes()
    return len((gzip.decompress(data) if path.suffix == ".gz" else data).splitlines())


def test_every_record_of_every_source_is_accounted_for(sample: Path, finished: Run) -> None:
    """Fails if a source loses a record, finds one twice, or calls a document what its markup does not."""
    dump = bz2.decompress((sample / "wikipedia/enwiki-sample-pages-articles-multistream.xml.bz2").read_bytes())
    books = [path for path in (sample / "books").rglob("*") if path.suffix in (".txt", ".epub")]
    stories = (sample / "stories" / "common-crawl-text").glob("*.jsonl*")
    types, pages = warc_types(sample), subset_pages(sample)
    assert (types["response"], types["warcinfo"], len(pages)) == (68 + 6, 2, 240)
    assert Counter(path.suffix for path in books) == {".txt": 12, ".epub": 1}
    counted = {
        "wikipedia": dump.count(b"<page>"),
        "bookcorpus": len(books),
        "cc-news": types.total(),
        "openwebtext": len(pages),
        "stories": sum(map(lines_of, stories)),
    }
    ledgers = {name: manifest.ledger for name, manifest in finished.documents().items()}
    assert {name: ledger.find_account("records").total for name, ledger in ledgers.items()} == counted
    assert ledgers["cc-news"].find_account("records").outcomes["dropped: parse: not a page: warcinfo"] == 2
    assert all(ledger.figures["damaged records"] == 0 for ledger in ledgers.values())
    assert build_accounts(finished.manifests).balances
    kept = {name: ledger.find_account("records").outcomes["documents"] for name, ledger in ledgers.items()}
    assert kept["bookcorpus"] == 13 and kept["openwebtext"] > 225 and kept["cc-news"] > 65 and kept["stories"] > 15


def test_editions_of_one_book_are_one_document(finished: Run) -> None:
    """Fails if the epub and the txt of one book, or an older edition next to a newer, both stay."""
    live = [document for document in finished.corpus.iter_documents() if document.source == "bookcorpus"]
    titles = Counter(document.title for document in live)
    assert titles["The War of the Worlds"] == 1 and max(titles.values()) == 1
    removed = [
        row for batch in read_table(finished.place, finished.outcome.corpus, "removed") for row in batch.to_pylist()
    ]
    assert len(live) + sum(row["source"] == "bookcorpus" for row in removed) == 13
