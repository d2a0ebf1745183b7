"""Compile kernels and keep them: numba's dispatcher, with a place of its own for compiled code.

A kernel that only kernels call never becomes machine code by itself: it stays intermediate code, which its callers take
in, and is optimised and translated once, in the kernel that Python calls. That is most of the time saved: of 400
compiled functions Python calls 68.

    Kernel.compile ─► read from a file, or made ─► called by Python: machine code (`native`)
                                                └► called by kernels: intermediate code, to be linked

Each form of each kernel has a file, and its name is a digest of all that decides its content
(`compiling.compute_source_digest`): so a file never grows stale, and every checkout of a user reads the same ones. Two
processes that need the same kernel at once do not both make it: one waits for the other's file.
"""

import builtins
import fcntl
import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from llvmlite import binding
from numba.core import ir, sigutils, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.environment import Environment, lookup_environment
from numba.core.errors import LoweringError, NumbaRuntimeError
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.typed_passes import AnnotateTypes, DumpParforDiagnostics, IRLegalization
from numba.core.types.containers import BaseTuple, Tuple, UniTuple
from numba.core.types.misc import unliteral
from numba.core.untyped_passes import (
    FindLiterallyCalls,
    InlineInlinables,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    WithLifting,
)

from corpora.kernels.sealed import read_sealed, write_sealed

_WRAPPER = "_ZN7cpython"  # what the name of a function that Python calls begins with, numba's own mark
_ENVIRONMENT = "_ZN08NumbaEnv"  # what the name of a function's environment begins with, numba's own mark


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """The code of a kernel and of the kernels that it calls.

    It is LLVM bitcode until it is compiled to machine code.
    """

    _is_native = False

    def finalize(self) -> None:
        """Link the code of the called kernels. The code is not optimized."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def make_native(self) -> bytes:
        """Optimize the code, compile it to machine code, and return the machine code.

        Functions that Python does not call are made internal. Internal functions that are called only once are always
        inlined, so that a single round of optimization is sufficient.
        """
        for function in self._final_module.functions:
            if not function.is_declaration and not function.name.startswith(_WRAPPER):
                function.linkage = "internal"
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)
        self._final_module.verify()
        self._finalize_final_module()
        self._is_native = True
        return bytes(self._get_compiled_object())

    def load_native(self, code: bytes) -> None:
        """Load machine code from `make_native`. Other kernels cannot be linked with it."""
        self._set_compiled_object(code)
        self._finalize_final_module()
        self._is_native = True

    def load_linkable(self, code: bytes) -> None:
        """Load LLVM bitcode that was stored earlier. Other kernels can be linked with it."""
        self._shared_module = binding.parse_bitcode(code)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function in machine code; 0 if the library contains bitcode."""
        return int(self._codegen._engine.get_function_address(name)) if self._is_native else 0

    def list_environments(self) -> list[Environment]:
        """Return the numba environments of all functions in the code. They contain the exceptions to raise."""
        names = (value.name for value in self._final_module.global_variables)
        environments = (lookup_environment(name) for name in names if name.startswith(_ENVIRONMENT))
        return [each for each in environments if each is not None and each.can_cache()]


class _Compiler(Compiler):  # type: ignore[misc]
    """numba's compiler with `KernelLibrary` as the class of the compiled code."""

    def __init__(self, typing_context: Any, target_context: Any, library: None, *rest: Any) -> None:
        own = KernelLibrary(target_context.codegen(), "kernel")
        own.enable_object_caching()
        super().__init__(typing_context, target_context, own, *rest)


# Passes for what no kernel has: blocks of `with`, functions that are inlined by order, calls of `literally` and
# `literal_unroll`, and what is only for printing.
_UNUSED = frozenset(
    {
        AnnotateTypes,
        DumpParforDiagnostics,
        FindLiterallyCalls,
        InlineInlinables,
        LiteralPropagationSubPipelinePass,
        LiteralUnroll,
        WithLifting,
    }
)


class _Borrower(_Compiler):
    """A compiler that omits unneeded passes, and omits reference counts in kernels that only borrow arrays."""

    def define_pipelines(self) -> Any:
        """Return numba's pipeline with fewer passes, as a list with one item.

        Unneeded passes are removed, and `_SkipReferenceCounts` is inserted before code generation.
        """
        [passes] = super().define_pipelines()
        passes.passes = [each for each in passes.passes if each[0] not in _UNUSED]
        passes.add_pass_after(_SkipReferenceCounts, IRLegalization)
        passes.finalize()
        return [passes]


@register_pass(mutates_CFG=False, analysis_only=True)
class _SkipReferenceCounts(AnalysisPass):  # type: ignore[misc]
    """A compiler pass that disables reference counts in a kernel if `is_borrowing` returns True.

    Code that numba compiles from its own library always counts references.
    """

    _name = "leave_uncounted"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Enable or disable reference counts for a kernel.

        Return False, because the pass does not change the kernel's code.
        """
        state.targetctx.enable_nrt = not is_borrowing(state)
        return False


def is_borrowing(state: Any) -> bool:
    """Return True if a typed kernel does not need reference counts.

    This is the case if it returns no array, and all arrays in its variables are arguments, parts of arguments, or
    constants, which the caller keeps alive. Functions that it calls may allocate arrays if they do not return them.

    Args:
        state: The state of numba's compiler.
    """

    def refers(kind: Any) -> bool:
        return bool(state.targetctx.data_model_manager[kind].contains_nrt_meminfo())

    assignments = (each for block in state.func_ir.blocks.values() for each in block.find_insts(ir.Assign))
    return not refers(state.return_type) and all(
        _is_borrowed(each.value, state.typemap) for each in assignments if refers(state.typemap[each.target.name])
    )


# What takes a part of a tuple, or of an array: numba writes it in place, and makes nothing. An array's attribute may be
# a copy.
_PARTS_OF_TUPLES = frozenset({"cast", "exhaust_iter", "getattr", "getitem", "static_getitem"})
_PARTS_OF_ARRAYS = frozenset({"getitem", "getiter", "static_getitem"})


def _is_borrowed(value: Any, kinds: Any) -> bool:
    """Return True if an expression yields an existing array or a part of one, False if it creates a new array.

    Args:
        value: The expression, in numba's intermediate representation.
        kinds: Maps the names of variables to their numba types.
    """
    if not isinstance(value, ir.Expr):
        return isinstance(value, ir.Arg | ir.Const | ir.FreeVar | ir.Global | ir.Var)
    if value.op == "call":
        return isinstance(kinds[value.func.name], types.NamedTupleClass)
    if value.op in ("build_tuple", "phi"):
        return True
    whole = kinds[value.value.name] if value.op in _PARTS_OF_TUPLES | _PARTS_OF_ARRAYS else None
    parts = _PARTS_OF_TUPLES if isinstance(whole, BaseTuple) else _PARTS_OF_ARRAYS
    return isinstance(whole, BaseTuple | types.Array) and value.op in parts


class StoredKernel(NamedTuple):
    """The content of the file of a compiled kernel, which is pickled.

    Attributes:
        signature: The numba signature.
        code: Machine code or LLVM bitcode.
        description: numba's description of the compiled function.
        environment: The numba environment of the kernel.
        environments: The names and constants of the environments of called functions.
        reload: Functions to call before the code is loaded.
    """

    signature: Any
    code: bytes
    description: Any
    environment: Environment
    environments: list[tuple[str, list[Any]]]
    reload: list[Callable[[], None]]


class CompiledForm(NamedTuple):
    """A kernel compiled for one signature, with the attributes that numba expects of an overload.

    Attributes:
        signature: The numba signature.
        library: The code.
        fndesc: numba's description of the compiled function.
        entry_point: The function that Python calls. It is a placeholder if the kernel is only linked with others.
        environments: The numba environments of the kernel and of the functions that it calls.
        objectmode: Always False.
    """

    signature: Any
    library: KernelLibrary
    fndesc: Any
    entry_point: Any
    environments: list[Environment]
    objectmode: bool = False


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A function that is compiled when it is first called with a new combination of argument types.

    Args:
        function: A function at module level.
        folder: The folder for compiled code.
        source: Digest of the function's source file and of all files that it imports.
        on_compiling: Called with 1 when a compilation starts, and with -1 when it has finished.
        shipped: The folder with the compiled code in the installed package; None if there is none.
    """

    python_calls: ClassVar[list[tuple["Kernel", tuple[Any, ...]]]] = []  # by Python in this process, for which types
    _num_compiling = 0  # kernels that are being compiled, each for the one before; under numba's lock

    def __init__(
        self,
        function: Callable[..., object],
        folder: Path,
        source: str,
        on_compiling: Callable[[int], None],
        shipped: Path | None = None,
    ) -> None:
        super().__init__(function, targetoptions={"nopython": True, "nogil": True, "boundscheck": None},
                         pipeline_class=_Borrower)  # fmt: skip
        assert function.__closure__ is None, "a kernel is a function of a module: its digest knows nothing else"
        self._compiler._customize_flags = self._set_flags
        self._folder, self._source, self._on_compiling, self._shipped = folder, source, on_compiling, shipped
        self._forms: dict[tuple[tuple[Any, ...], bool], CompiledForm] = {}
        self._native = True

    def __reduce__(self) -> str:
        return str(self.py_func.__qualname__)  # a kernel is known by its name in its module

    def _compilation_chain_init_hook(self) -> None:
        """Do nothing, instead of searching all installed packages for numba extensions, which no kernel uses."""

    def _set_flags(self, flags: Any) -> Any:
        flags.no_compile = flags.no_cfunc_wrapper = True  # what becomes of the code is decided here
        flags.no_cpython_wrapper = not self._native
        return flags

    def compile(self, sig: Any) -> Any:
        """Return the entry point for a signature. The function is compiled if no compiled form is stored.

        If another kernel is being compiled, the result is for linking with that kernel. Otherwise, it is for calls from
        Python.

        Args:
            sig: A numba signature, or a tuple of argument types.
        """
        with global_compiler_lock:
            arguments, _ = sigutils.normalize_signature(sig)
            arguments, native = tuple(map(_without_literal, arguments)), not Kernel._num_compiling
            form = self._forms.get((arguments, native))
            if form is None:
                rtsys.initialize(self.targetctx)
                form = self._forms[arguments, native] = self._read_or_compile(arguments, native)
                if native:
                    Kernel.python_calls.append((self, arguments))
                    self._insert([each._code for each in arguments], form.entry_point, False)
                else:
                    self.targetctx.insert_user_function(form.entry_point, form.fndesc, [form.library])
            self.overloads[arguments] = form
            return form.entry_point

    def compile_ahead(self, arguments: tuple[Any, ...]) -> None:
        """Compile the kernel for later calls from Python, unless this has been done or another process is doing it.

        Args:
            arguments: The numba types of the arguments.
        """
        path = self.compute_path(arguments)
        if self._read_stored(path) is None and not _is_held(_lock_path(path)):
            self.compile(arguments)

    def _read_or_compile(self, arguments: tuple[Any, ...], native: bool) -> CompiledForm:
        path = self.compute_path(arguments, native)
        form = self._read_form(path, arguments, native)
        if form is None:
            with _hold_file_lock(path):
                form = self._read_form(path, arguments, native) or self._compile_form(path, arguments, native)
        return form

    def compute_path(self, arguments: tuple[Any, ...], native: bool = True) -> Path:
        """Return the path of the cache file for one compiled form of the kernel, such as "FOLDER/tidy-0f3a....kernel".

        The file has the same name in the installed package.

        Args:
            arguments: The numba types of the arguments.
            native: True for machine code, False for bitcode to link with other kernels.
        """
        code = self.py_func.__code__
        facts = (self._source, self.py_func.__module__, code.co_qualname, code.co_firstlineno, arguments, native)
        digest = hashlib.sha256(repr(facts).encode() + code.co_code).hexdigest()
        return self._folder / f"{self.py_func.__name__}-{digest[:32]}.kernel"

    def _read_stored(self, path: Path) -> bytes | None:
        """Read a file from the cache or, if it is not there, from the installed package; None if it is in neither."""
        content = read_sealed(path)
        if content is None and self._shipped is not None:
            content = read_sealed(self._shipped / path.name, any_owner=True)
        return content

    def _read_form(self, path: Path, arguments: tuple[Any, ...], native: bool) -> CompiledForm | None:
        """Load a compiled form of the kernel from a file.

        Args:
            path: Path of the file in the cache.
            arguments: The numba types of the arguments.
            native: True if the file contains machine code, False for bitcode to link with other kernels.

        Returns:
            The compiled form; None if the file is missing, damaged or for other argument types.
        """
        content = self._read_stored(path)
        if content is None:
            return None
        stored: StoredKernel = pickle.loads(content)
        if stored.signature.args != arguments:
            return None
        for function in stored.reload:
            function()
        library = KernelLibrary(self.targetctx.codegen(), "kernel")
        library.enable_object_caching()
        (library.load_native if native else library.load_linkable)(stored.code)
        library._reload_init.update(stored.reload)
        self._cache_hits[arguments] += 1
        return self._build_form(library, stored, native)

    def _compile_form(self, path: Path, arguments: tuple[Any, ...], native: bool) -> CompiledForm:
        """Compile the kernel for the given argument types and store the result. A failure to store it is ignored.

        Args:
            path: Path of the file to write.
            arguments: The numba types of the arguments.
            native: True to compile to machine code, False to bitcode that can be linked with other kernels.
        """
        self._cache_misses[arguments] += 1
        self.targetctx.refresh()  # half a second of imports, which a process that only reads does without
        self._native = native
        Kernel._num_compiling += 1
        self._on_compiling(1)
        try:
            outermost = Kernel._num_compiling == 1
            with self._compiling_counter, _patch_numba(self.targetctx, self.typingctx) if outermost else nullcontext():
                result = self._compile(arguments)
            library: KernelLibrary = result.library
            library._ensure_finalized()
            assert not library.has_dynamic_globals, f"{self.py_func}: an array of a module is too large to compile in"
            environments = library.list_environments()
            code = library.make_native() if native else library._get_module_for_linking().as_bitcode()
        finally:
            self._on_compiling(-1)
            Kernel._num_compiling -= 1
        result.fndesc.typemap = result.fndesc.calltypes = None
        others = [(each.env_name, each.consts) for each in environments]
        stored = StoredKernel(
            result.signature, code, result.fndesc, result.environment, others, list(library._reload_init)
        )
        with suppress(OSError):  # a full disk: it is compiled again by the next process
            write_sealed(path, dumps(stored))
        return self._build_form(library, stored, native)

    def _compile(self, arguments: tuple[Any, ...]) -> Any:
        """Compile the function for the given argument types, and return numba's compile result.

        Reference counts are omitted if possible. If numba then reports an allocation, the function is compiled again
        with reference counts.
        """
        try:
            return self._compiler.compile(arguments, None)
        except (LoweringError, NumbaRuntimeError):
            self._compiler.pipeline_class = _Compiler
            return self._compiler.compile(arguments, None)

    def _build_form(self, library: KernelLibrary, stored: StoredKernel, native: bool) -> CompiledForm:
        entry: Any = object()
        others = [_build_environment(name, constants) for name, constants in stored.environments]
        if native:
            entry = self.targetctx.get_executable(library, stored.description, stored.environment)
            for each in others:
                library.codegen.set_env(each.env_name, each)
        return CompiledForm(stored.signature, library, stored.description, entry, [stored.environment, *others])


def _build_environment(name: str, constants: list[Any]) -> Environment:
    """Return the numba environment of a called function, with its constants.

    No module is imported for this, because importing numba's modules takes as long as loading all the code.
    """
    environment = lookup_environment(name)
    if environment is None:
        environment = Environment(vars(builtins))
        environment.consts[:] = constants
        environment.env_name = name
        Environment._memo[name] = environment
    return environment


def _without_literal(kind: Any) -> Any:
    """Return the type of an argument without a literal value, so that the kernel is not compiled once per constant."""
    return unliteral(kind) if isinstance(kind, types.Literal | Tuple | UniTuple) else kind


_call_signatures: dict[Any, Any] = {}  # of numba's own functions, operators among them, by their arguments' types


@contextmanager
def _patch_numba(target: Any, typing: Any) -> Iterator[None]:
    """Change two things in numba inside the block, while kernels are compiled, and restore them afterwards.

    Library functions that numba compiles for a kernel remain bitcode. The result type of a library function is resolved
    only once for each combination of argument types, because numba tries all variants of `+` for each `+`.

    Args:
        target: numba's target context (code generation).
        typing: numba's typing context (type inference).
    """
    codegen, resolve = target.codegen(), typing.resolve_function_type

    def resolve_once(function: Any, arguments: Any, named: Any) -> Any:
        kinds = (*arguments, *dict(named).values())
        if isinstance(function, types.Dispatcher) or not all(isinstance(each, types.Type) for each in kinds):
            return resolve(function, arguments, named)
        call = (function, kinds, tuple(dict(named)))
        signature = _call_signatures.get(call)
        if signature is None:
            signature = _call_signatures[call] = resolve(function, arguments, named)
        return signature

    codegen._library_class, codegen.set_env = KernelLibrary, lambda name, environment: None
    target.create_cfunc_wrapper = lambda library, description, environment, call_helper: None
    typing.resolve_function_type = resolve_once
    try:
        yield
    finally:
        del codegen._library_class, codegen.set_env, target.create_cfunc_wrapper, typing.resolve_function_type


@contextmanager
def _hold_file_lock(path: Path) -> Iterator[None]:
    """Wait for other processes that are creating the same file, and hold the file's lock inside the block.

    If locking fails, the block runs without the lock, and several processes may create the file.
    """
    with ExitStack() as held:
        with suppress(OSError):
            lock = held.enter_context(_lock_path(path).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            held.callback(_lock_path(path).unlink, missing_ok=True)
        yield


def _lock_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _is_held(lock: Path) -> bool:
    """Return True if a process holds the lock file; False if it does not, or if the file does not exist."""
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
