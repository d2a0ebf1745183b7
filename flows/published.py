"""What the shipped samples turn into, as published with the program: a demo elsewhere can say that it got the same.

`recipes/demo.contents.json` holds, for each shipped source, the contents of its documents and of its dropped rows.
`python -m flows.published STORE` writes it anew from a store in which the demo has run.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from corpora.store.manifest import Manifest
from flows.addresses import find_artifacts

FILE = "demo.contents.json"
OWN_DOCS = "python-docs"  # differ from one Python installation to the next

Contents = Mapping[str, Mapping[str, str]]  # source -> table -> content


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Contents of one shipped source, published and found; `differ` names the tables that are not equal."""

    source: str
    documents: int
    content: str
    differ: tuple[str, ...]


def contents_of(documents: Iterable[Manifest]) -> dict[str, dict[str, str]]:
    """The contents of the documents of all shipped sources."""
    shipped = sorted((m for m in documents if m.name != OWN_DOCS), key=lambda manifest: manifest.name)
    return {m.name: {table: str(content) for table, content in m.tables.items()} for m in shipped}


def published() -> Contents:
    """The contents that come with the program."""
    contents: Contents = json.loads((files("flows") / "recipes" / FILE).read_text(encoding="utf-8"))
    return contents


def compare(documents: Iterable[Manifest], known: Contents) -> list[Comparison]:
    """Each source that is published, against what a run made of it."""
    found = contents_of(documents)
    return [
        Comparison(
            source=source,
            documents=int(tables["documents"].partition(".")[0]),
            content=found.get(source, {}).get("documents", "nothing"),
            differ=tuple(table for table in tables if found.get(source, {}).get(table) != tables[table]),
        )
        for source, tables in known.items()
    ]


def main(arguments: list[str]) -> None:
    """Write the published contents from the documents of a store."""
    manifests = [artifact.manifest for artifact in find_artifacts(arguments[0], "documents")]
    text = json.dumps(contents_of(manifests), indent=1) + "\n"
    Path(__file__).with_name("recipes").joinpath(FILE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
