"""The table of stop words and lengths of words by language, measured from text, as the rules of documents read it.

Promise: the table depends on the texts alone. A stop word of a language is a word (in some, a
character) that makes up `SHARE` of its words and is in more than `MOST_TEXTS` of the pieces of `PIECE` words, so that
no subject's word is one. The length is that of the mean word with its marks, in those of English. A language of fewer
than `LEAST` words gets no row. Cost: some seconds. `--treebanks` names a folder of more text: treebanks of Universal
Dependencies, `CODE_*.conllu`. `--write` replaces the table that comes with the program.

Source: Penedo et al. 2025 (FineWeb2), section 4.3, which takes the words above a share of a language's Wikipedia.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from benchmarks.residue import prose
from benchmarks.sentence_quality import treebank
from corpora.text.counts.languages import BY_LETTER, ENGLISH, SPACELESS, WORD

SHARE, MOST_TEXTS, PIECE, LEAST, MOST = 0.004, 0.7, 500, 5_000, 20
FEWEST = 12  # of a language that has fewer, as its endings make many words of one, half of SHARE and MOST_TEXTS do
WIKIS = {"es": "eswiki.xml.bz2", "fr": "frwiki.xml.bz2"}
UDHR = {"de": "deu_1901", "fr": "fra", "ja": "jpn", "nl": "nld", "pl": "pol", "pt": "por_PT", "es": "spa"}
SENTENCE = re.compile("(?m)^# text = (.+)")


def texts_of(data: Path, treebanks: Path | None = None) -> dict[str, list[str]]:
    """Return the texts of each language in the folder of samples, and in one of treebanks."""
    texts: dict[str, list[str]] = {}
    for path in sorted((data / "languages" / "sentences").glob("*.jsonl")):
        texts[path.stem] = [document.text for document in treebank(path)]
    for code, name in WIKIS.items():
        texts.setdefault(code, []).extend(page.text for page in prose(data / "wikipedia" / "minidumps" / name))
    for path in sorted(treebanks.glob("*.conllu")) if treebanks else ():
        sentences = SENTENCE.findall(path.read_text(encoding="utf-8"))
        texts.setdefault(path.name.partition("_")[0], []).append(" ".join(sentences))
    for code, name in UDHR.items():
        texts[code].append((data / "gold" / "languages" / f"udhr-{name}.txt").read_text(encoding="utf-8"))
    english = (data / "gold" / "ud-english-ewt" / "en_ewt-ud-dev.conllu").read_text(encoding="utf-8")
    texts[ENGLISH] = [" ".join(SENTENCE.findall(english))]
    return texts


def stop_words(texts: Sequence[Sequence[str]]) -> list[str]:
    """Return the words of some texts that are frequent and in most of them, the most frequent first.

    >>> stop_words([["the", "sea", "the", "hill"] * 100, ["the", "hill"]])
    ['the', 'hill']
    """
    counts, num_words = Counter(word for text in texts for word in text), sum(map(len, texts))
    sets = [frozenset(text) for text in texts]
    for share, most_texts in ((SHARE, MOST_TEXTS), (SHARE / 2, MOST_TEXTS / 2)):
        frequent = sorted(
            (w for w, number in counts.items() if number >= share * num_words), key=lambda w: (-counts[w], w)
        )
        words = [word for word in frequent if sum(word in text for text in sets) > most_texts * len(sets)]
        if len(words) >= FEWEST:
            break
    return words[:MOST]


def rows(texts: dict[str, list[str]]) -> Iterator[str]:
    """Yield the rows of the table: code, length, stop words."""
    lengths = {code: _mean(" ".join(some).split()) for code, some in texts.items()}
    for code in sorted(texts.keys() - {ENGLISH}):
        words = [
            [*filter(str.isalpha, t)] if code in BY_LETTER else WORD.findall(t) for t in map(str.lower, texts[code])
        ]
        pieces = [text[start : start + PIECE] for text in words for start in range(0, len(text), PIECE)]
        if sum(map(len, words)) >= LEAST:
            length = 0 if code in SPACELESS else lengths[code] / lengths[ENGLISH]
            yield f"{code}\t{length:.2f}\t{' '.join(stop_words([p for p in pieces if 2 * len(p) > PIECE]))}"


def _mean(words: Sequence[str]) -> float:
    return sum(map(len, words)) / len(words)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or write it into the package."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.stop_words", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--text", type=Path, required=True, help="the folder of samples, such as ../shared/data")
    parser.add_argument("--treebanks", type=Path, help="a folder of treebanks, CODE_*.conllu")
    parser.add_argument("--write", action="store_true", help="replace the table of the package")
    parsed = parser.parse_args(arguments)
    table = "".join(f"{row}\n" for row in rows(texts_of(parsed.text, parsed.treebanks)))
    if parsed.write:
        Path(str(files("corpora") / "text" / "counts" / "stop_words.tsv")).write_text(table, encoding="utf-8")
    else:
        print(table, end="")


if __name__ == "__main__":
    main()
