"""The documentation in a Python installation: docstrings, the help topics of the language, descriptions of packages.

Promises: nothing is imported. Every module, every class with much documentation, every help topic and every description
is one record. A document is a module with all that it holds, because a single docstring is too short to have a next
sentence. A class with over 2,000 characters is a document of its own, so that a module of many large classes does not
become one text without end. Costs: about 5 MB of source a second, two thirds of it in `ast.parse`. A module without
triple quotes has no docstrings as PEP 257 writes them and is not parsed. Memory: one module's tree.
"""

import ast
import importlib.metadata
import itertools
import re
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, NamedTuple

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.schema import Locator
from corpora.sources.contract import Defaults, Drop, RawFile, Record, Slice, Tally, slice_whole_file
from corpora.sources.python_docstrings import docstring_to_text

MAX_CLASS_CHARACTERS = 2_000
MIN_CHARACTERS = 200  # a document with less prose is dropped
SKIPPED_FOLDERS = frozenset(
    "test tests _vendor vendored idlelib lib2to3 turtledemo ensurepip pydoc_data lib-dynload site-packages "
    "dist-packages __pycache__".split()
)
SKIPPED_FILES = re.compile(r"test_.*|.*_test\.py|conftest\.py")
TOPICS = "pydoc_data/topics.py"
LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # an escape can write one into a docstring
STANDARD_LIBRARY = "stdlib"
# The documentation of one function says much that the next one's says, too.
REPETITION_LIMITS = {f"max_repeated_{n}gram_characters": 1.0 for n in range(5, 11)}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Unit(NamedTuple):
    """The content of one record: docstrings, and the range of lines that they document.

    Attributes:
        name: Name of the class or help topic; "" for a module or a package's description.
        docs: The raw docstrings.
        first_line: One-based number of the first line.
        last_line: One-based number of the last line, inclusive; None for the whole file.
    """

    name: str
    docs: list[str]
    first_line: int = 1
    last_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonDocsSource:
    """The `[[source]]` table of kind "python-docs".

    packages:         names of installed distributions to read
    standard_library: also read the standard library
    """

    kind: ClassVar[str] = "python-docs"
    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Defaults] = {"rules": {"repetition": REPETITION_LIMITS}}

    name: str = "python-docs"
    packages: tuple[str, ...] = ()
    standard_library: bool = True

    def settings(self) -> dict[str, Json]:
        """Return the settings that affect the documents, as JSON by field name.

        An example is {"min_characters": 200, "python": "3.12"}. Python's version is included because its own parser
        reads the modules. The packages are not included.
        """
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        return {"min_characters": MIN_CHARACTERS, "python": python}

    def files(self) -> list[tuple[str, Path]]:
        """List the raw files as (name, path) pairs, sorted by name.

        These are modules and METADATA files. Names have the form `stdlib/json/__init__.py` or
        `numpy-2.4.6/numpy/matlib.py`.

        Raises:
            InputError: If a package is not installed, or no file is found.
        """
        modules: dict[str, Path] = dict(_iter_standard_library()) if self.standard_library else {}
        for package in self.packages:
            try:
                modules.update(_iter_distribution_files(importlib.metadata.distribution(package)))
            except importlib.metadata.PackageNotFoundError as error:
                raise InputError(
                    f"Source {self.name!r}: the package {package!r} is not installed. Install it in this environment "
                    "first."
                ) from error
        if not modules:
            raise InputError(f"Source {self.name!r}: no documentation found. Name other `packages`.")
        return sorted(modules.items())

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A module or METADATA file is one slice.
        """
        return [slice_whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        There is one record for a module and one for each of its large classes, one for each help topic, and one for a
        package's description. A file that cannot be parsed yields one dropped record with the reason "syntax".

        Args:
            piece: The slice, which is the whole file.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.
        """
        file, data = piece.file, Path(piece.file.path).read_bytes()
        inner = file.name.partition("/")[2]
        distribution, license = _find_origin(file)
        group, prefix, parse = to_package_group(distribution, inner), to_module_name(inner), parse_module
        if inner.endswith("/METADATA"):
            group, prefix, parse = distribution, f"description:{distribution}", parse_description
        units, drop = [Unit("", [])], tally.enter(Locator(file=file.name, sha256=file.sha256, length=len(data)))
        if drop is None:
            try:
                prefix, units = ("topic", parse_topics(data)) if inner == TOPICS else (prefix, parse(data))
            except (SyntaxError, ValueError) as error:
                drop = Drop("syntax", str(error))
        tally.records += len(units)
        places = zip(_iter_unique_keys(prefix, units), _iter_byte_ranges(data, units), strict=True)
        for unit, (key, (start, stop)) in zip(units, places, strict=True):
            locator = Locator(file=file.name, sha256=file.sha256, offset=start, length=stop - start)
            unit_drop = drop or tally.enter(locator)
            texts = filter(None, map(docstring_to_text, [] if unit_drop else unit.docs))
            text = "\n\n".join(texts)
            unit_drop = unit_drop or _judge_text(text, bool(unit.docs))
            yield Record(locator=locator, text=text, key=key, title=key, license=license, group=group, drop=unit_drop)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        These are the lines of a class or help topic, or the whole file.
        """
        with file.open("rb") as stream:
            stream.seek(locator.offset)
            return stream.read(locator.length)


def _judge_text(text: str, has_docs: bool) -> Drop | None:
    """Return a `Drop` for a document without docstrings, or with less than 200 characters of prose; else None."""
    if not has_docs:
        return Drop("no documentation")
    return Drop("short", f"{len(text)} characters") if len(text) < MIN_CHARACTERS else None


def _iter_standard_library() -> Iterator[tuple[str, Path]]:
    """Yield (name, path) of the standard library's modules and help topics.

    An example of a name is `stdlib/json/__init__.py`.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in [*_iter_modules(root), root / TOPICS]:
        inner = path.relative_to(root).as_posix()
        if path.is_file() and (inner == TOPICS or _is_importable_module(inner)):
            yield f"{STANDARD_LIBRARY}/{inner}", path


def _iter_modules(folder: Path) -> Iterator[Path]:
    """Yield the paths of the `.py` files of a folder and of the packages in it. Excluded folders are not entered."""
    for path in folder.iterdir():
        if path.is_dir():
            if path.name not in SKIPPED_FOLDERS and path.name.isidentifier():
                yield from _iter_modules(path)
        elif path.suffix == ".py":
            yield path


def _iter_distribution_files(distribution: importlib.metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Yield (name, path) of a distribution's modules and METADATA file; nothing if it has no `.dist-info` folder."""
    files = [file for file in distribution.files or [] if ".." not in file.parts]
    metadata = next((file for file in files if re.fullmatch(r"[^/]+\.dist-info/METADATA", file.as_posix())), None)
    if metadata is None:
        return
    origin = metadata.parent.name.removesuffix(".dist-info")
    for file in files:
        inner = file.as_posix()
        path = Path(str(distribution.locate_file(file)))
        if (file == metadata or (file.suffix == ".py" and _is_importable_module(inner))) and path.is_file():
            yield f"{origin}/{inner}", path


def _is_importable_module(inner: str) -> bool:
    """Return True if a path, relative to the folder of packages, is that of an importable module but not of a test."""
    *folders, name = inner.split("/")
    if SKIPPED_FOLDERS & set(folders) or SKIPPED_FILES.fullmatch(name):
        return False
    return all(part.isidentifier() for part in [*folders, name.removesuffix(".py")])


def parse_module(data: bytes) -> list[Unit]:
    """Return a unit for a module, followed by one for each of its large classes.

    A class is large if its docstrings have over 2,000 characters. The module's unit has all other docstrings.

    Raises:
        SyntaxError, ValueError: If the source code cannot be parsed.
    """
    if b'"""' not in data and b"'''" not in data:
        return [Unit("", [])]
    tree = _parse_python(data)
    module, classes = Unit("", _get_own_doc(tree)), []
    for node in _iter_definitions(tree.body):
        docs = _collect_docs(node)
        if isinstance(node, ast.ClassDef) and sum(map(len, docs)) > MAX_CLASS_CHARACTERS:
            classes.append(Unit(node.name, docs, node.lineno, node.end_lineno))
        else:
            module.docs.extend(docs)
    return [module, *classes]


def _parse_python(data: bytes) -> ast.Module:
    """Parse Python source code into a syntax tree, suppressing warnings.

    Raises:
        SyntaxError, ValueError: If the code cannot be parsed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes that are not ours to fix
        try:
            return ast.parse(data)
        except (MemoryError, RecursionError) as error:  # so the parser says that its stack is full
            raise SyntaxError("nested too deeply for the parser") from error


def _iter_definitions(body: Iterable[ast.stmt]) -> Iterator[Definition]:
    """Yield the public classes and functions of a body, including those nested in `if`, `else`, `try` and `with`."""
    for node in body:
        if isinstance(node, Definition):
            if not node.name.startswith("_"):
                yield node
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _iter_definitions(node.body)
            yield from _iter_definitions(getattr(node, "orelse", ()))


def _collect_docs(node: Definition) -> list[str]:
    """Return the docstring of a definition and, for a class, those of its public members, in order.

    Return [] if there are none.
    """
    docs = _get_own_doc(node)
    if isinstance(node, ast.ClassDef):
        for member in _iter_definitions(node.body):
            docs.extend(_collect_docs(member))
    return docs


def _get_own_doc(node: ast.Module | Definition) -> list[str]:
    """Return a list with the docstring of a module, class or function itself; [] if there is none."""
    doc = ast.get_docstring(node, clean=False)
    return [] if doc is None else [LONE_SURROGATE.sub("\ufffd", doc)]


def parse_description(data: bytes) -> list[Unit]:
    """Return a list of one unit that contains the description in a METADATA file.

    If there is no description, the unit's `docs` are empty.
    """
    message = HeaderParser().parsestr(data.decode(errors="replace"))
    description = str(message["Description"] or message.get_payload())
    return [Unit("", [description] if description.strip() else [])]


def parse_topics(data: bytes) -> list[Unit]:
    """Return one unit for each help topic, read from the dictionary literal in pydoc's data.

    Raises:
        SyntaxError, ValueError: If the file contains no such literal.
    """
    for node in ast.parse(data).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return [_parse_topic(key, value) for key, value in pairs if key is not None]
    raise ValueError("it assigns no dictionary of topics")


def _parse_topic(key: ast.expr, value: ast.expr) -> Unit:
    """Build the unit of a help topic from two expressions: `key`, its name, and `value`, its text.

    Raises:
        ValueError: If they are not literals.
    """
    name, text = ast.literal_eval(key), ast.literal_eval(value)
    return Unit(str(name), [str(text)], key.lineno, value.end_lineno)


def to_module_name(inner: str) -> str:
    """Convert a module's path to its dotted name.

    >>> to_module_name("json/__init__.py"), to_module_name("json/decoder.py")
    ('json', 'json.decoder')
    """
    return inner.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def to_package_group(distribution: str, inner: str) -> str:
    """Return the group of a module. Modules in the same group share much text, so they must stay in the same split.

    Args:
        distribution: Name of the package that was installed; "python" for the standard library.
        inner: Path of the module relative to the folder of packages.

    >>> to_package_group("python", "json/decoder.py"), to_package_group("numpy", "numpy/linalg/_linalg.py")
    ('python:json', 'numpy:numpy.linalg')
    """
    names = to_module_name(inner).split(".")
    return f"{distribution}:{'.'.join(names[: 1 if distribution == 'python' else 2])}"


def _iter_unique_keys(prefix: str, units: list[Unit]) -> Iterator[str]:
    """Yield a unique key "PREFIX:NAME" for each unit, or "PREFIX" if its name is "".

    If a name is defined again in the same file, "#2", "#3", ... is appended.
    """
    seen: Counter[str] = Counter()
    for unit in units:
        key = f"{prefix}:{unit.name}" if unit.name else prefix
        seen[key] += 1
        yield key if seen[key] == 1 else f"{key}#{seen[key]}"


def _iter_byte_ranges(data: bytes, units: list[Unit]) -> Iterator[tuple[int, int]]:
    """Yield the (start, stop) byte offsets in `data` of each unit's lines; `stop` is exclusive.

    Lines are split as Python's parser splits them.
    """
    lines = data.splitlines(keepends=True) if len(units) > 1 else []
    starts = [0, *itertools.accumulate(map(len, lines))]
    for unit in units:
        is_whole_file = unit.last_line is None
        yield (0, len(data)) if is_whole_file else (starts[unit.first_line - 1], starts[unit.last_line or 0])


def _find_origin(file: RawFile) -> tuple[str, str | None]:
    """Return (distribution, license) of a raw file, such as ("numpy", "BSD-3-Clause").

    The license is read from the METADATA file of the distribution, and is None if unknown.
    """
    origin, _, inner = file.name.partition("/")
    if origin == STANDARD_LIBRARY:
        return "python", "PSF-2.0"
    root = file.path[: -len(inner)]
    distribution = re.sub(r"[-_.]+", "-", origin.rpartition("-")[0]).lower()
    return distribution, _read_license(f"{root}{origin}.dist-info/METADATA")


@lru_cache(maxsize=4_096)
def _read_license(metadata: str) -> str | None:
    """Return the license stated in the METADATA file at a path; None if there is no file or no license. Cached."""
    path = Path(metadata)
    if not path.is_file():
        return None
    return find_license(HeaderParser().parsestr(path.read_text(encoding="utf-8", errors="replace")))


def find_license(metadata: Message) -> str | None:
    """Return the license stated in a distribution's metadata; None if there is none.

    It is a license expression, a classifier, or the first 80 characters of the first line of the license's text.
    """
    if metadata["License-Expression"]:
        return str(metadata["License-Expression"])
    for classifier in metadata.get_all("Classifier") or ():
        if classifier.startswith("License ::"):
            return str(classifier.rpartition(" :: ")[2])
    first = (metadata["License"] or "").strip().partition("\n")[0]
    return first[:80] or None
