"""The metadata of an export as Croissant 1.1: JSON-LD that search engines and loaders of data sets read.

Promise: every file with its size and sha256, every column with its type and where it is read from. Dates are those of
the run's record. `mlcroissant` validates it, and reads records of Parquet files through it.
"""

import json
import re
from typing import Any

import pyarrow as pa

from flows.export.card import what_it_is
from flows.export.exported import Exported
from flows.export.files import ExportedFile
from flows.export.licenses import NOT_STATED, license_address

CONFORMS = "http://mlcommons.org/croissant/1.1"
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_MEDIA = {"json": "application/json", "txt": "text/plain", "md": "text/markdown"}


def croissant(content: Exported, card: ExportedFile) -> bytes:
    """The document, for the file croissant.json."""
    record = content.provenance.record
    stated = {name for counts in content.licenses.values() for name in counts} or {NOT_STATED}
    manifest = content.provenance.manifest
    languages = [name for name in content.languages if re.fullmatch("[a-z]{2,3}", name)]
    fields: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS,
        "name": content.name,
        "description": " ".join(what_it_is(content)),
        "version": f"1.0.0+{manifest.content}",
        "license": sorted(license_address(name) for name in stated),
        **({"datePublished": record.started[:10]} if record is not None else {}),
        **({"inLanguage": sorted(languages)} if languages else {}),
        "citeAs": citation(content),
        "distribution": [
            *(file_object(file, content.format.encoding) for file in content.files),
            *(file_object(file, media_type(file.path)) for file in (*content.extra, card)),
            *(file_set(content, split) for split in content.splits),
        ],
        "recordSet": [record_set(content, split) for split in content.splits],
    }
    return (json.dumps(fields, indent=1, ensure_ascii=False) + "\n").encode()


def citation(content: Exported) -> str:
    """How the data are named: by their contents, which say what they are."""
    manifest, record = content.provenance.manifest, content.provenance.record
    key = re.sub("[^A-Za-z0-9]+", "-", content.name)
    year = f", year = {{{record.started[:4]}}}" if record is not None else ""
    title = re.sub(r"[{}\\]", "", content.name)
    return f"@misc{{{key}, title = {{{title}}}{year}, note = {{Cloze {manifest.kind}, content {manifest.content}}}}}"


def media_type(path: str) -> str:
    """The media type of a file that has no rows."""
    return _MEDIA.get(path.rpartition(".")[2], "application/octet-stream")


def file_object(file: ExportedFile, encoding: str) -> dict[str, Any]:
    """A file, named by its path."""
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{file.size_bytes} B",
        "encodingFormat": encoding,
        "sha256": file.sha256,
    }


def file_set(content: Exported, split: str) -> dict[str, Any]:
    """The files of a split."""
    return {
        "@type": "cr:FileSet",
        "@id": f"{split}-files",
        "name": f"{split}-files",
        "description": f"The files of the split {split}.",
        "encodingFormat": content.format.encoding,
        "includes": f"data/{split}-*.{content.format.ending}",
    }


def record_set(content: Exported, split: str) -> dict[str, Any]:
    """The rows of a split."""
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "description": f"{content.rows(split):,} rows.",
        "field": [field_of(field, split) for field in content.schema],
    }


def field_of(field: pa.Field, split: str) -> dict[str, Any]:
    """A column; a list has any number of values."""
    listed = pa.types.is_list(field.type)
    meaning = (field.metadata or {}).get(b"description", b"").decode()
    return {
        "@type": "cr:Field",
        "@id": f"{split}/{field.name}",
        "name": field.name,
        **({"description": meaning} if meaning else {}),
        "dataType": data_type(field.type.value_type if listed else field.type),
        **({"isArray": True, "arrayShape": "-1"} if listed else {}),
        "source": {"fileSet": {"@id": f"{split}-files"}, "extract": {"column": field.name}},
    }


def data_type(kind: pa.DataType) -> str:
    """A plain type in the words of schema.org.

    >>> data_type(pa.uint16()), data_type(pa.large_string()), data_type(pa.bool_())
    ('sc:Integer', 'sc:Text', 'sc:Boolean')
    """
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    return "sc:Float" if pa.types.is_floating(kind) else "sc:Text"
