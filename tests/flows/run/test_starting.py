"""A recipe whose training begins with a model: its settings and vocabulary follow, a replay share by mixture, and the
report says what it was before."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from small_models import bert_words, write_model
from small_recipe import prose
from small_training import said, train_here

from corpora.errors import InputError
from corpora.sources.contract import StatCache
from corpora.store.checked_folder import COMPLETE_FILE
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage, read_manifest
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.model_and_tasks import START_VOCABULARY
from flows.recipes.privacy import Privacy
from flows.recipes.recipe import parse_recipe
from flows.report.models import build_training_view
from flows.report.page import build_page
from flows.report.run import RunView
from flows.run.inputs.start_model import find_start, with_start_model
from flows.run.pipeline import run_recipe
from flows.run.record.run_record import RunRecord, StageRecord
from flows.run.stage_kinds import get_stage_index
from trainer.job import TrainingJob

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it

RECIPE = """
name = "retrained"
store = "store"
source = [
    { kind = "files", name = "papers", path = "raw/papers" },
    { kind = "files", name = "prose", path = "raw/prose" },
]
language.keep = ["en"]
held_out.share = 0.3
shards = [
    { name = "domain", sources = ["papers"], length = 32 },
    { name = "general", sources = ["prose"], length = 32 },
]

# The prose made here has few words, so it says the same things again and again.
[rules]
repetition.enabled = false
gopher.min_words = 20

[model]
start = "start"

[training]
learning_rate = 1e-3
warmup_steps = 1
processes = 1

[[training.phase]]
steps = 3
batch = 8
mixture = { domain = 0.8, general = 0.2 }
"""


class _ModelPlanned(Exception):
    """The stage of the model, before it is built."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage


def planned(text: str, folder: Path, lock: Lock | None = None) -> Stage:
    """The stage of the model of a recipe, everything before it built."""
    recipe = parse_recipe(text, folder / "retrained.toml", {})
    place = Place(recipe.store)

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        if stages and stages[0].kind == "models":
            raise _ModelPlanned(stages[0])
        return [build_stage(place, stage) for stage in stages]

    with pytest.raises(_ModelPlanned) as caught:
        run_recipe(place, recipe, lock or resolve_raw_files(recipe, Lock(), StatCache()).lock, perform)
    return caught.value.stage


class StartedWorld(NamedTuple):
    """A folder with raw files and a model, and the stage of a recipe's model that begins with it."""

    folder: Path
    stage: Stage

    @property
    def job(self) -> TrainingJob:
        job: TrainingJob = self.stage.parts[0].job
        return job


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> StartedWorld:
    folder = tmp_path_factory.mktemp("starting")
    for number in range(12):
        for name, seed in (("papers", 100), ("prose", 500)):
            path = folder / "raw" / name / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(prose(seed + number), encoding="utf-8")
    write_model(folder / "start", attention_dropout=0.2)
    return StartedWorld(folder, planned(RECIPE, folder))


def test_settings_and_vocabulary_are_those_of_the_start(world: StartedWorld) -> None:
    """Fails if a model that begins with a folder is of other sizes or another vocabulary, or its place names it."""
    model = world.job.model
    assert (model.family, model.shape, model.positions, model.attention_dropout) == ("bert", (2, 32, 4, 64), 40, 0.2)
    assert world.job.inputs.vocab_size == bert_words().size and world.job.start is not None
    assert world.stage.settings["start"] == world.job.start.content and str(world.folder) not in str(
        world.stage.settings
    )
    said_so = RECIPE.replace('start = "start"', 'start = "start"\nfamily = "bert"\nlayers = 2\nmax_length = 40')
    assert planned(said_so, world.folder).fingerprint == world.stage.fingerprint
    faster = planned(RECIPE.replace('start = "start"', 'start = "start"\nattention_dropout = 0.0'), world.folder)
    assert faster.parts[0].job.model.attention_dropout == 0 and faster.fingerprint != world.stage.fingerprint


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('start = "start"', 'start = "start"\nlayers = 4', r"model\.layers = 4, but the model in .* has 2: "),
        ('start = "start"', 'start = "start"\nlayer = 4', r"model has no key 'layer': did you mean 'layers'"),
        ('start = "start"', 'start = ""', r"model\.start is empty"),
        ('start = "start"', 'start = "begin"', r"model\.start = 'begin': there is no folder .*/begin\. Give"),
        ('start = "start"', 'start = "raw"', r"raw has no config\.json, but a training starts from a model"),
        ('start = "start"', 'start = "models/gone"', r"the store .* has no such model, and there is no such folder"),
        ('start = "start"', 'start = "models/retrained"', "is the model that this recipe trains, so each run"),
        ("[model]", "[vocabulary]\nsize = 400\n[model]", r"\[vocabulary\] is to be trained, and model"),
        ("[model]", '[vocabulary]\npath = "other"\n[model]', r"\[vocabulary\] is neither .* The token 'a' has"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_a_start_is_refused_before_anything_is_built(
    world: StartedWorld, old: str, new: str, told: str
) -> None:
    """Fails if a start that is none, or a recipe that says otherwise than it, is found out after the corpus."""
    bert_words().save(world.folder / "other")
    (world.folder / "other" / "vocab.txt").unlink()
    text = (world.folder / "other" / "tokenizer.json").read_text()
    swapped = text.replace('"a": 5,', '"a": 6,').replace('"b": 6,', '"b": 5,')
    assert swapped != text
    (world.folder / "other" / "tokenizer.json").write_text(swapped)
    (world.folder / "other" / COMPLETE_FILE).unlink()

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        raise AssertionError("nothing is to be built")

    with pytest.raises(InputError, match=told) as caught:
        recipe = parse_recipe(RECIPE.replace(old, new), world.folder / "retrained.toml", {})
        run_recipe(Place(recipe.store), recipe, resolve_raw_files(recipe, Lock(), StatCache()).lock, perform)
    assert "\n" not in str(caught.value)


def test_a_start_is_hashed_once_for_each_state(world: StartedWorld) -> None:
    """Fails if the weights are read again although nothing changed, or another file is taken for it."""
    recipe = parse_recipe(RECIPE, world.folder / "retrained.toml", {})
    assert recipe.vocabularies[0].settings == START_VOCABULARY
    cache = StatCache()
    start = find_start(recipe, cache)
    assert start is not None
    path = world.folder / "start" / "model.safetensors"
    stat = path.stat()
    cache.entries[str(path)] = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, "known"]
    again = find_start(recipe, cache)
    assert again is not None and again.files == {**start.files, "model.safetensors": "known"}
    told, _ = with_start_model(recipe, Lock(start=again))
    assert told.model is not None and told.model.settings == world.job.model


@pytest.fixture(scope="module")
def model(world: StartedWorld) -> Manifest:
    """The trained model in the store."""
    train_here(world.job)
    return build_stage(Place(str(world.folder / "store")), world.stage)


def test_each_component_is_judged_before_and_after(world: StartedWorld, model: Manifest) -> None:
    """Fails if the losses of the start are not measured before the first step, on the same text as after."""
    before, after = (event for event in said(world.job) if event["event"] == "evaluation")
    assert (before["step"], after["step"]) == (0, 3)
    assert [*before["components"]] == [*after["components"]] and len(before["components"]) == 2
    for name, part in before["components"].items():
        assert part["masked_tokens"] == after["components"][name]["masked_tokens"] > 0
        assert part["masked_loss"] != after["components"][name]["masked_loss"]
    assert model.facts["start"]["first_heads"] == []


def test_a_model_of_the_store_is_a_start(world: StartedWorld, model: Manifest) -> None:
    """Fails if an artifact cannot be begun with by its name, or is another content than its own folder."""
    starts: list[Any] = []
    for text in ("models/retrained", f"models/retrained/{model.fingerprint}", f"store/{model.folder}"):
        other = RECIPE.replace('start = "start"', f'start = "{text}"').replace('name = "retrained"', 'name = "again"')
        recipe = parse_recipe(other, world.folder / "again.toml", {})
        starts.append(find_start(recipe, StatCache()))
    assert len({replace(start, folder="").content for start in starts}) == 1
    assert all(Path(start.folder).samefile(world.folder / "store" / model.folder) for start in starts)
    assert planned(other, world.folder).settings["start"] == starts[0].content


STUDENT = """family = "distilbert"
layers = 1
hidden_size = 32
heads = 4
feed_forward_size = 64
max_length = 40
objective = { kind = "distillation", teacher = "models/retrained" }"""


def test_a_student_learns_from_a_model_of_the_store(world: StartedWorld, model: Manifest) -> None:
    """Fails if a recipe whose teacher is an artifact is planned without it, or not named by what that holds."""
    text = RECIPE.replace('start = "start"', STUDENT).replace('name = "retrained"', 'name = "student"')
    stage = planned(text.replace("[model]", '[vocabulary]\npath = "start"\n\n[model]'), world.folder)
    job: TrainingJob = stage.parts[0].job
    assert job.teacher is not None and Path(job.teacher.folder).samefile(world.folder / "store" / model.folder)
    assert stage.settings["teacher"] == stage.facts["teacher"] == job.teacher.content


def test_the_report_says_what_the_model_was_before(world: StartedWorld, model: Manifest) -> None:
    """Fails if the page does not have the losses of domain and general text before and after in one table."""
    place = Place(str(world.folder / "store"))
    folders = [path.parent for path in sorted((world.folder / "store").glob("*/*/*/manifest.json"))]
    found = [read_manifest(place, folder.relative_to(world.folder / "store").as_posix()) for folder in folders]
    stages = tuple(
        StageRecord(
            kind=m.kind, name=m.name, folder=m.folder, state="built", reason="", seconds=1.0, parts=1, parts_built=1
        )
        for m in sorted(filter(None, found), key=lambda m: get_stage_index(m.kind))
        if m == model or (m.kind != "models" and not m.name.startswith("student"))  # of another recipe, made above
    )
    record = RunRecord(
        run_id="20260101T000000000000-r", recipe="retrained", recipe_path="r.toml", recipe_toml=RECIPE, workers=1,
        started="2026-01-01T00:00:00+00:00", seconds=1.0, state="completed", stages=stages, versions={}, overrides={},
    )  # fmt: skip
    view = build_training_view(RunView(place, record, Privacy("text")))
    assert view is not None and view["start"] == {
        "content": world.job.start.content,
        "new_tokens": 0,
        "first_heads": [],
    }
    before, after = (event for event in said(world.job) if event["event"] == "evaluation")
    domain, general, together = view["before"]
    assert [row["name"] for row in view["before"]] == ["domain", "general", "together"]
    assert domain["share"] > 0.6 > 0.4 > general["share"] > 0 and domain["share"] + general["share"] == 1
    assert (together["before"], together["after"]) == (before["masked_loss"], after["masked_loss"])
    part = after["components"]["retrained-general"]
    assert (general["after"], general["guessed"][1]) == (part["masked_loss"], part["masked_accuracy"])
    page = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", build_page(place, record, "text")))
    assert f"It began with the weights of another model (content {world.job.start.content} )" in page
    assert f"domain {100 * domain['share']:.1f}% {domain['before']:.3f} {domain['after']:.3f} " in page
