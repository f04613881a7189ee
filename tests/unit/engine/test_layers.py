"""The house: what lies in hpcdp/, and that imports go one way."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from layers import (
    EXCEPTIONS,
    FACADES,
    FLOORS,
    ROOT,
    entries,
    find_back_arrows,
    find_circles,
    find_parts,
    read_graph,
    read_modules,
)

import hpcdp


@pytest.fixture(scope="module", name="modules")
def modules_fixture() -> dict[str, ast.Module]:
    return read_modules()


def test_imports_go_down_and_in_no_circle(modules: dict[str, ast.Module]) -> None:
    graph = read_graph(modules)
    assert find_back_arrows(graph) == []
    assert find_circles(graph) == []


def test_the_exceptions_are_in_the_methods_that_draw(modules: dict[str, ast.Module]) -> None:
    assert sorted(EXCEPTIONS.values()) == ["Repeats.plot", "Result.plot", "Result.report"]
    for name, other in EXCEPTIONS:
        before = modules[name]
        assert other not in read_graph(modules)[name]
        moved = ast.parse(f"def f():\n    import {other}\n")
        planted = {**modules, name: ast.Module([*before.body, *moved.body], [])}
        assert f"{name} imports {other}" in find_back_arrows(read_graph(planted))


@pytest.mark.parametrize(
    "planted",
    [
        "from hpcdp.engine.driver import run",
        "def f():\n    import hpcdp.engine.driver",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from hpcdp.engine.driver import run",
        "import hpcdp",
        "def f():\n    import hpcdp.errors\n    return hpcdp.run",  # it binds hpcdp, which hands on all that is public
    ],
)
def test_an_import_that_runs_back_is_found(modules: dict[str, ast.Module], planted: str) -> None:
    found = find_back_arrows(read_graph({**modules, "hpcdp.losses.counts": ast.parse(planted)}))
    assert found
    assert all(words.startswith("hpcdp.losses.counts imports hpcdp") for words in found)


def test_a_circle_is_found(modules: dict[str, ast.Module]) -> None:
    planted = ast.parse("def f():\n    from hpcdp.results.result import Result")
    graph = read_graph({**modules, "hpcdp.results.epsilon_at": planted})
    assert any({"hpcdp.results.epsilon_at", "hpcdp.results.result"} <= set(circle) for circle in find_circles(graph))


def test_the_house_has_few_rooms_and_all_stand_on_the_map() -> None:
    names = {name.removesuffix(".py") for name in entries()}
    assert len(names - {*FACADES}) <= 20
    assert names == {entry for entries_ in FLOORS for entry in entries_}
    tree = (ROOT / "docs" / "design.md").read_text(encoding="utf-8").split("```")[1]
    assert all(f"{name}/" in tree or f"{name}.py" in tree for name in names)


@pytest.mark.parametrize("name", FACADES)
def test_a_facade_is_small(name: str) -> None:
    lines = (ROOT / "hpcdp" / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 40
    imported = {line.split()[1] for line in lines if line.startswith(("import", "from")) and "hpcdp" in line}
    assert len(imported) <= 1


def test_no_module_stands_in_the_place_of_a_public_name() -> None:
    names = {name.removesuffix(".py") for name in entries()}
    assert not names & {name for name in hpcdp.__all__ if not name.startswith("__")}


def test_files_that_the_docs_name_are_there() -> None:
    for page in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for path in re.findall(
            r"`((?:hpcdp|tests|benchmarks|workflows|slurm)/[\w./-]+)`", page.read_text(encoding="utf-8")
        ):
            if "NAME" not in path:
                assert (ROOT / Path(path)).exists(), f"{page.name}: {path}"


def test_files_that_a_part_touches_are_counted(modules: dict[str, ast.Module]) -> None:
    before = find_parts(modules)
    assert all(files for found in before.values() for files in found.values())
    planted = """
def use():
    from hpcdp.notions.renyi import orders
    from hpcdp.planning.sampling import Draw
    from hpcdp.results import literal
    return "smooth"
"""
    after = find_parts({**modules, "hpcdp.planted": ast.parse(planted)})
    grown = {
        (part, name) for part, found in after.items() for name, files in found.items() if files != before[part][name]
    }
    assert grown == {("notion", "renyi"), ("stage", "sample"), ("way", "literal"), ("loss", "smooth")}
