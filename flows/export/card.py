"""The data card: README.md, whose head `datasets` and Hugging Face's hub read, and whose text is for people.

Promise: every number comes from a ledger, a manifest, the run's record or the rows that were written; no clock is
asked. Names and texts from outside are shown as they are and act on nothing (`markdown.py`).
"""

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from flows.export import sections
from flows.export.examples import opening, training
from flows.export.exported import Exported
from flows.export.licenses import license_tags
from flows.export.markdown import code, fenced, plain, table, yaml_lines
from flows.run.accounts import readable_bytes
from flows.run.units import counted

_LANGUAGE = re.compile("[a-z]{2,3}")


def card(content: Exported) -> str:
    """The card of an export."""
    return "\n".join([*head(content), *body(content)])


def head(content: Exported) -> list[str]:
    """What programs read: splits and their files, features, licences, languages."""
    stated = {name for counts in content.licenses.values() for name in counts}
    languages = [name for name in content.languages if _LANGUAGE.fullmatch(name)]
    configuration = {
        "config_name": "default",
        "data_files": [{"split": split, "path": f"data/{split}-*.{content.format.ending}"} for split in content.splits],
    }
    fields = {
        "pretty_name": content.name,
        "license": license_tags(stated),
        **({"language": sorted(languages)} if languages else {}),
        **({"task_categories": ["fill-mask"]} if training(content) else {}),
        "tags": ["cloze", "croissant"],
        "configs": [configuration],
        "dataset_info": dataset_info(content),
    }
    return ["---", *yaml_lines(fields), "---", ""]


def dataset_info(content: Exported) -> dict[str, Any]:
    """Features and sizes as `datasets` writes them."""
    splits = [
        {
            "name": split,
            "num_bytes": sum(file.row_bytes for file in content.of_split(split)),
            "num_examples": content.rows(split),
        }
        for split in content.splits
    ]
    return {
        "features": [feature(field) for field in content.schema],
        "splits": splits,
        "download_size": sum(file.size_bytes for file in content.files),
        "dataset_size": sum(file.row_bytes for file in content.files),
    }


def feature(field: pa.Field) -> dict[str, str]:
    """A column as a feature.

    >>> feature(pa.field("a", pa.list_(pa.uint16()))), feature(pa.field("b", pa.large_string()))
    ({'name': 'a', 'list': 'uint16'}, {'name': 'b', 'dtype': 'large_string'})
    """
    if pa.types.is_list(field.type):
        return {"name": field.name, "list": type_name(field.type.value_type)}
    return {"name": field.name, "dtype": type_name(field.type)}


def type_name(kind: pa.DataType) -> str:
    """A plain type as `datasets` calls it."""
    return {pa.float32(): "float32", pa.float64(): "float64"}.get(kind, str(kind))


def body(content: Exported) -> Iterator[str]:
    """What people read."""
    yield from (f"# {plain(content.name)}", "", *what_it_is(content), "")
    yield from contents(content)
    yield from ("## Use", "", *fenced("\n".join(opening(content)), "python"))
    if code_of_training := training(content):
        yield from ("A small BERT, trained on it for a few steps:", "")
        yield from fenced("\n".join(code_of_training), "python")
    yield from columns(content)
    for section in (
        sections.sources,
        sections.documents,
        sections.tokens,
        sections.examples_ledger,
        sections.dropped,
        sections.licenses,
        sections.languages,
        sections.safeguards,
        sections.limits,
        sections.recipe,
        sections.lock,
        sections.artifacts,
        sections.versions,
    ):
        yield from section(content)


def what_it_is(content: Exported) -> Iterator[str]:
    """The first lines."""
    manifest, number = content.provenance.manifest, sum(content.rows(split) for split in content.splits)
    if not content.has_examples:
        yield (
            "Documents for training language models: cleaned, judged and deduplicated texts, and where they come from. "
            f"{counted(number, 'document')} of the corpus {code(manifest.folder)}, made by Cloze."
        )
        return
    facts, masking = manifest.facts, manifest.settings.get("masking", {})
    yield (
        "Training examples for a language model: token ids, where words begin, and which documents they are of. "
        f"{counted(number, 'example')} of the shards {code(manifest.folder)}, made by Cloze: input "
        f"{code(str(facts.get('input')))}, at most {facts.get('length', 0):,} tokens, of a vocabulary of "
        f"{facts.get('vocab_size', 0):,} tokens that is in `tokenizer/`."
    )
    kind, unit, rate = str(facts.get("masking")), str(masking.get("unit", "token")), 100 * masking.get("rate", 0)
    if kind == "static":
        yield f"Masks are in the rows (`mask_positions`, `mask_ids`): {rate:g} % by {plain(unit)}."
    elif kind == "dynamic":
        yield f"Masks are to be drawn by who trains: the shards ask for {rate:g} % by {plain(unit)}."


def contents(content: Exported) -> Iterator[str]:
    """Splits and files."""
    unit = "tokens" if content.has_examples else "bytes of text"
    called = "examples" if content.has_examples else "documents"
    yield from ("## Contents", "")
    rows: list[tuple[str | int, ...]] = [
        (split, len(content.of_split(split)), content.rows(split), content.units[split]) for split in content.splits
    ]
    yield from table(("split", "files", called, unit), rows)
    size = readable_bytes(sum(file.size_bytes for file in content.files))
    yield (
        f"The files are {content.format.name.capitalize()}, {size} in all; `croissant.json` has the sha256 of each. "
        "`validation` is what Cloze holds out: the vocabularies and models that it makes are not trained on it."
    )
    yield ""


def columns(content: Exported) -> Iterator[str]:
    """What each column means."""
    yield from ("## Columns", "")
    rows = [
        (code(field.name), code(str(field.type)), (field.metadata or {}).get(b"description", b"").decode())
        for field in content.schema
    ]
    yield from table(("column", "type", "meaning"), rows)
