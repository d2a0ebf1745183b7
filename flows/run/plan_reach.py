"""What a recipe reaches besides the text that it reads: programs it runs, folders it writes to, hosts it asks.

A recipe is a program, and may be somebody else's. Promise: everything outside of Cloze that it can start, and every
folder and host that it names, is listed; nothing is run or requested for that. Code of installed packages is listed by
the package that it comes from.
"""

from collections.abc import Iterator, Mapping
from shlex import join
from urllib.parse import urlsplit

from corpora.acquire.fetch_table import PUBLISHERS, AcquireSettings, find_folder
from corpora.sources.registry import find_distribution, list_kinds
from corpora.store.places.address import is_object_address, without_password
from flows.recipes.privacy import to_printable
from flows.recipes.recipe import Recipe
from flows.recipes.run_settings import LOCAL_ENGINE
from trainer.settings.model import to_model_json
from trainer.tasks.registry import find_task_package


def find_reach(recipe: Recipe) -> Mapping[str, list[str]]:
    """List the programs that a recipe runs, the folders that it writes to, and the hosts that it contacts.

    Returns:
        Lists of distinct descriptions under the keys "runs" (programs), "writes to" (folders) and "asks" (hosts), such
        as {"writes to": ["store (store)"], ...}.
    """
    found = {"runs": _iter_programs(recipe), "writes to": _iter_folders(recipe), "asks": _iter_hosts(recipe)}
    return {what: list(dict.fromkeys(map(to_printable, lines))) for what, lines in found.items()}


def _iter_programs(recipe: Recipe) -> Iterator[str]:
    if recipe.notify.command:
        yield f"{join(recipe.notify.command)} (notify.command, with your rights)"
    for entry in recipe.sources:
        package = find_distribution(entry.source.kind) if entry.source.kind in list_kinds() else None
        if package is not None:
            yield f"{package['distribution']} {package['version']} (source {entry.source.kind})"
        yield from (f"{step.package} (step {step.step.kind})" for step in entry.documents.steps)
    if recipe.model is not None and not recipe.model.folder:
        packages = {
            key: value for key, value in to_model_json(recipe.model.settings).items() if key.endswith("_package")
        }
        yield from (f"{package} ({key.removesuffix('_package')} of the model)" for key, package in packages.items())
    for task in recipe.tasks:
        kind = str(task.settings.task)
        if kind and "/" not in kind and (package_name := find_task_package(kind)):
            yield f"{package_name} (task {kind})"


def _iter_folders(recipe: Recipe) -> Iterator[str]:
    yield f"{recipe.store} (store)"
    for entry in recipe.sources:
        if entry.fetch is not None and recipe.path is not None:
            yield f"{find_folder(entry.fetch, recipe.path.parent)} (fetch of {entry.source.name})"


def _iter_hosts(recipe: Recipe) -> Iterator[str]:
    for entry in recipe.sources:
        if entry.fetch is not None:
            yield from (f"{host} (fetch of {entry.source.name})" for host in _iter_fetch_hosts(entry.fetch))
    places = [
        ("store", recipe.store),
        *((each.source.name, getattr(each.source, "path", "")) for each in recipe.sources),
    ]
    yield from (f"{place} ({what})" for what, place in places if is_object_address(str(place)))
    if recipe.engine != LOCAL_ENGINE:
        yield f"{recipe.engine} (engine: its workers run the recipe)"
    if recipe.notify.webhook:
        yield f"the address in {recipe.notify.webhook} (notify.webhook)"


def _iter_fetch_hosts(settings: AcquireSettings) -> Iterator[str]:
    """Yield the hosts that a download starts from.

    A downloaded list of URLs may contain other hosts. For such a list, a line that says so is yielded.
    """
    published = PUBLISHERS.get(settings.catalogue)
    base = settings.mirror or published
    addresses = [base] if base else [*settings.urls, *([settings.list] if settings.list else [])]
    for address in addresses:
        if "://" not in str(address):
            yield f"the hosts that {address} lists"
            continue
        yield urlsplit(without_password(str(address).split()[0])).netloc
        if address == settings.list:
            yield f"the hosts that {without_password(address)} lists"
