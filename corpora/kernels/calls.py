"""Calls of kernels as lines of text: which kernel, and the types of its arguments.

    corpora.text.whitespace:tidy(readonly uint8[], readonly int64[])

So kernels can be compiled before anything calls them, on as many cores as there are.
"""

import re
from collections import deque
from importlib import import_module
from typing import Any

from numba.core import types
from numba.core.types.containers import BaseTuple

from corpora.kernels.dispatching import Kernel

_TOKEN = re.compile(r"[\w.:]+|\[,*\]|[(),]")


def format_call(kernel: Kernel, arguments: tuple[Any, ...]) -> str:
    """Format a kernel and the numba types of its arguments as a line, such as "module:function(int64, uint8[])"."""
    return f"{kernel.__module__}:{kernel.py_func.__qualname__}({', '.join(map(_format_type, arguments))})"


def compile_call(line: str) -> None:
    """Compile a kernel for the types in a line from `format_call`, unless it has been compiled for them already.

    Raises:
        ModuleNotFoundError: If the module does not exist.
        AttributeError: If the module does not contain the kernel.
    """
    kernel, arguments = parse_call(line)
    kernel.compile_ahead(arguments)


def parse_call(line: str) -> tuple[Kernel, tuple[Any, ...]]:
    """Parse a line from `format_call`, and return the kernel and the numba types of its arguments.

    Raises:
        ModuleNotFoundError: If the module does not exist.
        AttributeError: If the module does not contain the kernel.
    """
    tokens = deque(_TOKEN.findall(line))
    return _import_name(tokens.popleft()).numba_object, _parse_types(tokens)


def _format_type(kind: Any) -> str:
    if isinstance(kind, types.Array):
        assert kind.layout == "C" and kind.aligned, kind
        return f"{'' if kind.mutable else 'readonly '}{kind.dtype}[{',' * (kind.ndim - 1)}]"
    if isinstance(kind, BaseTuple):
        own = getattr(kind, "instance_class", tuple)
        name = "" if own is tuple else f"{own.__module__}:{own.__qualname__}"
        return f"{name}({', '.join(map(_format_type, kind.types))})"
    return str(kind)


def _parse_types(tokens: deque[str]) -> tuple[Any, ...]:
    """Parse a list of types in parentheses, and return them as numba types.

    The parsed tokens are removed from `tokens`.
    """
    assert tokens.popleft() == "("
    kinds = []
    while tokens[0] != ")":
        kinds.append(_parse_type(tokens))
        if tokens[0] == ",":
            tokens.popleft()
    tokens.popleft()
    return tuple(kinds)


def _parse_type(tokens: deque[str]) -> Any:
    if tokens[0] == "(":
        return BaseTuple.from_types(_parse_types(tokens))
    word = tokens.popleft()
    if ":" in word:
        return BaseTuple.from_types(_parse_types(tokens), _import_name(word))
    if readonly := word == "readonly":
        word = tokens.popleft()
    kind = types.boolean if word == "bool" else getattr(types, word)
    if tokens[0].startswith("["):
        return types.Array(kind, len(tokens.popleft()) - 1, "C", readonly=readonly)
    return kind


def _import_name(name: str) -> Any:
    module, _, own = name.partition(":")
    return getattr(import_module(module), own)
