"""What stored results follow from besides their declaration: sources, and versions of packages.

A change of code gives a result another name, so that it is computed anew. Comments, docstrings and
the layout of lines do not count: they change no result. A change anywhere else in a source that is
imported does, although most do not change the result at hand: to compute too much costs time, to
keep what is stale costs the truth.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from ldpopt.errors import InvalidInputError
from ldpopt.immutable import Immutable

_LIBRARY = __name__.partition(".")[0]

# Another version of numpy may draw other numbers from the same seed, and scipy's roots and
# quantiles differ in their last digits. cvxpy and its default solver decide the rest.
_PACKAGES = (_LIBRARY, "numpy", "scipy", "cvxpy", "clarabel")

_PACKAGE = "__init__.py"

# Folders of modules that are known by their versions.
_INSTALLED = tuple(
    Path(folder).resolve()
    for name, folder in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def made_by(*modules: str) -> dict[str, str]:
    """Return a hash of the sources that modules rest on, and the versions of packages."""
    return {"the code": code_digest(*modules), **versions()}


def versions() -> dict[str, str]:
    """Return the versions of the packages that results follow from."""
    return {name: version_of(name) for name in _PACKAGES}


def version_of(package: str) -> str:
    """Return the version of a package; empty where it states none."""
    # What runs counts: an installation may have changed since it was imported.
    loaded = sys.modules.get(package)
    stated = getattr(loaded, "__version__", None)
    if isinstance(stated, str):
        return stated
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def code_digest(*modules: str) -> str:
    """Return a hash of the sources of modules and of all that they import from source folders.

    Installed packages do not count, but for this library and the modules' own packages.
    """
    # Names go in as well: a function that moves to another module is another source.
    digest = hashlib.sha256()
    packages = frozenset(name.partition(".")[0] for name in (_LIBRARY, *modules))
    for name, source in sorted(_closure(modules, packages).items()):
        digest.update(f"{name}\n{source.statements}\n".encode())
    return digest.hexdigest()[:16]


@cache
def _library_digest(module: str) -> str:
    """Return the digest of a module of this library, once: the code that runs was read before."""
    return code_digest(module)


def _closure(modules: tuple[str, ...], packages: frozenset[str]) -> dict[str, _Source]:
    """Return the sources of modules and of what they import, directly or not."""
    sources: dict[str, _Source] = {}
    # By a list and not by recursion: imports may form circles.
    waiting = list(modules)
    seen: set[tuple[str, ...]] = set()
    # Kept for this call alone: files may come and go between two calls.
    source_of = cache(partial(_source_of, packages=packages, members_of=cache(_members_of)))
    while waiting:
        name = waiting.pop()
        path = source_of(name)
        if path is None or name in sources:
            continue
        source = _read(path, path.stat().st_mtime_ns)
        sources[name] = source
        for choices in _choices_of(source.imports, name, path.name == _PACKAGE):
            if choices not in seen:
                seen.add(choices)
                waiting += _module_among(choices, source_of)
    return sources


def _module_among(
    choices: tuple[str, ...], source_of: Callable[[str], Path | None]
) -> tuple[str, ...]:
    """Return the first of some names that is a module of a source folder, or nothing."""
    within = source_of(choices[-1])
    # Inside a module that is no package there are no others: most names need no look at the disk.
    if within is not None and within.name != _PACKAGE:
        return choices[-1:]
    # A name that is no module is something inside its package.
    return tuple(choice for choice in choices if source_of(choice) is not None)[:1]


def _source_of(
    module: str, packages: frozenset[str], members_of: Callable[[Path, str], _Members]
) -> Path | None:
    """Return the file of a module; None where it is installed, built in, or not there."""
    top = module.partition(".")[0]
    folder = _folder_of(top)
    if folder is None or (top not in packages and _is_installed(folder)):
        return None
    package, _, last = module.rpartition(".")
    members = members_of(folder, package)
    if f"{last}.py" in members.files:
        return members.folder / f"{last}.py"
    # Most names are those of functions and classes: they are not looked for as folders.
    if last in members.folders:
        inside = members_of(folder, module)
        if _PACKAGE in inside.files:
            return inside.folder / _PACKAGE
    return None


class _Members(NamedTuple):
    """A folder, and the names of the files and of the folders in it."""

    folder: Path
    files: frozenset[str]
    folders: frozenset[str]


def _members_of(folder: Path, package: str) -> _Members:
    """Return what is in the folder of a package: one look at the disk for all names in it."""
    place = folder.joinpath(*package.split("."))
    try:
        with os.scandir(place) as entries:
            kinds = [(entry.name, entry.is_dir()) for entry in entries]
    # What a name stands in may be a module, or nothing at all.
    except (FileNotFoundError, NotADirectoryError):
        kinds = []
    files = frozenset(name for name, is_folder in kinds if not is_folder)
    return _Members(place, files, frozenset(name for name, is_folder in kinds if is_folder))


@cache
def _folder_of(top: str) -> Path | None:
    """Return the folder that holds a module or package which is not inside another one."""
    loaded = sys.modules.get(top)
    file = getattr(loaded, "__file__", None)
    if file is None:
        # By the finder of paths alone: nothing is imported by looking.
        spec = PathFinder.find_spec(top)
        file = None if spec is None else spec.origin
    if file is None or not str(file).endswith(".py"):
        return None
    path = Path(file).resolve()
    return path.parent.parent if path.name == _PACKAGE else path.parent


@cache
def _is_installed(folder: Path) -> bool:
    parts = folder.parts
    return (
        "site-packages" in parts
        or "dist-packages" in parts
        or any(folder == place or place in folder.parents for place in _INSTALLED)
    )


@dataclass(frozen=True)
class _Source:
    """What is read off a file: its imports, and a hash of what it does."""

    imports: tuple[ast.Import | ast.ImportFrom, ...]
    statements: str


@cache
def _read(path: Path, _: int) -> _Source:
    """Read a file, once: parsing takes long. With its time of change, a new one is noticed."""
    imports: list[ast.Import | ast.ImportFrom] = []
    text = statements_of(ast.parse(path.read_text(encoding="utf-8")), imports)
    return _Source(tuple(imports), hashlib.sha256(text.encode()).hexdigest())


@cache
def _choices_of(
    imports: tuple[ast.Import | ast.ImportFrom, ...], name: str, is_package: bool
) -> tuple[tuple[str, ...], ...]:
    """Return for each name that a module imports the modules that it may be or be a part of."""
    targets: list[tuple[str, ...]] = []
    for node in imports:
        if isinstance(node, ast.Import):
            targets += [(alias.name,) for alias in node.names]
        else:
            base = _base_of(node, name, is_package)
            # Which of the names are modules shows when their files are looked for.
            targets += [(f"{base}.{alias.name}", base) for alias in node.names]
    return tuple(targets)


def _base_of(node: ast.ImportFrom, name: str, is_package: bool) -> str:
    """Return the module that a ``from`` statement imports from, dots resolved."""
    if not node.level:
        return node.module or ""
    parents = name.split(".") if is_package else name.split(".")[:-1]
    kept = parents[: len(parents) - node.level + 1]
    return ".".join([*kept, *([node.module] if node.module else [])])


def statements_of(tree: Any, imports: list[ast.Import | ast.ImportFrom]) -> str:
    """Return what a syntax tree does, as text without docstrings, and add its imports to a list.

    One pass over the tree takes half the time of ``ast.dump`` and of ``ast.walk`` for the rest.
    """
    if isinstance(tree, ast.AST):
        if isinstance(tree, ast.Import | ast.ImportFrom):
            imports.append(tree)
        parts = [statements_of(getattr(tree, name), imports) for name in tree._fields]
        return f"{type(tree).__name__}({','.join(parts)})"
    if isinstance(tree, list):
        kept = [part for part in tree if not _is_text(part)]
        return f"[{','.join([statements_of(part, imports) for part in kept])}]"
    return repr(tree)


def _is_text(statement: ast.AST) -> bool:
    """Return whether a statement is a string by itself: a docstring, also of a constant."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def fingerprint(value: Any) -> str:
    """Return a hash of a value and of the code behind it: of functions, classes, arrays, problems.

    A function counts by its compiled code, its defaults, the variables that it closes over and the
    global ones that it names, and by the sources of its module and of what that imports; a
    function of a notebook has the former alone. What is of this library counts by the sources of
    its module, and whatever else is installed by its version.

    Raises
    ------
    InvalidInputError
        If an object cannot be looked into.

    Examples
    --------
    >>> def doubled(x):
    ...     return 2 * x
    >>> fingerprint(doubled) == fingerprint(lambda x: 3 * x)
    False
    """
    printer = _Fingerprint()
    printer.add(value)
    return printer.digest()


class _Fingerprint:
    """A hash that values are added to, each object once."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        # The objects are held: another one could get the address of one that is gone.
        self._seen: dict[int, tuple[int, Any]] = {}
        # Every function of a class names its module. Files do not change within one fingerprint.
        self._described: dict[str, str] = {}

    def digest(self) -> str:
        """Return the hash of what was added."""
        return self._hash.hexdigest()[:16]

    def add(self, value: Any) -> None:
        """Add a value with all that it holds."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            self._text(f"{type(value).__name__} {value!r}")
        elif id(value) in self._seen:
            # Cycles end here: a function may name itself.
            self._text(f"again {self._seen[id(value)][0]}")
        else:
            self._seen[id(value)] = (len(self._seen), value)
            self._add_object(value)

    def _text(self, text: str) -> None:
        # With its length, so that two texts in a row are not another pair of texts.
        self._hash.update(f"{len(text)}:{text}".encode())

    def _all(self, kind: str, values: Any) -> None:
        members = list(values)
        self._text(f"{kind} of {len(members)}")
        for member in members:
            self.add(member)

    def _add_object(self, value: Any) -> None:
        if isinstance(value, np.ndarray):
            self._text(f"array {value.dtype} {value.shape}")
            # Bytes of an array of objects are addresses, which differ between processes.
            values = value.ravel().tolist() if value.dtype.hasobject else [value.tobytes()]
            self._all("values", values)
        elif isinstance(value, list | tuple):
            self._all(type(value).__name__, value)
        elif isinstance(value, set | frozenset):
            # Sorted: the order of a set depends on the process.
            self._all("set", sorted(map(fingerprint, value)))
        elif isinstance(value, Mapping):
            self._all("mapping", [part for item in value.items() for part in item])
        elif isinstance(value, ModuleType):
            self._module(value.__name__)
        elif isinstance(value, type):
            self._class(value)
        else:
            self._add_callable(value)

    def _add_callable(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self._all("method", [value.__func__, value.__self__])
        elif isinstance(value, partial):
            self._all("partial", [value.func, value.args, value.keywords])
        elif isinstance(value, CodeType):
            self._code(value)
        # Compiled code has no source to read: its name stands for it.
        elif isinstance(value, BuiltinFunctionType | np.ufunc):
            self._text(f"built-in {getattr(value, '__module__', '')} {value.__name__}")
        else:
            self._instance(value)

    def _module(self, name: str) -> None:
        """Add a module: by its sources where it is the user's or ours, else by its version."""
        if name not in self._described:
            self._described[name] = f"module {name} {_description_of(name)}"
        self._text(self._described[name])

    def _function(self, function: FunctionType) -> None:
        # A function of a known module is that module's source under a name.
        name = f"{function.__module__}.{function.__qualname__}"
        if _is_known_by_module(function.__module__):
            self._module(function.__module__)
            self._text(name)
            return
        if function.__module__ in sys.modules and function.__module__ != "__main__":
            self._module(function.__module__)
        self.add(function.__code__)
        self._all("defaults", [function.__defaults__, function.__kwdefaults__])
        self._all("closure", (cell.cell_contents for cell in function.__closure__ or ()))
        self._all("globals", _named_globals(function))

    def _code(self, code: CodeType) -> None:
        # The first constant of a function that is no lambda is its docstring, or None.
        constants = code.co_consts
        if constants and code.co_name != "<lambda>" and isinstance(constants[0], str | None):
            constants = constants[1:]
        self._text(code.co_code.hex())
        self._all("constants", constants)
        self._all("names", [*code.co_names, *code.co_varnames, *code.co_freevars])

    def _class(self, kind: type) -> None:
        name = f"{kind.__module__}.{kind.__qualname__}"
        self._text(f"class {name}")
        if _is_known_by_module(kind.__module__):
            self._module(kind.__module__)
            return
        if kind.__module__ in sys.modules and kind.__module__ != "__main__":
            self._module(kind.__module__)
        self._all("bases", kind.__bases__)
        members = {}
        for key, member in vars(kind).items():
            # Of what Python adds by itself, such as __module__, only functions are code.
            if not key.startswith("__") or inspect.isfunction(member):
                # A class method and a property by the function that they wrap.
                members[key] = getattr(member, "__func__", getattr(member, "fget", member))
        pairs = [(key, members[key]) for key in sorted(members)]
        self._all("members", [part for pair in pairs for part in pair])

    def _instance(self, value: Any) -> None:
        """Add an object by its class and what it holds."""
        # What a decorator wraps, such as a cache or a compiled function, is what it does.
        wrapped = getattr(value, "__wrapped__", getattr(value, "py_func", None))
        if inspect.isfunction(wrapped):
            self.add(wrapped)
            return
        self.add(type(value))
        if isinstance(value, Immutable):
            # Without what was computed since, such as cached properties.
            self.add(dict(vars(value)["_sealed"].attributes))
            return
        if type(value).__module__.partition(".")[0] == "cvxpy":
            # Their numbers differ from process to process, and what they hold is in their text.
            self._all("expression", [str(value), getattr(value, "value", None)])
            return
        try:
            state = value.__reduce_ex__(4)
        except Exception as error:
            raise InvalidInputError(
                f"a store must know what its results follow from, and {value!r} cannot be looked "
                f"into ({error}): keep it out of methods and metrics, or leave out the store"
            ) from None
        self._all("state", [state] if isinstance(state, str) else state[1:3])


def _description_of(module: str) -> str:
    """Return the hash of a module's sources where it is the user's or ours, else its version."""
    top = module.partition(".")[0]
    if top == _LIBRARY:
        return _library_digest(module)
    folder = None if top == "__main__" else _folder_of(top)
    if folder is None or _is_installed(folder):
        return version_of(top)
    return code_digest(module)


def _is_known_by_module(module: str | None) -> bool:
    """Return whether a module is of this library, installed or built in: it is not looked into."""
    top = (module or "").partition(".")[0]
    if top in ("__main__", ""):
        return False
    folder = _folder_of(top)
    # A module without a file that is loaded was made by hand: its functions are all there is.
    if folder is None:
        return top in sys.builtin_module_names or top not in sys.modules
    return top == _LIBRARY or _is_installed(folder)


def _named_globals(function: FunctionType) -> Iterator[Any]:
    """Yield the names and values of global variables that a function or one inside it names."""
    for name in sorted(_names_in(function.__code__)):
        if name in function.__globals__:
            yield name
            yield function.__globals__[name]


def _names_in(code: CodeType) -> set[str]:
    """Return the global names that code reads, without attributes, which share a list with them."""
    names = {
        str(step.argval)
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    inner = [_names_in(c) for c in code.co_consts if isinstance(c, CodeType)]
    return names.union(*inner)
