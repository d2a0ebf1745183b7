"""Sentences as people split them: `split_sentences` next to other libraries, compared with gold sentences.

    python -m benchmarks.sentence_quality --gold FOLDER [--treebanks FOLDER]

FOLDER holds `ud-english-ewt/*.conllu` (Universal Dependencies) and `sentence-splitting/golden-rules-en.jsonl`;
a library that is not installed is named and left out. That of treebanks holds `LANGUAGE.jsonl`, a document a line:
`sentences`, what stands `after` each, and numbers of those at `paragraph_starts`.

The measure. A boundary is a sentence end inside a text, its last left out, given as the number of characters
other than white space before it, so that the treatment of spaces does not matter. Documents are made of the
gold sentences: the sentences of a paragraph are joined by a space, or by nothing where the treebank has
SpaceAfter=No after the last word, and paragraphs by a blank line; no other line end comes in.
- documents: whole documents, so that the ends of paragraphs count too;
- even, odd: the same for every second document, counted from 0 and from 1 (the rules were tuned on the even ones);
- paragraphs: every paragraph a text of its own, so that only boundaries inside paragraphs count;
- golden rules: texts with all sentences right, when each run of white space is read as one space.
"""

import argparse
import importlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from corpora.errors import InputError
from corpora.text.sentences.splitter import split_sentences

Ends = set[tuple[int, int]]
Splitter = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The agreement of proposed boundaries with the gold ones."""

    shared: int
    proposed: int
    gold: int

    @property
    def precision(self) -> float:
        """The share of the proposed boundaries that are right; 1 where there is none."""
        return self.shared / self.proposed if self.proposed else 1.0

    @property
    def recall(self) -> float:
        """The share of the gold boundaries that are found; 1 where there is none."""
        return self.shared / self.gold if self.gold else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.shared / (self.proposed + self.gold) if self.proposed + self.gold else 1.0


# The gold.


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldText:
    """A text, and its boundaries as numbers of characters other than white space."""

    text: str
    ends: tuple[int, ...]


def gold_documents(path: Path) -> list[list[GoldText]]:
    """Return the documents of a CoNLL-U file, each a list of paragraphs.

    Raises InputError if the file has no document.
    """
    documents: list[list[list[str]]] = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        text = re.search(r"^# text = (.*)$", block, re.MULTILINE)
        if not text:
            continue
        if re.search(r"^# newdoc", block, re.MULTILINE) or not documents:
            documents.append([[]])
        elif re.search(r"^# newpar", block, re.MULTILINE):
            documents[-1].append([])
        words = [line for line in block.splitlines() if re.match(r"\d+\t", line)]
        documents[-1][-1].append(text[1] + ("" if words and "SpaceAfter=No" in words[-1] else " "))
    if not documents:
        raise InputError(f"{path} holds no sentence: a CoNLL-U file has a line '# text = ...' for each.")
    return [[_gold_text(sentences) for sentences in document] for document in documents]


def _gold_text(sentences: Sequence[str]) -> GoldText:
    return GoldText(text="".join(sentences).strip(), ends=tuple(inner_ends(sentences)))


def joined(paragraphs: Sequence[GoldText]) -> GoldText:
    """Return paragraphs as one text, blank lines between them.

    >>> joined([GoldText(text="A b. C", ends=(3,)), GoldText(text="D", ends=())])
    GoldText(text='A b. C\\n\\nD', ends=(3, 4))
    """
    ends: list[int] = []
    before = 0
    for paragraph in paragraphs:
        size = num_visible(paragraph.text)
        ends += [before + end for end in paragraph.ends] + [before + size]
        before += size
    return GoldText(text="\n\n".join(paragraph.text for paragraph in paragraphs), ends=tuple(ends[:-1]))


def num_visible(text: str) -> int:
    """Return the number of characters of a text that are not white space."""
    return len("".join(text.split()))


def inner_ends(sentences: Sequence[str]) -> list[int]:
    """Return the number of characters other than white space before each end but the last.

    >>> inner_ends(["It rained.", " Nobody came. "])
    [9]
    """
    ends: list[int] = []
    for size in filter(None, map(num_visible, sentences)):
        ends.append(size + (ends[-1] if ends else 0))
    return ends[:-1]


def agreement(splitter: Splitter, texts: Sequence[GoldText]) -> Agreement:
    """Compare what a splitter finds in texts with their gold."""
    ends: Ends = {(number, end) for number, gold in enumerate(texts) for end in inner_ends(splitter(gold.text))}
    wanted: Ends = {(number, end) for number, gold in enumerate(texts) for end in gold.ends}
    return Agreement(shared=len(ends & wanted), proposed=len(ends), gold=len(wanted))


def golden_rules(path: Path) -> list[tuple[str, list[str]]]:
    """Return texts with their sentences, from lines of JSON with "text" and "sentences"."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(record["text"], record["sentences"]) for record in records]


def rules_kept(splitter: Splitter, rules: Sequence[tuple[str, list[str]]]) -> list[bool]:
    """Return for each text whether all its sentences are found, with every run of white space read as one space."""
    return [spaced(splitter(text)) == spaced(sentences) for text, sentences in rules]


def spaced(sentences: Sequence[str]) -> list[str]:
    """Return sentences with single spaces."""
    return [" ".join(sentence.split()) for sentence in sentences if sentence.strip()]


# The splitters.


def ours(text: str, language: str | None = None) -> list[str]:
    """Return the sentences of the definition, whose offsets the kernel finds."""
    raw = text.encode()
    return [raw[start:end].decode() for start, end in split_sentences(text, language)]


def _segtok() -> Splitter:
    split = importlib.import_module("segtok.segmenter").split_multi
    return lambda text: list(split(text))


def _pysbd() -> Splitter:
    segment = importlib.import_module("pysbd").Segmenter(language="en", clean=False).segment
    return lambda text: list(segment(text))


def _sentencex() -> Splitter:
    segment = importlib.import_module("sentencex").segment
    return lambda text: list(segment("en", text))


def _blingfire() -> Splitter:
    find = importlib.import_module("blingfire").text_to_sentences_and_offsets
    return lambda text: [text[start:end] for start, end in find(text)[1]] if text.strip() else []


def _nltk() -> Splitter:
    split = importlib.import_module("nltk.tokenize.punkt").PunktSentenceTokenizer().tokenize
    return lambda text: list(split(text))


OTHERS: dict[str, Callable[[], Splitter]] = {
    "segtok": _segtok,
    "pysbd": _pysbd,
    "sentencex": _sentencex,
    "blingfire": _blingfire,
    "nltk": _nltk,  # punkt without the trained model, which would be a download
}


def installed() -> dict[str, Splitter]:
    """Return ours, and those of the other libraries that can be imported."""
    return {"split_sentences": ours} | {name: load() for name, load in OTHERS.items() if find_spec(name)}


# Other languages.


def treebank(path: Path) -> list[GoldText]:
    """Return the documents of a file of JSON lines."""
    texts = []
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        pieces = [one + after for one, after in zip(record["sentences"], [*record["after"], ""], strict=False)]
        for start in record.get("paragraph_starts") or ():
            pieces[start] = f"\n\n{pieces[start]}" if start else pieces[start]
        texts.append(GoldText(text="".join(pieces).strip(), ends=tuple(inner_ends(pieces))))
    return texts


def splitters_of(language: str) -> dict[str, Splitter]:
    """Return ours with and without the language, and those of the libraries that know it."""
    splitters: dict[str, Splitter] = {"ours": partial(ours, language=language), "without": ours}
    if find_spec("sentencex"):
        segment = importlib.import_module("sentencex").segment
        splitters["sentencex"] = lambda text: list(segment(language, text))
    if find_spec("pysbd"):
        pysbd = importlib.import_module("pysbd")
        if language in importlib.import_module("pysbd.languages").LANGUAGE_CODES:
            splitters["pysbd"] = pysbd.Segmenter(language=language, clean=False).segment
    return splitters


def treebank_lines(folder: Path) -> Iterator[str]:
    """Yield a line for each treebank of a folder."""
    for path in sorted(folder.glob("*.jsonl")):
        texts = treebank(path)
        cells = {name: agreement(splitter, texts) for name, splitter in splitters_of(path.stem).items()}
        shown = ", ".join(f"{name} {c.f1:.4f} ({c.precision:.3f}, {c.recall:.3f})" for name, c in cells.items())
        yield f"  {path.stem}  {sum(len(text.ends) for text in texts):5} boundaries: {shown}"


# The report.


def report(documents: Sequence[Sequence[GoldText]], rules: Sequence[tuple[str, list[str]]]) -> Iterator[str]:
    """Yield the table, a row for each splitter."""
    whole = [joined(paragraphs) for paragraphs in documents]
    parts = {
        "documents": whole,
        "even": whole[::2],
        "odd": whole[1::2],
        "paragraphs": [paragraph for paragraphs in documents for paragraph in paragraphs],
    }
    sizes = ", ".join(f"{sum(len(text.ends) for text in texts)} in {name}" for name, texts in parts.items())
    yield f"sentences: boundaries {sizes}; {len(rules)} golden rules; F1 (precision, recall)"
    yield f"  {'':15}" + "".join(f"  {name:20}" for name in parts) + "  golden rules"
    for name, splitter in installed().items():
        cells = [agreement(splitter, texts) for texts in parts.values()]
        shown = "".join(f"  {f'{c.f1:.4f} ({c.precision:.3f}, {c.recall:.3f})':20}" for c in cells)
        yield f"  {name:15}{shown}  {sum(rules_kept(splitter, rules))}"
    absent = [name for name in OTHERS if not find_spec(name)]
    if absent:
        yield f"  - not installed: {', '.join(absent)}"


def main() -> None:
    """Run the comparison; ends with exit code 2 where the gold is missing."""
    story = (__doc__ or "").split("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sentence_quality", description=story)
    parser.add_argument("--gold", type=Path, required=True, help="the folder of the gold")
    parser.add_argument("--treebanks", type=Path, help="a folder of treebanks of other languages")
    given = parser.parse_args()
    gold = given.gold
    files = sorted((gold / "ud-english-ewt").glob("*.conllu"))
    golden = gold / "sentence-splitting" / "golden-rules-en.jsonl"
    if not files or not golden.is_file():
        parser.error(f"--gold {gold}: needs ud-english-ewt/*.conllu and sentence-splitting/golden-rules-en.jsonl there")
    documents = [document for path in files for document in gold_documents(path)]
    for line in report(documents, golden_rules(golden)):
        print(line, flush=True)
    for line in treebank_lines(given.treebanks) if given.treebanks else ():
        print(line, flush=True)


if __name__ == "__main__":
    main()
