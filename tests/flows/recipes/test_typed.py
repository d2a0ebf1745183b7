"""The settings of a recipe with their types, and values given over them."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from flows.recipes.new_recipe import templates
from flows.recipes.recipe import shipped_recipes
from flows.recipes.tables import dotted, override, toml
from flows.recipes.typed_settings import Settings, overrides_of, pairs_of, settings_of

TEMPLATES = {name: text.format(name="mine") for name, text in templates().items()}
RECIPES = {**shipped_recipes(), **TEMPLATES}

VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def leaves(settings: Settings, at: tuple[str, ...] = ()) -> dict[str, object]:
    """The values of settings by their dotted keys."""
    found: dict[str, object] = {}
    for key, value in settings.items():
        found |= leaves(value, (*at, key)) if isinstance(value, dict) else {dotted((*at, key)): value}
    return found


@given(VALUES)
def test_what_toml_is_told_it_reads(value: object) -> None:
    """Fails where a value of a form comes to the recipe as another one, or breaks its line."""
    assert tomllib.loads(f"value = {toml(value)}")["value"] == value
    assert "\n" not in toml(value)


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_of_a_recipe_is_found_again_by_its_key(name: str) -> None:
    """Fails where the key of a setting points elsewhere, or a value as the recipe says it counts as a change."""
    table = tomllib.loads(RECIPES[name])
    settings = settings_of(table)
    found = leaves(settings)
    assert len(found) > 4
    for key, value in found.items():
        override(table, key, toml(value))
    assert settings_of(table) == settings
    assert overrides_of(settings, table) == {}


def test_settings_are_what_a_form_can_show() -> None:
    """Fails where a setting is called otherwise than `--set` calls it, or a value is shown that JSON does not say."""
    text = """
        store = "s"
        [[source]]
        kind = "files"
        name = "v1.2"
        weight = 2
        rules.gopher.min_words = 20
        since = 2026-01-01
        [[training.phase]]
        steps = 3
        """
    assert leaves(settings_of(tomllib.loads(text))) == {
        "store": "s",
        "seed": 42,
        "engine": "local",
        'source."v1.2".weight': 2,
        'source."v1.2".rules.gopher.min_words': 20,
        "training.phase.1.steps": 3,
    }


def test_what_differs_from_the_recipe_is_an_override() -> None:
    """Fails where an edit of the recipe loses against a field that nobody touched, or a change is lost."""
    table = tomllib.loads("[shards]\nlength = 128\nsources = ['a']\n[held_out]\nshare = 1")
    assert overrides_of({"shards": {"length": 128, "sources": ["b", "c"]}, "held_out": None}, table) == {
        "shards.sources": '["b", "c"]'
    }
    assert overrides_of({"held_out": {"share": 1.0}, "rules": {"gopher": {"min_words": 3}}}, table) == {
        "rules.gopher.min_words": "3"
    }
    assert overrides_of({"held_out": {"share": True}}, table) == {"held_out.share": "true"}


def test_pairs_are_of_keys_and_values() -> None:
    assert pairs_of(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    with pytest.raises(InputError, match="write it as key=value"):
        pairs_of(["a"])
