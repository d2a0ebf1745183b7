"""Residue of markup in the prose of real pages: marks, and holes where a number or a word was.

Promise: every page that becomes a document is examined, as its source reads it; a sentence counts once for each
kind of mark or hole in it. The kinds of holes are what a dropped template leaves in English, French, German
and Spanish prose. They are hints: writers leave holes too, so `--show` prints the sentences. A template is lost if it
is in a sentence, no table names it, and nothing was made of it.
"""
# ruff: noqa: RUF001 - the patterns hold dashes and quotation marks that resemble ASCII

import argparse
import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from corpora.errors import InputError
from corpora.sources.contract import StatCache, Tally, hash_files
from corpora.sources.wiki.pages import parse_page
from corpora.sources.wiki.source import DUMP_NAME, WikipediaSource, find_wiki_code, read_site
from corpora.sources.wiki.wikitext.prose import DEFAULT_SETTINGS, WikitextSettings, is_redirect, read_wikitext
from corpora.text.sentences.splitter import split_sentences

SAMPLE = files("corpora") / "samples" / "wikipedia"
PAGE_ENDINGS = (".txt", ".wikitext", ".wiki")  # files of one page of wikitext
PER = 10_000

RESIDUE = {
    "link": r"\[\[|\]\]",
    "template": r"\{\{|\}\}",
    "table": r"\{\||\|\}|\|\||^\|-",
    "reference": r"</?ref\b",
    "no-break space": r"&nbsp;",
    "entity": r"&(?:[a-z]{2,8}|#[0-9]{2,6});",
    "quotes": r"''",
    "tag": r"</?(?:span|div|br|small|sup|sub|td|tr|th|center|blockquote|gallery|math|nowiki|font|code)\b[^<>]*>",
    "attribute": r"\b(?:style|class|align|colspan|rowspan|bgcolor|width) ?= ?[\"'\w]",
    "magic word": r"__[A-Z]+__",
    "external link": r"\[(?:https?:)?//",
    "code of a unit": r"(?<=[0-9] )(?:[kMG]?oilbbl|USgal|impgal|cuft|sqft|sqmi|cuin|acre\.f\w+|lbft|PD/"
    r"|e(?:3|6|9|12)[A-Za-z]|[kcm]?m[23]\b(?!\w))",
    "power of ten as E": r"(?<![\w.])[0-9]{1,3}(?:\.[0-9]+)?[eE][-−+]?[0-9]{1,2}(?= [a-zA-Z])",
    "variants of Chinese": r"-\{|\}-",
    "file": r"\b(?:File|Image|Datei|Fichier|Archivo):[^ ]+\.(?:jpe?g|png|svg|gif)|\bthumb\|",
}
_BEFORE = r"(?:of|from|to|about|around|over|nearly|almost|approximately|than|between|de|von|etwa|rund|unos|environ)"
_UNIT = r"(?:km|km²|kg|mi|ft|cm|mm|lb|sq mi|mph|km/h|hectares|metres|meters|kilometres|miles|feet|°C|°F|%)"
_NEVER_LAST = r"(?:the|between|le|les|du|der|dem|zum|zur|los|del|au|aux)"
HOLES = {
    "empty brackets": r"(?<![\w\"&'])\( *[-–,;:/]* *\)|(?<!\w)\[ *\]",
    "bracket with a loose mark": r"\([,;:](?= )|[,;] ?\)|\([^()]{0,40}\w ?:\)",
    "loose comma or full stop": r"(?<![.…]) [,.](?= |$)(?! \.)",
    "doubled mark": r", ?,|; ?;|, ?\.(?!\d|\.)|; ?,",
    "currency without number": r"(?:(?<=[a-z] )|(?<=\())[$£](?= (?:in|to|for|at|per|million|billion)\b|[.,;](?: |$)|$)",
    "unit without number": r"(?<!hundreds )(?<!thousands )(?<!millions )(?<!centenares )(?<!decenas )(?<!cientos )"
    rf"\b{_BEFORE} {_UNIT}(?![\w²/])",
    "word that ends nothing": rf"(?<![\w.'’]){_NEVER_LAST} ?[,.;)](?![\w<>])",
    "life without a date": r"\((?:[^()]{0,80}[ ,;])?(?:born|née?|geboren|nacido|c\.|ca\.|r\.)(?:[),;]| [),;])",
    "range without ends": r"\bbetween and\b|\bfrom to\b|\bentre et\b|\bentre y\b|\bzwischen und\b",
    "range without its end": r"(?<=[0-9] )(?:(?:to|by|±)(?=[.,;)])(?! and)|and(?=[.;)]))|± ?(?:to|by|and|x|[-–+(])",
    "density without its area": r"\bdensity (?:of|was|is) (?:about )?[0-9,]*[0-9]{2},?[0-9]{3}"
    r"(?![0-9,]| ?(?:/|per|people|inhab|persons|kg|g\b))",
    "amount left out": r"\b(?:population|elevation|length|height|depth|total|average) of(?: about| around)? ?[,.;)]",
}  # fmt: skip


IN_ENGLISH = "language in English"  # in a wiki that is not
RESIDUE_ELSEWHERE = {
    IN_ENGLISH: r"\((?:[^()]*[;,] )?(?:English|German|French|Spanish|Italian|Portuguese|Dutch|Polish|Russian|Latin"
    r"|Greek|Arabic|Hebrew|Japanese|Chinese|Korean|Persian|Turkish|Swedish): ",
}


class PageProse(NamedTuple):
    """The prose of a page. lost: the templates of its sentences of which nothing was made."""

    title: str
    text: str
    wiki: str = "en"
    lost: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Findings:
    """Sentences examined, and how many hold each kind of residue or hole, with the first few of each.

    by_wiki: sentences, residue and lost templates of each wiki
    """

    pages: int = 0
    sentences: int = 0
    words: int = 0
    residue: Counter[str] = field(default_factory=Counter)
    holes: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    by_wiki: dict[str, Counter[str]] = field(default_factory=dict)
    shown: dict[str, list[str]] = field(default_factory=dict)

    def lines(self, show: int) -> Iterator[str]:
        """Yield the figures as text, with up to `show` sentences of each kind."""
        yield f"{self.pages} pages, {self.sentences} sentences, {self.words} words"
        lost = dict.fromkeys(self.lost, "")
        every = {**RESIDUE, **RESIDUE_ELSEWHERE}
        groups = (("residue", self.residue, every), ("holes", self.holes, HOLES), ("lost templates", self.lost, lost))
        for title, counts, kinds in groups:
            total = counts.total()
            share = PER * total / max(1, self.sentences)
            of_words = PER * total / max(1, self.words)
            yield f"{title}: {total}, {share:.2f} in {PER:,} sentences, {of_words:.2f} in {PER:,} words"
            for kind in kinds:
                yield f"  {kind:28} {counts[kind]:6}"
                yield from (f"      {sentence}" for sentence in self.shown.get(kind, [])[:show])
        yield f"by wiki: sentences, residue and lost templates, in {PER:,} sentences"
        for wiki, counts in sorted(self.by_wiki.items()):
            rates = (PER * counts[what] / max(1, counts["sentences"]) for what in ("residue", "lost"))
            yield f"  {wiki:12} {counts['sentences']:6} {' '.join(f'{rate:8.2f}' for rate in rates)}"


_PATTERNS = [
    (kind, group, re.compile(pattern, re.MULTILINE))
    for group, kinds in (("residue", RESIDUE), ("residue", RESIDUE_ELSEWHERE), ("holes", HOLES))
    for kind, pattern in kinds.items()
]


def find(pages: Iterable[PageProse], show: int = 20) -> Findings:
    """Look through the prose of pages.

    >>> find([PageProse("Ayr", "Ayr lies  km from the port. It has a population of .")]).holes.total()
    2
    """
    findings = Findings()
    for page in pages:
        findings.pages += 1
        findings.words += len(page.text.split())
        findings.lost.update(page.lost)
        counts, before = findings.by_wiki.setdefault(page.wiki, Counter()), findings.residue.total()
        data = page.text.encode()
        for begin, end in split_sentences(page.text):
            counts["sentences"] += 1
            _look(findings, page, data[begin:end].decode(), show)
        counts.update(residue=findings.residue.total() - before, lost=len(page.lost))
    findings.sentences = sum(counts["sentences"] for counts in findings.by_wiki.values())
    return findings


def _look(findings: Findings, page: PageProse, sentence: str, show: int) -> None:
    for kind, group, pattern in _PATTERNS:
        match = pattern.search(sentence)
        if match is None or (kind in RESIDUE_ELSEWHERE and page.wiki == "en"):
            continue
        counter = findings.residue if group == "residue" else findings.holes
        counter[kind] += 1
        examples = findings.shown.setdefault(kind, [])
        if len(examples) < show:
            around = sentence[max(0, match.start() - 60) : match.start() + 40].replace("\n", " ")
            examples.append(f"{page.title}: {around}")


def prose(path: Path) -> Iterator[PageProse]:
    """Yield the prose of all pages under a folder: of its dumps, and of its files of one page each.

    Raises InputError if there is neither.
    """
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    dumps = [file for file in files if DUMP_NAME.fullmatch(file.name)]
    singles = [file for file in files if file.name.endswith(PAGE_ENDINGS)]
    if not dumps and not singles:
        raise InputError(f"{path} holds no dump and no page: give --text a folder of .xml, .xml.bz2 or .txt files.")
    for dump in dumps:
        yield from _of_dump(dump)
    for single in singles:
        page = single.read_text(encoding="utf-8")
        if "&lt;ref" in page and "<ref" not in page:
            page = html.unescape(page)  # saved from XML unchanged
        if not is_redirect(page):
            yield _read(page, DEFAULT_SETTINGS, single.name)


def _of_dump(dump: Path) -> Iterator[PageProse]:
    source = WikipediaSource(path=str(dump), drop=("redirect", "disambiguation"))
    for raw in hash_files(source.files(), StatCache()):
        site = read_site(raw.path, raw.sha256)
        settings = source.build_wikitext_settings(site, find_wiki_code(raw.name, site))
        for piece in source.slices(raw):
            for record in source.records(piece, Tally()):
                if record.drop is None:
                    yield _read(parse_page(record.raw).wikitext, settings, f"{dump.name}: {record.title}")


def _read(page: str, settings: WikitextSettings, title: str) -> PageProse:
    text, _, unknown, _ = read_wikitext(page, settings, title.rpartition(": ")[2])
    return PageProse(title, text, settings.wiki, tuple(template.used for template in unknown if not template.shown))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures; ends with exit code 2 where the arguments are wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.residue", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--text", type=Path, help="a dump, or a folder of dumps and pages; default: the shipped sample")
    parser.add_argument("--show", type=int, default=0, help="how many sentences of each kind to print (default: 0)")
    parsed = parser.parse_args(arguments)
    try:
        findings = find(prose(parsed.text or Path(str(SAMPLE))), parsed.show)
    except InputError as error:
        parser.error(str(error))
    print("\n".join(findings.lines(parsed.show)))


if __name__ == "__main__":
    main()
