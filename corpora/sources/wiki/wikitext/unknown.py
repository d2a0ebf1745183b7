"""Templates that no table names: what they show where the sentence needs a word, and where it cannot be known.

Promise: a template unknown by name shows nothing, but for two cases. Its name may say what it writes ("XIXe siècle",
"vol-de", "enS"). Or it is where no sentence can continue without a word, after an article, a preposition or a sign of
currency: then it shows its first argument, a number with its unit, and where it has none the hole is marked. A
bracket or else the sentence that holds a marked hole is dropped by `without_holes`: no sentence has a hole
where a number was.
Cost: nothing for the known ones, a look at the 30 characters before for each of the others.

Source: read off the templates that real pages of eight languages use in their sentences.
"""
# ruff: noqa: RUF001, RUF002 - the tables hold signs that resemble ASCII

import re

from corpora.sources.wiki.wikitext.arguments import HOLE, is_number, read_arguments
from corpora.sources.wiki.wikitext.words import LANGUAGES

_LOOK_BACK = 30
MAX_BRACKETS = 4  # one inside another
# Words after which a sentence continues, in English, French, German, Spanish, Italian and Portuguese.
_NEEDS_MORE = frozenset(
    (
        "a an the of in to at by from with between than about around over under near approximately nearly"
        " almost was were is are le la les du des de au aux en dans entre vers depuis jusqu'à environ un une"
        " der die das dem den ein eine einen einem einer von vom im zum zur mit bei bis zwischen etwa rund el"
        " los las del unos unas hasta desde con por il lo gli di dal nel do da dos das no na em"
    ).split()
)
_NEEDS_MORE_OF = {
    wiki: frozenset(words.split())
    for wiki, words in {
        "nl": "van het een op te met voor bij over tot uit aan tussen ongeveer circa naar",
        "pl": "w we z ze na do od po za przez około między ok. ponad",
        "ru": "в во на с со по из от до около между за к ко более свыше",
        "ro": "de la în din cu pe pentru între circa aproximativ peste",
        "sv": "i av på från till med mellan omkring cirka över en ett",
    }.items()
}
_OPENINGS = " '\"“«("
_CURRENCIES = "$£€¥"
_SILENT = frozenset(
    (
        "sfn|sfnm|sfnp|rp|r|ref|refn|efn|efn-ua|efn-lr|note|notetag|harv|citation|cite|cite book|cite web"
        "|cite journal|cite news|citation needed|cn|fact|clarify|clarification needed|who|by whom|which|when"
        "|where|why|how|what|vague|dubious|full|pn|page needed|page number|verify source|failed verification"
        "|better source|better source needed|according to whom|disputed inline|original research inline"
        "|specify|weasel inline|peacock inline|anchor|flagicon|flag icon|flagdeco|bandera|bandera2|drapeau"
        "|drapeau2|audio|listen|respell|pronunciation|prononciation|api|msapi|clear|-|br|·|refnec"
        "|cita requerida|référence nécessaire|réf. nécessaire|quand|qui|isbn|issn|doi|bnf|belege fehlen"
        "|actualizar|update inline|update after|nowrap begin|nowrap end|nobold|col-break|further|main|see"
        "|legend|tl|tlx|edit|icon|color box|increase|decrease|steady|loss|gain|hausse|baisse|augmentation"
        "|diminution|senza fonte|citazione necessaria|naz|feit|vlag|carece de fontes|nre|ntref|odn|fakt|fapt"
        "|necesită citare|källa behövs|flagga|flaggbild|нет аи|источник|источник?|флаг"
        "|флагификация|要出典|efn2|refnest|noteta|来源请求|來源請求"
    ).split("|")
)
_ORDINAL = re.compile(
    r"(?:[IVXLC]{1,7}|[0-9]{1,4})(?:er|ère|re|e|è|ème|nd|nde|º|ª|°|th|st|rd)"
    r"(?:[ -](?:siècle|millénaire|arrondissement)[^|]*)?"
)
_OF_LANGUAGE = re.compile(r"(?!ipa|cite|pron|ref|audio|icon|user)[^\W\d_]{2,10}-([a-z]{2,3})")
_GERMAN_LANGUAGE = re.compile(r"([a-z]{2,3})S")
_UNWRITTEN = re.compile(r"(?i)://|\.(?:ogg|oga|wav|svg|png|jpe?g|gif|webm|mid)\b")
_HOLE = HOLE[-1]
_HOLE_IN_BRACKETS = re.compile(rf" ?\([^()\n{_HOLE}]*+{_HOLE}[^()\n]*+\)")
_SENTENCE_END = re.compile(
    r"(?<=[.!?…。])[\"”»)]{0,2}\s+(?=[\"“«(]{0,2}[^\W\d_a-zß-ÿ])|(?<=[。！？])(?![。！？」』）”])"
)


def unknown_template(body: str, text: str, start: int, wiki: str) -> str:
    """Return what `{{body}}` at `text[start]` of a wiki's page shows if no table has its name."""
    name = body.partition("|")[0].strip()
    if _ORDINAL.fullmatch(name):
        return " ".join([name, *read_arguments(body)[0][:1]])
    language = _OF_LANGUAGE.fullmatch(name.lower()) or _GERMAN_LANGUAGE.fullmatch(name)
    if language and language[1] in LANGUAGES:
        arguments = read_arguments(body)[0]
        return arguments[0] if len(arguments) == 1 else ""
    before = text[max(0, start - _LOOK_BACK) : start]
    if before[-1:] == " " and text.startswith("<su", start + len(body) + 4):
        return HOLE  # the letter of a formula, before its index
    if name[:3].lower() == "ipa":
        return _sounds(body) if before[-2:-1].isalpha() and before[-1:] == " " else ""
    if not _needs_more(before, wiki):
        return ""
    return _in_need(name.lower().replace("_", " "), body)


def _needs_more(before: str, wiki: str) -> bool:
    """Return True if the text breaks off where a word must follow: after a space and a preposition, or a currency."""
    if before[-1:] in _CURRENCIES:
        return before != ""
    bare = before.rstrip(_OPENINGS)
    last = bare[bare.rfind(" ") + 1 :].lower()
    return " " in before[len(bare) :] and (last in _NEEDS_MORE or last in _NEEDS_MORE_OF.get(wiki, ()))


def _sounds(body: str) -> str:
    """`{{IPA|/a/}}` after a word; in brackets the pronunciation goes, with the bracket."""
    arguments = read_arguments(body)[0]
    return arguments[0] if len(arguments) == 1 else ""


def _in_need(name: str, body: str) -> str:
    """Return what a template shows where the sentence needs a word; `HOLE` if that is unclear."""
    if name in _SILENT or name.startswith(("#", "cite ")):
        return ""
    arguments, named = read_arguments(body)
    if name in ("coord", "coor", "coordinates", "koordinaten", "coordonnées"):
        return _place(arguments)
    if not arguments:
        return "" if named or ":" in name else HOLE
    shown = arguments[0]
    if _UNWRITTEN.search(shown):
        return ""
    if is_number(shown):
        unit = next((word for word in arguments[1:2] if word and not is_number(word) and len(word) <= 12), "")
        return f"{shown} {unit}".strip()
    return shown or HOLE


def _place(arguments: list[str]) -> str:
    """`{{coord|13|19|N|169|9|W|type:event}}` is 13°19′N 169°9′W; degrees in decimals have no letters."""
    parts: list[str] = []
    numbers: list[str] = []
    for argument in arguments:
        if argument.upper() in ("N", "S", "E", "W", "O"):
            parts.append("".join(map("".join, zip(numbers, "°′″", strict=False))) + argument.upper())
            numbers = []
        elif is_number(argument) and len(numbers) < 3:
            numbers.append(argument)
    return " ".join(parts) if parts else ", ".join(f"{number}°" for number in numbers[:2])


def without_holes(text: str) -> str:
    """`text` without the brackets and the sentences that hold a marked hole; of a heading only the mark goes."""
    for _ in range(MAX_BRACKETS):
        if _HOLE not in text:
            return text
        text = _HOLE_IN_BRACKETS.sub("", text)
    return "\n".join(_line_without_holes(line) if _HOLE in line else line for line in text.split("\n"))


def _line_without_holes(line: str) -> str:
    if line.startswith("="):
        return line.replace(HOLE, "")
    kept, start = [], 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(line)), len(line)]:
        if _HOLE not in line[start:end]:
            kept.append(line[start:end])
        start = end
    return "".join(kept).rstrip()
