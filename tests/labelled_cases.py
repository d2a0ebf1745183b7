"""Labelled cases of a test: a JSON file in the folder `cases` next to it."""

import json
from pathlib import Path
from typing import Any


def cases_of(test: str, name: str) -> Any:
    """Return the cases in `cases/NAME.json`. test: the `__file__` of the test"""
    return json.loads((Path(test).parent / "cases" / f"{name}.json").read_text(encoding="utf-8"))
