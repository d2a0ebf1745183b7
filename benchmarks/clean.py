"""Cleaning: `corpora.judging.steps.clean` next to ftfy under the same configuration, on four kinds of text.

The text as it is; the same with quotes and widths made plain, as `ftfy.fix_text` does by default; with every twentieth
document turned into mojibake (its UTF-8 read as Windows-1252); and with its Latin letters changed into Cyrillic ones,
where nearly every character occurs in mojibake, too. ftfy leaves white space and invisible characters as they are, so
output is compared with `clean_text`, the definition: ftfy and our own few lines.
"""

from collections.abc import Sequence

from ftfy import fix_text

from benchmarks.measuring import Report, Side, main, side_by_side, text_column
from corpora.judging.steps.clean import CleanSettings, build_fixer_config, clean, clean_text

LATIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
CYRILLIC = "абцдефгхийклмнопярстуввхызАБЦДЕФГХИЙКЛМНОПЯРСТУВВХЫЗ"


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare the kinds, one after another."""
    spoilt = [mojibake(text) if number % 20 == 0 else text for number, text in enumerate(texts)]
    cyrillic = [text.translate(str.maketrans(LATIN, CYRILLIC)) for text in texts]
    return [
        _compare("clean", texts, rounds),
        _compare(
            "clean, quotes and widths as ftfy has them",
            texts,
            rounds,
            CleanSettings(quotes="straight", widths="narrow"),
        ),
        _compare("clean, one document in twenty mojibake", spoilt, rounds),
        _compare("clean, Cyrillic letters", cyrillic, rounds),
    ]


def mojibake(text: str) -> str:
    """Return a text with its UTF-8 read as Windows-1252; the five bytes that have no meaning there become C1."""
    return "".join(
        bytes([byte]).decode("latin-1" if byte in b"\x81\x8d\x8f\x90\x9d" else "cp1252") for byte in text.encode()
    )


def _compare(
    what: str,
    texts: Sequence[str],
    rounds: int,
    settings: CleanSettings = CleanSettings(),  # noqa: B008 - frozen
) -> Report:
    column, config = text_column(texts), build_fixer_config(settings)
    ours = clean(column, settings).to_pylist()
    assert ours == [clean_text(text, settings) for text in texts], "cleaned texts differ from the definition's"
    changed = sum(fix_text(text, config) != text for text in texts)
    sides = [
        Side(name="clean", call=lambda _: clean(column, settings)),
        Side(name="ftfy.fix_text", call=lambda _: [fix_text(text, config) for text in texts]),
        Side(name="definition (clean_text)", call=lambda _: [clean_text(text, settings) for text in texts]),
    ]
    notes = [f"all {len(texts)} texts equal the definition's; ftfy changed {changed} of them"]
    return side_by_side(what, texts, sides, rounds, notes)


if __name__ == "__main__":
    main(benchmark)
