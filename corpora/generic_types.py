"""The types that functions of many packages have in common."""

from collections.abc import Callable
from typing import Any, TypeVar

Tell = Callable[[str], None]  # called with each line that a person is to read
Json = Any  # what json.dumps takes: dict, list, str, int, float, bool, None
Item = TypeVar("Item")  # of a sequence
Result = TypeVar("Result")  # of a call
