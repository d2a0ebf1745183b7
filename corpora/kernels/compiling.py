"""Compiled kernels: one decorator for all of them, and the folder their compiled code is kept in.

A kernel is a plain Python function over numpy buffers that numba compiles to machine code. It releases the GIL, so
threads suffice, and its code is kept on disk: the first call of a process costs milliseconds instead of seconds.

What decides the code is in the name under which it is kept (`corpora.kernels.dispatching`): the sources of the kernel's
module and of all our files that it imports (`compute_source_digest`), and numba, llvmlite, numpy, Python, the processor
and the user (`make_kernel_folder`). So an edit compiles again what depends on it and nothing else, and all checkouts
and environments of a user on one machine share what is the same.

The folder is set when kernels are declared, so it is the same however a process begins, and the source tree stays as it
is. This is the one place inside the packages that reads environment variables: `CLOZE_HOME` and `XDG_CACHE_HOME`.

A wheel may bring code that was compiled for `BASELINE` (`find_shipped_folder`). It is used if this machine, this Python
and this numba would have made the same of the same sources; else kernels are compiled here.

Cost: a process reads the sources of the kernels that it declares once, in less than a tenth of a second.
"""

import hashlib
import os
import platform
import re
import stat
from collections.abc import Callable, Mapping
from functools import cache, cached_property, update_wrapper
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from corpora.errors import InputError

if TYPE_CHECKING:
    from corpora.kernels.dispatching import Kernel

ROOT = Path(__file__).resolve().parents[2]
SHIPPED_FOLDER = Path(__file__).with_name("shipped")
BASELINE = "x86-64-v3"  # what llvm calls the processors of 2013 and later
BASELINE_FEATURES = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")

Function = TypeVar("Function", bound=Callable[..., object])

_PACKAGES = ("corpora", "tokenizers_train", "shards", "trainer")
_OUR_MODULE = rf"(?:{'|'.join(_PACKAGES)})[\w.]*"
_IMPORTS = re.compile(rf"^\s*(?:from|import) ({_OUR_MODULE})(?: import (\([\w\s,]+|[\w ,]+))?", re.MULTILINE)


class Deferred:
    """A numba object that is created when it is first used, because importing numba takes half a second."""

    @cached_property
    def numba_object(self) -> Any:
        """The numba object, which is created when it is first used. Subclasses override this property."""
        raise NotImplementedError

    def __call__(self, *arguments: object) -> Any:
        return self.numba_object(*arguments)

    @property
    def _numba_type_(self) -> Any:  # what numba asks of what a kernel calls
        from numba.core.registry import cpu_target

        made, context = self.numba_object, cpu_target.typing_context
        context.refresh()  # for it may just have been imported
        return context.resolve_value_type(made)


class DeferredKernel(Deferred):
    """A function decorated with `kernel`, which is compiled when it is first called.

    Attributes:
        py_func: The Python function.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self.py_func = function
        update_wrapper(self, function)

    @cached_property
    def numba_object(self) -> "Kernel":
        """The numba object, which is created when it is first used.

        It is a `Kernel`, which compiles the function for each combination of argument types.
        """
        from corpora.kernels.dispatching import Kernel

        source = compute_source_digest(Path(self.py_func.__code__.co_filename))
        return Kernel(
            self.py_func, make_kernel_folder(), source, lambda change: _on_compiling(change), find_shipped_folder()
        )

    def __reduce__(self) -> str:
        return str(self.py_func.__qualname__)  # a kernel is known by its name in its module


class Instruction(Deferred):
    """A machine instruction that kernels can call. It cannot be called from Python.

    Args:
        name: Name of the function in `instructions.py` that defines it.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    @cached_property
    def numba_object(self) -> Any:
        """The numba object, which is created when it is first used: an intrinsic."""
        from numba.extending import intrinsic

        return intrinsic(getattr(import_module("corpora.kernels.instructions"), self.__name__))


def kernel(function: Function) -> Function:
    """Decorator that compiles a function with numba when it is first called.

    The function is compiled once for each combination of argument types. The machine code is cached on disk, and runs
    without holding the GIL.
    """
    deferred = DeferredKernel(function)
    return deferred  # type: ignore[return-value]  # called as the function is


def set_compiling_callback(on_change: Callable[[int], None]) -> None:
    """Set the function to call with 1 when this process starts compiling a kernel, and with -1 when it is done.

    The function is not called for kernels that are loaded from disk.
    """
    global _on_compiling
    _on_compiling = on_change


def _ignore_change(change: int) -> None:
    """Do nothing. This is the default callback."""


_on_compiling: Callable[[int], None] = _ignore_change


@cache
def make_kernel_folder() -> Path:
    """Return the folder for compiled code on this machine. The folder is created if it does not exist.

    The folder is `kernels/DIGEST` in one of these folders:

    - `CLOZE_HOME`, if it is set to a folder other than the one from `find_default_home`;
    - otherwise `cloze` in the user's cache folder (`XDG_CACHE_HOME` or `~/.cache`), which all checkouts share, or
      `find_default_home` if that folder is not writable.

    Because the files in the folder are executed, it must belong to the current user and be inaccessible to others.

    Raises:
        InputError: If the folder cannot be created.
    """
    default_home, chosen_home = find_default_home(), os.environ.get("CLOZE_HOME")
    homes = (
        [Path(chosen_home).absolute()]
        if chosen_home and Path(chosen_home) != default_home
        else [find_user_cache(), default_home]
    )
    refusals = []
    for folder in (home / "kernels" / _compute_machine_digest() for home in homes):
        try:
            make_private_folder(folder)
            return folder
        except OSError as error:
            refusals.append(f"{folder} {error.strerror or error}")
    raise InputError(
        f"Compiled kernels cannot be kept: {'; '.join(refusals)}. Set CLOZE_HOME to a folder that can be written."
    )


def find_default_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that is used if `CLOZE_HOME` is not set.

    It is `.cloze` in a checkout, and the folder from `find_user_cache` in an installation.

    Args:
        environment: The environment variables.
    """
    return ROOT / ".cloze" if (ROOT / "pyproject.toml").is_file() else find_user_cache(environment)


def find_user_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of `cloze` in the user's cache folder, which is `XDG_CACHE_HOME` or `~/.cache`.

    Args:
        environment: The environment variables.
    """
    return Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "cloze"


@cache
def find_shipped_folder() -> Path | None:
    """Return the folder in the installed package that contains compiled code; None if there is none for this process.

    The files in the folder are trusted like the package's source code.
    """
    folder = SHIPPED_FOLDER / compute_shipped_name() if SHIPPED_FOLDER.is_dir() else SHIPPED_FOLDER
    if not folder.is_dir():
        return None
    from llvmlite.binding import get_host_cpu_features
    from numba import config

    features = get_host_cpu_features()
    is_fitting = config.CPU_NAME is config.CPU_FEATURES is None and all(
        features.get(name) for name in BASELINE_FEATURES
    )
    return folder if is_fitting else None


def compute_shipped_name() -> str:
    """Return the name of the folder for code that is compiled for `BASELINE` with the current versions and options."""
    import llvmlite
    import numba
    import numpy

    config, python = numba.config, "".join(platform.python_version_tuple()[:2])
    chosen = (config.BOUNDSCHECK, config.OPT, config.LOOP_VECTORIZE, numpy.__version__.partition(".")[0])
    facts = (numba.__version__, llvmlite.__version__, platform.machine(), BASELINE, *map(str, chosen))
    return f"python{python}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}"


def make_private_folder(folder: Path) -> None:
    """Create a folder that only the current user can access, with its parents, or make an existing folder private.

    Raises:
        OSError: If the folder cannot be created, belongs to another user, remains accessible to others, or is not
            writable.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.stat()
    if state.st_uid != os.geteuid():
        raise PermissionError(None, "belongs to another user")
    if stat.S_IMODE(state.st_mode) != 0o700:
        folder.chmod(0o700)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        raise PermissionError(None, "is open to others: its file system keeps no permissions")
    if not os.access(folder, os.W_OK):
        raise PermissionError(None, "cannot be written")


def _compute_machine_digest() -> str:
    """Return 16 hexadecimal digits that identify the user, the processor, and the compiler with its options."""
    import llvmlite
    import numba
    import numpy

    config = numba.config  # another processor than this machine's, and other ways to compile
    chosen = (config.CPU_NAME, config.CPU_FEATURES, config.BOUNDSCHECK, config.OPT, config.LOOP_VECTORIZE)
    versions = (numba.__version__, llvmlite.__version__, numpy.__version__, platform.python_version())
    facts = (*versions, _read_processor(), os.geteuid(), *map(str, chosen))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


@cache
def compute_source_digest(path: Path, root: Path = ROOT) -> str:
    """Compute a digest of a source file and of all files below `root` that it imports, directly or indirectly.

    It is used to identify compiled code, which contains the values of imported constants. Because only paths relative
    to `root` affect it, copies of a source tree have the same digest.

    Args:
        path: Path of the source file.
        root: Root folder of the source tree.

    Returns:
        The SHA-256 digest in hexadecimal digits.

    Raises:
        OSError: If a file cannot be read.
    """
    sources: dict[Path, bytes] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file not in sources:
            sources[file], imported = _read_source(file, root)
            waiting += imported
    digest = hashlib.sha256()
    for name, source in sorted((os.path.relpath(file, root), source) for file, source in sources.items()):
        digest.update(name.encode() + b"\0" + source + b"\0")
    return digest.hexdigest()


@cache
def _read_source(path: Path, root: Path) -> tuple[bytes, list[Path]]:
    """Return the content of a source file, and the paths of the files below `root` that it imports directly."""
    source = path.read_bytes()
    imported = []
    for module, names in _IMPORTS.findall(source.decode()):
        folder = root / module.replace(".", "/")
        imported += [
            folder.with_name(f"{folder.name}.py"),
            *(folder / f"{each}.py" for each in re.findall(r"\w+", names)),
        ]
    return source, [file for file in imported if file.is_file()]


def _read_processor() -> str:
    """Return lines that name the processor's model and instruction sets, or its architecture if they are unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))
