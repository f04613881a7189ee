"""How large folders and hpcdp's packages are: python -m tests.size [FOLDER …], of hpcdp and tests where none is named.

Lines are all lines. Tokens are those that do something: no comments, docstrings, ends of lines or indents.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

_QUIET = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
Size = tuple[int, int, int, int]


def size_of(text: str) -> Size:
    """Of one file: lines, tokens, statements, and 1 file."""
    nodes = list(ast.walk(ast.parse(text)))
    bodies = [
        node.body
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    docstrings = {body[0].lineno for body in bodies if body and _is_text(body[0])}
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in _QUIET]
    told = [token for token in tokens if token.type != tokenize.STRING or token.start[0] not in docstrings]
    return len(text.splitlines()), len(told), sum(isinstance(node, ast.stmt) for node in nodes) - len(docstrings), 1


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def sizes_of(folders: list[str]) -> dict[str, Size]:
    """Of each folder, and of each package directly below it that has one."""
    found: dict[str, Size] = {}
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.py")):
            size = size_of(path.read_text(encoding="utf-8"))
            inner = path.relative_to(folder).parts[:-1]
            for name in {
                folder,
                f"  {folder}/{inner[0]}" if inner and (Path(folder) / "__init__.py").exists() else folder,
            }:
                lines, tokens, statements, files = found.get(name, (0, 0, 0, 0))
                found[name] = (lines + size[0], tokens + size[1], statements + size[2], files + size[3])
    return found


if __name__ == "__main__":
    rows = sizes_of(sys.argv[1:] or ["hpcdp", "tests"])
    width = max(map(len, rows), default=6)
    print(f"{'folder':{width}}  {'lines':>8} {'tokens':>8} {'statements':>10} {'files':>6}")
    for name, (lines, tokens, statements, files) in rows.items():
        print(f"{name:{width}}  {lines:8,} {tokens:8,} {statements:10,} {files:6,}")
