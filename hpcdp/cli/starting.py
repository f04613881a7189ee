"""What a new user asks for first: a study and a mechanism to change, completion for a shell, the schema of study files."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from importlib.resources import files
from pathlib import Path

from hpcdp.errors import StudyError

_FUNCTION = "the mechanism, a Python function"
_BESIDE: dict[str, tuple[str, dict[str, str]]] = {
    "function": ("in Python", {"noisy_mean.py": _FUNCTION}),
    "table": (
        "a CSV file that loses each of its rows in turn",
        {"largest_count.py": _FUNCTION, "people.csv": "the table, whose rows are removed one after the other"},
    ),
    "program": (
        "in any language",
        {
            "noisy_program.py": "the mechanism, a program in an environment of its own",
            "serve.py": "the program's side of hpcdp's protocol",
        },
    ),
    "models": (
        "that are trained again and again",
        {"training.py": "the training, whose models are the mechanism's outputs"},
    ),
    "slurm": (
        "a function, on a cluster",
        {"noisy_mean.py": _FUNCTION, "site.toml": "the cluster profile, with every key explained"},
    ),
}
MEANT = {kind: meant for kind, (meant, _) in _BESIDE.items()}
"""Of each kind what a mechanism is there."""

KINDS = {
    kind: ("audit" if kind == "models" else "run", {f"{kind}.toml": "the study"} | beside)
    for kind, (_, beside) in _BESIDE.items()
}
"""What `hpcdp init` writes: by kind the command that runs its study, the first file, and every file with what it is."""

SHELLS = ("bash", "zsh", "fish")
_FILES = ("STUDY", "PROFILE", "FILE", "WHERE")  # what arguments that name files are called
_FOLDERS = ("STORE", "PATH", "FOLDER")
_PYTHON = '"@PYTHON@"'  # in a template: the Python that runs hpcdp


def init(options: argparse.Namespace) -> None:
    """Write a study and what it needs into a folder, and say the next command. What is there already is never overwritten."""
    command, described = KINDS[options.kind]
    folder: Path = options.folder
    if folder.exists() and not folder.is_dir():
        raise StudyError(f"--folder: a folder, or what is not there yet; given: {folder}, which is a file")
    texts = {name: _template(name) for name in described}
    kept = {name for name in texts if (folder / name).exists() or (folder / name).is_symlink()}
    other = sorted(name for name in kept if not _holds(folder / name, texts[name]))
    if other:
        raise StudyError(
            f"init: {', '.join(str(folder / name) for name in other)}: there already, and nothing is overwritten; "
            "nothing was written; give another --folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in texts.keys() - kept:
        with (folder / name).open("x", encoding="utf-8") as file:  # which fails where one came in between
            file.write(texts[name])
    width = max(map(len, described))
    for name, text in described.items():
        print(f"{name:{width}}  {text}{' (exists already, unchanged)' if name in kept else ''}")
    there = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    print(f"next: {there}hpcdp {command} {next(iter(described))}")


def schema(_options: argparse.Namespace) -> None:
    """Print the JSON Schema of study files."""
    from hpcdp.study.schema import study_schema

    print(json.dumps(study_schema(), indent=2, ensure_ascii=False))


def completion(options: argparse.Namespace) -> None:
    """Print a shell's script of completions, made from the parser of all arguments."""
    import shtab

    (group,) = (action for action in options.parser._actions if isinstance(action, argparse._SubParsersAction))
    for command in group.choices.values():
        for action in command._actions:
            if action.metavar in _FILES + _FOLDERS:
                setattr(action, "complete", shtab.FILE if action.metavar in _FILES else shtab.DIRECTORY)  # noqa: B010
    print(shtab.complete(options.parser, options.shell))


def _template(name: str) -> str:
    """What a file of `hpcdp init` holds."""
    place = files("hpcdp") / name if name == "serve.py" else files("hpcdp.cli") / "templates" / name
    return place.read_text(encoding="utf-8").replace(_PYTHON, json.dumps(sys.executable, ensure_ascii=False))


def _holds(path: Path, text: str) -> bool:
    """Whether a file is there that holds this very text."""
    return path.is_file() and path.read_bytes() == text.encode()
