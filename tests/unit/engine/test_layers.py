"""The house: what lies in hpcdp/, and that imports go one way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest
from layers import EXCEPTIONS, FACADES, FLOORS, ROOT, entries, find_back_arrows, find_circles, read_graph, read_modules

import hpcdp

LATE = {
    # packages, whoever imports them
    "IPython": "there is one in notebooks alone",
    "cryptography": "certificates of workers alone need it",
    "dp_accounting": "an extra, which may not be installed",
    "dask": "clusters alone need it; with distributed .4 s",
    "distributed": "as dask",
    "fsspec": "copies at an address alone need it",
    "matplotlib": "pictures alone need it; .4 s, which show and verify do not have",
    "numba": "status is without; with kernels .25 s. show, verify and runs load it at once",
    "pandas": "tables that are asked for alone need it; .3 s",
    "pyarrow": "an extra, which may not be installed",
    "rich": "bars of long runs alone need it",
    "scipy.optimize": "roots and isotonic fits alone need it; .15 s, which show and verify do not have",
    "scipy.stats": "one test of trial draws needs it; .5 s",
    "shtab": "scripts of completion alone need it",
    "sklearn": "learned losses alone need it; 1 s",
    "xarray": "arrays with names that are asked for alone need it; .4 s",
    # modules and folders of hpcdp, whatever they import
    "hpcdp": "`import hpcdp` costs nothing, and each public name loads its own part",
    "hpcdp.__main__": "what cannot run hpcdp is told so before anything is loaded",
    "hpcdp.cli.*": "each command loads its own parts",
    "hpcdp.mechanisms.stored": "zarr, for arrays that others wrote alone; .2 s",
    "hpcdp.notions._draw": "matplotlib",
    "hpcdp.clusters": "a run that is local loads no dask",
    "hpcdp.engine.executors": "a run that is local loads no dask",
    "hpcdp.driver.repeats": "a picture, of a higher floor: see EXCEPTIONS",
    "hpcdp.results.result": "pictures and pages, of a higher floor: see EXCEPTIONS",
    "hpcdp.results.shown": "tables and pages, of a higher floor: see EXCEPTIONS",
    "hpcdp.driver.function": "processes start while it loads the rest: .6 s of the first `hpcdp.spectrum`",
    "hpcdp.testing.plugin": "every pytest loads it, also where no test is of privacy",
    "hpcdp.losses.*parameters": "a study is read without the code of its loss: status needs no numba, no reader needs pickles",
    # the same for kernels, in modules that status loads
    "hpcdp.mechanisms._batches": "numba",
    "hpcdp.mechanisms.outputs": "numba",
    "hpcdp.mechanisms.sparse_vector": "numba",
    "hpcdp.notions.bounds": "numba",
    "hpcdp.report.status": "numba",
    "hpcdp.study.sampler": "numba",
}
"""Imports inside functions: all that there may be, by what is imported or by what imports it, and what a command gains by them.

They are here for what a command may take on an idle machine: --help .5 s, status, show and verify 1 s, a run of a store that is
complete 1.5 s, the smallest run 2 s. An import that costs none of them that much stands at the top of its module.
"""


@pytest.fixture(scope="module", name="modules")
def modules_fixture() -> dict[str, ast.Module]:
    return read_modules()


def test_imports_go_down_and_in_no_circle(modules: dict[str, ast.Module]) -> None:
    graph = read_graph(modules)
    assert find_back_arrows(graph) == []
    assert find_circles(graph) == []


@pytest.mark.parametrize(
    "planted",
    [
        "from hpcdp.driver.driver import run",
        "def f():\n    import hpcdp.driver.driver",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from hpcdp.driver.driver import run",
        "import hpcdp",
        "def f():\n    import hpcdp.errors\n    return hpcdp.run",  # it binds hpcdp, which hands on all that is public
    ],
)
def test_an_import_that_runs_back_is_found(modules: dict[str, ast.Module], planted: str) -> None:
    found = find_back_arrows(read_graph({**modules, "hpcdp.losses.counts": ast.parse(planted)}))
    assert found
    assert all(words.startswith("hpcdp.losses.counts imports hpcdp") for words in found)


def test_exceptions_outside_of_their_methods_and_circles_are_found(modules: dict[str, ast.Module]) -> None:
    assert sorted(EXCEPTIONS.values()) == [
        "Repeats.plot",
        "Result.plot",
        "Result.report",
        "Shown.__str__",
        "Shown._repr_html_",
    ]
    for name, other in EXCEPTIONS:
        moved = ast.parse(f"def f():\n    import {other}\n")
        planted = {**modules, name: ast.Module([*modules[name].body, *moved.body], [])}
        assert f"{name} imports {other}" in find_back_arrows(read_graph(planted))
    planted = ast.parse("def f():\n    from hpcdp.results.result import Result")
    graph = read_graph({**modules, "hpcdp.results.levels": planted})
    assert any({"hpcdp.results.levels", "hpcdp.results.result"} <= set(circle) for circle in find_circles(graph))


def late_imports(modules: dict[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Of each import inside a function: the module that it is in, and what it imports."""
    for name, tree in modules.items():
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    if isinstance(node, ast.Import):
                        yield from ((name, alias.name) for alias in node.names)
                    elif isinstance(node, ast.ImportFrom):
                        yield from ((name, f"{node.module}.{alias.name}") for alias in node.names)


def entries_of(name: str, imported: str) -> set[str]:
    """Those of LATE that allow a module to import something inside a function."""
    packages = (
        {key for key in LATE if f"{imported}.".startswith(f"{key}.")} if imported.split(".")[0] != "hpcdp" else set()
    )
    return packages | {key for key in LATE if fnmatchcase(name, key)}


def test_imports_inside_functions_are_on_the_list(modules: dict[str, ast.Module]) -> None:
    found = {(name, imported): entries_of(name, imported) for name, imported in late_imports(modules)}
    assert [f"{name} imports {imported}" for (name, imported), keys in found.items() if not keys] == []
    assert LATE.keys() - set().union(*found.values()) == set()


@pytest.mark.parametrize("planted", ["import json", "import hpcdp.keys", "from hpcdp.notions import _draw"])
def test_an_import_inside_a_function_that_is_not_on_the_list_is_found(planted: str) -> None:
    tree = ast.parse(f"class A:\n    async def f(self):\n        if self:\n            {planted}")
    ((name, imported),) = late_imports({"hpcdp.losses.counts": tree})
    assert entries_of(name, imported) == set()


def test_all_rooms_stand_on_the_map_and_none_in_the_place_of_a_public_name() -> None:
    names = {name.removesuffix(".py") for name in entries()}
    assert names == {entry for floor in FLOORS for entry in floor}
    tree = (ROOT / "docs" / "design.md").read_text(encoding="utf-8").split("```")[1]
    assert all(f"{name}/" in tree or f"{name}.py" in tree for name in names)
    assert not names & {name for name in hpcdp.__all__ if not name.startswith("__")}
    for name in FACADES:
        lines = (ROOT / "hpcdp" / f"{name}.py").read_text(encoding="utf-8").splitlines()
        assert len({line.split()[1] for line in lines if re.match("(import|from) hpcdp", line)}) <= 1, name


def test_files_that_the_docs_name_are_there() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    named = r"`((?:hpcdp|tests|benchmarks|workflows|slurm)/[\w./-]+)`"
    found = [(page, path) for page in pages for path in re.findall(named, page.read_text(encoding="utf-8"))]
    assert len({page for page, _ in found}) > 3
    for page, path in found:
        assert "NAME" in path or (ROOT / path).exists(), f"{page.name}: {path}"


OF_ONE_METHOD = {
    "hpcdp.results.levels": {"hpcdp.methods.sample_split.derive"},  # whose arrays it reads
    "hpcdp.report.pure": {
        "hpcdp.methods.histogram.interval",
        "hpcdp.methods.histogram.decisions",
    },  # pure ε is told of that method too
}
"""Modules outside of methods that know a particular one, and what of it they import."""


def test_no_other_module_knows_a_particular_method() -> None:
    """Plans, tasks, records, progress and results ask `hpcdp.engine.method.Method`; so a stranger's method is as good as ours."""
    own = ("hpcdp.methods", "hpcdp.importance")
    known = {
        name: {other for other in others if other.startswith(tuple(f"{package}." for package in own))}
        for name, others in read_graph(read_modules()).items()
        if not name.startswith(own)
    }
    assert {name: others for name, others in known.items() if others} == OF_ONE_METHOD
