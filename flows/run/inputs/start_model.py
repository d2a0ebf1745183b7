"""The model that a recipe's training starts from: its place, its contents, and the recipe that follows from it.

    [model] start ─► a folder, an artifact of the store, a release ─► its files by content ─► settings, vocabulary

An existing folder is taken first. Files of a folder are hashed once for each state that they are in; those of an
artifact are listed in its manifest. One in an object store is copied to `~/.cache/cloze/starts`, once, and a folder of
an older form is brought to today's (`todays_form`), whose files count.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from corpora.errors import InputError
from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import list_manifests
from flows.recipes.lock import Lock
from flows.recipes.model_and_tasks import START_VOCABULARY, TEACHER_KEY, TaskEntry
from flows.recipes.recipe import Recipe
from flows.run.record.releases import manifests_of, release_address, release_at
from flows.run.record.run_record import newest_used
from tokenizers_train.vocabularies.files import FILES
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from trainer.huggingface.start_model import adapt_start, read_settings
from trainer.huggingface.todays_form import convert_older_folder
from trainer.job import CACHE
from trainer.start_weights import CONFIG, WEIGHTS, StartModel, copy_model, list_model_files, read_start

START = "model.start"
RESUMES = " A training that has a checkpoint resumes without one: `cloze train` with the job.json in its `work` folder."
_ARTIFACT = re.compile(r"models/([^/]+)(?:/([0-9a-f]{24}))?/?")


def begun(recipe: Recipe, lock: Lock) -> tuple[Recipe, StartModel | None]:
    """Return the recipe with the settings and the vocabulary of the model that its training starts from, if any.

    Raises InputError if that model does not exist, or the recipe contradicts it.
    """
    entry = recipe.model
    if entry is None or entry.settings.start is None:
        return recipe, None
    start = lock.start or find_start(recipe, StatCache())
    assert start is not None, "a recipe that names a start has one"
    vocabularies = tuple(
        replace(each, settings=replace(START_VOCABULARY, path=start.folder))
        if each.settings == START_VOCABULARY
        else each
        for each in recipe.vocabularies
    )
    model = replace(entry, settings=read_settings(start, entry.given))
    return replace(recipe, model=model, vocabularies=vocabularies), start


def fitting(start: StartModel, recipe: Recipe, existing: Mapping[str, Vocabulary]) -> StartModel:
    """Return the start with rows for what its vocabulary lacks. existing: by name. Raises InputError."""
    assert recipe.model is not None
    [name] = {entry.vocabulary for entry in recipe.shards if entry.name in recipe.model.shards}
    called = f"[[vocabulary]] {name!r}" if name else "[vocabulary]"
    if name not in existing:
        raise InputError(
            f"{called} is to be trained, and model.start names a model that has its own: leave {called} out to take "
            "that, or give as its `path` one that was adapted from it (`cloze vocabulary adapt`)."
        )
    return adapt_start(start, existing[name], called)


def find_start(recipe: Recipe, cache: StatCache) -> StartModel | None:
    """Find the model that a recipe's training starts from; None for random weights. Raises InputError."""
    entry = recipe.model
    if entry is None or entry.settings.start is None:
        return None
    return _find_model(START, entry.settings.start, entry.folder, recipe, cache)


def taught(recipe: Recipe, lock: Lock) -> StartModel | None:
    """Return the model that a recipe's model learns from, as recorded in the lock. Raises InputError."""
    return lock.teacher or find_teacher(recipe, StatCache())


def find_teacher(recipe: Recipe, cache: StatCache) -> StartModel | None:
    """Find the model that a recipe's model learns from; None if no objective has one. Raises InputError."""
    entry = recipe.model
    if entry is None or not entry.teacher:
        return None
    return _find_model(TEACHER_KEY, entry.teacher, entry.teacher_folder, recipe, cache)


def find_baseline(recipe: Recipe, entry: TaskEntry) -> StartModel | None:
    """Find the model that learns a task to be compared with; None if it names none. Raises InputError."""
    address = entry.settings.baseline
    if not address:
        return None
    if address.rstrip("/") == f"models/{recipe.name}" and not Path(entry.baseline_folder).is_dir():
        raise InputError(
            f"{entry.table_key}.baseline = {address!r} is the model that this recipe trains and that learns the task: "
            f"name another, or one that was trained before ({address.rstrip('/')}/FINGERPRINT, STORE@NAME of a "
            "release)."
        )
    return _find_model(f"{entry.table_key}.baseline", address, entry.baseline_folder, recipe, StatCache())


def _find_model(key: str, address: str, folder: str, recipe: Recipe, cache: StatCache) -> StartModel:
    """Find the model that a recipe names under a key, by its files. Raises InputError if there is none.

    folder: where it may be on this machine, absolute; "" for none
    """
    if folder and Path(folder).is_dir():

        def digest(path: Path) -> str:
            return cache.hash_file(path)[1]

        return read_start(convert_older_folder(Path(folder), digest), digest)
    place, manifest = _artifact(key, address, folder, recipe)
    return _of_artifact(place, manifest)


def _artifact(key: str, address: str, folder: str, recipe: Recipe) -> tuple[Place, Manifest]:
    """Find the artifact that is named: in a release, or in the recipe's store. Raises InputError."""
    if release_address(address) is not None and (named := release_at(address)) is not None:
        place, release = named
        models = [manifest for manifest in manifests_of(place, release) if manifest.kind == "models"]
        if len(models) != 1:
            raise InputError(f"{key} = {address!r}: the release has {len(models)} models, and one is meant.")
        return place, models[0]
    match = _ARTIFACT.fullmatch(address)
    if match is None:
        raise InputError(
            f"{key} = {address!r}: there is no folder {folder or address}. Give a model's folder, relative to the "
            "recipe, models/NAME of the recipe's store, or a release (STORE@NAME)." + (RESUMES if key == START else "")
        )
    name, wanted = match[1], match[2]
    if name == recipe.name and wanted is None:
        raise InputError(
            f"{key} = {address!r} is the model that this recipe trains, so each run would begin with the one "
            f"before: name the one that is meant ({address.rstrip('/')}/FINGERPRINT), or give the recipe another name."
        )
    place = Place(recipe.store)
    candidates = [m for m in list_manifests(place, "models", name) if wanted in (None, m.fingerprint)]
    if not candidates:
        raise InputError(
            f"{key} = {address!r}: the store {recipe.store} has no such model, and there is no such folder."
        )
    return place, newest_used(place, candidates)


def _of_artifact(place: Place, manifest: Manifest) -> StartModel:
    """Return the model of an artifact, in a folder of this machine."""
    kept = {
        name: file
        for name, file in list_model_files(manifest).items()
        if name in (CONFIG, WEIGHTS, *FILES) or name.partition("/")[2] in (CONFIG, WEIGHTS)
    }
    if not {CONFIG, WEIGHTS} <= kept.keys():
        raise InputError(
            f"The artifact {manifest.folder} holds no {CONFIG} or no {WEIGHTS}: it is not a finished model."
        )
    below = sorted(name for name in kept if "/" in name)
    named = [name for name in (CONFIG, WEIGHTS, *FILES, *below) if name in kept]
    start = StartModel(folder="", files={name: kept[name].sha256 for name in named})
    if place.is_local:
        config = place.to_full_path(f"{manifest.stage_folder}/{kept[CONFIG].path}")
        return replace(start, folder=str(Path(config).parent))
    folder = CACHE.expanduser() / "starts" / start.content
    if not folder.is_dir():
        copy_model(place, manifest, kept, folder)
    return replace(start, folder=str(folder))
