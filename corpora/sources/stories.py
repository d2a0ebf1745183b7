"""Stories (Trinh and Le 2018, "A Simple Method for Commonsense Reasoning", section 5.3), in the forms it is kept in.

Promises: one story is one document. By `form` it is a line, a run of lines between blank ones, or a file;
line breaks inside it stay, and no marker is read as one. A plain `.txt` is cut every 1 MB, and a story
belongs to the slice in which it begins; JSON lines and whole files are read as the kind "files" reads them.
Costs: the line form reads 400 MB/s, the blank-line form 100 MB/s. Memory: one story, at most `max_record_bytes`.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain
from pathlib import Path
from typing import ClassVar

from corpora.generic_types import Json
from corpora.schema import Locator
from corpora.sources.bytes.endings import is_packed, with_packed_endings
from corpora.sources.bytes.faults import explain_damage
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import Line, open_raw, read_again, read_lines, seek_line
from corpora.sources.contract import (
    SLICE_BYTES,
    Drop,
    RawFile,
    Record,
    RecordFormat,
    Slice,
    Tally,
    build_locator,
    cut_every,
    drop_damaged,
    drop_too_large,
    find_by_ending,
    select_settings,
    slice_whole_file,
)
from corpora.sources.files.endings import LINE_ENDINGS
from corpora.sources.files.formats import JsonLines, TextFile, find_stop, iter_nonblank_lines
from corpora.store.settings import check_choice, check_range

ENDINGS = (*with_packed_endings(".txt"), *LINE_ENDINGS)
SHOWN_ENDINGS = ".txt, .jsonl, .ndjson (each also .gz, .zst, .bz2, .xz)"
FORMS = ("line", "blank-line", "file")
SEEK_BACK_BYTES = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class StoriesSource:
    """The `[[source]]` table of kind "stories".

    path:             a file, a folder or a glob: `.txt`, and `.jsonl` with a field `text`; each also `.gz`, `.zst`,
                      `.bz2` or `.xz`
    form:             how a `.txt` contains stories: "line" (each line is a story), "blank-line" (blank lines separate
                      stories) or "file" (each file is a story)
    max_record_bytes: a longer story is dropped
    """

    kind: ClassVar[str] = "stories"
    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ()

    name: str = "stories"
    path: str
    form: str = "line"
    max_record_bytes: int = 10_000_000

    def __post_init__(self) -> None:
        check_choice(f"source {self.name!r}: form", self.form, FORMS)
        check_range(f"source {self.name!r}: max_record_bytes", self.max_record_bytes, 1, 1 << 30)

    def settings(self) -> dict[str, Json]:
        """Return the settings that affect the documents, as JSON by field name.

        These are `form` and `max_record_bytes`.
        """
        return select_settings(self)

    def files(self) -> list[tuple[str, Path]]:
        """List the raw files as (name, path) pairs, sorted by name.

        These are the text files and files of JSON lines at `path`.

        Raises:
            InputError: If none is found, or `path` names a single file with another extension.
        """
        wanted = f"a file with one of the endings {SHOWN_ENDINGS}, a folder of them, or a glob"
        return find_by_ending(
            self.name, self.path, ENDINGS, wanted, f"is none of {SHOWN_ENDINGS}. Rename or convert it."
        )

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        An uncompressed file of several stories or of JSON lines is cut every 1 MB. Other files are one slice.
        """
        if not self._is_line_file(file.name):
            return self._build_format(file.name).slices(file)
        return [slice_whole_file(file)] if is_packed(file.name) else cut_every(file, SLICE_BYTES)

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Each story that begins in the slice is a record.

        Args:
            piece: The slice.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file is damaged.
        """
        if not self._is_line_file(piece.file.name):
            yield from self._build_format(piece.file.name).records(piece, tally)
            return
        path = parse_raw_path(piece.file.path)
        with open_raw(path) as stream, explain_damage(path):
            for story in self._iter_stories(stream, piece.start, find_stop(piece), tally):
                yield self._build_record(story, piece.file, tally)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The record is a story, without the line break at its end.

        Raises:
            InputError: If the file cannot be read.
        """
        return read_again(file, locator.offset, locator.length)

    def _iter_stories(self, stream: BufferedIOBase, start: int, stop: int | None, tally: Tally) -> Iterator[Line]:
        """Yield the stories that begin in bytes `start` to `stop`, and count each in the tally when it begins.

        If `stop` is None, the stream is read to its end.
        """
        if self.form == "line":
            yield from iter_nonblank_lines(read_lines(stream, start, stop, self.max_record_bytes), tally)
        else:
            lines = read_lines_around(stream, start, stop, self.max_record_bytes)
            yield from join_lines(iter_story_lines(lines, start, stop, tally), self.max_record_bytes)

    def _build_record(self, story: Line, file: RawFile, tally: Tally) -> Record:
        """Build the record of a story. The record is dropped if the story is too long, empty or not UTF-8.

        Args:
            story: The story with its position.
            file: The file that contains it.
            tally: Knows which records crashed earlier and must be skipped.
        """
        locator = build_locator(file, story.offset, story.length)
        if story.data is None:
            return drop_too_large(locator, self.max_record_bytes)
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=story.data.strip(), drop=drop)
        try:
            text = (story.data if story.offset else story.data.removeprefix(codecs.BOM_UTF8)).decode()
        except UnicodeDecodeError as error:
            reason = f"not utf-8 at byte {story.offset + error.start}: {error.reason}"
            return drop_damaged(locator, story.data.strip(), reason)
        return Record(locator=locator, text=text, raw=story.data.strip(), drop=None if text.strip() else Drop("empty"))

    def _is_line_file(self, name: str) -> bool:
        """Return True if the file with this name contains stories as lines of plain text."""
        return self.form != "file" and not name.lower().endswith(LINE_ENDINGS)

    def _build_format(self, name: str) -> RecordFormat:
        """Return the format for a file of the other kinds: JSON lines, or a text that is a single story."""
        if name.lower().endswith(LINE_ENDINGS):
            return JsonLines(max_record_bytes=self.max_record_bytes)
        return TextFile(max_record_bytes=self.max_record_bytes)


def is_blank(line: Line) -> bool:
    """Return True if a line contains only white space. Return False for a line that is too long to be read."""
    return line.data is not None and not line.data.strip()


def read_lines_around(stream: BufferedIOBase, start: int, stop: int | None, max_bytes: int) -> Iterator[Line]:
    """Read the lines of a stream, beginning with the line that contains the byte before `start`.

    If that line is longer than `max_bytes`, reading begins with the next line. If the next line does not begin before
    `stop`, nothing is yielded, so that the end of a very long line is not searched for in each of its slices.

    Args:
        stream: A seekable stream of decompressed bytes.
        start: First byte of the slice.
        stop: First byte after the slice; None for the end of the stream. Lines after it are read, too.
        max_bytes: Maximum length of a line. A longer line is yielded without its data.
    """
    if start == 0:
        return read_lines(stream, 0, None, max_bytes)
    first_line = find_line_start(stream, start, max_bytes + 2)
    if first_line is None:
        first_line = seek_line(stream, start, stop)
        if stop is not None and first_line >= stop:
            return iter(())
    stream.seek(0)  # where `read_lines` takes a stream to be
    return read_lines(stream, first_line, None, max_bytes)


def find_line_start(stream: BufferedIOBase, position: int, max_bytes: int) -> int | None:
    r"""Find the offset at which a line begins: the line that contains the byte before `position`.

    Args:
        stream: A seekable stream of decompressed bytes.
        position: Offset in the stream.
        max_bytes: Maximum number of bytes to search backwards.

    Returns:
        The offset; None if the line begins `max_bytes` or more bytes before that byte.

    >>> from io import BytesIO
    >>> find_line_start(BytesIO(b"one\ntwo\nthree"), 8, 100), find_line_start(BytesIO(b"one\ntwo"), 7, 2)
    (4, None)
    """
    at = position - 1
    low = max(0, at - max_bytes)
    while at > low:
        block_start = max(low, at - SEEK_BACK_BYTES)
        stream.seek(block_start)
        newline = stream.read(at - block_start).rfind(b"\n")
        if newline >= 0:
            return block_start + newline + 1
        at = block_start
    return None if low else 0


def iter_story_lines(lines: Iterator[Line], start: int, stop: int | None, tally: Tally) -> Iterator[Line | None]:
    """Yield the nonblank lines of the stories that begin in bytes `start` to `stop`, and None at the end of each story.

    Stories are separated by blank lines. Each story is counted in the tally when its first line is read. There may be
    no None after the last story.

    Args:
        lines: The lines of the file. The first one may be the line before the slice. It shows whether a story begins at
            `start`.
        start: First byte of the slice.
        stop: First byte after the slice; None for the end of the file. A story that begins before `stop` is read to its
            end.
        tally: Counts the stories.
    """
    is_between, is_inside = start == 0, False
    for line in lines:
        if line.offset < start:
            is_between = is_blank(line)
        elif stop is not None and line.offset >= stop and not is_inside:
            return
        elif is_blank(line):
            if is_inside:
                yield None
            is_between, is_inside = True, False
        elif is_between or is_inside:
            tally.records += is_between
            is_between, is_inside = False, True
            yield line


def join_lines(lines: Iterator[Line | None], max_bytes: int) -> Iterator[Line]:
    """Join the lines of each story (ended by None) with line feeds, and yield each story as one `Line`.

    The data of a story is None if the story is longer than `max_bytes`, or if one of its lines was too long.
    """
    kept: list[bytes] | None = []
    offset = length = 0
    for line in chain(lines, [None]):
        if line is None:
            if length:
                yield Line(offset, length, None if kept is None else b"\n".join(kept))
            kept, length = [], 0
            continue
        offset = offset if length else line.offset
        length = line.offset + line.length - offset
        if line.data is None or length > max_bytes:
            kept = None
        elif kept is not None:
            kept.append(line.data)
