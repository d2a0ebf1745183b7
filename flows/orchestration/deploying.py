"""`cloze deploy`: a prefect.yaml, from which `prefect deploy --all` puts recipes on a server for the workers of a pool.

    deployment(...)        what is deployed of a recipe
    prefect_yaml(...)      the text of the file
    write_prefect_yaml     puts it where nothing is, or over what is there where that is asked for

The file is for people: every line may be edited. Its entrypoints are flows of the installed program (`deployed.py`), so
nothing of it lies in the file but names. For Kubernetes it is a template: what only its operator knows is marked FILL.
Nothing here asks a server.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import __version__ as prefect_version
from prefect.schedules import Schedule

from corpora.errors import InputError
from corpora.store.places import Place
from corpora.store.settings import toml_table
from flows.orchestration.deployed import entrypoint_of
from flows.orchestration.shown import run_tags
from flows.orchestration.timetables import check_deployment_name
from flows.recipes.recipe import Recipe
from flows.recipes.typed import Setting, Tree, given_of, settings_of

KINDS = ("process", "kubernetes")
TEMPLATE = "{{"  # which prefect.yaml fills in
FILL = "  # FILL"
BARE = re.compile("(?!(?:y|n|yes|no|on|off|true|false|null)$)[a-z_]+")  # a key that YAML takes for a text
CLUSTER_FOLDER = "/cloze"  # of the volume that the template mounts

JOB_TEMPLATE = """\
# The job template of a new Kubernetes pool knows `image`, `namespace` and `env`, and no `resources`, `volumes` and
# `volume_mounts`: add them there once (the pool's page, Edit, Base Job Template), or those lines change nothing.
# Under "variables", "properties":
#   "resources": {"type": "object", "default": {}}, "volumes": {"type": "array", "default": []},
#   "volume_mounts": {"type": "array", "default": []}
# Under "job_configuration", "job_manifest", "spec", "template", "spec":
#   "volumes": "{{ volumes }}"
# and in the container there:
#   "resources": "{{ resources }}", "volumeMounts": "{{ volume_mounts }}"
# The volume holds the recipes, for a run writes the lock of its recipe next to it, and the caches. Keys of an object
# store do not belong in this file: give the pool's service account a role, or its container a secret with "envFrom".
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A recipe as it is to be deployed. given: what goes over the recipe in every run, by its parameters"""

    recipe: Recipe
    path: Path
    given: Mapping[str, Any]
    settings: Tree


def deployment(recipe: Recipe, store: str | None, workers: int | None) -> Deployment:
    """What is deployed of a recipe. store, workers: as the command names them. Raises InputError."""
    assert recipe.path is not None
    check_deployment_name(recipe)
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers} must be a whole number from 1 up.")
    table = toml_table(recipe.text)
    given, others = given_of(recipe.overrides, table)
    more = {"store": recipe.store if store else None, "set": others, "worker_processes": workers}
    return Deployment(
        recipe=recipe,
        path=recipe.path.resolve(),
        given={**given, **{key: value for key, value in more.items() if value}},
        settings=settings_of(table),
    )


def prefect_yaml(
    deployments: Sequence[Deployment], pool: str, kind: str, schedule: Schedule | None, folder: Path, home: Path
) -> str:
    """The text of a prefect.yaml that lies in a folder. home: of a worker's caches. Raises InputError."""
    if kind not in KINDS:
        raise InputError(f"--type {kind} is not known: it must be one of {', '.join(KINDS)}.")
    names = [each.recipe.name for each in deployments]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"Two recipes are named {twice!r}, and deployments are named after them: give each its own.")
    lines = [*_head(folder, pool, kind), "", "deployments:"]
    for each in deployments:
        lines += [*_deployment(each, schedule, folder, kind), *_work_pool(pool, kind, home), ""]
    return _without_templates("\n".join(lines).rstrip() + "\n")


def write_prefect_yaml(path: Path, text: str, force: bool) -> None:
    """Put a prefect.yaml in its place. Raises InputError where one is there and nothing says to replace it."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InputError(
            f"{path} exists: --force replaces it, and --output writes another (then `prefect --no-prompt deploy "
            "--all --prefect-file` with its name)."
        ) from error
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}. Name another place with --output.") from error


def worker_command(pool: str, kind: str) -> str:
    """How a worker is started. Prefect's folder in TMPDIR is one for all users, and belongs to the first of them.

    >>> worker_command("main", "process")
    'TMPDIR=$(mktemp -d) prefect worker start --pool main --type process'
    """
    return f"TMPDIR=$(mktemp -d) prefect worker start --pool {pool} --type {kind}"


def _head(folder: Path, pool: str, kind: str) -> Iterator[str]:
    yield "# Written by `cloze deploy`; yours to edit. `prefect --no-prompt deploy --all` puts it on the server;"
    yield f"# `{worker_command(said(pool), kind)}` runs it: both with the Python that has cloze."
    if kind == "kubernetes":
        yield f"# A template: every line marked{FILL.removeprefix('  #')} is yours to fill.\n{JOB_TEMPLATE.rstrip()}"
    yield f"name: {said(folder.name or 'cloze')}"
    yield f"prefect-version: {prefect_version}"
    yield ""
    yield "pull:"
    yield "  - prefect.deployments.steps.set_working_directory:  # recipes are found from there"
    here = f"{CLUSTER_FOLDER}/recipes" if kind == "kubernetes" else str(folder)
    yield f"      directory: {said(here)}{FILL * (kind == 'kubernetes')}"


def _deployment(each: Deployment, schedule: Schedule | None, folder: Path, kind: str) -> Iterator[str]:
    recipe, path = each.recipe, os.path.relpath(each.path, folder)
    yield f"  - name: {said(recipe.name)}"
    yield f"    description: {said(described(recipe, path))}"
    yield f"    tags: {said([tag for tag in run_tags(recipe, '') if tag])}"
    yield f"    entrypoint: {said(entrypoint_of(path))}"
    yield "    enforce_parameter_schema: true"
    yield from _parameters(each, kind)
    yield from _schedule(schedule)
    yield "    concurrency_limit:  # one run at a time; of those that wait one follows, which ends the others as Merged"
    yield "      limit: 1"
    yield "      collision_strategy: ENQUEUE"


def _parameters(each: Deployment, kind: str) -> Iterator[str]:
    given, filled = dict(each.given), []
    if kind == "kubernetes" and Place(each.recipe.store).is_local:
        given.pop("store", None)
        filled = [f"      store: {said('s3://BUCKET/PREFIX')}{FILL}, for the recipe's is a folder of one machine"]
    head = "    parameters:" if given or filled else "    parameters: {}"
    yield f"{head}  # over the recipe, in every run; what is not given here is as the recipe says when it runs"
    yield from (*filled, *yaml_lines(given, 6))
    yield "      # The recipe says:"
    yield from (f"      # {line}" for line in yaml_lines(values_of(each.settings), 0))


def described(recipe: Recipe, path: str) -> str:
    """What a deployment is, in a sentence."""
    sources = ", ".join(entry.source.name for entry in recipe.sources)
    ends = "a model" if recipe.model is not None else "shards"
    return f"From {sources} to {ends}, as {path} says: builds what is new, and reuses everything else."


def _schedule(schedule: Schedule | None) -> Iterator[str]:
    if schedule is None:
        yield "    schedules: []"
        return
    yield "    schedules:"
    if schedule.interval is not None:
        yield f"      - interval: {schedule.interval.total_seconds():g}  # seconds"
        return
    yield f"      - cron: {said(schedule.cron)}"
    yield f"        timezone: {said(schedule.timezone)}"


def _work_pool(pool: str, kind: str, home: Path) -> Iterator[str]:
    yield "    work_pool:"
    yield f"      name: {said(pool)}"
    yield "      job_variables:"
    if kind == "process":
        yield "        env:"
        yield f"          CLOZE_HOME: {said(str(home))}  # caches, made where it is missing"
        return
    volume = {"name": "cloze", "persistentVolumeClaim": {"claimName": "cloze"}}
    yield f"        image: {said('REGISTRY/cloze:TAG')}{FILL}: Python with cloze installed"
    yield f"        namespace: {said('default')}{FILL}"
    yield "        env:"
    yield f"          CLOZE_HOME: {said(f'{CLUSTER_FOLDER}/home')}"
    yield f"        resources: {said({'requests': {'cpu': '4', 'memory': '16Gi'}, 'limits': {'memory': '16Gi'}})}{FILL}"
    yield f"        volumes: {said([volume])}{FILL}"
    yield f"        volume_mounts: {said([{'name': 'cloze', 'mountPath': CLUSTER_FOLDER}])}"


def values_of(tree: Tree) -> dict[str, Any]:
    """What a recipe says of its settings, nested."""
    return {key: node.value if isinstance(node, Setting) else values_of(node) for key, node in tree.items()}


def yaml_lines(values: Mapping[str, Any], indent: int) -> Iterator[str]:
    """Nested values as lines of YAML.

    >>> list(yaml_lines({"shards": {"length": 128, "sources": ["a"]}}, 2))
    ['  shards:', '    length: 128', '    sources: ["a"]']
    """
    for key, value in values.items():
        head = f"{' ' * indent}{key if BARE.fullmatch(key) else said(key)}:"
        if isinstance(value, Mapping):
            yield head
            yield from yaml_lines(value, indent + 2)
        else:
            yield f"{head} {said(value)}"


def said(value: Any) -> str:
    """A value as YAML writes it, on one line.

    >>> print(said("caf\xe9"), said({"a": [1, True]}), said("\x85"))
    "caf\xe9" {"a": [1, true]} "\\u0085"
    """
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def _without_templates(text: str) -> str:
    """Raises InputError where a value would be taken for a template and filled in."""
    for line in text.splitlines():
        if TEMPLATE in line and not line.lstrip().startswith("#"):
            raise InputError(
                f"prefect.yaml takes {TEMPLATE} for the beginning of a template, and it would be in this line of it: "
                f"{line.strip()!r}. Write the name or the value otherwise."
            )
    return text
