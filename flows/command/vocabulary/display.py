"""The figures of vocabularies on the terminal, as plain tables. A text acts on nothing, and outputs are bounded."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.command.terminal.tables import plain_table
from flows.command.vocabulary.figures import Facts
from flows.recipes.settings.privacy import visible

NAME, MOST_PIECES, MOST_TOKENS = 40, 512, 12


def vocabulary_table(names: Sequence[str], facts: Sequence[Facts]) -> Table:
    """Return vocabularies side by side, with the figures of a text if they have some."""
    heads = [visible(name, 3 * NAME) for name in names]
    table = plain_table("", *heads, texts=["", *heads])
    for title, values in zip(_rows(facts[0]), zip(*(_rows(each).values() for each in facts), strict=True), strict=True):
        table.add_row(Text(title), *map(Text, values))
    return table


def _rows(facts: Facts) -> dict[str, str]:
    rule = "those of its tokenizer.json, which only the library tokenizers can read"
    if facts["words"] is not None:
        rule = ", ".join(f"{key} {str(value).lower()}" for key, value in facts["words"].items())
    rows = {
        "tokens": f"{facts['size']:,}, of which {facts['ordinary']:,} stand for text",
        "algorithm": facts["algorithm"],
        "words": rule,
        "special": ", ".join(f"{token} {id}" for token, id in facts["special_tokens"].items()) or "none",
        "longest": "  ".join(visible(token, NAME) for token in facts["longest"]),
    }
    if "text" in facts:
        text = facts["text"]
        rows |= {f"{key} of the text": f"{text[key]:,}" for key in ("words", "tokens")}
        rows |= {"tokens a word": decimals(text["tokens_a_word"]), "bytes a token": decimals(text["bytes_a_token"])}
        rows["unknown tokens"] = f"{text['unknown_tokens']:,}"
    return rows


def pieces_text(pieces: Sequence[dict[str, Any]]) -> Text:
    """Return the pieces of a text as the vocabulary writes them, each with its id."""
    shown = [f"{visible(piece['token'], NAME)} {piece['id']}" for piece in pieces[:MOST_PIECES]]
    if len(pieces) > MOST_PIECES:
        shown.append(f"… {len(pieces) - MOST_PIECES:,} more pieces")
    return Text("  ".join(shown))


def comparison_display(facts: Facts) -> RenderableType:
    """Return two vocabularies side by side, the pieces that they share, and words that they cut in other places."""
    sides, shared = facts["vocabularies"], facts["overlap"]
    names = [visible(side["name"], NAME) for side in sides]
    apart = plain_table("cut in other places", *names, texts=["cut in other places", *names])
    for word in facts["cut_apart"]:
        apart.add_row(*(Text(visible(text, NAME)) for text in (word["word"], *map(" · ".join, word["pieces"]))))
    first, second = (f"{shared[side]:,} of {name}" for side, name in zip(("first", "second"), names, strict=True))
    pieces = Text(f"{shared['shared']:,} pieces in both, of {first} and {second}")
    return Group(vocabulary_table([side["name"] for side in sides], sides), Text(), pieces, Text(), apart)


def adaptation_display(name: str, facts: Facts, output: Path) -> RenderableType:
    """Return what new tokens gain, the first of them, and how the vocabulary has grown."""
    table = plain_table("source", "words", "tokens a word", "words of one token", "words unknown")
    before, after = facts["before"], facts["after"]
    sources = before["sources"] if len(before["sources"]) > 1 else {}
    for source in sources:
        table.add_row(Text(visible(source, NAME)), *_gains(before["sources"][source], after["sources"][source]))
    table.add_row("all", *_gains(before, after))
    added = plain_table("token added", "saves", "was", texts=["token added", "was"])
    for token in facts["tokens"][:MOST_TOKENS]:
        was = Text(visible(" ".join(token["pieces"]), 2 * NAME))
        added.add_row(Text(visible(token["token"], NAME)), f"{token['saved']:,}", was)
    return Group(table, Text(), added, Text(), *map(Text, _outcome(name, facts)), Text(str(output)))


def _gains(before: Facts, after: Facts) -> list[str]:
    shown = {"fertility": ".3f", "whole_share": ".2%", "unknown_rate": ".3%"}
    return [f"{before['words']:,}", *(f"{before[k] or 0:{form}} → {after[k] or 0:{form}}" for k, form in shown.items())]


def _outcome(name: str, facts: Facts) -> Iterator[str]:
    size, number = facts["size"], len(facts["tokens"])
    yield (
        f"{number:,} tokens added to {visible(name, NAME)}: {facts['filled']:,} in unused slots, "
        f"{facts['appended']:,} after the last one ({size['before']:,} → {size['after']:,} tokens)"
    )
    if number < facts["wanted"]:
        yield f"{facts['wanted']:,} were asked for: no more words occur often enough and are cut."
    if facts["model_rows"] is not None:
        yield f"The model has {facts['model_rows']:,} rows; those of the new tokens are means of their old pieces'."


def decimals(value: float | None) -> str:
    """Return a figure with three decimals; a dash if there is none.

    >>> decimals(1.23456), decimals(None)
    ('1.235', '-')
    """
    return "-" if value is None else f"{value:,.3f}"
