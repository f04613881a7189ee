"""Faults that the tests must find: `python -m benchmarks.mutation draw`, then `run all COMMAND…` in a clean clone.

`draw` prints 60 faults at lines of functions of hpcdp/, drawn uniformly from a seed. mutations.json holds those, of which the
first 30 count that tests reach and whose change can be seen, and ten that were chosen. `run` makes one after the other and runs
the command, which must stop at its first red test.
"""

from __future__ import annotations

import ast
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix("").parent / "mutations.json"
SEED, DRAWN = 20261127, 60
OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"), ast.And: ("and", "or"), ast.Or: ("or", "and"), ast.Is: ("is", "is not"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any", "ceil": "floor",
         "floor": "ceil", "exp": "log", "log1p": "log", "expm1": "exp"}  # fmt: skip


def sites(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, its text and the changed text, of each fault that a file of code may have, of one line each."""
    lines = path.read_text().splitlines()
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            for statement in function.body:
                for node in ast.walk(statement):
                    for line, start, stop, new in changes(node, lines):
                        text = lines[line - 1]
                        yield line, text, text[:start] + new + text[stop:]


def changes(node: ast.AST, lines: list[str]) -> Iterator[tuple[int, int, int, str]]:
    """Line, columns and new text of the changes of one node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from between(node.left, node.ops[0], node.comparators[0], lines)
    elif isinstance(node, ast.BinOp):
        yield from between(node.left, node.op, node.right, lines)
    elif isinstance(node, ast.BoolOp):
        yield from between(node.values[0], node.op, node.values[1], lines)
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        new = str(not node.value) if isinstance(node.value, bool) else repr(node.value + 1)
        yield node.lineno, node.col_offset, node.end_col_offset or 0, new
    elif (
        isinstance(node, ast.Name | ast.Attribute) and (name := getattr(node, "attr", getattr(node, "id", ""))) in NAMES
    ):
        end = node.end_col_offset or 0
        yield node.end_lineno or 0, end - len(name), end, NAMES[name]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.lineno == node.end_lineno:
        yield node.lineno, node.col_offset, node.end_col_offset or 0, "pass"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.lineno, node.col_offset, node.operand.col_offset, ""


def between(
    left: ast.expr, operator: ast.AST, right: ast.expr, lines: list[str]
) -> Iterator[tuple[int, int, int, str]]:
    """The change of an operator that stands on the line where its left side ends."""
    old, new = OPERATORS.get(type(operator), ("", ""))
    start = left.end_col_offset or 0
    stop = (
        right.col_offset
        if right.lineno == left.end_lineno
        else len(lines[left.end_lineno - 1])
        if left.end_lineno
        else 0
    )
    text = lines[(left.end_lineno or 1) - 1][start:stop]
    if old and text.isascii() and (at := text.find(old)) >= 0:
        yield left.end_lineno or 0, start + at, start + at + len(old), new


def draw() -> list[dict[str, object]]:
    """Faults at lines that are drawn one after the other, each line as likely as every other, and at each a fault."""
    found: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for path in sorted((ROOT / "hpcdp").rglob("*.py")):
        for line, before, after in sites(path):
            if before.isascii() and before != after:
                found.setdefault((str(path.relative_to(ROOT)), line), []).append((before.strip(), after.strip()))
    rng = random.Random(SEED)
    places = rng.sample(sorted(found), DRAWN)
    return [
        dict(zip(("file", "line", "before", "after"), (*place, *rng.choice(found[place])), strict=True))
        for place in places
    ]


def run(command: list[str], numbers: list[int]) -> None:
    """Make faults one by one, and print of each whether the command finds it, and after which time."""
    if subprocess.run(
        ["git", "status", "--porcelain", "hpcdp"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout:
        sys.exit("hpcdp/ has changes that are not committed")
    faults = json.loads(LIST.read_text())
    for number in numbers or range(len(faults)):
        fault = faults[number]
        path = ROOT / fault["file"]
        whole = path.read_text()
        lines = whole.split("\n")
        same = [n for n, line in enumerate(lines) if line.strip() == fault["before"]]
        if not same:
            sys.exit(f"fault {number}: {fault['file']} no longer has the line {fault['before']}")
        at = min(same, key=lambda n: abs(n + 1 - fault["line"]))  # lines before it may have come or gone
        lines[at] = lines[at].replace(fault["before"], fault["after"])
        began = time.monotonic()
        try:
            path.write_text("\n".join(lines))
            ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        finally:
            path.write_text(whole)
        red = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))][:1]
        word = "found" if ended.returncode else "missed"
        print(
            f"{number} {word} {time.monotonic() - began:.0f} s {fault['file']}:{fault['line']} {' '.join(red)[:120]}",
            flush=True,
        )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["draw"]:
            print(json.dumps(draw(), indent=1))
        case ["run", which, *words] if words and re.fullmatch(r"all|\d+(,\d+)*", which):
            run(words, [] if which == "all" else [int(word) for word in which.split(",")])
        case given:
            print(__doc__, "`all` may be numbers of faults instead, such as 0,7.", sep="\n")
            sys.exit(0 if given in (["-h"], ["--help"]) else 2)
