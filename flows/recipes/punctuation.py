"""Labels that are made where they are used: the commas and full stops of two sentences, to be put back.

    documentation of installed packages ─► two plain sentences ─► words without marks, each tagged with its own mark

    "If it is empty, it is false. None is false, too." ─► If  it  is  empty    it  is  false   none  is  false    too
                                                          O   O   O   B-comma  O   O   B-stop  O     O   B-comma  O

The first letter of the second sentence is made small, and its last full stop is not asked for: every row would end with
one. A plain sentence has words, commas and a full stop. The packages are those that Cloze itself needs. The rows to
learn from and those to judge by are of different packages, and the demo's model reads none of them; a pair with a
sentence that it reads elsewhere (`READ_PACKAGES`, the standard library) is left out, and so is a repeated sentence.

    python -m flows.recipes.punctuation FOLDER     writes punctuation.train.conll and punctuation.dev.conll

A recipe names them `made:punctuation.train.conll`: they are made when a run begins, in ~/.cache/cloze.

Promise: the same packages and the same Python give the same bytes. Cost: 7 CPU seconds (one x86-64 core, 2026-11-29).
"""

import hashlib
import importlib.metadata
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from corpora.errors import InputError
from corpora.sources.contract import RawFile, Tally, slice_whole_file
from corpora.sources.python_docs import PythonDocsSource
from corpora.store.places.files import replace_file
from trainer.job import CACHE

READ_PACKAGES = ("numpy",)  # that the demo's model reads, besides the standard library
TRAIN_PACKAGES = ("prefect", "docker", "beartype", "websockets", "pydantic", "rich", "fsspec", "cyclopts")
DEV_PACKAGES = ("networkx", "huggingface-hub", "jinja2", "click")
TRAIN_FILE, DEV_FILE = "punctuation.train.conll", "punctuation.dev.conll"
NUM_TRAIN, NUM_DEV = 200, 400
MIN_PAIRS = 20  # fewer of a file say nothing
MIN_WORDS, MAX_WORDS = 4, 12  # of a sentence
VERSION = 1  # of the bytes
FOLDER = "labels"  # of the cache
MARKS = {",": "B-comma", ".": "B-stop"}

_SENTENCE = re.compile(r"[A-Z][a-z]*(?:['-][a-z]+)*(?:,? [A-Za-z][a-z]*(?:['-][a-z]+)*)+\.")
_SENTENCE_END = re.compile(r"(?<=[.!?:;]) +")


class SentencePair(NamedTuple):
    """Two consecutive sentences of a paragraph, including their punctuation."""

    first: str
    second: str


def main(arguments: Sequence[str]) -> int:
    """Write both label files to a folder, the only argument. Returns an exit code: 0, or 2 for wrong arguments."""
    if len(arguments) != 1:
        print("usage: python -m flows.recipes.punctuation FOLDER")
        return 2
    for name, number in make_labels(Path(arguments[0])).items():
        print(f"{name}: {number} pairs of sentences")
    return 0


def locate_labels(name: str) -> Path:
    """Return the path, in the cache, of a label file for the installed packages. It need not exist.

    Args:
        name: TRAIN_FILE or DEV_FILE.

    Raises:
        InputError: If the name is not one of these.
    """
    if name not in (TRAIN_FILE, DEV_FILE):
        raise InputError(f"made:{name} is not known: there are made:{TRAIN_FILE} and made:{DEV_FILE}.")
    packages = (*READ_PACKAGES, *TRAIN_PACKAGES, *DEV_PACKAGES)
    found = [VERSION, sys.version, *(f"{package} {_find_version(package)}" for package in packages)]
    digest = hashlib.sha256("\n".join(map(str, found)).encode()).hexdigest()[:12]
    return CACHE.expanduser() / FOLDER / digest / name


def make_missing_labels(path: Path) -> None:
    """Generate the label files if a path is one returned by `locate_labels` and does not exist.

    Raises:
        InputError: If there is too little documentation, or the file cannot be written.
    """
    if path.name in (TRAIN_FILE, DEV_FILE) and path == locate_labels(path.name) and not path.is_file():
        make_labels(path.parent)


def make_labels(folder: Path) -> dict[str, int]:
    """Write TRAIN_FILE and DEV_FILE to a folder, and return the number of sentence pairs in each, by file name.

    Raises:
        InputError: If there is too little documentation, or a file cannot be written.
    """
    known = set(iter_sentences(READ_PACKAGES, standard_library=True))
    numbers = {}
    for name, packages, most in ((TRAIN_FILE, TRAIN_PACKAGES, NUM_TRAIN), (DEV_FILE, DEV_PACKAGES, NUM_DEV)):
        installed = [package for package in packages if _find_version(package)]
        pairs = choose_pairs(find_pairs(iter_paragraphs(installed)) if installed else (), known, most)
        if len(pairs) < MIN_PAIRS:
            raise InputError(
                f"{name}: the documentation of {', '.join(packages)} has {len(pairs)} pairs of plain sentences, and "
                f"{MIN_PAIRS} are needed. Install these packages with their sources, or leave the task out."
            )
        known.update(sentence for pair in pairs for sentence in pair)
        numbers[name] = len(pairs)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with replace_file(folder / name) as new:
                new.write_text("\n".join(map(format_pair, pairs)), encoding="utf-8")
        except OSError as error:
            raise InputError(f"Cannot write {folder / name}: {error.strerror}. Name another folder.") from error
    return numbers


def _find_version(package: str) -> str:
    """Return the version of a package, or "" if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def iter_paragraphs(packages: Collection[str], standard_library: bool = False) -> Iterator[str]:
    """Yield the paragraphs of packages' documentation, as read by the source `python-docs`."""
    source = PythonDocsSource(packages=tuple(packages), standard_library=standard_library)
    for name, path in source.files():
        file = RawFile(name=name, sha256="", size_bytes=path.stat().st_size, path=str(path))
        for record in source.records(slice_whole_file(file), Tally()):
            yield from record.text.splitlines()


def iter_sentences(packages: Collection[str], standard_library: bool = False) -> Iterator[str]:
    """Yield every sentence in the documentation of packages."""
    for paragraph in iter_paragraphs(packages, standard_library):
        yield from split_sentences(paragraph)


def split_sentences(paragraph: str) -> list[str]:
    """Split a paragraph after each mark that may end a sentence and is followed by a space.

    >>> split_sentences("It is read. It is not kept.")
    ['It is read.', 'It is not kept.']
    """
    return _SENTENCE_END.split(paragraph.strip())


def find_pairs(paragraphs: Iterable[str]) -> Iterator[SentencePair]:
    """Yield pairs of consecutive plain sentences (see `is_plain`). A sentence is in at most one pair."""
    for paragraph in paragraphs:
        before = ""
        for sentence in split_sentences(paragraph):
            is_second = is_plain(sentence) and bool(before)
            if is_second:
                yield SentencePair(before, sentence)
            before = sentence if is_plain(sentence) and not is_second else ""


def is_plain(sentence: str) -> bool:
    """Return True if a sentence has MIN_WORDS to MAX_WORDS words, commas, a final full stop, and nothing else.

    >>> is_plain("If so, it is read."), is_plain("See `help`."), is_plain("It is read 3 times.")
    (True, False, False)
    """
    return MIN_WORDS <= len(sentence.split()) <= MAX_WORDS and _SENTENCE.fullmatch(sentence) is not None


def choose_pairs(pairs: Iterable[SentencePair], known: Collection[str], most: int) -> list[SentencePair]:
    """Choose sentence pairs in an order that depends only on their text.

    Args:
        pairs: The pairs to choose from.
        known: Sentences to avoid. Pairs that contain one of them are omitted.
        most: The maximum number of pairs to choose.
    """
    met, chosen = set[str](), list[SentencePair]()
    for pair in sorted({*pairs}, key=lambda pair: hashlib.sha256("\n".join(pair).encode()).digest()):
        if len(chosen) < most and not any(sentence in known or sentence in met for sentence in pair):
            chosen.append(pair)
            met.update(pair)
    return chosen


def format_pair(pair: SentencePair) -> str:
    r"""Format a sentence pair as lines of words and tags. The second sentence begins with a lower-case letter.

    >>> format_pair(SentencePair("So, it is.", "It was."))
    'So\tB-comma\nit\tO\nis\tB-stop\nit\tO\nwas\tO\n'
    """
    second = pair.second[0].lower() + pair.second[1:].removesuffix(".")
    words = f"{pair.first} {second}".split()
    return "".join(f"{word.rstrip(',.')}\t{MARKS.get(word[-1], 'O')}\n" for word in words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
