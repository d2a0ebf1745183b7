"""A recipe that comes with the program, as small as it can be: what `--set` has to say for that."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raw_files import DUMP, NEWS

PATHS = {
    "bookcorpus": "raw/texts",
    "wikipedia": f"sample:wikipedia/{DUMP}.xml.bz2",
    "cc-news": f"sample:cc_news/{NEWS}",
    "openwebtext": "sample:openwebtext/openwebtext.tar.xz",
    "stories": "sample:stories/stories.txt",
    "files": "raw/texts",
    "uspto": "raw/texts",
    "xml": "raw/xml/pubmed26n0001.xml",
}
FETCHES = {"wikipedia": {"dump": "samplewiki-20260101"}, "cc-news": {"months": ["2026-01"]}}
SIZES = {"layers": 1, "hidden_size": 16, "heads": 2, "feed_forward_size": 32, "max_length": 64}
OF_LENGTH = ("tokens", "epochs", "batch_ramp")  # what a phase has in place of steps

Table = Mapping[str, Any]


def smaller(recipe: Table, folder: Path, server: str) -> dict[str, Any]:
    """By key what makes a recipe small. folder: has raw files; server: publishes some"""
    small: dict[str, Any] = {"held_out.share": 0.3 if "model" in recipe else 0.0, "documents.max_rule_share": 1.0}
    small |= {"rules.repetition.enabled": False, "rules.gopher.min_words": 10}
    for number, source in enumerate(recipe["source"], 1):
        small |= {f"source.{number}.{key}": value for key, value in _source(source, folder, server).items()}
    for key, sizes in (("vocabulary", {"size": 400, "unused": 0}), ("shards", {"length": 64})):
        for place, table in _named(key, recipe[key]):
            small |= {f"{place}.{name}": size for name, size in sizes.items() if name in table}
    if "model" in recipe:
        narrow = {"embedding_size": 16} if recipe["model"].get("family") in ("electra", "albert") else {}
        small |= {f"model.{name}": size for name, size in {**SIZES, **narrow}.items()}
        small |= {"training.warmup_steps": 1} if "warmup_steps" in recipe["training"] else {}
        small["training.phase"] = [_phase(phase) for phase in recipe["training"]["phase"]]
    if "release" in recipe:
        small |= {"task.labels.max_length": 32, "release.name": recipe["name"]}
        small["bounds"] = {name: {**bound, **({"min": -1.0} if "min" in bound else {})}
                           for name, bound in recipe["bounds"].items()}  # fmt: skip
    return small


def _source(source: Table, folder: Path, server: str) -> dict[str, Any]:
    """Return the source with the place of its raw files: fetched where they were, a sample, or made."""
    kind = source["kind"]
    if kind == "python-docs":
        return {"packages": ["cyclopts"], "standard_library": False}
    if "fetch" in source:
        return {"fetch": {"catalogue": kind, **FETCHES[kind], "mirror": server}}
    path, books = PATHS[kind], {"min_prose_words": 10} if kind == "bookcorpus" else {}
    return {**books, "path": path if path.startswith("sample:") else str(folder / path)}


def _named(key: str, tables: Any) -> list[tuple[str, Table]]:
    """The tables of a key that is there once or several times, and what `--set` calls each."""
    return [(f"{key}.{table['name']}", table) for table in tables] if isinstance(tables, list) else [(key, tables)]


def _phase(phase: Table) -> dict[str, Any]:
    """A phase of two steps."""
    return {**{key: value for key, value in phase.items() if key not in OF_LENGTH}, "steps": 2, "batch": 4}
