"""Whatever a recipe names must be there: a name that is nearly one is refused when the recipe is loaded.

The law: a name is looked up where it is read, before anything is built, whichever door the recipe comes through; the
message has the table, the key and the nearest name, and which there are.
"""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from labelled_world import TEXT, labelled_file
from small_recipe import Run, fill, new_world

import cloze
from corpora.errors import InputError
from flows.command.cli import run_command_line
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.record.figures import compute_figures

SETS = """
[[vocabulary]]
name = "pieces"
size = 400
[[vocabulary]]
name = "words"
size = 300
[[shards]]
name = "long"
vocabulary = "pieces"
length = 64
[[shards]]
name = "short"
vocabulary = "pieces"
length = 32
"""
SEVERAL = re.sub(r"\[vocabulary\].*?(?=\[\[task)", SETS, TEXT, flags=re.DOTALL).replace(
    "batch = 4", "batch = 4, shards = 'long'"
)
NAMES = {  # what is put into the recipe, which near name the message has, and the key that it is of
    "a source of shards": ('[shards]\nsources = ["page"]', "pages", "shards.sources"),
    "a source of a task": ('task.0.sources = ["note"]', "notes", "sources"),
    "the answers of a task": ('task.0.answers = "predikt"', "predict", "answers"),
    "a kind of task": ('task.0.task = "clases"', "classes", "task"),
    "a metric": ('task.0.metric = "acuracy"', "accuracy", "metric"),
    "a metric of several": ('task.0.metrics = ["accuracy", "macro_f2"]', "macro_f1", "task 'boat'.metrics"),
    "a format": ('task.0.format = "tvs"', "tsv", "task 'boat'.format"),
    "a role of a column": ('task.0.columns = { lable = "b" }', "label", "task 'boat'.columns"),
    "a finding": ('task.0.accept = ["leek"]', "leak", "accept"),
    "a setting of a task": ("task.0.epoch = 3", "epochs", "task 'boat'"),
    "a figure": ('bounds."documnets" = { min = 1 }', "documents", 'bounds."documnets"'),
    "a figure of a source": ('bounds."documents: page" = { min = 1 }', "documents: pages", "bounds"),
    "a figure of a reason": (
        'bounds."dropped share: rules: gopher.min_wrods" = { max = 1 }',
        "dropped share: rules: gopher.min_words",
        "bounds",
    ),
    "a figure of a language": ('bounds."language share: eng" = { max = 1 }', "language share: en", "bounds"),
    "a figure of a task": ('bounds."task boot: accuracy" = { min = 0 }', "task boat: accuracy", "bounds"),
    "a figure of a metric": ('bounds."task boat: acuracy" = { min = 0 }', "task boat: accuracy", "bounds"),
    "a figure of a model": ('bounds."held-out los" = { max = 4 }', "held-out loss", "bounds"),
    "many figures": ('bounds."droped share: *" = { max = 1 }', "dropped share", "bounds"),
    "a kind of limit": ("bounds.documents = { minimum = 1 }", "min", "bounds"),
    "an event": ('notify.on = ["failures"]', "failure", "notify.on"),
    "a rule": ("rules.gopher.min_wrods = 3", "min_words", "rules.gopher"),
    "a table": ("dupplicates.threshold = 0.7", "duplicates", "the recipe"),
    "a profile": ('clean.profile = "casd"', "cased", "clean.profile"),
    "a kind of source": ('source.0.kind = "file"', "files", "kind"),
    "a field": ('source.0.fields = { txt = "body" }', "text", "fields"),
    "what damage does": ('source.0.on_damage = "skipp"', "skip", "on_damage"),
    "a kind of examples": ('shards.input = "full-sentence"', "full-sentences", "shards.input"),
    "a masking": ('shards.masking.kind = "dynamik"', "dynamic", "masking.kind"),
    "a schedule": ('training.schedule.kind = "consine"', "cosine", "schedule.kind"),
    "an objective": ('model.objective.kind = "maskd"', "masked", "kind"),
    "a size": ('model.size = "minni"', "mini", "model.size"),
    "an algorithm": ('vocabulary.algorithm = "wordpieces"', "wordpiece", "vocabulary.algorithm"),
    "what is shown": ('privacy.samples = "txt"', "text", "privacy"),
}
NAMES_OF_SEVERAL = {
    "a vocabulary": ('shards.0.vocabulary = "peices"', "pieces", "shards 'long'.vocabulary"),
    "a shard set": ("training.phase.0.shards = 'lonng'", "long", "training.phase 1: shards"),
    "a shard set of a mixture": (
        "training.phase = [{ steps = 2, batch = 4, mixture = { lonng = 1 } }]",
        "long",
        "training.phase 1: mixture",
    ),
    "a figure of a vocabulary": ('bounds."tokens (peices)" = { min = 1 }', "tokens (pieces)", "bounds"),
    "a figure of shards": ('bounds."fill (shrt)" = { min = 0 }', "fill (short)", "bounds"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw and labelled files, next to which a recipe is."""
    world = fill(new_world(tmp_path_factory.mktemp("named"), TEXT))
    for seed, name in ((1, "train"), (2, "dev")):
        labelled_file(world.folder / "labelled" / f"{name}.tsv", seed)
    return world.folder


def loaded(folder: Path, text: str, change: str) -> Recipe:
    """The recipe with one more value, where a dotted key with numbers says."""
    key, _, value = change.replace("[shards]\n", "shards.").partition(" = ")
    dotted = re.sub(r"\.(\d)\b", lambda number: f".{int(number[1]) + 1}", key)
    return parse_recipe(text, folder / "small.toml", {dotted: value})


@pytest.mark.parametrize("of", [*NAMES, *NAMES_OF_SEVERAL])
def test_a_name_that_is_nearly_one_is_refused_with_it(of: str, folder: Path) -> None:
    """Fails if a mistake in a name is told after minutes of work, or without key, nearest name or the names."""
    text, (change, near, key) = (TEXT, NAMES[of]) if of in NAMES else (SEVERAL, NAMES_OF_SEVERAL[of])
    with pytest.raises(InputError) as refused:
        loaded(folder, text, change)
    message = str(refused.value)
    assert f"did you mean '{near}'? It must be one of " in message, message
    assert key in message and "small.toml" in message, message


def test_both_recipes_are_right_without_the_mistakes(folder: Path) -> None:
    for text in (TEXT, SEVERAL):
        assert parse_recipe(text, folder / "small.toml", {}).tasks


def test_every_door_refuses_before_it_builds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a command, a schedule or Python begins with a recipe that names what is not there."""
    path = folder / "wrong.toml"
    path.write_text(TEXT + '\n[bounds]\n"task boat: acuracy" = { min = 0.5 }\n')
    monkeypatch.chdir(folder)
    for line in (
        "plan {}",
        "run {}",
        "serve {} --every 60",
        "deploy {} --pool a",
        "fetch {}",
        "preview pages --recipe {}",
    ):
        with pytest.raises(InputError, match=r"wrong\.toml: bounds.*did you mean 'task boat: accuracy'"):
            run_command_line(line.format(path.name).split(), folder)
    with pytest.raises(InputError, match="did you mean 'task boat: accuracy'"):
        cloze.run(path)
    assert not (folder / "store").exists() and not (folder / "prefect.yaml").exists()


def test_a_column_that_a_labelled_file_lacks_is_missed_by_the_plan_and_before_the_first_stage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if the column's name is told when the model has been trained."""
    path = folder / "columns.toml"
    path.write_text(TEXT.replace('task = "classes"', 'task = "classes"\ncolumns = { label = "lable" }'))
    monkeypatch.chdir(folder)
    for line in ("plan {}", "run {} --no-watch --workers 1"):
        with pytest.raises(
            InputError, match=r"train\.tsv, line 1, has no column 'lable' for label: did you mean 'label'"
        ):
            run_command_line(line.format(path.name).split(), folder)
    assert not list((folder / "store").glob("documents/*"))


def test_every_figure_of_a_run_may_be_bounded(learnt: Run) -> None:
    """Fails if a run has a figure that a bound of its recipe is not allowed to name."""
    figures = compute_figures(learnt.place, learnt.manifests)
    assert len(figures) > 60 and any(name.startswith("task ") for name in figures)
    bounds = "\n".join(f"{json.dumps(name)} = {{ min = 0 }}" for name in figures)
    path = learnt.recipe.path
    assert path is not None
    parse_recipe(f"{learnt.recipe.text}\n[bounds]\n{bounds}\n", path, {})


@pytest.mark.parametrize("name", ["*", "dropped share: *", "held-out*", "language share*: en", "dropped: parse: *"])
def test_a_bound_of_many_is_one_of_those_that_there_may_be(name: str, folder: Path) -> None:
    """Fails if what is known only from the data may not be bounded beforehand."""
    assert loaded(folder, TEXT, f'bounds."{name}" = {{ min = 0 }}').bounds
