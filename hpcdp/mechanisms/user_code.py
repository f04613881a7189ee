"""Callables by import path, with the study's folder importable.

A process that lives long, such as a worker of somebody's Dask cluster, serves many studies: modules of studies' folders are
imported anew, with all that they import from there, when the file of one changed, or when this study's folder has another
module or package of the same name.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import runpy
import sys
import threading
import time
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from hpcdp._base.doing import at_risk
from hpcdp._base.messages import did_you_mean
from hpcdp._base.raised import Blamed, describe_raised, interruptions
from hpcdp.errors import StudyError
from hpcdp.keys import digest_bytes


def import_callable(path: str, folder: Path, where: str) -> Callable[..., Any]:
    """The callable at "package.module:name", or what "package.module:make()" returns; StudyError says why it cannot be had.

    where: the key that names it.
    """
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
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            meant = did_you_mean(part, [own for own in dir(found) if not own.startswith("_")])
            raise StudyError(f"{where}: module {module_name!r} has no {name!r}{meant}")
        found = getattr(found, part)
    if path.endswith("()"):
        with Blamed(f"{where}: {path}", failure=StudyError), at_risk(f"{where} {path}"):
            found = found()
    if not callable(found):
        raise StudyError(f"{where}: a callable; given: {path!r}, a {type(found).__name__}")
    return found


def _module_meant(error: BaseException, module_name: str, folder: Path) -> str:
    """Which module of the study's folder was meant, perhaps, where the named one, or a package of it, is not there."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is None or not f"{module_name}.".startswith(f"{missing}."):
        return ""
    package = missing.rpartition(".")[0]
    own = [path for path in folder.joinpath(*package.split(".")).glob("*") if path.suffix == ".py" or path.is_dir()]
    return did_you_mean(missing, [f"{package}.{path.stem}".lstrip(".") for path in own if path.stem.isidentifier()])


# Modules that came from here, and what they imported from studies' folders, with the digests of their sources then.
_imported: dict[str, str] = {}
_folders: set[Path] = set()  # of studies
_loaded: set[str] = set()  # all modules at the last look
_looked = 0.0  # when that was
_lock = threading.RLock()


def _import(module_name: str, folder: Path) -> ModuleType:
    """The module as it is now, with the study's folder first on the import path."""
    with _lock:
        text = str(folder)
        if text in sys.path:
            sys.path.remove(text)
        sys.path.insert(0, text)
        importlib.invalidate_caches()
        _note()
        _forget_if_other(folder)
        _folders.add(folder.resolve())
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # bytecode may be older than a change it misses
        try:
            if module_name == "__main__" and sys.modules["__main__"].__name__ == "__mp_main__":
                _run_main()
            module = importlib.import_module(module_name)
        finally:
            sys.dont_write_bytecode = before
            _note()
        _imported.setdefault(module_name, _file_digest(module))
        return module


def _run_main() -> None:
    """In a child process, have what the driver's main script defines."""
    main = sys.modules["__main__"]
    main.__dict__.update(runpy.run_path(str(main.__file__), run_name="__mp_main__") | {"__name__": "__main__"})


def _note() -> None:
    """Remember what was imported from studies' folders since the last look, by functions that import when they are called too."""
    global _looked
    new = sys.modules.keys() - _loaded
    if _folders:
        for name in filter(_is_of_a_study, new):
            # of a file that was written since, nobody knows what was imported: it counts as changed
            is_known = Path(str(sys.modules[name].__file__)).stat().st_mtime <= _looked
            _imported[name] = _file_digest(sys.modules[name]) if is_known else ""
    _loaded.update(new)
    _looked = time.time()


def _is_of_a_study(name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    if (
        file is None
        or not Path(file).is_file()
        or name.partition(".")[0] in ("__main__", "__mp_main__", "hpcdp")
        or "site-packages" in Path(file).parts
    ):
        return False
    return not _folders.isdisjoint(Path(file).resolve().parents)


def _forget_if_other(folder: Path) -> None:
    """Drop what was imported here if an import would now find another file, or another text in one of them."""
    loaded = [name for name in _imported if name in sys.modules and name != "__main__"]
    changed = {name for name in loaded if _file_digest(sys.modules[name]) != _imported[name]}
    tops = {name.partition(".")[0] for name in loaded}
    if changed or any(_has_moved(name, folder) for name in tops):
        for name in {name for name in loaded if _is_of_a_study(name)} | changed:
            del sys.modules[name], _imported[name]
            _loaded.discard(name)


def _has_moved(name: str, folder: Path) -> bool:
    """Whether this folder has a module or package of this name that is not the one that is loaded."""
    module, own = sys.modules.get(name), PathFinder.find_spec(name, [str(folder)])
    if module is None or own is None:
        return False
    if own.origin is not None:
        return own.origin != getattr(module, "__file__", None)
    files = [
        getattr(sys.modules[m], "__file__", None) for m in _imported if m.startswith(f"{name}.") and m in sys.modules
    ]
    places = [Path(place) for place in own.submodule_search_locations or ()]
    return any(not any(Path(file).is_relative_to(place) for place in places) for file in files if file is not None)


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
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    holder = getattr(found, "__module__", None)
    if not isinstance(holder, str) or sys.modules.get(holder) is module or not _is_of_a_study(holder):
        return own
    return digest_bytes(b"handed on", own.encode(), _file_digest(sys.modules[holder]).encode())


def lies_in(path: str, folder: Path) -> bool:
    """Whether the module of "package.module:name" is a file below this folder."""
    file = getattr(_import(path.partition(":")[0], folder), "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(folder.resolve())
