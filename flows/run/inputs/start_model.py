"""The model that a recipe's training starts from: where it is, its contents, and the recipe that follows from it.

    [model] start ─► a folder, an artifact of the store, a release ─► its files by content ─► settings, vocabulary

A folder that exists is taken first. Files of a folder are hashed once for each state that they are in; those of an
artifact are listed in its manifest. A model in an object store is copied to `~/.cache/cloze/starts`, once. A folder of
an older format is converted to today's (`todays_form`), and the converted files count.
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
from flows.run.record.releases import find_release, parse_release_address, read_manifests
from flows.run.record.run_record import find_newest_used
from tokenizers_train.vocabularies.files import FILES
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from trainer.huggingface.start_model import adapt_start, read_settings
from trainer.huggingface.todays_form import convert_older_folder
from trainer.job import CACHE
from trainer.start_weights import CONFIG, WEIGHTS, StartModel, copy_model, list_model_files, read_start

START_KEY = "model.start"
RESUME_HINT = (
    " A training that has a checkpoint resumes without one: `cloze train` with the job.json in its `work` folder."
)
_ARTIFACT = re.compile(r"models/([^/]+)(?:/([0-9a-f]{24}))?/?")


def with_start_model(recipe: Recipe, lock: Lock) -> tuple[Recipe, StartModel | None]:
    """Find the model that training starts from, and return the recipe with this model's settings and vocabulary.

    If the lock (the record of a recipe's raw files and models) contains the model, it is taken from there.

    Returns:
        The new recipe and the model. If training starts from random weights, the unchanged recipe and None.

    Raises:
        InputError: If the model does not exist, or the recipe contradicts its settings.
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


def fit_to_vocabulary(start: StartModel, recipe: Recipe, existing: Mapping[str, Vocabulary]) -> StartModel:
    """Add embedding rows to the start model for the tokens of the recipe's vocabulary that it does not have.

    Args:
        start: The model that training starts from.
        recipe: The recipe, which must train a model.
        existing: Vocabularies that the recipe uses but does not train, by the name of their table in the recipe.

    Raises:
        InputError: If the recipe trains this vocabulary, or the vocabulary does not fit the model.
    """
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
    """Find the model that a recipe's training starts from. Returns None if it starts from random weights.

    Args:
        recipe: The recipe.
        cache: Cache of file digests, so that unchanged files are not hashed again.

    Raises:
        InputError: If the model is missing.
    """
    entry = recipe.model
    if entry is None or entry.settings.start is None:
        return None
    return _find_model(START_KEY, entry.settings.start, entry.folder, recipe, cache)


def get_teacher(recipe: Recipe, lock: Lock) -> StartModel | None:
    """Return the teacher model for distillation, from the lock if it contains one, or None without a teacher.

    Args:
        recipe: The recipe.
        lock: Content of its lock file, with the models that this run found.

    Raises:
        InputError: If the model is missing.
    """
    return lock.teacher or find_teacher(recipe, StatCache())


def find_teacher(recipe: Recipe, cache: StatCache) -> StartModel | None:
    """Find the recipe's teacher model for distillation. Returns None if it has none.

    Args:
        recipe: The recipe.
        cache: Cache of file digests, so that unchanged files are not hashed again.

    Raises:
        InputError: If the model is missing.
    """
    entry = recipe.model
    if entry is None or not entry.teacher:
        return None
    return _find_model(TEACHER_KEY, entry.teacher, entry.teacher_folder, recipe, cache)


def find_baseline(recipe: Recipe, entry: TaskEntry) -> StartModel | None:
    """Find the baseline model that a `[[task]]` table compares its model with. Returns None if it has none.

    Raises:
        InputError: If the baseline is missing, or is the model that this recipe trains.
    """
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
    """Find the model that a setting refers to, in a local folder, in a release, or in the recipe's store.

    Args:
        key: Name of the setting, for messages.
        address: Value of the setting, such as a folder or a release.
        folder: Absolute path of the model on this machine; "" if the model is remote.
        recipe: The recipe. Its store is searched.
        cache: Cache of file digests.

    Raises:
        InputError: If there is no such model, or several match.
    """
    if folder and Path(folder).is_dir():

        def digest(path: Path) -> str:
            return cache.hash_file(path)[1]

        return read_start(convert_older_folder(Path(folder), digest), digest)
    place, manifest = _find_artifact(key, address, folder, recipe)
    return _from_artifact(place, manifest)


def _find_artifact(key: str, address: str, folder: str, recipe: Recipe) -> tuple[Place, Manifest]:
    """Find a trained model in a release or in the recipe's store, and return the store and the model's manifest.

    Args:
        key: Name of the setting that refers to the model, for messages.
        address: Value of the setting: `STORE@NAME` of a release, or `models/NAME` or `models/NAME/FINGERPRINT`.
        folder: Path that was already searched, for messages.
        recipe: The recipe. Its store is searched.

    Raises:
        InputError: If no model matches, or a release has several models.
    """
    if parse_release_address(address) is not None and (named := find_release(address)) is not None:
        place, release = named
        models = [manifest for manifest in read_manifests(place, release) if manifest.kind == "models"]
        if len(models) != 1:
            raise InputError(f"{key} = {address!r}: the release has {len(models)} models, and one is meant.")
        return place, models[0]
    match = _ARTIFACT.fullmatch(address)
    if match is None:
        raise InputError(
            f"{key} = {address!r}: there is no folder {folder or address}. Give a model's folder, relative to the "
            "recipe, models/NAME of the recipe's store, or a release (STORE@NAME)."
            + (RESUME_HINT if key == START_KEY else "")
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
    return place, find_newest_used(place, candidates)


def _from_artifact(place: Place, manifest: Manifest) -> StartModel:
    """Make a stored model available as a local folder. It is downloaded if the store is an object store.

    Args:
        place: The store.
        manifest: Description of the stored model.

    Raises:
        InputError: If the model is incomplete.
    """
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
