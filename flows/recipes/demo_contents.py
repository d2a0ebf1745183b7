"""The contents of the shipped samples, published with the program: a demo elsewhere can check that it got the same.

`shipped/demo.contents.json` holds, for each shipped source, the contents of its documents and of its dropped rows.
`python -m flows.recipes.demo_contents STORE` writes it again from a store in which the demo has run.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import list_manifests

FILE = "demo.contents.json"
OWN_DOCS = "python-docs"  # differ from one Python installation to the next

Contents = Mapping[str, Mapping[str, str]]  # source -> table -> content


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleComparison:
    """Contents of one shipped source, published and built; `differ` names the tables that are not equal."""

    source: str
    documents: int
    content: str
    differ: tuple[str, ...]


def contents_of(documents: Iterable[Manifest]) -> dict[str, dict[str, str]]:
    """Return the contents of the documents of all shipped sources."""
    shipped = sorted((m for m in documents if m.name != OWN_DOCS), key=lambda manifest: manifest.name)
    return {m.name: {table: str(content) for table, content in m.tables.items()} for m in shipped}


def shipped_contents() -> Contents:
    """Return the contents that come with the program."""
    contents: Contents = json.loads((files("flows.recipes") / "shipped" / FILE).read_text(encoding="utf-8"))
    return contents


def compare_contents(documents: Iterable[Manifest], published: Contents) -> list[SampleComparison]:
    """Compare each published source with what a run made of it."""
    built = contents_of(documents)
    return [
        SampleComparison(
            source=source,
            documents=int(tables["documents"].partition(".")[0]),
            content=built.get(source, {}).get("documents", "nothing"),
            differ=tuple(table for table in tables if built.get(source, {}).get(table) != tables[table]),
        )
        for source, tables in published.items()
    ]


def main(arguments: list[str]) -> None:
    """Write the published contents from the documents of a store."""
    place = Place(arguments[0])
    names = sorted({path.split("/")[1] for path in place.list_files("documents")})
    manifests = [manifest for name in names for manifest in list_manifests(place, "documents", name)]
    text = json.dumps(contents_of(manifests), indent=1) + "\n"
    (Path(__file__).parent / "shipped" / FILE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
