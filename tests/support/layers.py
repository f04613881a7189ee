"""What imports what in hpcdp/, those inside functions and for types alone too: `python -m tests.support.layers`."""

import ast
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

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
    ("engine",),
    ("methods",),
    ("importance",),
    ("results",),
    ("driver",),
    ("report",),
    ("__init__",),
    ("cli",),
    ("__main__",),
)
"""Entries of hpcdp/ from the bottom up: what an entry imports lies on floors below its own, or in itself."""

EXCEPTIONS = {
    ("hpcdp.results.result", "hpcdp.report.plots"): "Result.plot",
    ("hpcdp.results.result", "hpcdp.report.html.page"): "Result.report",
    ("hpcdp.results.shown", "hpcdp.report.notions"): "Shown.__str__",
    ("hpcdp.results.shown", "hpcdp.report.html.page"): "Shown._repr_html_",
    ("hpcdp.driver.repeats", "hpcdp.report.plots"): "Repeats.plot",
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
                    own = set(ast.walk(part))
                    rest = [n for n in ast.walk(tree) if n not in own]
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


def main() -> int:
    """Print what there is; 1 where an arrow runs back, or in a circle."""
    modules = read_modules()
    graph = read_graph(modules)
    back, circles = find_back_arrows(graph), find_circles(graph)
    arrows = {(entry_of(a), entry_of(b)) for a, others in graph.items() for b in others if entry_of(a) != entry_of(b)}
    print(f"{len(entries())} entries of hpcdp/, {len(modules)} modules on {len(FLOORS)} floors")
    print(f"{len(arrows)} arrows between entries, {len(back)} back, {len(circles)} circles")
    for words in back:
        print(f"  back: {words}")
    for circle in circles:
        print(f"  circle: {' '.join(circle)}")
    return 1 if back or circles else 0


if __name__ == "__main__":
    sys.exit(main())
