"""What a shard file says of itself in its Arrow schema, for programs without Cloze.

    json.loads(pyarrow.ipc.open_file(path).schema.metadata[b"cloze"])
    {"cloze": "0.2.0", "version": 3,
     "vocabulary": {"content": ..., "size": ..., "special_tokens": {...}, "tokenizer": "../../...", ...},
     "masking": {"kind": "dynamic", "rate": 0.15, ..., "mask_token": {"token": "[MASK]", "id": 4}},
     "shards": {"input": "segment-pair", "length": 128, ...}}

Promise: no time, machine or address is in it. Rows are the same with or without it, and so are contents. Files of
earlier versions have none, and are read like the others.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from corpora.generic_types import Json
from corpora.store.manifest import Manifest, StoredFile, to_canonical_json
from tokenizers_train.vocabularies.files import TOKENIZER
from tokenizers_train.vocabularies.vocabulary import Vocabulary

METADATA_KEY = b"cloze"
DISTRIBUTION = "cloze-pipeline"
LAYOUT_SETTINGS = ("target_tokens",)  # they say how many rows a file has, and a part may be of several sets
read_program_version = cache(version)


def find_tokenizer_file(vocabulary: Manifest) -> StoredFile:
    """Find the tokenizer.json of a vocabulary among the files of its artifact (stored result).

    The file may be in the folder of an older artifact with the same content.

    Args:
        vocabulary: The manifest (stored description) of the vocabulary.
    """
    files = (file for part in vocabulary.parts for file in part.files if file.table == "files")
    return next(file for file in files if file.path.rpartition("/")[2] == TOKENIZER)


def build_shard_metadata(
    build_version: int,
    settings: Mapping[str, Any],
    manifest: Manifest,
    vocabulary: Vocabulary,
    tokenizer: str,
) -> dict[bytes, bytes]:
    """Build the schema metadata of a file with examples, describing the vocabulary, the masks and the settings.

    Args:
        build_version: Version of the stage that built the examples.
        settings: The settings of the shard set, as in its manifest.
        manifest: The artifact of the vocabulary.
        vocabulary: The same vocabulary, loaded.
        tokenizer: Path of its tokenizer.json, relative to the folder of the file.

    Returns:
        A dictionary with METADATA_KEY. Its value is JSON with the keys "cloze" (version of the program), "version"
        (`build_version`), "vocabulary", "masking" and "shards" (other settings).
    """
    special_tokens: dict[str, Json] = {
        role: {"token": vocabulary.tokens[id], "id": id} for role, id in vocabulary.special_ids.items()
    }
    masking = dict(settings["masking"])
    if masking["kind"] != "none":
        masking["mask_token"] = special_tokens["mask"]
    facts: dict[str, Json] = {
        "cloze": read_program_version(DISTRIBUTION),
        "version": build_version,
        "vocabulary": {
            "content": manifest.content,
            "size": vocabulary.size,
            "special_tokens": special_tokens,
            "tokenizer": tokenizer,
            "tokenizer_sha256": find_tokenizer_file(manifest).sha256,
        },
        "masking": masking,
        "shards": {key: settings[key] for key in settings if key not in (*LAYOUT_SETTINGS, "masking")},
    }
    return {METADATA_KEY: to_canonical_json(facts).encode()}
