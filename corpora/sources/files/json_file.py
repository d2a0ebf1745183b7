r"""JSON as a format: a `.json` is an array of records, an object around one, one record, or one after another.

Promises: a file in which each line is an object is read as JSON lines. A lone text is a record. A value that is not
JSON is a damaged drop that says why; one of any length is passed over in bounded memory. Costs and memory: those of
cutting (below), and the parser's.

Cuts the values of a JSON file out of its bytes: an array of them, an array inside an object, or one after another.

    [{"text": "a"}, {"text": "b"}]                {"meta": {}, "data": [{"text": "a"}, {"text": "b"}]}
    {"text": "a"}                                 {"text": "a"} {"text": "b"}

Which of these a file is, is seen in its first `HEAD_BYTES`: the elements of an array are the values if it holds
objects and is over half of a file that is one object.

Promises: only strings and brackets decide where a value ends, so a value that is no JSON costs only itself in most
cases: a string ends with its line, no object begins in place of a name, and a bracket closes those inside that are
open. What follows a quote that is missing in a file of one line is one bad value. A value of any length is passed over
in bounded memory.
Costs: 150 MB/s of texts, 20 MB/s if most of it is brackets. Memory: a value of at most `max_bytes`, and a piece.
"""

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

from corpora.generic_types import Json
from corpora.sources.bytes.faults import BadRecord, explain_damage
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import Line, decode
from corpora.sources.bytes.recoded import open_lines
from corpora.sources.contract import RawFile, Record, Slice, Tally, slice_whole_file
from corpora.sources.files.fields import parse_object
from corpora.sources.files.formats import JsonLines, find_line_encoding, iter_nonblank_lines

HEAD_BYTES = 1 << 20
PIECE_BYTES = 1 << 16
MAX_ARRAY_DEPTH = 4  # objects that it may be inside of
OPENER = {ord("}"): ord("{"), ord("]"): ord("[")}
OBJECT, ARRAY, QUOTE, COMMA = b'{[",'

STRING = rb'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+(?:(?P<end>["\n])|(?P<cut>\\?)\Z)'  # after its quote, as far as a piece has it
REST = re.compile(STRING, re.DOTALL)
TOKEN = re.compile(rb'"%s|,\s*+\{|[][{}]' % STRING, re.DOTALL)  # also an object that begins where a name must be
BETWEEN = re.compile(rb"[\s,]*+")
TEXTS = re.compile(rb'(?:\xef\xbb\xbf)?\s*+(?:\[\s*+)?"')
NEXT = re.compile(rb"\s*+\{")
PLAIN = re.compile(rb'[^\s,"\[\]{}]++|[}\]]')  # a number, a word, or what is no JSON


class ValueLayout(NamedTuple):
    """The layout of the values in a JSON file.

    lines:  True if each line is a value
    start:  byte offset after the opening bracket of the array that contains the values, or 0 if there is no array
    around: the opening brackets of the objects that enclose this array, from the outermost
    texts:  True if the first value is a string rather than an object
    """

    lines: bool = False
    start: int = 0
    around: bytes = b""
    texts: bool = False


def find_layout(head: bytes) -> ValueLayout:
    """Detect the layout of the values in a JSON file from its first bytes.

    >>> find_layout(b'{"a": 1}\\n{"a": 2}').lines, find_layout(b'{"data": [{"a": 1}, {"a": 2}]}').start
    (True, 10)
    """
    if _is_lines(head):
        return ValueLayout(lines=True)
    if TEXTS.match(head):
        return ValueLayout(texts=True)
    stack: list[tuple[int, int]] = []  # open brackets, each with the byte after it
    sizes: dict[ValueLayout, int] = {}
    for match in TOKEN.finditer(head):
        sign = match[0][-1]
        if match[0][0] == QUOTE:
            continue
        if sign not in OPENER:
            stack.append((sign, match.end()))
        elif not stack or stack[-1][0] != OPENER[sign]:
            return ValueLayout()
        else:
            _add_array_size(sizes, stack, match.start(), head)
            stack.pop()
        if not stack:
            if head[match.end() :].strip():  # another value follows
                return ValueLayout()
            break
    while stack:
        _add_array_size(sizes, stack, len(head), head)
        stack.pop()
    layout = max(sizes, key=sizes.__getitem__, default=ValueLayout())
    return layout if sizes.get(layout, 0) > len(head.strip()) / 2 else ValueLayout()


def _is_lines(head: bytes) -> bool:
    """Return True if the first two nonblank lines of a file start with an object, and the first one is complete."""
    lines = head.lstrip().split(b"\n", 1)
    try:
        return len(lines) > 1 and lines[1].lstrip()[:1] == b"{" and isinstance(json.loads(lines[0]), dict)
    except (ValueError, RecursionError):
        return False


def _add_array_size(sizes: dict[ValueLayout, int], stack: list[tuple[int, int]], stop: int, head: bytes) -> None:
    """Add the size of the innermost open array to `sizes` if it contains objects and is enclosed only by objects.

    Args:
        sizes: Size in bytes of each array found so far, by layout. Changed in place.
        stack: The open brackets from the outermost, each as (bracket, index of the byte after it).
        stop: Index at which the array ends.
        head: The first bytes of the file.
    """
    if not 1 < len(stack) <= MAX_ARRAY_DEPTH + 1 or stack[-1][0] != ARRAY:
        return
    around, start = bytes(opener for opener, _ in stack[:-1]), stack[-1][1]
    if set(around) == {OBJECT}:
        if BETWEEN.sub(b"", head[start : start + PIECE_BYTES], count=1)[:1] == b"{":
            sizes[ValueLayout(start=start, around=around)] = stop - start


def read_values(stream: BufferedIOBase, max_bytes: int, layout: ValueLayout) -> Iterator[Line]:
    """Yield the bytes of each value in a file, in order, with its position.

    Args:
        stream: The content of the file.
        max_bytes: Maximum size of a value. The `data` of a larger value is None.
        layout: Layout of the values, as returned by `find_layout`.
    """
    first = stream.read(layout.start or len(codecs.BOM_UTF8))
    begin = layout.start or (len(first) if first == codecs.BOM_UTF8 else 0)
    cutter = _ValueCutter(max_bytes, layout, begin)
    yield from cutter.feed(first[begin:])
    for piece in iter(lambda: stream.read(PIECE_BYTES), b""):
        yield from cutter.feed(piece)
    yield from cutter.close()


class _ValueCutter:
    """Extracts JSON values from consecutive chunks of a file.

    Args:
        max_bytes: Maximum size of a value. The `data` of a larger value is None.
        layout: Layout of the values.
        offset: Position of the first chunk in the file.
    """

    def __init__(self, max_bytes: int, layout: ValueLayout, offset: int) -> None:
        self._max = max_bytes
        self._in_array = bool(layout.start)
        self._around = layout.around
        self._offset = offset  # of the piece
        self._open = False  # a value is
        self._stack: list[int] = []  # its open brackets
        self._num_open = {OBJECT: 0, ARRAY: 0}  # of them
        self._in_string = self._escaped = False
        self._broken = False  # a string has just ended with its line
        self._start = self._length = 0
        self._held: list[bytes] | None = []  # None: it is too large
        self._is_value = True  # and not what is around the array
        self._done: list[Line] = []

    def feed(self, piece: bytes) -> list[Line]:
        """Process the next chunk of the file, and return the values that end in it."""
        at = 0
        while at < len(piece):
            at = self._read_inside(piece, at) if self._open else self._skip_to_value(piece, at)
        self._offset += len(piece)
        done, self._done = self._done, []
        return done

    def close(self) -> list[Line]:
        """Finish after the last chunk. Return a list with the last value if it is incomplete, or []."""
        if self._open:
            self._end()
        return self._done

    def _skip_to_value(self, piece: bytes, at: int) -> int:
        """Advance from index `at` of a chunk, which is between values, to the next value or just past its start.

        Returns:
            The new index in the chunk.
        """
        space = BETWEEN.match(piece, at)
        at = space.end() if space else at
        if at == len(piece):
            return at
        sign = piece[at]
        if sign == ARRAY and not self._in_array:
            self._in_array = True
            return at + 1
        if sign == ord("]") and self._in_array:
            self._in_array = False
            if self._around:
                self._begin(at, list(self._around))
                self._is_value, self._around = False, b""
            return at + 1
        self._begin(at, [])
        plain = PLAIN.match(piece, at)
        if plain is not None:
            self._take(piece[at : plain.end()])
            self._end()
            return plain.end()
        self._take(piece[at : at + 1])
        self._in_string = sign == QUOTE
        if not self._in_string:
            self._push(sign)
        return at + 1

    def _begin(self, at: int, stack: list[int]) -> None:
        self._open, self._start, self._length, self._held = True, self._offset + at, 0, []
        self._stack, self._in_string, self._escaped, self._is_value = stack, False, False, True
        self._num_open = {OBJECT: stack.count(OBJECT), ARRAY: 0}

    def _push(self, opener: int) -> None:
        self._stack.append(opener)
        self._num_open[opener] += 1

    def _take(self, data: bytes) -> None:
        self._length += len(data)
        if self._held is not None:
            self._held.append(data)
            if self._length > self._max:
                self._held = None

    def _end(self) -> None:
        self._open = False
        if self._is_value:
            data = b"".join(self._held) if self._held is not None else None
            self._done.append(Line(self._start, self._length, data))

    def _read_inside(self, piece: bytes, at: int) -> int:
        """Advance from index `at` of a chunk, which is inside a value, to the end of the value or of the chunk.

        Returns:
            The new index in the chunk.
        """
        begin = at
        while at < len(piece):
            if self._in_string:
                at = self._skip_string(piece, at)
            elif (match := TOKEN.search(piece, at)) is None:
                at = len(piece)
            elif match[0][0] == COMMA and self._stack and self._stack[-1] == OBJECT:
                at = match.start()  # a value that is not closed: the next begins
                self._stack.clear()
            else:
                at = match.end()
                self._read_token(match)
            if self._broken and self._stack[-1:] == [OBJECT] and NEXT.match(piece, at):
                self._stack.clear()
            self._broken = False
            if not self._stack and not self._in_string:
                break
        if self._is_value:
            self._take(piece[begin:at])
        if not self._stack and not self._in_string:
            self._end()
        return at

    def _read_token(self, match: "re.Match[bytes]") -> None:
        """Process a bracket or a string inside a value."""
        sign = match[0][-1]
        if match[0][0] == QUOTE:
            self._end_string(match)
        elif sign not in OPENER:
            self._push(sign)
        elif self._num_open[OPENER[sign]]:
            while (opener := self._stack.pop()) != OPENER[sign]:
                self._num_open[opener] -= 1
            self._num_open[opener] -= 1

    def _skip_string(self, piece: bytes, at: int) -> int:
        """Advance from index `at` of a chunk, which is inside a string, to the end of the string or of the chunk.

        Returns:
            The new index in the chunk.
        """
        match = REST.match(piece, at + self._escaped)
        assert match is not None
        self._end_string(match)
        return match.end()

    def _end_string(self, match: "re.Match[bytes]") -> None:
        self._in_string, self._escaped = not match["end"], bool(match["cut"])
        self._broken = match["end"] == b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile(JsonLines):
    """The `.json` format, in which each value of a file becomes a record.

    `texts` is True if strings count as values too.
    """

    texts: bool = False

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A JSON file is cut every 1 MB if each line is a value. Any other file is one slice.

        Raises:
            InputError: If the file cannot be read.
        """
        path = parse_raw_path(file.path)
        return JsonLines.slices(self, file) if self.read_layout(path).lines else [slice_whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Each JSON value is a record.

        Args:
            piece: The slice.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file cannot be read to its end.
        """
        path = parse_raw_path(piece.file.path)
        layout = ValueLayout(lines=True) if piece.start else self.read_layout(path)
        if layout.lines:
            yield from JsonLines.records(self, piece, tally)
            return
        wide, reader = find_line_encoding(path, self.encoding), replace(self, texts=layout.texts)
        with open_lines(path, wide) as stream, explain_damage(path):
            for value in iter_nonblank_lines(read_values(stream, self.max_record_bytes, layout), tally):
                yield reader._build_record(value, piece.file, tally, bool(wide))

    def read_layout(self, path: Path) -> ValueLayout:
        """Detect the layout of the values in a file from its first megabyte.

        Raises:
            InputError: If the file cannot be read.
        """
        with open_lines(path, find_line_encoding(path, self.encoding)) as stream, explain_damage(path):
            return find_layout(stream.read(HEAD_BYTES))

    def read_head(self, path: Path, max_bytes: int) -> Iterator[Line]:
        """Yield the values or lines that begin in the first `max_bytes` bytes of a file.

        The bytes are counted from the beginning of the array that contains the values, if there is one.

        Raises:
            InputError: During iteration, if the file cannot be read.
        """
        layout = self.read_layout(path)
        if layout.lines:
            yield from JsonLines.read_head(self, path, max_bytes)
            return
        with open_lines(path, find_line_encoding(path, self.encoding)) as stream, explain_damage(path):
            for value in read_values(stream, self.max_record_bytes, layout):
                if value.offset > layout.start + max_bytes:
                    return
                yield value

    def parse(self, data: bytes, offset: int) -> dict[str, Json]:
        """Parse a line or value into a dictionary of its fields.

        A string becomes {"text": string} if `texts` is True.

        Args:
            data: The bytes of the value.
            offset: The value's position in the file.

        Raises:
            BadRecord: If the value cannot be decoded or parsed, or is of another type.
        """
        text = decode(data, self.encoding, offset)
        if not self.texts or not data.startswith(b'"'):
            return parse_object(text)
        try:
            return {"text": json.loads(text)}
        except ValueError as error:
            raise BadRecord(f"not JSON: {error}") from error
