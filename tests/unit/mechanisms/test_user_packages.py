"""Modules and packages of studies' folders are imported without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdp.mechanisms.user_code import import_callable


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


VALUE = "def value():\n    return {}\n"
LAYOUTS = {
    "a module": ("one:value", {"one.py": VALUE}),
    "a module that imports another": (
        "two:value",
        {"two.py": f"from two_helper import number\n\n{VALUE.format('number')}", "two_helper.py": "number = {}\n"},
    ),
    "a module that imports when it is called": (
        "late:value",
        {
            "late.py": "def value():\n    import late_helper as l\n    return l.number\n",
            "late_helper.py": "number = {}\n",
        },
    ),
    "a package that hands it on": (
        "handed:value",
        {"handed/__init__.py": "from handed.impl import value\n", "handed/impl.py": VALUE},
    ),
    "a folder without __init__": ("spaces.impl:value", {"spaces/impl.py": VALUE}),
}


@pytest.mark.parametrize("path, files", LAYOUTS.values(), ids=LAYOUTS)
def test_they_are_imported_without_a_trace(path: str, files: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, {name: text.format(22) for name, text in files.items()})
    found = import_callable(path, tmp_path, "here")
    assert import_callable(path, tmp_path, "here") is found
    assert not list(tmp_path.rglob("__pycache__"))
    assert found() == 22
