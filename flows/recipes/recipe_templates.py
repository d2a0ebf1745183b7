"""`cloze new`: a recipe to start from.

Its rules suit a kind of text (`templates/`), or it is that of a published model, from sources to weights, with the
numbers of the paper or the authors (`published/`).

The contents of the demo's samples: `shipped/demo.contents.json` has the contents of the documents and dropped rows of
each shipped source, so that a demo elsewhere can check that it got the same. `python -m flows.recipes.recipe_templates
STORE` writes the file from a store in which the demo has run.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.settings import check_choice
from corpora.store.stage import list_manifests
from flows.recipes.tables import read_recipe_texts

TRAINING_TEXT = """
# With enough text, a model; then what it is for. Take the comment signs away.
# [model]
# family = "modernbert"
# size = "mini"                   # 4 layers of 256; also tiny, small, base, large
# initializer_range = 0.035       # 0.02 * sqrt(768 / 256): narrow models learn sooner with wider first weights
#
# [training]
# learning_rate = 1e-3            # 2e-3 at 128 and below, 5e-4 from 512 on
# warmup_share = 0.06
# beta2 = 0.98
#
# [[training.phase]]
# steps = 10_000
# batch = 64
"""
TASK_TEXT = """
# What the model is for, once there are labelled files (TSV, CSV, JSON lines or Parquet, with columns text and label):
# it is fine-tuned from each seed, judged, and answers the documents that are new. A run that crosses no bound is
# released: encoder, tokenizer and fine-tuned models under one name.
# [[task]]
# name = "labels"
# task = "classes"                # or tags, similarity, retrieval, span, ...; or a published set such as "glue/sst2"
# train = "labelled/train.tsv"
# evaluate = "labelled/dev.tsv"
# seeds = [1, 2, 3]
# answers = "predict"
#
# [bounds]
# "task labels: gain in accuracy" = { min = 0.1 }     # over the most frequent class
# "task labels: accuracy" = { worse = 0.05 }          # than what is released, by a paired test
#
# [release]
# name = "prod"
"""
RECIPE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def read_templates() -> dict[str, str]:
    """Read the recipe templates for kinds of text. Returns TOML texts by name, with the placeholder `{name}`."""
    return read_recipe_texts("templates")


def read_published_recipes() -> dict[str, str]:
    """Read the recipes of published models. Returns TOML texts by model name, with the placeholder `{name}`."""
    return read_recipe_texts("published")


def read_template_tables(template: str) -> dict[str, Any]:
    """Parse a recipe template and return its tables, as `tomllib` reads them.

    Args:
        template: Name of the template, such as "legal".

    Raises:
        KeyError: If there is no such template.
    """
    return tomllib.loads(read_templates()[template].format(name=template))


def write_new_recipe(name: str, template: str, folder: Path) -> Path:
    """Write a new recipe to `folder`/NAME.toml and return the path of the file.

    Args:
        name: Name of the recipe: letters, digits, "-" and "_", beginning with a letter or digit.
        template: Name of a template or of a published model.
        folder: Existing folder in which the file is written.

    Raises:
        InputError: If the name or template is not valid, or the file exists or cannot be written.
    """
    texts = read_templates() | read_published_recipes()
    check_choice("--template", template, tuple(texts))
    if not RECIPE_NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot name a recipe: use letters, digits, - and _, as in `cloze new tickets-2026`."
        )
    path = folder / f"{name}.toml"
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(
                texts[template].format(name=name)
                + ("" if template in read_published_recipes() else TRAINING_TEXT)
                + TASK_TEXT
            )
    except FileExistsError as error:
        raise InputError(
            f"{path} is there already, and is left as it is. Choose another name, or remove it."
        ) from error
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {error.strerror}. Run the command in a folder that you may write."
        ) from error
    return path


def describe_next_steps(recipe: Path, template: str) -> str:
    """Build a multi-line message that tells the user how to proceed with a recipe created from a template.

    Args:
        recipe: Path of the new recipe.
        template: Name of the template or published model that it was created from.
    """
    if template in read_published_recipes():
        fetch = f"  cloze fetch {recipe.name}\n" if "\nfetch = " in read_published_recipes()[template] else ""
        return (
            f"{recipe.name}: its comments say what to bring under raw/, what is fetched, and whose each number is:\n"
            f"{fetch}  cloze plan {recipe.name}\n  cloze run {recipe.name}"
        )
    return (
        f"{recipe.name}: put raw files under raw/{recipe.stem}, then look before you build:\n"
        f"  cloze preview {recipe.stem} --recipe {recipe.name}\n  cloze run {recipe.name}"
    )


CONTENTS_FILE = "demo.contents.json"
OWN_DOCS = "python-docs"  # differ from one Python installation to the next

Contents = Mapping[str, Mapping[str, str]]  # source -> table -> content


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleComparison:
    """A comparison of the documents that a run parsed from a built-in source with the published documents.

    Attributes:
        source: Name of the source.
        documents: Number of published documents.
        content: Content digest of the run's documents; "nothing" if there are none.
        differing_tables: Names of the tables that differ.
    """

    source: str
    documents: int
    content: str
    differing_tables: tuple[str, ...]


def collect_contents(documents: Iterable[Manifest]) -> dict[str, dict[str, str]]:
    """Return the content digests of parsed documents, as {source name: {table name: digest}}.

    Documentation of the local Python installation is omitted, because it differs between installations.

    Args:
        documents: Descriptions (manifests) of the parsed documents, one per source.
    """
    shipped = sorted((m for m in documents if m.name != OWN_DOCS), key=lambda manifest: manifest.name)
    return {m.name: {table: str(content) for table, content in m.tables.items()} for m in shipped}


def read_shipped_contents() -> Contents:
    """Read the published content digests of the built-in sources, as {source name: {table name: digest}}."""
    contents: Contents = json.loads((files("flows.recipes") / "shipped" / CONTENTS_FILE).read_text(encoding="utf-8"))
    return contents


def compare_contents(documents: Iterable[Manifest], published: Contents) -> list[SampleComparison]:
    """Compare the documents that a run parsed with the published digests, with one comparison per published source.

    Args:
        documents: Descriptions (manifests) of the parsed documents, one per source.
        published: Digests as {source name: {table name: digest}}.
    """
    built = collect_contents(documents)
    return [
        SampleComparison(
            source=source,
            documents=int(tables["documents"].partition(".")[0]),
            content=built.get(source, {}).get("documents", "nothing"),
            differing_tables=tuple(table for table in tables if built.get(source, {}).get(table) != tables[table]),
        )
        for source, tables in published.items()
    ]


def main(arguments: list[str]) -> None:
    """Update the file of published content digests from a store. Its address is the only argument."""
    place = Place(arguments[0])
    names = sorted({path.split("/")[1] for path in place.list_files("documents")})
    manifests = [manifest for name in names for manifest in list_manifests(place, "documents", name)]
    text = json.dumps(collect_contents(manifests), indent=1) + "\n"
    (Path(__file__).parent / "shipped" / CONTENTS_FILE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
