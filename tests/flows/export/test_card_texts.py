"""Texts and licences in cards: what comes from outside is shown as it is, and acts on nothing."""

import re
from pathlib import Path

import pytest
import yaml
from hostile_texts import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from flows.export.cards.data_card import escape_markdown, format_code, format_code_block, to_yaml
from flows.export.cards.licenses import find_spdx_id, to_license_address, to_license_tags
from flows.recipes.recipe import parse_recipe

TEXTS = st.one_of(
    st.sampled_from(HOSTILE), st.text(max_size=40), st.text("`|\\<&*_[]()#!~$:/w.\n\r\u2028 a", max_size=20)
)
RECIPE = """
[[source]]
kind = "{kind}"
name = "texts"
path = "raw"
{license}
[vocabulary]
[shards]
"""


@examples(60)
@given(TEXTS)
def test_plain_texts_act_on_nothing(text: str) -> None:
    """Fails if a text keeps a character that Markdown reads, unescaped, or has a second line."""
    shown = escape_markdown(text)
    assert len(shown.splitlines()) <= 1 and "<" not in shown and ">" not in shown
    unescaped = re.sub(r"\\[\\`*_{}\[\]()#!|~$]", "", shown)
    assert not set(unescaped) & set("\\`*_{}[]()!|~$@")
    assert "://" not in shown and not re.search(r"(?i)\bwww\.", shown)
    line = f"| {shown} | {format_code(text)} |"
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) >= 3
    assert len(line.splitlines()) == 1


@examples(60)
@given(TEXTS)
def test_a_block_of_code_is_ended_by_its_own_fence(text: str) -> None:
    """Fails if a line of a recipe ends the block that it is shown in."""
    first, *lines, last = format_code_block(text).split("\n")
    assert set(first) == {"`"} and last == first
    assert all(first not in line and len(line.splitlines()) <= 1 for line in lines)


@examples(60)
@given(TEXTS)
def test_the_head_is_read_back_as_it_was(text: str) -> None:
    """Fails if a text is taken for something else by who reads the YAML, or ends the head."""
    lines = [f"name: {to_yaml(text)}", "all:", f"- {to_yaml(text)}", f"- key: {to_yaml(text)}"]
    assert all(len(line.splitlines()) == 1 for line in lines)
    assert yaml.safe_load("\n".join(lines)) == {"name": text, "all": [text, {"key": text}]}


@pytest.mark.parametrize(
    ("stated", "known"),
    [
        ("cc by-sa 4.0", "CC-BY-SA-4.0"),
        ("https://creativecommons.org/licenses/by-nc/4.0/deed.de", "CC-BY-NC-4.0"),
        ("http://creativecommons.org/publicdomain/zero/1.0/", "CC0-1.0"),
        ("Copyright (c) 2026 somebody", ""),
        ("https://example.org/licenses/by/4.0/", ""),
    ],
)
def test_licences_are_known_by_their_spelling_alone(stated: str, known: str) -> None:
    """Fails if a licence is guessed."""
    assert find_spdx_id(stated) == known
    assert to_license_address(stated) == (f"https://spdx.org/licenses/{known}" if known else stated)
    assert (to_license_tags({stated}) == ["other"]) == (known == "")


def test_a_licence_in_a_recipe_decides_no_bytes(tmp_path: Path) -> None:
    """Fails if stating it makes documents stale, or a kind that has such a key does not get it."""
    stated = 'license = "CC-BY-SA-4.0"'
    with_it, without = (
        parse_recipe(RECIPE.format(kind="files", license=line), tmp_path / "r.toml", {}).sources[0]
        for line in (stated, "")
    )
    assert (with_it.license, without.license) == ("CC-BY-SA-4.0", "")
    assert with_it.source.settings() == without.source.settings()
    wiki = parse_recipe(RECIPE.format(kind="wikipedia", license=stated), tmp_path / "r.toml", {}).sources[0]
    assert (wiki.license, getattr(wiki.source, "license", None)) == ("", "CC-BY-SA-4.0")
