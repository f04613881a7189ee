"""The house: what lies in hpcdp/, and that imports go one way."""

from __future__ import annotations

import ast
import re

import pytest
from layers import EXCEPTIONS, FACADES, FLOORS, ROOT, entries, find_back_arrows, find_circles, read_graph, read_modules

import hpcdp


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


def test_exceptions_outside_of_their_methods_and_circles_are_found(modules: dict[str, ast.Module]) -> None:
    assert sorted(EXCEPTIONS.values()) == ["Repeats.plot", "Result.plot", "Result.report"]
    for name, other in EXCEPTIONS:
        moved = ast.parse(f"def f():\n    import {other}\n")
        planted = {**modules, name: ast.Module([*modules[name].body, *moved.body], [])}
        assert f"{name} imports {other}" in find_back_arrows(read_graph(planted))
    planted = ast.parse("def f():\n    from hpcdp.results.result import Result")
    graph = read_graph({**modules, "hpcdp.results.epsilon_at": planted})
    assert any({"hpcdp.results.epsilon_at", "hpcdp.results.result"} <= set(circle) for circle in find_circles(graph))


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
    assert len({page for page, _ in found}) > 5
    for page, path in found:
        assert "NAME" in path or (ROOT / path).exists(), f"{page.name}: {path}"
