"""A digest of what a function does: its code, and all that the code reads, as far as that is the user's own.

Of code: bytecode, constants, names and defaults, but neither its own name nor lines or files; and the version of Python, whose
bytecode it is. Of what it reads: closure cells and globals, by value; functions, classes and modules of the user's own as
deep as they go, those of installed packages by name. What has no value that can be read, such as a lock or a handle of a compiled
library, is named: whether it is the same another time nobody can tell.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import importlib.util
import random
import struct
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp._base.raised import interruptions
from hpcdp.keys import digest_array, digest_bytes

_READ = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_WRITTEN, _WRITTEN_CELLS = {"STORE_GLOBAL"}, {"STORE_DEREF"}
_OF_CLASSES = {  # what Python makes for a class, and what only describes it
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__firstlineno__",
    "__static_attributes__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__dataclass_fields__",
    "__dataclass_params__", "_abc_impl",
}  # fmt: skip
_RANDOM = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)
_OF_CODE = (
    frozenset, types.CodeType, types.ModuleType, staticmethod, classmethod, property, functools.cached_property, *_SLOTS,
)  # fmt: skip
_ATOMS = (type(None), type(Ellipsis), type(NotImplemented))


@dataclass(frozen=True)
class CodeDigest:
    """digest: 32 hexadecimal digits. undigested: places and types of what has none, each at most once, and nothing of contents.
    modules: the user's own whose functions and classes are part of it.
    """

    digest: str
    undigested: tuple[str, ...]
    modules: frozenset[str]

    @classmethod
    def of(cls, walk: _Walk, digest: str) -> CodeDigest:
        """A digest, and what was met on the way to it."""
        return cls(digest, tuple(dict.fromkeys(walk.undigested)), frozenset(walk.modules))


def digest_function(function: Callable[..., Any], code_alone: bool = False) -> CodeDigest:
    """The digest of any callable, the same in every process of one version of Python.

    code_alone: of functions, classes and constants that it reads, and of nothing that calls may fill or change, such as a
    table of what is known already: so that a process that has called it and one that has not agree.
    """
    walk = _Walk(code_alone)
    found = walk.digest(function, getattr(function, "__name__", type(function).__name__))
    version = str(sys.implementation.cache_tag)
    return CodeDigest.of(walk, digest_bytes(b"function", version.encode(), found))


def digest_value(value: Any) -> CodeDigest:
    """The digest of a value alone."""
    walk = _Walk()
    return CodeDigest.of(walk, walk.digest(value, "value").decode())


def is_own(module: str | None) -> bool:
    """Whether a module is the user's: neither Python's, nor hpcdp, nor of an installed package."""
    top = (module or "").partition(".")[0]
    if top == "__main__":  # whatever runs it, such as a command of a package
        return True
    if top == "hpcdp":
        return False
    file = getattr(sys.modules.get(str(module)), "__file__", None)
    return top not in sys.stdlib_module_names if file is None else not _is_installed(file)


_HPCDP = Path(__file__).parents[1]
_STANDARD = sysconfig.get_paths()["stdlib"]


def _is_installed(file: str) -> bool:
    path = Path(file).absolute()
    parts = {"site-packages", "dist-packages"} & set(path.parts)
    return bool(parts) or path.is_relative_to(_STANDARD) or file.startswith("<frozen ")


def _is_of_a_package(function: types.FunctionType) -> bool:
    """Whether a function, or what made it, is an installed package's, so that its name says what it does."""
    if is_own(function.__module__):
        return False
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function or function.__module__.startswith("hpcdp.") or _is_installed(function.__code__.co_filename)


class _Walk:
    """Digests of values, by kinds. What is being digested further up is told by how far up it is."""

    def __init__(self, code_alone: bool = False) -> None:
        self._code_alone = code_alone
        self.undigested: list[str] = []
        self.modules: set[str] = set()
        self._done: dict[int, bytes] = {}
        self._within: list[int] = []
        self._alive: list[Any] = []  # so that no other object gets the number of one that is done

    def digest(self, value: Any, where: str) -> bytes:
        """Of one value; where: what leads to it, in words."""
        number = id(value)
        if number in self._done:
            return self._done[number]
        if number in self._within:
            return b"within %d" % (len(self._within) - self._within.index(number))
        self._within.append(number)
        self._alive.append(value)
        try:
            parts = list(self._parts(value, where))
        except interruptions():
            raise
        except BaseException:  # whatever a class of someone else raises
            parts = [b"undigested", self._named(type(value))]
            self.undigested.append(f"{where} ({_kind(value)})")
        finally:
            self._within.pop()
        found = digest_bytes(*parts).encode()
        self._done[number] = found
        return found

    def _all(self, values: Iterable[Any], where: str) -> Iterator[bytes]:
        return (self.digest(value, where) for value in values)

    def _parts(self, value: Any, where: str) -> Iterator[bytes]:
        kind = type(value)
        if kind in _ATOMS or kind in (bool, int):
            yield from (b"atom", repr(value).encode())
        elif kind is float or kind is complex:
            yield from (b"number", kind.__name__.encode(), struct.pack("<2d", value.real, value.imag))
        elif kind in (str, bytes):
            yield from (kind.__name__.encode(), value.encode("utf-8", "surrogatepass") if kind is str else value)
        elif kind is tuple:
            yield from (b"tuple", *self._all(value, where))
        elif self._code_alone and not callable(value) and not isinstance(value, _OF_CODE):
            yield from (b"state", self.digest(kind, where))
        elif kind is list:
            yield from (b"list", *self._all(value, where))
        elif kind is bytearray:
            yield from (b"bytearray", bytes(value))
        elif kind in (set, frozenset):
            yield from (kind.__name__.encode(), *sorted(self._all(value, where)))
        elif kind in (dict, types.MappingProxyType):
            yield b"dict"
            for key, item in value.items():
                yield self.digest(key, where)
                yield self.digest(item, f"{where}[…]")  # without the key, which may be data
        elif isinstance(value, _RANDOM):
            yield from (
                b"random",
                self._named(kind),
            )  # not its state: each draw changes that, and it is no part of a law
        elif isinstance(value, np.ndarray) and kind is np.ndarray and value.dtype != object and not value.dtype.names:
            yield from (b"array", digest_array(value).encode())
        elif kind is types.CodeType:
            yield from self._code(value, where)
        elif kind is types.FunctionType:
            yield from self._function(value, where)
        elif kind is types.MethodType:
            yield from (b"method", self.digest(value.__func__, where), self.digest(value.__self__, where))
        elif kind is types.BuiltinFunctionType:
            yield from self._compiled(value, where)
        elif kind is types.ModuleType:
            yield from self._module(value)
        elif isinstance(value, type):
            yield from self._class(value, where)
        elif isinstance(value, staticmethod | classmethod):
            yield from (kind.__name__.encode(), self.digest(value.__func__, where))
        elif isinstance(value, property):
            yield from (b"property", *self._all((value.fget, value.fset, value.fdel), where))
        elif isinstance(value, functools.cached_property):
            yield from (b"cached", self.digest(value.func, where))
        elif isinstance(value, _SLOTS):
            yield from (b"slot", value.__name__.encode())
        elif isinstance(compiled := getattr(value, "py_func", None), types.FunctionType):  # numba's
            options = sorted(map(repr, getattr(value, "targetoptions", {}).items()))
            yield from (b"compiled", self._named(kind), repr(options).encode(), self.digest(compiled, where))
        elif isinstance(inner := getattr(value, "__wrapped__", None), types.FunctionType):  # of functools.lru_cache
            yield from (b"wrapped", self._named(kind), self.digest(inner, where))
        elif _is_of(value, "pandas", ("DataFrame", "Series", "Index")):
            yield from self._frame(value, where)
        elif _is_of(value, "pandas", ("CategoricalDtype",)):
            yield from (b"categories", *self._all((value.ordered, value.categories), where))
        elif _is_of(value, "pandas.api.extensions", ("ExtensionDtype",)):  # which keep what they have worked out
            yield from (b"dtype", self._named(kind), repr(value).encode())
        else:
            yield from self._object(value, where)

    def _code(self, code: types.CodeType, where: str) -> Iterator[bytes]:
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        yield from (b"code", code.co_code, code.co_exceptiontable, repr((names, numbers)).encode())
        yield from self._all(code.co_consts, where)

    def _function(self, function: types.FunctionType, where: str) -> Iterator[bytes]:
        if _is_of_a_package(function):
            yield from (b"named", f"{function.__module__}:{function.__qualname__}".encode())
            yield from self._cells(function, where)
            return
        self.modules.add(function.__module__)
        yield from (b"function", self.digest(function.__code__, where))
        defaults = function.__defaults__, tuple((function.__kwdefaults__ or {}).items())
        yield self.digest(defaults, f"a default of {where}")
        yield from self._cells(function, where)
        yield self.digest(dict(vars(function)), f"an attribute of {where}")
        written = set(_found_by(function.__code__, _WRITTEN))  # its own state, such as how often it was called
        yield from self._imported(function)
        for name in sorted(set(_found_by(function.__code__, _READ))):
            if name in function.__globals__ and name not in written:
                value = function.__globals__[name]
                yield from (name.encode(), self.digest(value, f"global {name}"))
                yield from self._used(value, function.__code__, set())

    def _cells(self, function: types.FunctionType, where: str) -> Iterator[bytes]:
        written = set(_found_by(function.__code__, _WRITTEN_CELLS))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name in written:
                continue
            try:
                value = cell.cell_contents
            except ValueError:  # that is filled later
                yield b"empty"
            else:
                yield self.digest(value, name if where == "<lambda>" else f"{name}, which {where} closes over")

    def _used(self, module: Any, code: types.CodeType, done: set[int]) -> Iterator[bytes]:
        """What code may read of a module of the user's own, and of modules in it: attributes of the names that it has."""
        if type(module) is not types.ModuleType or not is_own(module.__name__) or id(module) in done:
            return
        done.add(id(module))
        for name in sorted(set(_names(code))):
            if hasattr(module, name):
                value = getattr(module, name)
                yield from (name.encode(), self.digest(value, f"{module.__name__}.{name}"))
                yield from self._used(value, code, done)

    def _compiled(self, function: Any, where: str) -> Iterator[bytes]:
        owner = function.__self__
        yield from (b"named", f"{function.__module__}:{function.__qualname__}".encode())
        if owner is not None and type(owner) is not types.ModuleType:
            yield self.digest(owner, where)

    def _module(self, module: types.ModuleType) -> Iterator[bytes]:
        yield from (b"module", module.__name__.encode())
        if module.__name__ != "__main__":
            yield from _source(getattr(module, "__file__", None))

    def _imported(self, function: types.FunctionType) -> Iterator[bytes]:
        """What a function imports when it runs, which is done now, as a process that has called it has it loaded."""
        for name, level, names in sorted(set(_imports(function.__code__)), key=repr):
            yield from (b"imported", repr((name, level, names)).encode())
            if level == 0 and not _may_be_own(name.partition(".")[0]):
                continue
            try:
                module = __import__(name, function.__globals__, None, names or (), level)
            except ImportError:
                yield b"missing"
                continue
            if is_own(module.__name__):
                yield self.digest(module, name)
                yield from self._used(module, function.__code__, set())

    def _class(self, kind: type, where: str) -> Iterator[bytes]:
        yield from (b"class", self._named(kind))
        if is_own(kind.__module__):
            self.modules.add(kind.__module__)
            yield from self._all(kind.__bases__, where)
            for name, value in sorted(vars(kind).items()):
                if name not in _OF_CLASSES:
                    yield from (name.encode(), self.digest(value, f"{kind.__qualname__}.{name}"))

    def _frame(self, frame: Any, where: str) -> Iterator[bytes]:
        """By its parts: how pandas holds it in memory differs between equal ones."""
        yield from (b"frame", self._named(type(frame)))
        if frame.ndim == 2:
            yield self.digest(frame.columns, where)
            columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
        else:
            yield self.digest(list(frame.names) if hasattr(frame, "names") else frame.name, where)
            columns = [frame]
        if hasattr(frame, "iloc"):
            yield self.digest(frame.index, where)
        for column in columns:
            yield from (repr(column.dtype).encode(), self.digest(column.to_numpy().tolist(), where))

    def _object(self, value: Any, where: str) -> Iterator[bytes]:
        """Any other object, by what Python would need to make it anew."""
        reducer = copyreg.dispatch_table.get(type(value))
        reduced = reducer(value) if reducer is not None else value.__reduce_ex__(4)
        yield from (b"object", self.digest(type(value), where))
        if isinstance(reduced, str):
            yield from (b"named", reduced.encode())
            return
        make, given, state, items, pairs = (*reduced, None, None, None)[:5]
        yield from self._all((make, given), where)
        if isinstance(state, dict):
            is_data = type(value) is types.SimpleNamespace  # its names may be
            own = {} if is_data else getattr(value, "__dict__", {})
            for name, part in state.items():
                place = f"{where}.{name}" if name in own and str(name).isidentifier() else f"{where}[…]"
                yield from (repr(name).encode(), self.digest(part, place))
        else:
            yield self.digest(state, where)
        yield from self._all((list(items or ()), list(pairs or ())), where)

    def _named(self, kind: type) -> bytes:
        return (
            f"{kind.__module__}:{kind.__qualname__}".encode() if not is_own(kind.__module__) else kind.__name__.encode()
        )


def _is_of(value: Any, package: str, names: tuple[str, ...]) -> bool:
    """Whether a value is of one of these classes of a package, which is loaded where it is."""
    module = sys.modules.get(package)
    return module is not None and isinstance(value, tuple(getattr(module, name) for name in names))


def _source(file: str | None) -> Iterator[bytes]:
    """The digest of a file of the user's own; nothing of another."""
    if file is not None and not _is_installed(file) and Path(file).is_file() and not Path(file).is_relative_to(_HPCDP):
        yield digest_bytes(b"source", Path(file).read_bytes()).encode()


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in tuple('aeiou') else 'a'} {name}"


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _names(code: types.CodeType) -> Iterator[str]:
    for one in _codes(code):
        yield from one.co_names


def _imports(code: types.CodeType) -> Iterator[tuple[str, int, tuple[str, ...] | None]]:
    """Of each import in a code and in those within it: module, how many packages up, names. Python loads these two before."""
    for one in _codes(code):
        found = [step for step in dis.get_instructions(one) if step.opname != "EXTENDED_ARG"]
        for place, instruction in enumerate(found):
            if instruction.opname == "IMPORT_NAME":
                yield instruction.argval, found[place - 2].argval, found[place - 1].argval


def _may_be_own(top: str) -> bool:
    """Whether a package or module that may not be loaded yet is the user's own: then it is found, and not installed."""
    spec = importlib.util.find_spec(top) if top not in ("__main__", "hpcdp") else None
    if spec is None or spec.origin is None:
        return spec is not None
    return Path(spec.origin).is_file() and not _is_installed(spec.origin)


def _found_by(code: types.CodeType, instructions: set[str]) -> Iterator[str]:
    """The names in these instructions of a code and of those within it."""
    for one in _codes(code):
        yield from (found.argval for found in dis.get_instructions(one) if found.opname in instructions)
