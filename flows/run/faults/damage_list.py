"""The list of damaged files in a store: `cloze verify` leaves it, and runs build these files again, and take them off.

It is a sealed file next to the folder of runs: what is wrong with each file, by its path.
"""

import json
from collections.abc import Mapping

from corpora.errors import InputError
from corpora.store.damage import Damaged, explain_parse_errors, seal, unseal
from corpora.store.places.place import Place

LIST = "damaged.json"


def read_damage_list(place: Place) -> dict[str, str]:
    """Return what is wrong with each listed file; nothing if there is no list. Raises InputError if it is damaged."""
    try:
        fields = unseal(place.read(LIST), LIST)
        with explain_parse_errors(LIST, "a list of damaged files"):
            return {str(path): str(what) for path, what in fields["damaged"].items()}
    except FileNotFoundError:
        return {}
    except Damaged as fault:
        raise InputError(
            f"{place.to_address(LIST)}, the list of damaged files, is damaged itself: {fault.what}. Check the whole "
            "store with `cloze verify`, which writes it again."
        ) from fault


def write_damage_list(place: Place, damaged: Mapping[str, str]) -> None:
    """Write the list; remove it if nothing is damaged. Raises InputError if the store cannot be written."""
    if damaged:
        place.write(LIST, seal(json.dumps({"damaged": damaged}, indent=1, ensure_ascii=False).encode()))
    elif place.find_size(LIST) is not None:
        place.delete(LIST)
