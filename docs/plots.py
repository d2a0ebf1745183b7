"""The plots of performance.md, drawn from its tables: `python docs/plots.py` writes them; `--check` only looks.

A bar is the lower end of a range, as that page says figures are to be quoted. The first axis is logarithmic, and what
is left of its line at 1 takes less time than Cloze.
"""

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "performance.md"
# Rows of the tables side by side: what is done, and the side that is drawn; the first table that has both counts.
BESIDE = (
    ("signatures of 128 permutations", "datasketch, hashes given"),
    ("clean", "ftfy.fix_text"),
    ("sentences", "blingfire"),
    ("rules", "datatrove, Gopher quality and repetition"),
    ("wikitext", "mwparserfromhell, parse and strip_code"),
    ("vocabulary, wordpiece", "tokenizers' trainer"),
    ("vocabulary, byte-bpe", "tokenizers' trainer"),
    ("vocabulary, byte-bpe", "rustbpe"),
    ("unigram, 8000 pieces", "sentencepiece"),
    ("encode, wordpiece", "tokenizers encode_batch_fast"),
    ("encode, wordpiece", "tokie encode_batch_flat"),
    ("encode, byte-bpe", "tiktoken encode_to_numpy"),
    ("encode, byte-bpe", "gigatoken encode_batch"),
    ("masks, as rows of int64", "DataCollatorForLanguageModeling"),
    ("train step, rows 100% full", "BertForPreTraining"),
    ("train step of modernbert, rows 100% full", "ModernBertForMaskedLM"),
)
WIDTH, ROW, LABELS, VALUES = 760, 20, 390, 56  # in points: the whole, a bar with its gap, and text on both sides


def main(arguments: Sequence[str], folder: Path = DOCS / "images") -> int:
    """Write the plots, or with `--check` only look; 1 where one lags, 2 for an argument that means nothing."""
    if [*arguments] not in ([], ["--check"]):
        return 2
    code = 0
    for name, picture in pictures(PAGE.read_text(encoding="utf-8")).items():
        path = folder / name
        if not arguments:
            path.write_text(picture, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != picture:
            print(f"{name} lags behind performance.md: run `python docs/plots.py`", file=sys.stderr)
            code = 1
    return code


def pictures(page: str) -> Mapping[str, str]:
    """Return the plots by the names of their files."""
    times = {f"{what}: {side}": times_of(page, what, side) for what, side in BESIDE}
    return {
        "beside.svg": bars("CPU time, in times of that of Cloze (logarithmic)", times, logarithmic=True),
        "gpu.svg": bars("tokens a second on an H100", dict(gpu_rates(page)), logarithmic=False),
    }


def times_of(page: str, what: str, side: str) -> float:
    """Return a side's CPU time in times of ours, the lower end. Raises ValueError where the tables lack it."""
    row = re.search(
        rf"^\| {re.escape(what)} \|.*\n(?:\| \|.*\n)*?\| \| {re.escape(side)} \| [^|]*\| ([\d.]+)", page, re.M
    )
    if row is None:
        raise ValueError(f"performance.md has no row {side!r} for {what!r}")
    return float(row[1])


def gpu_rates(page: str) -> Iterator[tuple[str, float]]:
    """Yield each side of the table of the GPU with its tokens a second."""
    model = ""
    for name, rate in re.findall(r"^\| (.+?) \| ([\d,]{6,}) \| [\d.]+% \|", page, re.M):
        model, side = re.findall(r"`(.+)`: (.+)", name)[0] if "`" in name else (model, name)
        yield f"{model}: {side}", float(rate.replace(",", ""))


def bars(title: str, values: Mapping[str, float], logarithmic: bool) -> str:
    """Return a picture with a bar for each value."""
    begin = min(0.3, min(values.values()) / 2)  # of the logarithmic axis, left of the least value
    scale = (lambda value: math.log10(value / begin)) if logarithmic else (lambda value: value)
    unit = (WIDTH - LABELS - VALUES) / scale(max(values.values()))
    height = ROW * (len(values) + 1) + 8
    font = 'font-family="DejaVu Sans, sans-serif" font-size="11"'
    box = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
    drawn = [
        f'<svg role="img" aria-label="{title}" {box} {font}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LABELS}" y="14" fill="#333333">{title}</text>',
    ]
    for number, (label, value) in enumerate(values.items(), 1):
        y, length = ROW * number + 4, unit * scale(value)
        drawn += [
            f'<text x="{LABELS - 6}" y="{y + 12}" text-anchor="end" fill="#010203">{label}</text>',
            f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{ROW - 4}" fill="#2f6fb3"/>',
            f'<text x="{LABELS + length + 4:.1f}" y="{y + 12}" fill="#010203">{value:,g}</text>',
        ]
    if logarithmic:
        x = LABELS + unit * scale(1.0)
        drawn.append(f'<path d="M{x:.1f} {ROW}V{height - 4}" stroke="#d08a2e" stroke-width="1.5"/>')
    return "\n".join([*drawn, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
