"""The types that functions of many packages have in common."""

from collections.abc import Callable
from typing import TypeVar

Tell = Callable[[str], None]  # called with each line that a person is to read
Item = TypeVar("Item")  # of a sequence
Result = TypeVar("Result")  # of a call
