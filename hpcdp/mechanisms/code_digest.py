"""A digest of what a function does: its source, and the values of all that it reads, as far as that is the user's own.

The source is the text in the function's file or notebook cell, without its own name, decorators, comments and lines. Where no
text is sure to be that of its code, as of what `exec` made, or of a file that was edited after its import, it is the bytecode
with the version of Python. Functions, classes and modules of the user's own go as deep as they go, those of installed packages
by name.
"""

from __future__ import annotations

import ast
import copyreg
import dis
import functools
import importlib.util
import linecache
import random
import struct
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp._base.raised import interruptions
from hpcdp.errors import StudyError
from hpcdp.keys import digest_array, digest_bytes

_READ = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_OF_CLASSES = {  # what Python makes for a class, and what only describes it
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__firstlineno__",
    "__static_attributes__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__dataclass_fields__",
    "__dataclass_params__", "_abc_impl",
}  # fmt: skip
_RANDOM = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
_CACHED = type(functools.lru_cache(len))  # all others that wrap a function may add to it, as functools.partial does
_ATOMS = (type(None), type(Ellipsis), type(NotImplemented), bool, int)
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)
_PARTS: dict[type, tuple[str, ...]] = {  # what is no more than these attributes
    types.MethodType: ("__func__", "__self__"), staticmethod: ("__func__",), classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"), functools.cached_property: ("func",),
}  # fmt: skip
_OF_CODE = (frozenset, types.CodeType, types.ModuleType, *_PARTS, *_SLOTS)


def digest_function(function: Callable[..., Any], code_alone: bool = False) -> str:
    """The digest of any callable, 32 hexadecimal digits, the same in every process; StudyError names what has none."""
    # code_alone: bytecode, and nothing that calls may fill or change: a process that has called it agrees with one that has not
    return digest_bytes(b"function", _Walk(code_alone).digest(function, _name_of(function)))


def digest_value(value: Any) -> str:
    """The digest of a value alone."""
    return _Walk().digest(value, "value").decode()


def modules_of(function: Callable[..., Any]) -> set[str]:
    """The user's own modules whose functions and classes a function calls; StudyError as `digest_function`."""
    walk = _Walk()
    walk.digest(function, _name_of(function))
    return walk.modules


def is_own(module: str | None) -> bool:
    """Whether a module is the user's: neither Python's, nor hpcdp, nor of an installed package."""
    top = (module or "").partition(".")[0]
    if top == "__main__":  # whatever runs it, such as a command of a package
        return True
    if top == "hpcdp":
        return False
    file = getattr(sys.modules.get(str(module)), "__file__", None)
    # a function may import it later
    if top and top not in sys.modules and (spec := importlib.util.find_spec(top)) is not None:
        file = spec.origin if spec.has_location else None
    return top not in sys.stdlib_module_names if file is None else not _is_installed(file)


def _is_installed(file: str) -> bool:
    path = Path(file).absolute()
    is_packaged = not {"site-packages", "dist-packages"}.isdisjoint(path.parts)
    return is_packaged or path.is_relative_to(sysconfig.get_path("stdlib")) or file.startswith("<frozen ")


def _is_of_a_package(function: types.FunctionType) -> bool:
    """Whether a function, or what made it, is an installed package's, so that its name says what it does."""
    if is_own(function.__module__):
        return False
    target: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        target = getattr(target, part, None)
    return (
        target is function or function.__module__.startswith("hpcdp.") or _is_installed(function.__code__.co_filename)
    )


class _Walk:
    """Digests of values, by kinds. What is being digested further up is told by how far up it is."""

    def __init__(self, code_alone: bool = False) -> None:
        self.modules: set[str] = set()  # the user's own whose functions and classes were met
        self._code_alone = code_alone
        self._done: dict[int, tuple[bytes, Any]] = {}  # with the object, so that no other gets its number
        self._within: list[int] = []

    def digest(self, value: Any, where: str) -> bytes:
        """Of one value; where: what leads to it, in words."""
        number = id(value)
        if number in self._done:
            return self._done[number][0]
        if number in self._within:
            return b"within %d" % (len(self._within) - self._within.index(number))
        self._within.append(number)
        try:
            digest = digest_bytes(*self._parts(value, where)).encode()
        except StudyError:
            raise
        except interruptions():
            raise
        except BaseException:  # whatever a class of someone else raises
            raise StudyError(f"there is no digest of {where} (a {type(value).__name__})") from None
        self._within.pop()
        self._done[number] = digest, value
        return digest

    def _all(self, values: Iterable[Any], where: str) -> Iterator[bytes]:
        return (self.digest(value, where) for value in values)

    def _parts(self, value: Any, where: str) -> Iterator[bytes]:
        kind = type(value)
        if kind in _ATOMS:
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
        elif kind in (set, frozenset):
            yield from (kind.__name__.encode(), *sorted(self._all(value, where)))
        elif kind in (dict, types.MappingProxyType):
            yield b"dict"
            for key, item in value.items():
                yield self.digest(key, where)
                yield self.digest(item, f"{where}[…]")  # without the key, which may be data
        elif isinstance(value, _RANDOM):  # each draw changes its state, which is no part of a law
            yield from (b"random", _named(kind))
        elif kind is np.ndarray and value.dtype != object and not value.dtype.names:
            yield from (b"array", digest_array(value).encode())
        elif isinstance(value, tuple(_PARTS)):
            names = next(names for base, names in _PARTS.items() if isinstance(value, base))
            yield from (_named(kind), *self._all((getattr(value, name) for name in names), where))
        elif kind in _SLOTS:
            yield from (b"slot", value.__name__.encode())
        elif kind is types.CodeType:
            yield from self._code(value, where)
        elif kind is types.FunctionType:
            yield from self._function(value, value.__name__)
        elif kind is types.BuiltinFunctionType:
            yield from (b"named", f"{value.__module__}:{value.__qualname__}".encode())
            if not isinstance(value.__self__, types.ModuleType | None):
                yield self.digest(value.__self__, where)
        elif kind is types.ModuleType:
            yield from (b"module", value.__name__.encode())
            file = getattr(value, "__file__", None)
            if value.__name__ != "__main__" and is_own(value.__name__) and file is not None and Path(file).is_file():
                yield Path(file).read_bytes()
        elif isinstance(value, type):
            yield from self._class(value, where)
        elif kind is _CACHED or (kind.__module__.startswith("numba.") and hasattr(value, "py_func")):
            inner, options = getattr(value, "py_func", None) or value.__wrapped__, getattr(value, "targetoptions", {})
            texts = repr(sorted(map(repr, options.items()))).encode()
            yield from (b"wrapped", _named(kind), texts, self.digest(inner, where))
        elif is_of(value, "pandas", "DataFrame", "Series", "Index"):
            yield from self._frame(value, where)
        elif is_of(value, "pandas", "CategoricalDtype"):
            yield from (b"categories", *self._all((value.ordered, value.categories), where))
        elif is_of(value, "pandas.api.extensions", "ExtensionDtype"):  # which keep what they have worked out
            yield from (b"dtype", _named(kind), repr(value).encode())
        else:
            yield from self._object(value, where)

    def _code(self, code: types.CodeType, where: str) -> Iterator[bytes]:
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        version = str(sys.implementation.cache_tag)
        yield from (b"code", version.encode(), code.co_code, code.co_exceptiontable, repr((names, numbers)).encode())
        yield from self._all(code.co_consts, where)

    def _function(self, function: types.FunctionType, where: str) -> Iterator[bytes]:
        codes = list(_codes(function.__code__))
        steps = {step for code in codes for step in _steps(code)}
        is_named = _is_of_a_package(function)
        if is_named:
            yield from (b"named", f"{function.__module__}:{function.__qualname__}".encode())
        else:
            self.modules.add(function.__module__)
            text = None if self._code_alone else _text_of(function.__code__)
            yield (
                self.digest(function.__code__, where) if text is None else digest_bytes(b"text", text.encode()).encode()
            )
            defaults = function.__defaults__, tuple((function.__kwdefaults__ or {}).items())
            yield self.digest(defaults, f"a default of {where}")
            yield self.digest(dict(vars(function)), f"an attribute of {where}")
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if ("STORE_DEREF", name) not in steps or not self._code_alone:  # else a call may have changed it
                try:
                    value = cell.cell_contents
                except ValueError:  # that is filled later
                    yield b"empty"
                else:
                    yield self.digest(value, f"{name}, which {where} closes over")
        if is_named:
            return
        names, done = {name for code in codes for name in code.co_names}, set[int]()
        for name in sorted({name for step, name in steps if step in _READ}):
            if name in function.__globals__ and (("STORE_GLOBAL", name) not in steps or not self._code_alone):
                yield from self._read(f"global {name}", function.__globals__[name], names, done)
        for name, module in _imported(function, codes):
            yield from self._read(name, module, names, done)

    def _read(self, name: str, value: Any, names: set[str], done: set[int]) -> Iterator[bytes]:
        """What code with these names reads by one of them: of a module of the user's own, its attributes that are so named."""
        yield from (name.encode(), self.digest(value, name))
        if type(value) is types.ModuleType and is_own(value.__name__) and id(value) not in done:
            done.add(id(value))
            for attribute in sorted(names):
                if hasattr(value, attribute):
                    yield from self._read(f"{value.__name__}.{attribute}", getattr(value, attribute), names, done)

    def _class(self, kind: type, where: str) -> Iterator[bytes]:
        yield from (b"class", _named(kind))
        if is_own(kind.__module__):
            self.modules.add(kind.__module__)
            yield from self._all(kind.__bases__, where)
            for name, value in sorted(vars(kind).items()):
                if name not in _OF_CLASSES:
                    yield from (name.encode(), self.digest(value, f"{kind.__qualname__}.{name}"))

    def _frame(self, frame: Any, where: str) -> Iterator[bytes]:
        """By its parts: how pandas holds it in memory differs between equal ones."""
        yield from (b"frame", _named(type(frame)))
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


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _named(kind: type) -> bytes:
    return (f"{kind.__module__}:{kind.__qualname__}" if not is_own(kind.__module__) else kind.__name__).encode()


def is_of(value: Any, package: str, *names: str) -> bool:
    """Whether a value is of one of these classes of a package, which is loaded where it is."""
    module = sys.modules.get(package)
    return module is not None and isinstance(value, tuple(getattr(module, name) for name in names))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code and those within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _steps(code: types.CodeType) -> Iterator[tuple[str, str]]:
    """Instructions of a code that have a name, and that name; without those that fill cells of its own."""
    for step in dis.get_instructions(code):
        if isinstance(step.argval, str) and (step.opname != "STORE_DEREF" or step.argval in code.co_freevars):
            yield step.opname, step.argval


def _text_of(code: types.CodeType) -> str | None:
    """The text of a function in its file or cell, and its number among those of a line; None where that makes other code."""
    linecache.checkcache(code.co_filename)
    tree, codes = _parsed("".join(linecache.getlines(code.co_filename)))
    if code not in codes:  # which have lines and columns too
        return None
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", [])
            if min(part.lineno for part in (node, *decorators)) == code.co_firstlineno:
                unnamed = {} if isinstance(node, ast.Lambda) else {"name": "_", "decorator_list": []}
                texts.append(ast.unparse(type(node)(**{**vars(node), **unnamed})))
    of_line = [other for other in codes if (other.co_firstlineno, other.co_name) == (code.co_firstlineno, code.co_name)]
    return "\n".join([str(of_line.index(code)), *texts]) if texts else None


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> tuple[ast.AST, list[types.CodeType]]:
    """A file's tree, and all code that it makes."""
    try:
        return ast.parse(text), list(_codes(compile(text, "text", "exec", dont_inherit=True)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], []), []


def _imported(function: types.FunctionType, codes: list[types.CodeType]) -> Iterator[tuple[str, Any]]:
    """What a function imports when it runs, and the module where it is the user's own: a process that called it has it loaded."""
    imports = set()
    for code in codes:
        steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
        for up, names, step in zip(steps, steps[1:], steps[2:], strict=False):
            if step.opname == "IMPORT_NAME":
                imports.add((step.argval, up.argval, names.argval))
    for name, up, names in sorted(imports, key=repr):
        module = None
        if up or is_own(name.partition(".")[0]):
            with suppress(Exception):  # which the function may expect
                module = __import__(name, function.__globals__, None, names or (), up)
        yield repr((name, up, names)), module if module is not None and is_own(module.__name__) else None
