"""The metadata of an export as Croissant 1.1: JSON-LD that search engines and loaders of data sets read.

Promise: it lists every file with its size and sha256, and every column with its type and the files that have it. Dates
are those of the run's record. `mlcroissant` validates it, and reads records of Parquet files through it.
"""

import json
import re
from importlib.resources import files
from typing import Any

import pyarrow as pa

from flows.export.cards.data_card import read_description, summarize_content
from flows.export.cards.licenses import NOT_STATED, to_license_address
from flows.export.exported import ExportContent, ExportedFile

CROISSANT_VERSION = "http://mlcommons.org/croissant/1.1"
PARQUET_TYPE = "application/x-parquet"
_MEDIA_TYPES = {"parquet": PARQUET_TYPE, "json": "application/json", "txt": "text/plain", "md": "text/markdown"}


def build_croissant(content: ExportContent, card: ExportedFile) -> bytes:
    """Build the content of `_croissant.json` as UTF-8 JSON.

    Args:
        content: The content of the export.
        card: The file of the data card, which the metadata lists in addition to the files of `content`.
    """
    record, manifest = content.provenance.record, content.provenance.manifest
    year = f", year = {{{record.started[:4]}}}" if record is not None else ""
    key, title = re.sub("[^A-Za-z0-9]+", "-", content.name), re.sub(r"[{}\\]", "", content.name)
    note = f"note = {{Cloze {manifest.kind}, content {manifest.content}}}"  # by the contents, which identify them
    fields: dict[str, Any] = {
        "@context": json.loads((files("flows.export") / "croissant_context.json").read_bytes()),
        "@type": "sc:Dataset",
        "conformsTo": CROISSANT_VERSION,
        "name": content.name,
        "description": summarize_content(content),
        "version": f"1.0.0+{manifest.content}",
        "license": sorted(to_license_address(name) for name in content.stated_licenses or {NOT_STATED}),
        **({"datePublished": record.started[:10]} if record is not None else {}),
        **({"inLanguage": content.language_codes} if content.language_codes else {}),
        "citeAs": f"@misc{{{key}, title = {{{title}}}{year}, {note}}}",
        "distribution": [
            *map(build_file_object, (*content.files, *content.extra, card)),
            *map(build_file_set, content.splits),
        ],
        "recordSet": [build_record_set(content, split) for split in content.splits],
    }
    return (json.dumps(fields, indent=1, ensure_ascii=False) + "\n").encode()


def build_file_object(file: ExportedFile) -> dict[str, Any]:
    """Build the Croissant FileObject for a file as a JSON object. Its "@id" is the path of the file."""
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{file.size_bytes} B",
        "encodingFormat": _MEDIA_TYPES.get(file.path.rpartition(".")[2], "application/octet-stream"),
        "sha256": file.sha256,
    }


def build_file_set(split: str) -> dict[str, Any]:
    """Build the Croissant FileSet with all files of a split, as a JSON object.

    Args:
        split: Name of the split in the exported data, such as "validation".
    """
    return {
        "@type": "cr:FileSet",
        "@id": f"{split}-files",
        "name": f"{split}-files",
        "description": f"The files of the split {split}.",
        "encodingFormat": PARQUET_TYPE,
        "includes": f"data/{split}-*.parquet",
    }


def build_record_set(content: ExportContent, split: str) -> dict[str, Any]:
    """Build the Croissant RecordSet of a split as a JSON object, with one field per column.

    Args:
        content: The content of the export.
        split: Name of the split in the exported data, such as "validation".
    """
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "description": f"{content.count_rows(split):,} rows.",
        "field": [build_field(field, split) for field in content.schema],
    }


def build_field(field: pa.Field, split: str) -> dict[str, Any]:
    """Build the Croissant Field for a column as a JSON object. A list column becomes an array of any length.

    Args:
        field: The column, with its description in the metadata.
        split: Name of the split in the exported data. The field's "@id" starts with it.
    """
    is_list = pa.types.is_list(field.type)
    return {
        "@type": "cr:Field",
        "@id": f"{split}/{field.name}",
        "name": field.name,
        **({"description": read_description(field)} if read_description(field) else {}),
        "dataType": to_schema_type(field.type.value_type if is_list else field.type),
        **({"isArray": True, "arrayShape": "-1"} if is_list else {}),
        "source": {"fileSet": {"@id": f"{split}-files"}, "extract": {"column": field.name}},
    }


def to_schema_type(kind: pa.DataType) -> str:
    """Convert an Arrow type that is not a list to the name of a schema.org type.

    >>> to_schema_type(pa.uint16()), to_schema_type(pa.large_string()), to_schema_type(pa.bool_())
    ('sc:Integer', 'sc:Text', 'sc:Boolean')
    """
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    return "sc:Float" if pa.types.is_floating(kind) else "sc:Text"
