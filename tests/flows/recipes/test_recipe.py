"""Recipes: what they say arrives in the settings, and every mistake is answered with its key and a remedy."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

from corpora.errors import InputError
from corpora.sources.files.source import FilesSource
from flows.recipes import recipe as module
from flows.recipes.recipe import Recipe, load_shipped_recipe, parse_recipe, read_recipe, read_shipped_recipes
from flows.run.estimates.work import count_phase_tokens

SOURCE = '[[source]]\nkind = "files"\nname = "own"\npath = "raw"\n'


MOST_WORDS = "[rules]\ngopher.max_words = 70\n"
BY_STEP = '[shards]\nmasking.schedule = { points = [[9, 0.15]], by = "step", batch = 8 }\n'
TWO = '[[vocabulary]]\nname = "a"\n[[vocabulary]]\nname = "b"\n'
PHASE = "[[training.phase]]\nsteps = 2\n"
SETS = '[[shards]]\nname = "one"\n[[shards]]\nname = "two"\n'
SETS_OF_TWO = '[[shards]]\nname = "one"\nvocabulary = "a"\n[[shards]]\nname = "two"\nvocabulary = "b"\n'
PHASES = f'{PHASE}shards = "one"\n{PHASE}shards = "two"\n'


def parse(text: str, tmp_path: Path = Path("/tmp"), **overrides: str) -> Recipe:
    return parse_recipe(text, tmp_path / "r.toml", {key.replace("__", "."): v for key, v in overrides.items()})


def test_the_smallest_recipe(tmp_path: Path) -> None:
    """Fails if a default is missing, or a relative path is not taken from the recipe's folder."""
    recipe = parse(SOURCE, tmp_path)
    [entry] = recipe.sources
    assert (recipe.name, recipe.seed, recipe.store) == ("r", 42, str(tmp_path / "store"))
    assert isinstance(entry.source, FilesSource)
    assert (entry.source.path, entry.priority, entry.weight) == (str(tmp_path / "raw"), 1, 1.0)
    assert recipe.lock_path == tmp_path / "r.lock"


def test_everything_arrives(tmp_path: Path) -> None:
    """Fails if a table or the seed does not reach the settings that it is for."""
    text = f"""
    name = "mine"
    store = "s3://bucket/prefix"
    seed = 7
    rules = {{ gopher.min_words = 20, gopher.max_words = 99, c4.enabled = false }}
    clean.profile = "uncased"
    documents.max_document_bytes = 1000
    duplicates.threshold = 0.9
    held_out.share = 0.5
    vocabulary.size = 900
    shards = {{ length = 64, masking = {{ kind = "static", rate = 0.2 }} }}
    privacy.samples = "none"
    {SOURCE}
    priority = 5
    weight = 3
    rules.gopher.min_words = 9
    language.keep = ["de"]
    [[source]]
    kind = "files"
    name = "other"
    path = "/abs"
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
    [vocabulary], [shards] = recipe.vocabularies, recipe.shards
    assert (recipe.duplicates.threshold, recipe.held_out.share, vocabulary.settings.size) == (0.9, 0.5, 900)
    masking = shards.settings.masking
    assert (shards.settings.length, masking.kind, masking.rate) == (64, "static", 0.2)
    assert {recipe.seed, recipe.held_out.seed, shards.settings.seed, masking.seed} == {7}
    assert recipe.name_artifact(vocabulary.name) == recipe.name_artifact(shards.name) == "mine"
    assert recipe.model is None
    assert recipe.privacy.samples == "none"


def test_a_book_may_be_long() -> None:
    """Fails if novels fall to a rule meant for web pages, or the recipe's own word does not go before it."""
    books = SOURCE.replace("files", "bookcorpus")
    bounds = [parse(text).sources[0].documents.rules.gopher for text in (books, SOURCE, books + MOST_WORDS)]
    assert [(bound.min_words, bound.max_words) for bound in bounds] == [(50, 10_000_000), (50, 100_000), (50, 70)]


def test_a_recipe_of_several_vocabularies_shard_sets_and_a_model() -> None:
    """Fails if a named table is bound to another, or the names in the store are not the recipe's."""
    recipe = parse(
        f"""
    shards = [
        {{ name = "one", vocabulary = "b", sources = ["own"] }},
        {{ name = "two", vocabulary = "a", input = "full-sentences", length = 256 }},
    ]
    model = {{ family = "roberta", size = "tiny", layers = 3 }}
    [training]
    learning_rate = 1
    phase = [{{ shards = "two", steps = 5 }}, {{ shards = "two", steps = 7, batch = 8 }}]
    {TWO}
    {SOURCE}""",
        **{"shards__two__length": "64"},
    )
    assert [recipe.name_artifact(entry.name) for entry in recipe.vocabularies] == ["r-a", "r-b"]
    sets = [(entry.name, entry.vocabulary, entry.settings.sources) for entry in recipe.shards]
    assert sets == [("one", "b", ("own",)), ("two", "a", ())]
    assert recipe.shards[1].settings.length == 64
    assert recipe.model is not None
    assert (recipe.model.phases, recipe.model.settings.shape) == ((("two",), ("two",)), (3, 128, 2, 512))
    training = recipe.model.training
    assert (training.steps, training.learning_rate, training.seed) == (12, 1.0, 42)


def test_a_phase_reads_a_mixture() -> None:
    """Fails if weights or quotas are taken for others, or a phase of a mixture does not know its sets."""
    recipe = parse(
        SETS
        + "[[training.phase]]\nsteps = 2\nmixture = { two = 0.7, one = 1 }\nmax_epochs = 4\n"
        + "[[training.phase]]\nmixture = { one = { tokens = '1.5B' }, two = { tokens = 3_000 } }\n"
        + "[[training.phase]]\nsteps = 1\nshards = 'one'\n"
        + SOURCE
    )
    assert recipe.model is not None
    assert (recipe.model.phases, recipe.model.shards) == ((("two", "one"), ("one", "two"), ("one",)), ("two", "one"))
    first, second, _ = recipe.model.training.phase
    assert (first.weights, first.quotas, first.max_epochs) == ((Fraction(7, 10), 1), (), 4.0)
    assert (second.quotas, second.steps) == ((1_500_000_000, 3_000), 0)
    assert count_phase_tokens(first, [10, 27]) == round(64 * (7 + 27) / Fraction(17, 10))
    assert count_phase_tokens(second, [8, 9]) == 1_500_003_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no [[source]]"),
        ("source = 3", "there is no [[source]]"),
        ("nmae = 'x'\n" + SOURCE, "the recipe has no key 'nmae': did you mean 'name'?"),
        ("[duplicate]\n" + SOURCE, "did you mean 'duplicates'?"),
        ("name = ''\n" + SOURCE, "name = '' must be a text without slashes"),
        ("name = 'a/b'\n" + SOURCE, "name = 'a/b' must be a text without slashes"),
        ('name = "a\\nb"\n' + SOURCE, "holds a character that acts on a terminal"),
        ('name = "a\\u202eb"\n' + SOURCE, "holds a character that acts on a terminal"),
        (f"name = '{76 * 'é'}'\n" + SOURCE, "is longer than 150 bytes, and files are named after it: shorten it"),
        (f"name = '{150 * 'n'}'\n" + '[[vocabulary]]\nname = "a"\n' + SOURCE, "together = 'nnnn"),
        ("store = 3\n" + SOURCE, "store = 3 must be a folder or an address"),
        ("store = 'gs://bucket'\n" + SOURCE, "gs://... is not the address of a folder or an object store"),
        ("store = 's3://AKIA:abc@bucket'\n" + SOURCE, "is refused: it would stand in records, reports and logs"),
        (f"store = 'a/{256 * 'n'}'\n" + SOURCE, "has a name of more than 255 bytes"),
        ('store = "a\\u0000b"\n' + SOURCE, "holds a character that acts on a terminal"),
        ("seed = -1\n" + SOURCE, "seed = -1 is out of range: it must be a whole number from 0 to"),
        ("rules = 3\n" + SOURCE, "rules = 3 must be a table of settings: [rules]"),
        ("[rules]\ngopher.min_wrods = 3\n" + SOURCE, "toml: rules.gopher has no key 'min_wrods': did you mean"),
        ("[documents]\nclean.profile = 'uncased'\n" + SOURCE, "documents.clean has a table of its own: write it as"),
        ("[duplicates]\nthreshold = 1.5\n" + SOURCE, "threshold = 1.5 is no similarity"),
        ("[duplicates]\nbands = 40\n" + SOURCE, "bands = 40 of rows = 7 need 280 numbers"),
        ("[held_out]\nshare = 0.9\n" + SOURCE, "held_out.share = 0.9 is out of range: it must be between 0.0 and 0.5"),
        ("[vocabulary]\nsize = true\n" + SOURCE, "vocabulary.size = True is of the wrong type: it must be a whole"),
        ("[shards]\nmasking = 3\n" + SOURCE, 'shards.masking = 3 must be a table, as in masking = { kind = '),
        ("[shards]\nmasking.kind = 'dyn'\n" + SOURCE, "masking.kind = 'dyn' is not known: did you mean 'dynamic'"),
        ("[shards]\nlength = 3\n" + SOURCE, "shards.length = 3 is out of range"),
        ("[privacy]\nsamples = 'no'\n" + SOURCE, "privacy.samples = 'no' is not known"),
        ("[[vocabulary]]\nsize = 500\n" + SOURCE, "vocabulary 1 has no `name`: where there are several"),
        (TWO + '[[vocabulary]]\nname = "a"\n' + SOURCE, "two [[vocabulary]] are named 'a': give each a name"),
        ("vocabulary = []\n" + SOURCE, "there is no [[vocabulary]] in the list"),
        (TWO + SOURCE, "shards.vocabulary is missing: there are several [[vocabulary]], so name one: 'a', 'b'"),
        (TWO + "[shards]\nvocabulary = 'c'\n" + SOURCE, "shards.vocabulary = 'c' is not one of the [[vocabulary]]"),
        ("[shards]\nsources = ['won']\n" + SOURCE, "shards.sources = 'won' is not known: did you mean 'own'"),
        ("[model]\n" + SOURCE, "training has no phase: add [[training.phase]] with its `steps`"),
        ("[model]\nhidden_size = 100\nheads = 7\n" + PHASE + SOURCE, "model.hidden_size = 100 is not a multiple of"),
        ("[model.objective]\nkind = 'distillation'\n" + PHASE + SOURCE, "model.objective.teacher is missing: give"),
        ("[training]\nlearning_rat = 1\n" + PHASE + SOURCE, "training has no key 'learning_rat': did you mean"),
        (PHASE + "shards = 'x'\n" + SOURCE, "training.phase 1: shards = 'x' is not one of the [[shards]]"),
        (SETS + PHASE + "mixture = { one = 1, z = 1 }\n" + SOURCE, "training.phase 1: mixture = 'z' is not one of the"),
        (SETS + PHASE + "mixture = { one = 0, two = 0 }\n" + SOURCE, "mixture.one = 0.0: a weight is between"),
        (BY_STEP + PHASE + "batch = 16\n" + SOURCE, "phase 1.batch = 16, but the masks of the shards that it reads"),
        (BY_STEP + PHASE + "batch = 8\nmixture = { '' = 1 }\n" + SOURCE, "in a mixture, but their masks change by the"),
        (SETS + PHASE + "mixture.one.tokens='3X'\n" + SOURCE, "tokens = '3X' is not a number of tokens: write a whole"),
        (SETS + PHASE + "mixture = { one = 1, two = { tokens = 3 } }\n" + SOURCE, "has weights and quotas of tokens"),
        (SETS + PHASE + "shards = 'one'\nmixture = { two = 1 }\n" + SOURCE, "has `shards` = 'one' and a `mixture`"),
        (SETS + "[[training.phase]]\nmixture = { one = 1 }\n" + SOURCE, "training.phase.steps is 0: set the length"),
        (SETS + PHASE + SOURCE, "training.phase 1: shards is missing: there are several [[shards]]"),
        (TWO + SETS_OF_TWO + PHASES + SOURCE, "the phases of training read shards of 2 vocabularies (a, b)"),
        (
            "[shards]\nlength = 512\n[training]\nmicro_batch_tokens = 256\n" + PHASE + SOURCE,
            "hold examples of up to 512 tokens, and a process may hold training.micro_batch_tokens = 256 at once",
        ),
        ("[shards]\ninput = 'causal'\n" + SOURCE, "shards.input = 'causal' is not known: it must be one of"),
        ("[shards]\nmasking.kind = 'none'\n" + PHASE + SOURCE, 'mask nothing (masking.kind = "none")'),
        ("[vocabulary]\nsize = 100000000000000000000000\n" + SOURCE, "vocabulary.size is a number of 24 digits"),
        ("store = '/dev/null/store'\n" + SOURCE, "Cannot write /dev/null/store: /dev/null is not a folder. Move"),
        (SOURCE + SOURCE, "two sources are named 'own': give each [[source]] a name of its own"),
        (SOURCE.replace("own", "café") + SOURCE.replace("own", "cafe\u0301"), "two sources are named 'café'"),
        (SOURCE.replace('path = "raw"', 'path = "https://u:abc@h/x"'), "source 1: https://... is not a path"),
        ('[[source]]\nkind = "files"\npath = "x"', "source 1: source (files) lacks the key 'name'"),
        ('[[source]]\nname = "x"', "source 1: A [[source]] does not name its `kind`"),
        ('[[source]]\nkind = "wikpedia"', "source 1: source.kind = 'wikpedia' is not known: did you mean 'wikipedia'"),
        (SOURCE + "pth = 'x'", "source 1: source (files) has no key 'pth': did you mean 'path'?"),
        (SOURCE + "priority = 'x'", "source 1: priority = 'x' is of the wrong type: it must be a whole number"),
        (SOURCE + "weight = 0", "source 1: weight = 0.0 is out of range"),
        (SOURCE + "rules = 3", "source 1: rules = 3 must be a table of settings"),
        (SOURCE + "language.keep = ['english']", 'source 1: language.keep has "english"'),
    ],
)  # fmt: skip
def test_a_mistake_is_named(text: str, said: str) -> None:
    """Fails if a mistake passes, is no InputError, or its message lacks file, key or remedy."""
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        parse(text)
    assert str(caught.value).startswith("/tmp/r.toml: ")
    assert "\n" not in str(caught.value)


def test_broken_toml_is_named_with_its_line() -> None:
    """Fails if the place of a slip is not told."""
    with pytest.raises(InputError, match=r"/tmp/r.toml is not TOML: .*\(at line 3"):
        parse("name = 'a'\n\nstore = = 2\n")
    for deep in (f"name = {100_000 * '['}", f"name{10_000 * '.a'} = 1", f"seed = {5_000 * '9'}"):
        with pytest.raises(InputError, match=r"/tmp/r.toml is not TOML: (its .* deep|Exceeds)"):
            parse(deep)
    assert parse("\ufeff" + SOURCE).name == parse(SOURCE).name, "as editors on Windows begin a file"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Fails if a missing, a folder's or a garbled recipe ends in a traceback."""
    with pytest.raises(InputError, match=r"Cannot read the recipe .*none.toml: No such file.* comes with Cloze: demo"):
        read_recipe(tmp_path / "none.toml")
    with pytest.raises(InputError, match=r"Cannot read the recipe .*: Is a directory"):
        read_recipe(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(InputError, match=r"latin\.toml is not UTF-8 text"):
        read_recipe(tmp_path / "latin.toml")


def test_set_goes_over_the_recipe() -> None:
    """Fails if an override is lost, mistyped or not remembered."""
    recipe = parse(SOURCE + "[vocabulary]\nsize = 900", vocabulary__size="800", clean__profile="uncased", seed="9")
    assert (recipe.vocabularies[0].settings.size, recipe.sources[0].documents.clean.profile) == (800, "uncased")
    assert recipe.held_out.seed == 9
    assert recipe.overrides == {"vocabulary.size": "800", "clean.profile": "uncased", "seed": "9"}
    assert parse(SOURCE, language__keep='["de", "fr"]').sources[0].documents.language.keep == ("de", "fr")
    for key in ("source__own__weight", "source__1__weight"):
        assert parse(SOURCE, **{key: "2"}).sources[0].weight == 2.0


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("vocabulary__size", "many", "vocabulary.size = 'many' is of the wrong type: it must be a whole number"),
        ("vocabulry__size", "5", "no key 'vocabulry': did you mean 'vocabulary'?"),
        ("source__other__weight", "2", "source (files) has no key 'other'"),
        ("source__2__weight", "2", "source (files) has no key '2'"),
        ("name__x", "2", "--set name.x=2: name is not a table"),
        ("", "2", "the recipe has no key ''"),
    ],
)
def test_a_wrong_set_is_named(key: str, value: str, said: str) -> None:
    """Fails if a slip in --set passes."""
    with pytest.raises(InputError, match=re.escape(said)):
        parse_recipe("name = 'n'\n" + SOURCE, Path("/tmp/r.toml"), {key.replace("__", "."): value})


def test_the_one_source_needs_no_name_and_of_several_one_is_named() -> None:
    """Fails if `source.` does not mean the only source, means any of several, or a dot in a name parts it."""
    fields = {"text": "note"}
    assert parse(SOURCE, source__fields__text="note").sources[0].source.fields == fields
    two = SOURCE + SOURCE.replace('"own"', '"2026.11"')
    second = parse(two, **{'source__"2026.11"__fields__text': "note"}).sources[1]
    assert second.source.name == "2026.11" and second.source.fields == fields
    with pytest.raises(InputError, match=r"pick one, by its name or number before 'fields' \(own, 2026.11\)"):
        parse(two, source__fields__text="note")


@pytest.mark.parametrize("name", sorted(read_shipped_recipes()))
def test_shipped_recipes_are_right(name: str, tmp_path: Path) -> None:
    """Fails if a recipe that comes with the program does not pass its own checks, or its raw files are missing."""
    recipe = load_shipped_recipe(name, tmp_path, {})
    assert recipe.name == name
    assert recipe.store == str(tmp_path / "store")
    assert all(entry.source.files() for entry in recipe.sources)


def test_a_shipped_recipe_is_placed_once_and_then_the_users_own(tmp_path: Path) -> None:
    """Fails if looking at a recipe writes it, or running one overwrites what the user made of it."""
    recipe = load_shipped_recipe("demo", tmp_path, {})
    assert list(tmp_path.iterdir()) == []
    module.write_recipe(recipe)
    path = tmp_path / "demo.toml"
    assert path.read_text() == read_shipped_recipes()["demo"]
    path.write_text(path.read_text().replace("seed = 42", "seed = 7"))
    edited = load_shipped_recipe("demo", tmp_path, {})
    module.write_recipe(edited)
    assert edited.seed == 7 and "seed = 7" in path.read_text()


def test_a_folder_is_a_recipe(tmp_path: Path) -> None:
    """Fails if a folder's name cannot be a source's name, or its path is lost."""
    folder = tmp_path / "my notes & letters"
    folder.mkdir()
    recipe = parse_recipe(module.render_folder_recipe(folder, "there"), tmp_path / "r.toml", {})
    [entry] = recipe.sources
    assert (recipe.name, entry.source.name, recipe.store) == (*["my-notes---letters"] * 2, str(tmp_path / "there"))
    assert isinstance(entry.source, FilesSource) and entry.source.path == str(folder)


def test_the_examples_of_the_authors_script_are_refused_with_what_is_made_instead() -> None:
    with pytest.raises(InputError, match=r"shards\.compat is no setting any more\. Leave it out: pairs then truncate"):
        parse(SOURCE + '[shards]\ncompat = "google-bert"\n')
