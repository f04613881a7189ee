"""What imports what in hpcdp/, those inside functions and for types alone too: `python -m tests.support.layers`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path

from hpcdp.losses import LOSSES
from hpcdp.planning.task import Work
from hpcdp.study.ways import WAYS

ROOT = Path(__file__).resolve().parents[2]

FACADES = ("at_risk", "lipschitz", "patterns")
"""Modules that only hand on what is public, each of at most 40 lines."""

FLOORS = (
    ("errors", "keys", "_check", "serve", "patterns"),
    ("_base",),
    ("mechanisms",),
    ("analytic", "losses", "store"),
    ("notions",),
    ("study", "at_risk", "lipschitz"),
    ("testing",),
    ("clusters",),
    ("planning",),
    ("results",),
    ("engine",),
    ("report",),
    ("__init__",),
    ("cli",),
    ("__main__",),
)
"""Entries of hpcdp/ from the bottom up: what an entry imports lies on floors below its own, or in itself."""

EXCEPTIONS = {
    ("hpcdp.results.result", "hpcdp.report.plots"): "Result.plot",
    ("hpcdp.results.result", "hpcdp.report.html.page"): "Result.report",
    ("hpcdp.engine.repeats", "hpcdp.report.plots"): "Repeats.plot",
}
"""Imports upwards, each inside the method that it is for."""

Graph = Mapping[str, set[str]]


def read_modules(root: Path = ROOT) -> dict[str, ast.Module]:
    """Every module of hpcdp/ by its dotted name."""
    found = {}
    for path in sorted((root / "hpcdp").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text())
    return found


def imports_of(name: str, tree: ast.AST, modules: Iterable[str]) -> set[str]:
    """The modules of hpcdp that a module, or a part of it, imports anywhere."""
    known, found = set(modules), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            found |= {
                "hpcdp" for alias in node.names if alias.asname is None and alias.name[:6] == "hpcdp."
            }  # which it binds
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports by a relative name"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (whole & known) or {str(node.module)}
            found |= {str(node.module)} if not whole <= known else set()
    return {other for other in found if other.split(".")[0] == "hpcdp"} - {name}


def read_graph(modules: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """What each module imports, but for the exceptions."""
    graph = {name: imports_of(name, tree, modules) for name, tree in modules.items()}
    for (name, other), method in EXCEPTIONS.items():
        if other in graph.get(name, ()) and other in _imports_of_method(modules[name], method, modules):
            graph[name] = graph[name] - {other}
    return graph


def _imports_of_method(tree: ast.Module, method: str, modules: Iterable[str]) -> set[str]:
    """What one method alone imports; empty where something else of the module imports it too."""
    kind, name = method.split(".")
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == kind:
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == name:
                    rest = [n for n in ast.walk(tree) if n not in set(ast.walk(part))]
                    flat = ast.Module([n for n in rest if isinstance(n, (ast.Import, ast.ImportFrom))], [])
                    return imports_of("", part, modules) - imports_of("", flat, modules)
    return set()


def entry_of(module: str) -> str:
    """The entry of hpcdp/ in which a module lies."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def find_back_arrows(graph: Graph) -> list[str]:
    """Imports that do not go down, in words."""
    floor = {entry: number for number, entries in enumerate(FLOORS) for entry in entries}
    found = []
    for name, others in graph.items():
        for other in sorted(others):
            here, there = entry_of(name), entry_of(other)
            if here != there and (here not in floor or there not in floor or floor[there] >= floor[here]):
                found.append(f"{name} imports {other}")
    return found


def find_circles(graph: Graph) -> list[list[str]]:
    """Modules that import each other, by way of others too."""
    reached = {name: _reach(graph, name) for name in graph}
    circles = {
        frozenset(o for o in reached[name] if name in reached.get(o, ())) for name in graph if name in reached[name]
    }
    return sorted(sorted(circle) for circle in circles)


def _reach(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for other in graph.get(waiting.pop(), ()):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def entries(root: Path = ROOT) -> list[str]:
    """What lies in hpcdp/, but for py.typed and what Python leaves there."""
    return sorted(p.name for p in (root / "hpcdp").iterdir() if p.name not in ("py.typed", "__pycache__"))


def find_parts(modules: Mapping[str, ast.Module]) -> dict[str, dict[str, set[str]]]:
    """Files that each way, loss, notion and stage of work touches: its own, those that import them, those that name it."""
    graph = {name: imports_of(name, tree, modules) for name, tree in modules.items()}
    texts = {name: _texts(tree) for name, tree in modules.items()}
    names = {name: _names(tree) for name, tree in modules.items()}

    def touched(own: Iterable[str], word: str = "") -> set[str]:
        mine = {name for name in modules if any(f"{name}.".startswith(f"{part}.") for part in own)}
        naming = {name for name in modules if graph[name] & mine or (word and word in texts[name])}
        return mine | naming

    named = {way.name: {way.planning, way.results, way.engine} for way in WAYS.values()}
    notions = [name for name in modules if name.startswith("hpcdp.notions.") and "._" not in name]
    kinds = {name: type(kind).__module__.rpartition(".")[0] for name, kind in LOSSES.items()}
    for way in WAYS.values():
        import_module(way.planning)
    work = {task.kind: task.__name__ for task in Work.__subclasses__() if task.__module__ in modules}
    return {
        "way": {name: touched(own & modules.keys(), name) for name, own in named.items()},
        "loss": {name: touched([package], name) for name, package in kinds.items()},
        "notion": {name.rpartition(".")[2]: touched([name]) for name in notions},
        "stage": {kind: {name for name in modules if task in names[name]} for kind, task in work.items()},
    }


def _texts(tree: ast.AST) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _names(tree: ast.AST) -> set[str]:
    imported = {a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names}
    return imported | {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def main() -> int:
    """Print what there is; 1 where an arrow runs back, or in a circle."""
    modules = read_modules()
    graph = read_graph(modules)
    back, circles = find_back_arrows(graph), find_circles(graph)
    arrows = {(entry_of(a), entry_of(b)) for a, others in graph.items() for b in others if entry_of(a) != entry_of(b)}
    print(f"{len(entries())} entries of hpcdp/, {len(modules)} modules on {len(FLOORS)} floors")
    print(f"{len(arrows)} arrows between entries, {len(back)} back, {len(circles)} circles")
    for part, found in find_parts(modules).items():
        print(f"files that a {part} touches: {', '.join(f'{name} {len(files)}' for name, files in found.items())}")
    for words in back:
        print(f"  back: {words}")
    for circle in circles:
        print(f"  circle: {' '.join(circle)}")
    return 1 if back or circles else 0


if __name__ == "__main__":
    sys.exit(main())
