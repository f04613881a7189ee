"""Callables by import path, with the study's folder importable.

What draws is a process of one run alone, so that a module which it has imported is the one that the study names.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from hpcdp._base.doing import at_risk
from hpcdp._base.messages import did_you_mean
from hpcdp._base.raised import Blamed, describe_raised, interruptions
from hpcdp.errors import StudyError
from hpcdp.keys import digest_bytes
from hpcdp.mechanisms.code_digest import is_own


def import_callable(path: str, folder: Path, where: str) -> Callable[..., Any]:
    """The callable at "package.module:name", or what "package.module:make()" returns; StudyError says why it cannot be had.

    where: the key that names it.
    """
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
    """StudyError where a function cannot be called with such arguments, as far as its signature tells.

    key, path: that name it. accepted: how it is called, in words.
    """
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
            _run_main()
        return importlib.import_module(module_name)
    finally:
        sys.dont_write_bytecode = before


def _run_main() -> None:
    """In a child process, have what the driver's main script defines."""
    main = sys.modules["__main__"]
    main.__dict__.update(runpy.run_path(str(main.__file__), run_name="__mp_main__") | {"__name__": "__main__"})


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
    """Digest of the source file that holds the callable, or of its name where there is no such file.

    Where a module of a study's folder hands on what another one there defines, of both files.
    """
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
