"""Functions that are given as objects: what they are called, where they are found, and how they reach other processes.

A store holds a function's name and digest, and never the function: what tasks of a run need besides the store goes with each
of them, by value.
"""

from __future__ import annotations

import functools
import pickle
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import cloudpickle

from hpcdp._base.raised import describe_raised, interruptions
from hpcdp.errors import StudyError
from hpcdp.mechanisms.code_digest import digest_function, modules_of
from hpcdp.mechanisms.user_code import import_callable

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


_PLAIN = {
    "importlib",
    "_frozen_importlib",
    "_frozen_importlib_external",
    "zipimport",
}  # pytest's own loader changes code


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
    """Objects that go with each call to another process, by value. name: of the function, for messages. body: a pickle of the
    objects, which only the processes of one run see. digests: of those that are functions, as they are when they leave.
    """

    name: str
    body: bytes = field(repr=False)
    digests: Mapping[str, str | None] = field(hash=False)

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
