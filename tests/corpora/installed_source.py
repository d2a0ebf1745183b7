"""A source kind of an installed package, for tests: a folder on the path with a module and its entry point."""

import sys
from pathlib import Path

import pytest

GOOD = """
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

@dataclass(frozen=True, slots=True, kw_only=True)
class Good:
    kind: ClassVar[str] = "good"
    version: ClassVar[int] = 3
    libraries: ClassVar[tuple[str, ...]] = ()
    name: str
    path: str
    depth: int = 1
    def settings(self): return {"depth": self.depth}
    def files(self): return []
    def slices(self, file): return []
    def records(self, piece, tally): return iter(())
    def raw_record(self, file, locator): return b""
"""


class Site:
    """A folder of installed packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self,
        distribution: str,
        module: str,
        code: str,
        *points: str,
        version: str = "1.2",
        group: str = "cloze.sources",
    ) -> None:
        """A package with one module, and its lines of a group of entry points."""
        (self.folder / f"{module}.py").write_text(code)
        self.register(distribution, version, f"[{group}]\n" + "".join(f"{point}\n" for point in points))

    def register(self, distribution: str, version: str, points: str) -> None:
        """Say of which package the modules are, and what its `pyproject.toml` says of entry points."""
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(points)


def installed_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A folder that packages can be installed in while a test runs."""
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return Site(folder)
