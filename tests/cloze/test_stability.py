"""The stable face of Cloze is what surface.txt says, and importing it costs nothing.

`python tests/cloze/test_stability.py` writes the file again: read docs/api.md on what may change, and the difference.
With `--additions`, as in `make fix`, it does so only if all lines on record stay.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import cloze

ROOT = Path(__file__).resolve().parents[2]
SURFACE = Path(__file__).with_name("surface.txt")
SPECIAL = {"__call__", "__contains__", "__getitem__", "__iter__", "__len__", "__repr__"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def signature(node: Function) -> str:
    """A function's name, parameters with types and defaults, and result, as its source has them."""
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{node.name}({ast.unparse(node.args)}){result}"


def members(node: ast.ClassDef) -> Iterator[str]:
    """The public members of a class."""
    for each in node.body:
        if isinstance(each, Function) and (not each.name.startswith("_") or each.name in SPECIAL):
            kinds = [ast.unparse(decorator) for decorator in each.decorator_list]
            yield " ".join([*(f"@{kind}" for kind in kinds), signature(each)])
        elif isinstance(each, ast.AnnAssign) and not ast.unparse(each.target).startswith("_"):
            yield ast.unparse(each)


def surface_of(source: str, names: tuple[str, ...]) -> Iterator[str]:
    """Lines that describe public functions and classes of a module."""
    for node in ast.parse(source).body:
        if isinstance(node, Function) and node.name in names:
            yield signature(node)
        elif isinstance(node, ast.ClassDef) and node.name in names:
            yield f"class {node.name}({', '.join(map(ast.unparse, node.bases))})"
            yield from (f"    {line}" for line in members(node))


def surface() -> str:
    """The whole face, a module after the other."""
    lines = []
    for module, names in cloze._MODULES.items():
        source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        lines += [f"# {module}", *surface_of(source, names), ""]
    return "\n".join(lines)


def only_adds(before: str, after: str) -> bool:
    """True if all lines of one surface are in the other, in the same order."""
    lines = iter(after.splitlines())
    return all(line in lines for line in before.splitlines())


def main(arguments: Sequence[str], path: Path = SURFACE) -> int:
    """Write the surface, or with `--additions` only one that adds to what is on record; 1 if it is not written."""
    if "--additions" in arguments and not only_adds(path.read_text(encoding="utf-8"), surface()):
        print(
            f"{path.name} is left as it is: what `import cloze` promised has changed. Read docs/api.md on what may "
            "change, then run `python tests/cloze/test_stability.py`.",
            file=sys.stderr,
        )
        return 1
    path.write_text(surface(), encoding="utf-8")
    return 0


def test_names_parameters_and_types_stay() -> None:
    """Fails if a public name, parameter, default or type is other than on record."""
    assert surface() == SURFACE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(a: int) -> int: ...", "def f(b: int) -> int: ..."),
        ("def f(a: int) -> int: ...", "def f(a: str) -> int: ..."),
        ("def f(a: int = 1) -> int: ...", "def f(a: int = 2) -> int: ..."),
        ("class f:\n    def g(self) -> int: ...", "class f:\n    def _g(self) -> int: ..."),
    ],
)
def test_a_change_of_the_face_is_noticed(before: str, after: str) -> None:
    """Fails if a renamed parameter, another type or default, or a method that is gone leaves the lines equal."""
    assert [*surface_of(before, ("f",))] != [*surface_of(after, ("f",))]


def test_only_additions_are_written_without_a_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if `make fix` hides that a promised line changed or is gone, or does not record a new one."""
    whole, kept = SURFACE.read_text(encoding="utf-8"), tmp_path / "surface.txt"
    lines = whole.splitlines(keepends=True)
    added = next(number for number, line in enumerate(lines) if "(" in line)
    kept.write_text("".join(lines[:added] + lines[added + 1 :]), encoding="utf-8")
    assert main(["--additions"], kept) == 0 and kept.read_text(encoding="utf-8") == whole
    for changed in (["gone()\n", *lines], [lines[added].replace("(", "(more, "), *lines], lines[::-1]):
        kept.write_text("".join(changed), encoding="utf-8")
        assert main(["--additions"], kept) == 1 and kept.read_text(encoding="utf-8") == "".join(changed)
    assert capsys.readouterr().err.count("is left as it is") == 3
    assert main([], kept) == 0 and kept.read_text(encoding="utf-8") == whole


def test_every_public_name_is_there_and_typed() -> None:
    """Fails if `__all__`, the table of modules and the imports for type checkers differ, or a name cannot be had."""
    tree = ast.parse((ROOT / "cloze" / "__init__.py").read_text(encoding="utf-8"))
    [checked] = [node for node in tree.body if isinstance(node, ast.If)]
    nodes = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    imported = {node.module: tuple(alias.name for alias in node.names) for node in nodes}
    assert imported == cloze._MODULES
    assert sorted(name for names in imported.values() for name in names) == cloze.__all__
    assert all(getattr(cloze, name).__doc__ for name in cloze.__all__)
    assert set(cloze.__all__) <= set(dir(cloze))
    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        _ = cloze.reed


PROBE = """
import sys
before = {*sys.modules}
import cloze
names = {name.partition(".")[0] for name in {*sys.modules} - before}
print(sorted(names - {*sys.stdlib_module_names}))
cloze.read, cloze.train_vocabulary, cloze.build_shards, cloze.train, cloze.run
print(sorted({"prefect", "torch", "transformers", "numba"} & {*sys.modules}))
"""


def test_the_import_takes_nothing_with_it(tmp_path: Path) -> None:
    """Fails if importing the package imports any other, or its functions import Prefect, torch or numba."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout.splitlines() == ["['cloze']", "[]"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
