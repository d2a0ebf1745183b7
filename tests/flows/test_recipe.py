"""Recipes: what they say arrives in the settings, and every mistake is answered with its key and a remedy."""

import re
from pathlib import Path

import pytest

from corpora.errors import InputError
from corpora.sources.files import FilesSource
from flows.recipe import (
    Recipe,
    folder_recipe,
    parse_recipe,
    read_recipe,
    settle_recipe,
    shipped_recipe,
    shipped_recipes,
    with_store,
)

SOURCE = '[[source]]\nkind = "files"\nname = "own"\npath = "raw"\n'


def parse(text: str, tmp_path: Path = Path("/tmp"), **overrides: str) -> Recipe:
    return parse_recipe(text, tmp_path / "r.toml", {key.replace("__", "."): v for key, v in overrides.items()})


def test_the_smallest_recipe(tmp_path: Path) -> None:
    """Fails where a default is missing, or a relative path is not taken from the recipe's folder."""
    recipe = parse(SOURCE, tmp_path)
    [entry] = recipe.sources
    assert (recipe.name, recipe.seed, recipe.store) == ("r", 42, str(tmp_path / "store"))
    assert isinstance(entry.source, FilesSource)
    assert (entry.source.path, entry.priority, entry.weight) == (str(tmp_path / "raw"), 1, 1.0)
    assert recipe.lock_path == tmp_path / "r.lock"


def test_everything_arrives(tmp_path: Path) -> None:
    """Fails where a table or the seed does not reach the settings that it is for."""
    text = f"""
    name = "mine"
    store = "s3://bucket/prefix"
    seed = 7
    {SOURCE}
    priority = 5
    weight = 3
    rules.gopher.min_words = 9
    language.keep = ["de"]
    [[source]]
    kind = "files"
    name = "other"
    path = "/abs"
    [rules]
    gopher.min_words = 20
    gopher.max_words = 99
    c4.enabled = false
    [clean]
    profile = "uncased"
    [documents]
    max_document_bytes = 1000
    [duplicates]
    threshold = 0.9
    [held_out]
    share = 0.5
    [vocabulary]
    size = 900
    [shards]
    length = 64
    masking = {{ kind = "static", rate = 0.2 }}
    [privacy]
    samples = "none"
    """
    recipe = parse(text, tmp_path)
    own, other = recipe.sources
    assert (recipe.name, recipe.store) == ("mine", "s3://bucket/prefix")
    assert (own.priority, own.weight, other.priority, other.weight) == (5, 3.0, 2, 1.0)
    # A source's own value goes over the shared one, key by key.
    assert (own.documents.rules.gopher.min_words, own.documents.rules.gopher.max_words) == (9, 99)
    assert (other.documents.rules.gopher.min_words, other.documents.rules.gopher.max_words) == (20, 99)
    assert not own.documents.rules.c4.enabled and own.documents.clean.profile == "uncased"
    assert (own.documents.language.keep, other.documents.language.keep) == (("de",), ("en",))
    assert own.documents.max_document_bytes == other.documents.max_document_bytes == 1000
    assert (recipe.duplicates.threshold, recipe.held_out.share, recipe.vocabulary.size) == (0.9, 0.5, 900)
    assert (recipe.shards.length, recipe.shards.masking.kind, recipe.shards.masking.rate) == (64, "static", 0.2)
    assert {recipe.seed, recipe.held_out.seed, recipe.shards.seed, recipe.shards.masking.seed} == {7}
    assert recipe.privacy.samples == "none"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no [[source]]"),
        ("source = 3", "there is no [[source]]"),
        ("source = [3]", "source 1 must be a table"),
        ("nmae = 'x'\n" + SOURCE, "the recipe has no key 'nmae': did you mean 'name'?"),
        ("[duplicate]\n" + SOURCE, "did you mean 'duplicates'?"),
        ("name = ''\n" + SOURCE, "name = '' must be a text without slashes"),
        ("name = 'a/b'\n" + SOURCE, "name = 'a/b' must be a text without slashes"),
        ("name = '..'\n" + SOURCE, "name = '..' must be a text"),
        ("store = 3\n" + SOURCE, "store = 3 must be a folder or an address"),
        ("seed = -1\n" + SOURCE, "seed = -1 must be a whole number from 0 up"),
        ("seed = true\n" + SOURCE, "seed = True must be a whole number"),
        ("rules = 3\n" + SOURCE, "rules = 3 must be a table of settings: [rules]"),
        ("[rules]\ngopher.min_wrods = 3\n" + SOURCE, "rules.gopher has no key 'min_wrods': did you mean 'min_words'?"),
        ("[rules]\ngopher = 3\n" + SOURCE, "rules.gopher must be a table of settings, not 3"),
        ("[documents]\nclean.profile = 'uncased'\n" + SOURCE, "documents.clean is a table of its own: write it as"),
        ("[documents]\npart_bytes = 0\n" + SOURCE, "documents.part_bytes = 0 is out of range"),
        ("[duplicates]\nthreshold = 1.5\n" + SOURCE, "threshold = 1.5 is no similarity"),
        ("[duplicates]\nbands = 40\n" + SOURCE, "bands = 40 of rows = 7 need 280 numbers"),
        ("[held_out]\nshare = 0.9\n" + SOURCE, "held_out.share = 0.9 is out of range: it must be between 0.0 and 0.5"),
        ("[held_out]\nseed = -3\n" + SOURCE, "held_out.seed = -3 is out of range"),
        ("[vocabulary]\nsize = true\n" + SOURCE, "vocabulary.size = True is of the wrong type: it must be a whole"),
        ("[vocabulary]\nsize = 3.5\n" + SOURCE, "vocabulary.size = 3.5 is of the wrong type"),
        ("[shards]\nmasking = 3\n" + SOURCE, 'shards.masking = 3 must be a table, as in masking = { kind = '),
        ("[shards]\nmasking.kind = 'dyn'\n" + SOURCE, "masking.kind = 'dyn' is not known: it must be one of 'dynamic'"),
        ("[shards]\nlength = 3\n" + SOURCE, "shards.length = 3 is out of range"),
        ("[privacy]\nsamples = 'no'\n" + SOURCE, "privacy.samples = 'no' is not known"),
        (SOURCE + SOURCE, "two sources are named 'own': give each [[source]] a name of its own"),
        ('[[source]]\nkind = "files"\npath = "x"', "source 1: source (files) lacks the key 'name'"),
        ('[[source]]\nname = "x"', "source 1: A [[source]] has no `kind`"),
        ('[[source]]\nkind = "wikpedia"', "source 1: source.kind = 'wikpedia' is not known: it must be one of"),
        (SOURCE + "pth = 'x'", "source 1: source (files) has no key 'pth': did you mean 'path'?"),
        (SOURCE.replace("own", "a/b"), "source 1: name = 'a/b' must be a text without slashes"),
        (SOURCE.replace("own", ".."), "source 1: name = '..' must be a text"),
        (SOURCE + "priority = 'x'", "source 1: priority = 'x' is of the wrong type: it must be a whole number"),
        (SOURCE + "priority = 1.5", "source 1: priority = 1.5 is of the wrong type"),
        (SOURCE + "weight = 'heavy'", "source 1: weight = 'heavy' is of the wrong type: it must be a number"),
        (SOURCE + "weight = 0", "source 1: weight = 0.0 is out of range"),
        (SOURCE + "weight = nan", "source 1: weight = nan is"),
        (SOURCE + "rules = 3", "source 1: rules = 3 must be a table of settings"),
        (SOURCE + "rules.gopher = 3", "source 1: rules.gopher must be a table of settings, not 3"),
        (SOURCE + "rules.gopher.min_wrods = 3", "source 1: rules.gopher has no key 'min_wrods': did you mean"),
        (SOURCE + "language.keep = ['english']", 'source 1: language.keep has "english"'),
    ],
)  # fmt: skip
def test_a_mistake_is_named(text: str, said: str) -> None:
    """Fails where a mistake passes, is no InputError, or its message lacks file, key or remedy."""
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        parse(text)
    assert str(caught.value).startswith("/tmp/r.toml: ")
    assert "\n" not in str(caught.value)


def test_a_shared_mistake_is_no_source_s_own() -> None:
    """Fails where an error in [rules] is blamed on a source."""
    with pytest.raises(InputError, match=r"r.toml: rules\.gopher has no key"):
        parse("[rules]\ngopher.x = 3\n" + SOURCE)


def test_broken_toml_is_named_with_its_line() -> None:
    """Fails where the place of a slip is not told."""
    with pytest.raises(InputError, match=r"/tmp/r.toml is not TOML: .*\(at line 3"):
        parse("name = 'a'\n\nstore = = 2\n")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Fails where a missing, a folder's or a garbled recipe ends in a traceback."""
    with pytest.raises(InputError, match=r"Cannot read the recipe .*none.toml: No such file.* comes with Cloze: demo"):
        read_recipe(tmp_path / "none.toml")
    with pytest.raises(InputError, match=r"Cannot read the recipe .*: Is a directory"):
        read_recipe(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(InputError, match=r"latin\.toml is not UTF-8 text"):
        read_recipe(tmp_path / "latin.toml")


def test_set_goes_over_the_recipe() -> None:
    """Fails where an override is lost, mistyped or not remembered."""
    recipe = parse(SOURCE + "[vocabulary]\nsize = 900", vocabulary__size="800", clean__profile="uncased", seed="9")
    assert (recipe.vocabulary.size, recipe.sources[0].documents.clean.profile) == (800, "uncased")
    assert recipe.held_out.seed == 9
    assert recipe.overrides == {"vocabulary.size": "800", "clean.profile": "uncased", "seed": "9"}
    assert parse(SOURCE, language__keep='["de", "fr"]').sources[0].documents.language.keep == ("de", "fr")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("vocabulary__size", "many", "vocabulary.size = 'many' is of the wrong type: it must be a whole number"),
        ("vocabulry__size", "5", "no key 'vocabulry': did you mean 'vocabulary'?"),
        ("source__weight", "2", "--set source.weight=2: source is not a table of settings"),
        ("name__x", "2", "--set name.x=2: name is not a table"),
        ("", "2", "the recipe has no key ''"),
    ],
)
def test_a_wrong_set_is_named(key: str, value: str, said: str) -> None:
    """Fails where a slip in --set passes."""
    with pytest.raises(InputError, match=re.escape(said)):
        parse_recipe("name = 'n'\n" + SOURCE, Path("/tmp/r.toml"), {key.replace("__", "."): value})


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_shipped_recipes_are_right(name: str, tmp_path: Path) -> None:
    """Fails where a recipe that comes with the program does not pass its own checks, or its raw files are missing."""
    recipe = shipped_recipe(name, tmp_path, {})
    assert recipe.name == name
    assert recipe.store == str(tmp_path / "store")
    assert all(entry.source.files() for entry in recipe.sources)


def test_a_shipped_recipe_is_placed_once_and_then_the_users_own(tmp_path: Path) -> None:
    """Fails where looking at a recipe writes it, or running one overwrites what the user made of it."""
    recipe = shipped_recipe("demo", tmp_path, {})
    assert list(tmp_path.iterdir()) == []
    settle_recipe(recipe)
    path = tmp_path / "demo.toml"
    assert path.read_text() == shipped_recipes()["demo"]
    path.write_text(path.read_text().replace("seed = 42", "seed = 7"))
    edited = shipped_recipe("demo", tmp_path, {})
    settle_recipe(edited)
    assert edited.seed == 7 and "seed = 7" in path.read_text()


def test_a_folder_is_a_recipe(tmp_path: Path) -> None:
    """Fails where a folder's name cannot be a source's name, or its path is lost."""
    folder = tmp_path / "my notes & letters"
    folder.mkdir()
    recipe = parse_recipe(folder_recipe(folder, "there"), tmp_path / "r.toml", {})
    [entry] = recipe.sources
    assert (recipe.name, entry.source.name, recipe.store) == (*["my-notes---letters"] * 2, str(tmp_path / "there"))
    assert isinstance(entry.source, FilesSource) and entry.source.path == str(folder)
    assert with_store(recipe, "s3://b/p").store == "s3://b/p"
