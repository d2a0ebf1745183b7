"""A source's kind has defaults for its documents' steps; the recipe overrides them."""

from pathlib import Path

import pytest
from installed_source import GOOD, installed_at

from corpora.errors import InputError
from flows.recipes.recipe import parse_recipe

DEFAULTS = """
    defaults: ClassVar[dict[str, dict[str, object]]] = {
        "rules": {"gopher": {"min_words": 3, "max_words": 9}},
        "language": {"keep_unknown": False},
    }
    depth: int"""
RECIPE = """
name = "mine"
source = [{ kind = "good", name = "theirs", path = "raw" }, { kind = "files", name = "other", path = "raw" }]
[rules.gopher]
max_words = 70
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, defaults: str) -> str:
    """An installed package whose kind "good" has these defaults; the recipe that reads it."""
    assert "    depth: int" in GOOD
    module = "with_defaults_" + "".join(filter(str.isalnum, folder.name))
    code = GOOD.replace("    depth: int", defaults)
    installed_at(folder, monkeypatch).install("good-source", module, code, f"good = {module}:Good")
    return RECIPE


def test_a_plug_in_has_defaults_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if only kinds of ours have defaults, they reach another source, or go over the recipe's own word."""
    recipe = parse_recipe(install(tmp_path, monkeypatch, DEFAULTS), Path("mine.toml"), {})
    theirs, other = (entry.documents for entry in recipe.sources)
    assert [(one.rules.gopher.min_words, one.rules.gopher.max_words) for one in (theirs, other)] == [(3, 70), (50, 70)]
    assert (theirs.language.keep_unknown, other.language.keep_unknown) == (False, True)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"language"', '"langage"', "good' has no key 'langage': did you mean 'language'"),
        ('"max_words"', '"max_wrds"', "no key 'max_wrds': did you mean 'max_words'"),
        ("9", '"9"', "rules.gopher.max_words"),
    ],
)
def test_wrong_defaults_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, says: str
) -> None:
    """Fails if a default that no step knows is passed over."""
    text = install(tmp_path, monkeypatch, DEFAULTS.replace(old, new)).replace("max_words = 70", "min_stop_words = 1")
    with pytest.raises(InputError, match=says):
        parse_recipe(text, Path("mine.toml"), {})
