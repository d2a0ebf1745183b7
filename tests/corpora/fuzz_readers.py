"""How fuzzed inputs are read: each function reads bytes as one source or parser would, and counts what it found."""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from fuzzing import read_all

from corpora.acquire import publishers as catalogues
from corpora.judging.steps.contamination import EvaluationSet, read_items
from corpora.sources.contract import Source
from corpora.sources.python_docs import PythonDocsSource
from corpora.sources.registry import make_source
from corpora.sources.wiki.wikitext.prose import wikitext_to_text

ROOT = Path(__file__).parents[2]
INDEX_FOLLOWS = b"\n==INDEX==\n"  # in an input of two files


@dataclass(frozen=True, eq=False)
class RawFileReader:
    """Reads an input as a raw file of this name of a source of this kind."""

    name: str
    table: dict[str, Any]

    def source(self, path: Path) -> Source:
        """Return the source that reads what is at a path."""
        return make_source({"name": "fuzzed", "path": str(path), **self.table})

    def __call__(self, data: bytes, folder: Path) -> int:
        path = folder / self.name
        path.write_bytes(data)
        source = self.source(path)
        return read_all(source, data, source.files())


def reads(name: str, **table: Any) -> RawFileReader:
    """Return the reader of a raw file of this name, and of a source with this table."""
    return RawFileReader(name, table)


def reads_indexed(data: bytes, folder: Path) -> int:
    """Reads an input as a multistream dump and, after the mark, its index."""
    dump, _, index = data.partition(INDEX_FOLLOWS)
    (folder / "a-20260101-pages-articles-multistream.xml.bz2").write_bytes(dump)
    (folder / "a-20260101-pages-articles-multistream-index.txt.bz2").write_bytes(index)
    source = make_source({"kind": "wikipedia", "name": "fuzzed", "path": str(folder)})
    return read_all(source, dump, source.files())


def reads_wikitext(data: bytes, folder: Path) -> int:
    """Reads wikitext alone, without a dump around it."""
    return bool(wikitext_to_text(data.decode("utf-8", "replace")).encode().strip())


def reads_module(inner: str, data: bytes, folder: Path) -> int:
    """Reads an input as a module, or a package's description, of Python's documentation."""
    path = folder / Path(inner).name
    path.write_bytes(data)
    return read_all(PythonDocsSource(), data, [(inner, path)])


def example_source() -> Any:
    """The example of a source of one's own."""
    path = ROOT / "examples" / "mbox_source" / "mbox_source.py"
    spec = importlib.util.spec_from_file_location("mbox_source_fuzzed", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MboxSource


def reads_mail(source_class: Any, data: bytes, folder: Path) -> int:
    """Reads an input as a mail archive."""
    path = folder / "a.mbox"
    path.write_bytes(data)
    source = source_class(name="fuzzed", path=str(path))
    return read_all(source, data, source.files())


def reads_items(ending: str, data: bytes, folder: Path, fields: tuple[str, ...] = ()) -> int:
    """Reads an input as a set of evaluation items."""
    path = folder / f"items{ending}"
    path.write_bytes(data)
    items = list(read_items(EvaluationSet(path=str(path), fields=fields)))
    pa.array([item.text for item in items], pa.large_string()).validate(full=True)
    return len(items)


def reads_catalogue(data: bytes, folder: Path) -> int:
    """Reads an input as every page and list that publishers write: a status, a listing, digests, addresses."""
    what, _, rest = data.partition(b"\n")
    found = len(catalogues.find_dump_dates(rest)) + len(catalogues.find_news_years(rest))
    if what == b"status":
        files = catalogues.list_dump_files(rest, "testwiki", "20261101")
        return len(catalogues.select_first_files(files, 1))
    if what == b"news":
        return len(catalogues.list_news_files(rest, "2026-01"))
    if what == b"texts":
        return len(catalogues.list_text_files(rest, "CC-MAIN-2026-04"))
    return found if what == b"pages" else len(catalogues.parse_addresses(catalogues.split_list(rest, "it"), "it"))
