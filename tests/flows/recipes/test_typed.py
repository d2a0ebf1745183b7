"""The settings of a recipe with their types, and values given over them."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from flows.recipes.new_recipe import templates
from flows.recipes.recipe import shipped_recipes
from flows.recipes.tables import override
from flows.recipes.typed import Setting, Tree, overrides_of, pairs_of, settings_of, toml

TEMPLATES = {name: text.format(name="mine") for name, text in templates().items()}
RECIPES = {**shipped_recipes(), **TEMPLATES}

VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def leaves(tree: Tree) -> list[Setting]:
    return [leaf for node in tree.values() for leaf in ([node] if isinstance(node, Setting) else leaves(node))]


def values(tree: Tree) -> dict[str, object]:
    return {key: node.value if isinstance(node, Setting) else values(node) for key, node in tree.items()}


@given(VALUES)
def test_what_toml_is_told_it_reads(value: object) -> None:
    """Fails where a value of a form comes to the recipe as another one, or breaks its line."""
    assert tomllib.loads(f"value = {toml(value)}")["value"] == value
    assert "\n" not in toml(value)


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_of_a_recipe_is_found_again_by_its_key(name: str) -> None:
    """Fails where the key of a setting points elsewhere, or a value as the recipe says it counts as a change."""
    table = tomllib.loads(RECIPES[name])
    tree = settings_of(table)
    found = leaves(tree)
    assert len(found) > 4
    for leaf in found:
        override(table, leaf.key, toml(leaf.value))
    assert settings_of(table) == tree
    assert overrides_of(values(tree), table) == {}


def test_settings_have_the_types_of_their_dataclasses() -> None:
    """Fails where a whole number of a recipe makes a field that takes no fraction, or a setting has no meaning."""
    text = """
        store = "s"
        [[source]]
        kind = "files"
        name = "v1.2"
        path = "raw"
        weight = 2
        fields = { text = "body" }
        rules.gopher.min_words = 20
        [documents]
        part_bytes = 4000
        [[training.phase]]
        steps = 3
        [bounds]
        documents = { min = 1 }
        """
    found = {leaf.key: leaf for leaf in leaves(settings_of(tomllib.loads(text)))}
    hints = {key: leaf.hint for key, leaf in found.items()}
    assert hints == {
        "store": str,
        "seed": int,
        "engine": str,
        'source."v1.2".path': str,
        'source."v1.2".weight': float,
        'source."v1.2".fields.text': str | tuple[str, ...],
        'source."v1.2".rules.gopher.min_words': int,
        "documents.part_bytes": int,
        "training.phase.1.steps": int,
        "bounds.documents.min": float | None,
    }
    assert found['source."v1.2".weight'].meaning == "weight of its words in the vocabulary"


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
