"""A wheel of this checkout, and an environment with it and with the packages of this one, but not the checkout."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from checkout import PACKAGES, ROOT

PACKAGES_OF_VENV = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
FILES = ("pyproject.toml", "README.md", "LICENSE", "constraints.txt")


def build_wheel(folder: Path) -> Path:
    """Build a wheel of a copy of the checkout, below a folder. Needs no network."""
    source, wheels = folder / "source", folder / "wheels"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(source / "corpora" / "kernels" / "shipped", ignore_errors=True)  # those of this checkout's state
    for name in FILES:
        shutil.copy(ROOT / name, source)
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source))
    [wheel] = wheels.glob("*.whl")
    return wheel


def fresh_environment(folder: Path, wheel: Path) -> Path:
    """Make an environment with a wheel installed; returns the folder of its programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    programs = folder / "bin"
    (folder / PACKAGES_OF_VENV / "packages.pth").write_text(str(other_packages(folder / "packages")))
    pip("--python", str(programs / "python"), "install", "--no-deps", "--no-index", str(wheel))
    return programs


def other_packages(folder: Path) -> Path:
    """Make a folder of links to the packages of this environment without the checkout's, for a .pth file."""
    folder.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("cloze_pipeline", "__editable__", "_distutils_hack", "distutils-precedence")):
            (folder / path.name).symlink_to(path)
    return folder


def pip(*arguments: str) -> None:
    """Run pip, quietly."""
    done = subprocess.run([sys.executable, "-m", "pip", "-q", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
