"""The tokenizer next to a model, which must know how many tokens the model reads. No torch."""

import json

from corpora.errors import InputError
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from corpora.store.tables import stored_files

TOKENIZER_CONFIG = "tokenizer_config.json"


def tokenizer_files(place: Place, folder: str, positions: int) -> dict[str, bytes]:
    """The files of a vocabulary's artifact by name, as they go next to a model that reads so many tokens.

    Raises InputError where the store does not hold it.
    """
    manifest = read_manifest(place, folder)
    if manifest is None:
        raise InputError(
            f"The store {place.address} does not hold {folder}, the vocabulary of the model: name the store that does."
        )
    files = stored_files(place, manifest)
    return files | {TOKENIZER_CONFIG: with_max_length(files.get(TOKENIZER_CONFIG, b"{}"), positions)}


def with_max_length(config: bytes, positions: int) -> bytes:
    """Return a `tokenizer_config.json` with which transformers cuts texts to what the model reads, where it should cut.

    A smaller length that it already names stays. Raises InputError where it is not a JSON object.

    >>> with_max_length(b"{}", 512)
    b'{\\n  "model_max_length": 512\\n}\\n'
    """
    try:
        content = json.loads(config)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError(f"The model's {TOKENIZER_CONFIG} is not a JSON object: save or copy its tokenizer again.")
    named = content.get("model_max_length")
    smaller = isinstance(named, int) and 0 < named < positions
    content["model_max_length"] = named if smaller else positions
    return f"{json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False)}\n".encode()
