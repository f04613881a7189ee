"""The user's code: callables by import path, with the study's folder importable, and functions that are given as objects.

What draws is a process of one run alone, so that a module which it has imported is the one that the study names. A store holds
the name and digest of a function that was given, and never the function: what tasks of a run need besides the store goes with
each of them, by value.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pickle
import runpy
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from hpcdp._base.doing import at_risk
from hpcdp._base.messages import did_you_mean
from hpcdp._base.raised import Blamed, describe_raised, interruptions
from hpcdp.errors import StudyError
from hpcdp.keys import digest_bytes
from hpcdp.mechanisms.code_digest import digest_function, is_own, modules_of


def import_callable(path: str, folder: Path, where: str) -> Callable[..., Any]:
    """The callable at "package.module:name", or what "package.module:make()" returns; StudyError names the key `where`."""
    target: Callable[..., Any] = import_object(path, folder, where)
    if not callable(target):
        raise StudyError(f"{where}: a callable; given: {path!r}, a {type(target).__name__}")
    return target


def import_object(path: str, folder: Path, where: str) -> Any:
    """Any object there."""
    module_name, colon, name = path.removesuffix("()").partition(":")
    if not colon or not module_name or not name:
        raise StudyError(f'{where}: "package.module:callable"; given: {path!r}')
    if module_name.endswith(".py") or "/" in module_name:
        meant = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise StudyError(
            f'{where}: "package.module:callable", a module and not a file; given: {path!r}; did you mean {meant}:{name}?'
        )
    if module_name == "__main__":
        _check_main(path, where)
    try:
        with at_risk(f"{where} {path} (import)"):
            module = _import(module_name, folder)
    except SystemExit as error:  # it would take hpcdp along without a word
        raise StudyError(f"{where}: importing {path!r} ended the program (exit code {error.code})") from None
    except interruptions():
        raise
    except BaseException as error:
        raise StudyError(
            f"{where}: cannot import module {module_name!r} of {path!r}: {describe_raised(error)}"
            f"{_module_meant(error, module_name, folder)}"
        ) from error
    target: Any = module
    for part in name.split("."):
        if not hasattr(target, part):
            meant = did_you_mean(part, [own for own in dir(target) if not own.startswith("_")])
            raise StudyError(f"{where}: module {module_name!r} has no {name!r}{meant}")
        target = getattr(target, part)
    if path.endswith("()"):
        with Blamed(f"{where}: {path}", failure=StudyError), at_risk(f"{where} {path}"):
            target = target()
    return target


def refuse_call(function: Callable[..., Any], key: str, path: str, accepted: str, *given: Any, **named: Any) -> None:
    """StudyError where a function cannot be called with such arguments, as far as its signature tells."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of what is not written in Python
        return
    try:
        signature.bind(*given, **named)
    except TypeError as error:
        raise StudyError(f"{key}: {path} takes {signature}; accepted: {accepted} ({error})") from None


def _module_meant(error: BaseException, module_name: str, folder: Path) -> str:
    """Which module of the study's folder was meant, perhaps, where the named one, or a package of it, is not there."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is None or not f"{module_name}.".startswith(f"{missing}."):
        return ""
    package = missing.rpartition(".")[0]
    own = [path for path in folder.joinpath(*package.split(".")).glob("*") if path.suffix == ".py" or path.is_dir()]
    return did_you_mean(missing, [f"{package}.{path.stem}".lstrip(".") for path in own if path.stem.isidentifier()])


def _import(module_name: str, folder: Path) -> ModuleType:
    """The module, with the study's folder first on the import path."""
    text = str(folder)
    if text in sys.path:
        sys.path.remove(text)
    sys.path.insert(0, text)
    importlib.invalidate_caches()
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # bytecode may be older than a change it misses
    try:
        if module_name == "__main__" and sys.modules["__main__"].__name__ == "__mp_main__":
            main = sys.modules["__main__"]  # in a child process, what the driver's main script defines
            main.__dict__.update(runpy.run_path(str(main.__file__), run_name="__mp_main__") | {"__name__": "__main__"})
        return importlib.import_module(module_name)
    finally:
        sys.dont_write_bytecode = before


def _file_digest(module: Any) -> str:
    """Digest of a module's source file; of nothing where there is no such file."""
    file = getattr(module, "__file__", None)
    return digest_bytes(b"source", Path(file).read_bytes()) if file is not None and Path(file).is_file() else ""


def _check_main(path: str, where: str) -> None:
    """StudyError where workers, which run the main script again to have its callables, could not, or would run it all."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    try:
        tree = ast.parse(Path(file).read_bytes()) if file is not None else None
    except (OSError, SyntaxError, ValueError):
        tree = None
    if tree is None:
        raise StudyError(
            f"{where}: a module that workers can import; given: {path!r}, which is in no file; write it to one"
        )
    tests = [node.test for node in tree.body if isinstance(node, ast.If)]
    names = {name.id for test in tests for name in ast.walk(test) if isinstance(name, ast.Name)}
    if "__name__" not in names:
        raise StudyError(
            f"{where}: workers run {Path(str(file)).name} again to import {path!r}; what it runs must stand below "
            '`if __name__ == "__main__":`, or the callable in a module of its own'
        )


def source_digest(path: str, folder: Path) -> str:
    """Digest of the source file that holds the callable, and of one in the folder that it is from; of its name without."""
    module_name, _, name = path.removesuffix("()").partition(":")
    module = _import(module_name, folder)
    own = _file_digest(module) or digest_bytes(b"name", path.encode())
    target: Any = module
    for part in name.split("."):
        target = getattr(target, part, None)
    holder = getattr(target, "__module__", None)
    if not isinstance(holder, str) or sys.modules.get(holder) is module or not is_own(holder):
        return own
    if not _lies_in(sys.modules.get(holder), folder):
        return own
    return digest_bytes(b"handed on", own.encode(), _file_digest(sys.modules[holder]).encode())


def lies_in(path: str, folder: Path) -> bool:
    """Whether the module of "package.module:name" is a file below this folder."""
    return _lies_in(_import(path.partition(":")[0], folder), folder)


def _lies_in(module: ModuleType | None, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(folder.resolve())


MOST_SENT = 16 << 20
"""Bytes of a function that go with each task to a worker."""


def name_of(function: Callable[..., Any]) -> str:
    """A function's own name; of a part of one, and of an object that can be called, what says most."""
    if isinstance(function, functools.partial):
        return f"partial({name_of(function.func)})"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return str(name or type(function).__qualname__).rpartition("<locals>.")[2]


def import_path(function: Callable[..., Any], folder: Path) -> str | None:
    """ "package.module:name" where an import finds this very object there, in another process too; else None."""
    module_name, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    module = sys.modules.get(str(module_name))
    if not isinstance(name, str) or not isinstance(module_name, str) or module is None or module_name == "__main__":
        return None
    target: Any = module
    for part in name.split("."):
        target = getattr(target, part, None)
    if target is not function or not _is_importable(module_name):
        return None
    path = f"{module_name}:{name}"
    try:
        return path if import_callable(path, folder, "mechanism.call") is function else None
    except StudyError:
        return None


# pytest's own loader changes code
_PLAIN = {"importlib", "_frozen_importlib", "_frozen_importlib_external", "zipimport"}


def _is_importable(name: str) -> bool:
    """Whether an import would find a module where this one came from, not only in this process's memory."""
    parent = name.rpartition(".")[0]
    places = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None)
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    specs = (find(name, places, None) for find in finders if find is not None)
    spec = next((spec for spec in specs if spec is not None), None)
    return spec is not None and spec.origin == origin and type(spec.loader).__module__.partition(".")[0] in _PLAIN


_held: ContextVar[Mapping[str, Any]] = ContextVar("hpcdp_held")


def held(key: str) -> Any:
    """What this call was handed by a digest or a name; None where it was handed no such thing."""
    return _held.get({}).get(key)


@dataclass(frozen=True)
class Parcel:
    """Objects that go with each call to another process, by value."""

    name: str  # of the function, for messages
    body: bytes = field(repr=False)  # a pickle of the objects, which only the processes of one run see
    digests: Mapping[str, str | None] = field(hash=False)  # of those that are functions, as they are when they leave

    @classmethod
    def of(cls, name: str, objects: Mapping[str, Any]) -> Parcel:
        """Objects as they are now; StudyError where they cannot be sent."""
        try:
            own = {module for item in objects.values() if callable(item) for module in modules_of(item)}
            body = pickled(dict(objects), own)
        except interruptions():
            raise
        except BaseException as error:  # whatever a class of someone else raises
            raise unsendable(name, describe_raised(error)) from None
        if len(body) > MOST_SENT:
            raise unsendable(
                name, f"with all that it reads it has {len(body) >> 20} MiB; accepted: at most {MOST_SENT >> 20} MiB"
            )
        return cls(name, body, {key: _digest_of(item) for key, item in objects.items()})

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """In a worker: a function of hpcdp's with these objects at hand."""
        before = _held.set(_unpacked(self))
        try:
            return function(*arguments)
        finally:
            _held.reset(before)


_pickling = threading.Lock()


def pickled(objects: Any, own: set[str]) -> bytes:
    """With functions of the user's own modules by value, as they are here; of a module that cannot be, as an import finds it."""
    with _pickling, ExitStack() as after:  # what is by value is a setting of the whole process
        for module in (sys.modules[name] for name in own if name in sys.modules and name != "__main__"):
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                after.callback(cloudpickle.unregister_pickle_by_value, module)
        try:
            return bytes(cloudpickle.dumps(objects))
        except interruptions():
            raise
        except BaseException:
            after.close()
            return bytes(cloudpickle.dumps(objects))


@lru_cache(maxsize=2)
def _unpacked(parcel: Parcel) -> Mapping[str, Any]:
    """Its objects; StudyError where this process cannot have them, or has others of their names."""
    try:
        objects: dict[str, Any] = pickle.loads(parcel.body)
    except interruptions():
        raise
    except BaseException as error:
        raise StudyError(
            f"mechanism.call: {parcel.name} cannot be had in another process: {describe_raised(error)}; {_INSTEAD}"
        ) from None
    for key, digest in parcel.digests.items():
        if digest != _digest_of(objects[key]):
            raise other_there(parcel.name)
    return objects


def _digest_of(item: Any) -> str | None:
    return digest_function(item, code_alone=True) if callable(item) else None


def unsendable(name: str, why: str) -> StudyError:
    """The error where a function cannot go to another process."""
    return StudyError(f"mechanism.call: {name} cannot be sent to another process: {why}; {_INSTEAD}")


def other_there(name: str) -> StudyError:
    """The error where a process has another function of a name than the one that was given."""
    return StudyError(
        f"mechanism.call: {name} is not the function that was given, where it is imported anew: it, or what it reads, was "
        "changed in its module since, or in this process alone; import the module again, or start this process anew"
    )


_INSTEAD = (
    'accepted: a function of a module that is found there, as "package.module:name", or "package.module:make()", which makes '
    "the function there"
)
