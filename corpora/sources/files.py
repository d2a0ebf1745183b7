"""Your own text: `.txt` files, one document each, and `.jsonl` files, one JSON object a line; also `.gz`, `.zst`.

Promises: every file or non-blank line is one record; what cannot be read is a damaged drop that says why. A
plain `.jsonl` file is cut every 8 MB, and a line belongs to the slice in which it begins; a packed file
is one slice.
Costs: `json.loads` and a copy of each line, about 250 MB/s of ASCII. Memory: one record, at most `max_record_bytes`.
"""

import codecs
import difflib
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import ClassVar, NamedTuple

import pyarrow as pa

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.source import Drop, RawFile, Record, Slice, Tally, matching_files, whole_file
from corpora.store.manifest import Json
from corpora.store.settings import check_range, settings_json

TEXT_ENDINGS = (".txt", ".txt.gz", ".txt.zst")
LINE_ENDINGS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".jsonl.zst", ".ndjson.zst")
PACKED_ENDINGS = (".gz", ".zst")
FIELDS = ("text", "key", "revision", "title", "url", "date", "license", "group")
SLICE_BYTES = 8_000_000
MOST_REVISION = (1 << 63) - 1


class Line(NamedTuple):
    """A line without its end. data: None where it is longer than allowed."""

    offset: int
    length: int
    data: bytes | None


class BadRecord(ValueError):
    """A line or file that does not hold what the source's settings say. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSource:
    """The `[[source]]` table of kind "files".

    path:             a file, a folder or a glob; other endings in a folder are passed over
    fields:           what is found under which name in a JSON object; a named `key` must always be there
    encoding:         of the files (a byte order mark of UTF-8 is allowed for)
    max_record_bytes: a longer line or file is dropped
    """

    kind: ClassVar[str] = "files"
    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ()

    name: str
    path: str
    fields: Mapping[str, str] = field(default_factory=lambda: {"text": "text"})
    encoding: str = "utf-8"
    max_record_bytes: int = 20_000_000

    def __post_init__(self) -> None:
        check_range(f"source {self.name!r}: max_record_bytes", self.max_record_bytes, 1, 1 << 30)
        for key in self.fields:
            if key not in FIELDS:
                near = difflib.get_close_matches(key, FIELDS, 1)
                hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(FIELDS)}."
                raise InputError(f"Source {self.name!r}: `fields` has no {key!r}. {hint}")
        if not all(self.fields.values()):
            raise InputError(f"Source {self.name!r}: a name in `fields` is empty. Give it, or leave the field out.")
        _check_encoding(self.name, self.encoding)

    def settings(self) -> dict[str, Json]:
        """What determines the bytes of its documents."""
        plain = {key: value for key, value in settings_json(self).items() if key not in ("name", "path")}
        return {**plain, "fields": dict(self.fields), "encoding": codecs.lookup(self.encoding).name}

    def files(self) -> list[tuple[str, Path]]:
        """The files of known endings, sorted by name. Raises InputError where there are none."""
        known = (*TEXT_ENDINGS, *LINE_ENDINGS)
        wanted = f"a file with one of the endings {', '.join(known)}, a folder of them, or a glob"
        found = matching_files(self.name, self.path, lambda name: name.lower().endswith(known), wanted)
        for _, path in found:
            if not path.name.lower().endswith(known):
                raise InputError(f"Source {self.name!r}: {path} is none of {', '.join(known)}. Rename or convert it.")
        return found

    def slices(self, file: RawFile) -> list[Slice]:
        """Every 8 MB of a plain file of lines; any other file whole."""
        if not _has_lines(file.name) or _is_packed(file.name):
            return [whole_file(file)]
        starts = range(0, file.size_bytes, SLICE_BYTES)
        return [Slice(file=file, start=start, stop=min(start + SLICE_BYTES, file.size_bytes)) for start in starts]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """One record for each file or non-blank line. Raises InputError for a broken `.gz` or `.zst`."""
        with open_raw(Path(piece.file.path)) as stream:
            try:
                if _has_lines(piece.file.name):
                    yield from self._lines(stream, piece, tally)
                else:
                    tally.records += 1
                    yield self._text_file(stream, piece.file)
            except (OSError, EOFError, zlib.error) as error:
                raise InputError(f"{piece.file.path} cannot be read to its end: {error}. Get it again.") from error

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """The bytes of a file or line, without the line's end."""
        with open_raw(file) as stream:
            _pass_bytes(stream, locator.offset)
            return stream.read(locator.length)

    def _lines(self, stream: BufferedIOBase, piece: Slice, tally: Tally) -> Iterator[Record]:
        stop = None if _is_packed(piece.file.name) else piece.stop
        for line in read_lines(stream, piece.start, stop, self.max_record_bytes):
            if line.data is None or line.data.strip():
                tally.records += 1
                yield self._line_record(line, piece.file)

    def _line_record(self, line: Line, file: RawFile) -> Record:
        locator = self._locator(file, line.offset, line.length)
        if line.data is None:
            return self._too_large(locator)
        try:
            found = self._fields(parse_object(self._decode(line.data, line.offset)))
        except BadRecord as error:
            drop = Drop("damaged", str(error), damaged=True)
            return Record(locator=locator, text="", raw=line.data.strip(), drop=drop)
        drop_empty = None if found["text"].strip() else Drop("empty")
        return Record(locator=locator, raw=line.data.strip(), drop=drop_empty, **found)

    def _fields(self, value: dict[str, Json]) -> dict[str, Json]:
        """The record's fields by the names of `Record`. Raises BadRecord."""
        found: dict[str, Json] = {}
        for name, key in {"text": "text", **self.fields}.items():
            found[name] = _revision(value, key) if name == "revision" else _string(value, key, name)
        for name in ("text", "key"):
            if name in found and found[name] is None:
                raise BadRecord(f"no field {self.fields.get(name, name)!r} ({name})")
        return found

    def _text_file(self, stream: BufferedIOBase, file: RawFile) -> Record:
        data = stream.read(self.max_record_bytes + 1)
        if len(data) > self.max_record_bytes:
            return self._too_large(self._locator(file, 0, file.size_bytes))
        locator = self._locator(file, 0, len(data))
        try:
            text = self._decode(data, 0)
        except BadRecord as error:
            return Record(locator=locator, text="", raw=data, drop=Drop("damaged", str(error), damaged=True))
        return Record(locator=locator, text=text, raw=data, drop=None if text.strip() else Drop("empty"))

    def _decode(self, data: bytes, offset: int) -> str:
        try:
            return (data if offset else data.removeprefix(codecs.BOM_UTF8)).decode(self.encoding)
        except UnicodeDecodeError as error:
            raise BadRecord(f"not {self.encoding} at byte {offset + error.start}: {error.reason}") from error

    def _locator(self, file: RawFile, offset: int, length: int) -> Locator:
        stream = 0 if _is_packed(file.name) else -1
        return Locator(file=file.name, sha256=file.sha256, stream=stream, offset=offset, length=length)

    def _too_large(self, locator: Locator) -> Record:
        drop = Drop("too large", f"over {self.max_record_bytes} bytes")
        return Record(locator=locator, text="", raw=str(locator).encode(), drop=drop)


def read_lines(stream: BufferedIOBase, start: int, stop: int | None, max_bytes: int) -> Iterator[Line]:
    """The lines that begin in bytes `start` to `stop`, read to their ends; offsets are the file's.

    A line of more than `max_bytes` is passed over and never in memory.
    """
    offset = start
    if start:
        stream.seek(start - 1)
        offset = start - 1 + _skip_line(stream)
    while stop is None or offset < stop:
        data = stream.readline(max_bytes + 2)  # of an allowed line all, its end included
        if not data:
            return
        text = data.removesuffix(b"\n").removesuffix(b"\r")
        rest = 0 if data.endswith(b"\n") else _skip_line(stream)
        whole = len(text) <= max_bytes
        yield Line(offset, len(text) if whole else len(data) + rest, text if whole else None)
        offset += len(data) + rest


def _skip_line(stream: BufferedIOBase) -> int:
    """Read to the line's end in small steps; the number of bytes passed."""
    passed = 0
    while data := stream.readline(1 << 16):
        passed += len(data)
        if data.endswith(b"\n"):
            break
    return passed


def parse_object(line: str) -> dict[str, Json]:
    """A JSON object. Raises BadRecord.

    >>> parse_object('{"text": "a"}')
    {'text': 'a'}
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadRecord(f"not a JSON object but a {type(value).__name__}")
    return value


def _string(value: dict[str, Json], key: str, name: str) -> str | None:
    """A string, or a number as one except for the text; None where the field is missing or null."""
    found = value.get(key)
    if isinstance(found, (int, float)) and not isinstance(found, bool) and name != "text":
        found = str(found)
    if found is not None and not isinstance(found, str):
        raise BadRecord(f"field {key!r} ({name}) is not a string but a {type(found).__name__}")
    if found is not None and not found.isascii():
        _check_surrogates(found, key)
    return found


def _check_surrogates(text: str, key: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRecord(f"field {key!r} holds half a character (a lone surrogate) at {error.start}") from error


def _revision(value: dict[str, Json], key: str) -> int | None:
    found = value.get(key)
    whole = isinstance(found, int) and not isinstance(found, bool) and abs(found) <= MOST_REVISION
    if found is not None and not whole:
        raise BadRecord(f"field {key!r} (revision) is not a whole number of 64 bits: {str(found)[:40]!r}")
    return found


def open_raw(path: Path) -> BufferedIOBase:
    """A raw file's bytes, decompressed where its name ends in .gz or .zst. Raises InputError."""
    try:
        if path.name.lower().endswith(".zst"):
            return BufferedReader(pa.input_stream(str(path), compression="zstd"))
        return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from error


def _pass_bytes(stream: BufferedIOBase, size: int) -> None:
    if stream.seekable():
        stream.seek(size)
        return
    while size and (data := stream.read(min(size, 1 << 16))):
        size -= len(data)


def _check_encoding(name: str, encoding: str) -> None:
    try:
        ascii_compatible = "\n{".encode(encoding) == b"\n{"
    except LookupError as error:
        raise InputError(f"Source {name!r}: there is no encoding {encoding!r}. Try 'utf-8' or 'cp1252'.") from error
    if not ascii_compatible:
        raise InputError(
            f"Source {name!r}: in the encoding {encoding!r} lines cannot be found by their bytes. Convert "
            "the files to UTF-8, for instance with `iconv`."
        )


def _is_packed(name: str) -> bool:
    return name.lower().endswith(PACKED_ENDINGS)


def _has_lines(name: str) -> bool:
    return name.lower().endswith(LINE_ENDINGS)
