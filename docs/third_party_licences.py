"""The licences of what Cloze needs: `.venv/bin/python docs/third_party_licences.py` writes the page; `--check` looks.

What is needed is what pyproject.toml declares, with all that this needs in turn; the licences are those that the
installed packages name themselves (importlib.metadata), in the versions of constraints.txt. Writing takes a full
installation on Python 3.11 (`make develop`).

`--check` passes where the page has the pins of constraints.txt, no more and no fewer, and the row of every package
that is installed in its pinned version; of torch, that is the build for processors. So it holds without torch too, and
on a Python that needs fewer packages.
Cost: under a second.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "third-party-licences.md"

GROUPS = {
    "": "What every run needs",
    "trainer": "What training needs in addition",
    "tensorboard": "What showing a training in TensorBoard needs in addition (extra `tensorboard`)",
    "onnx": "What writing ONNX needs in addition (extra `onnx`)",
    "documents": "What reading PDF needs in addition (extra `documents`)",
    "reference": "What the comparisons with transformers need (extra `reference`)",
    "accelerate": "What transformers' own training loop needs in addition (extra `accelerate`)",
    "sentences": "What opening the task `similarity` in sentence-transformers needs in addition (extra `sentences`)",
    "retrieval": "What searching millions of vectors by an index needs in addition (extra `retrieval`)",
    "grain": "What reading with Grain needs in addition (extra `grain`)",
    "dask": "What a cluster needs in addition (extra `dask`)",
    "docs": "What the site of the documentation needs (extra `docs`)",
    "dev": "What the development needs (extra `dev`)",
}
LATER_PYTHONS = {"whenever": "MIT"}  # needed from Python 3.13 on, where `--check` compares the licence
LONGEST_NAME = 50  # of a licence; what is longer is its text

# Shared libraries that wheels bring along, by the beginning of their file's name.
GNU_LIBRARIES = {
    "libgfortran": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libgomp": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libquadmath": "LGPL-2.1-or-later",
}

INTRODUCTION = """\
Written by `docs/third_party_licences.py` from what the installed packages say of themselves; change the script, not
this page. Versions are those of constraints.txt.

Cloze itself is under the Apache License 2.0 ([LICENSE](../LICENSE)). None of these packages is part of it: pip installs
them, each with the text of its licence in its `.dist-info` folder, and those of the libraries that its wheel brings.
A package that names several licences joined by "or" leaves the choice; of text-unidecode, Cloze uses the Artistic
License. docutils, which only the site needs, names the licences of its files; the one under the GPL, for Emacs, is not
in its wheel. Where torch is installed for NVIDIA GPUs, pip installs NVIDIA's libraries with it, which are not free
software; they are not pinned and not listed here."""
GNU = """\
Shared libraries under licences of GNU that come inside the wheels of packages listed above. The exception allows a
program of any licence to use the run-time libraries of GCC."""


def main(arguments: Sequence[str], page: Path = PAGE) -> int:
    """Write the page, or with `--check` only look; 1 where the page lags, 2 for an argument that means nothing."""
    if [*arguments] not in ([], ["--check"]):
        print(f"{' '.join(arguments)} means nothing here; the one option is --check", file=sys.stderr)
        return 2
    faults = [*differences(page.read_text(encoding="utf-8"))] if arguments else missing()
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults and not arguments:
        page.write_text(written(), encoding="utf-8")
    return 1 if faults else 0


def missing() -> list[str]:
    """Return a line for each pinned package that is not installed in that version, so that its licence is unknown."""
    absent = [name for name, pin in pins().items() if version_here(name) != pin and name not in LATER_PYTHONS]
    return [f"{name} is not installed as constraints.txt has it: run `make develop`" for name in absent]


def written() -> str:
    """The whole page."""
    blocks = ["# Third-party licences", INTRODUCTION]
    for title, names in grouped():
        blocks += [f"## {title}", table(("package", "version", "licence, as the package names it"), map(row, names))]
    libraries = [line for name in pins() for line in gnu_rows(name)]
    blocks += ["## Libraries inside wheels", GNU, table(("package", "library", "licence"), libraries)]
    return "\n\n".join(blocks) + "\n"


def differences(page: str) -> Iterator[str]:
    """Yield a line for each difference of the page from constraints.txt and the installed packages."""
    rows = re.findall(r"^\| ([^ |]+) \| (\d[^ |]*) \|", page, re.MULTILINE)
    for name, version in sorted({*rows} ^ {*pins().items()}):
        yield f"{name} {version} is in constraints.txt or on the page, and not in both: write the page again"
    lines = {*page.splitlines()}
    for name, version in pins().items():
        if version_here(name) == version and not is_for_gpus(name):
            yield from (f"the page lacks `{line}`" for line in (row(name), *gnu_rows(name)) if line not in lines)
    for name in sorted(needed([requirement for group in GROUPS for requirement in asked(group)]) - {*pins()}):
        if name not in brought_by_torch():
            yield f"{name} is needed, and is not in constraints.txt: run `make pins` and write the page again"


# What is needed


def pins() -> dict[str, str]:
    """The versions of constraints.txt by canonical name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(sorted((canonical(name), version) for name, _, version in (line.partition("==") for line in lines)))


def grouped() -> Iterator[tuple[str, list[str]]]:
    """(title, packages in order) of every group; a package is in the first group that needs it."""
    seen: set[str] = set()
    for extra, title in GROUPS.items():
        names = needed(asked(extra)) & {*pins()}
        yield title, sorted(names - seen)
        seen |= names
    yield "What Python 3.13 needs in addition", sorted(LATER_PYTHONS)


def asked(extra: str) -> list[Requirement]:
    """Return what pyproject.toml declares: for every run ("") or for an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*map(Requirement, project["optional-dependencies"][extra] if extra else project["dependencies"])]


def needed(requirements: Iterable[Requirement]) -> set[str]:
    """Return the installed packages that meet requirements, and all that these need in turn."""
    reached: set[tuple[str, str]] = set()
    todo = [pair for requirement in requirements for pair in _wanted(requirement)]
    while todo:
        pair = todo.pop()
        distribution = None if pair in reached else installed(pair[0])
        if distribution:
            reached.add(pair)
            inner = map(Requirement, distribution.requires or [])
            todo += [more for one in inner if _applies(one, pair[1]) for more in _wanted(one)]
    return {name for name, _ in reached}


def _wanted(requirement: Requirement) -> list[tuple[str, str]]:
    """Return (package, extra) for the package itself and each of the extras that are asked for."""
    return [(canonical(requirement.name), extra) for extra in ("", *sorted(requirement.extras))]


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def brought_by_torch() -> set[str]:
    """Return what torch alone needs here: its builds for GPUs bring libraries that are not pinned."""
    return needed([Requirement("torch")])


def installed(name: str) -> Distribution | None:
    """An installed package, None where it is not."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def version_here(name: str) -> str | None:
    """Return the version that is installed, without the mark of a local build such as +cpu."""
    distribution = installed(name)
    return distribution.version.partition("+")[0] if distribution else None


def is_for_gpus(name: str) -> bool:
    """True if the package is torch in a build that brings libraries for GPUs, which have other licences."""
    return name == "torch" and len(brought_by_torch() - {*pins()}) > 0


def canonical(name: str) -> str:
    """A package's name as it is compared.

    >>> canonical("ruamel.yaml.clib")
    'ruamel-yaml-clib'
    """
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


# The page's text


def licence(distribution: Distribution) -> str:
    """Return what a package names as its licence: an expression; else by classifier, and in its own words where short.

    If it has the whole text and nothing else, return its first line.
    """
    metadata = distribution.metadata
    for expression in metadata.get_all("License-Expression") or []:
        return str(expression)
    classifiers = [line for line in metadata.get_all("Classifier") or [] if line.startswith("License ::")]
    names = [name for line in classifiers if (name := line.split(" :: ")[-1]) != "OSI Approved"]
    words = "".join(metadata.get_all("License") or []).strip()
    if words and len(words) <= LONGEST_NAME and words not in names:
        names.append(words if not names else f"({words})")
    if words and not names:
        names = [words.splitlines()[0].strip()[:LONGEST_NAME]]
    return " or ".join(names).replace(" or (", " (")


def row(name: str) -> str:
    """Return the page's row of a package."""
    distribution = installed(name)
    return f"| {name} | {pins()[name]} | {licence(distribution) if distribution else LATER_PYTHONS[name]} |"


def gnu_rows(name: str) -> list[str]:
    """Return a row for each library of GNU that a package's wheel brings."""
    distribution = installed(name)
    files = {path.name for path in (distribution and distribution.files) or ()}
    held = [library for library in GNU_LIBRARIES if any(re.match(rf"{library}\b", file) for file in files)]
    return [f"| {name} | {library} | {GNU_LIBRARIES[library]} |" for library in held]


def table(head: Sequence[str], rows: Iterable[str]) -> str:
    """A Markdown table of rows that are written already."""
    return "\n".join([f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *rows])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
