"""Somebody who follows a page of the documentation: does what its code blocks say, and compares what they print.

A comment before a fenced block says what is done with it: `file: NAME` writes it, `python` runs it as a script, `output`
compares it with what the script before printed, `run` runs the lines that begin with "$ " as commands and compares what
they print with the lines below them (`run: exit 2`: the last one ends with that code, and stderr is compared), `not run: …`
says why not. "..." stands for any text in a line or, alone on its line, for any lines. A comment `after: PAGE …` says that
a page goes on in the folders of others, `packages: FILE` that its folder `env` is an environment with these packages, which
hpcdp's own Python finds too with `, imported`.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import LONG
from loaded import load_script

from hpcdp._base.threads import worker_environment

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{name}" for name in DOCS)]
BLOCK = re.compile(r"(?:^<!-- (?P<note>[^\n]+?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
_AFTER = re.compile(r"^<!-- after: (.+) -->$", re.M)
_PACKAGES = re.compile(r"^<!-- packages: (\S+?)(, imported)? -->$", re.M)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. note: the comment before it, empty without one."""

    page: str
    note: str
    language: str
    text: str


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def read_blocks(page: str) -> list[Block]:
    """All fenced blocks of a page in order."""
    return [Block(page, m["note"] or "", m["language"], m["text"]) for m in BLOCK.finditer(_text(page))]


def slug(heading: str) -> str:
    """The anchor that a heading gets on the usual hosts."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def pages_before(page: str) -> list[str]:
    """Names of the pages of docs/ in whose folders a page goes on."""
    found = _AFTER.search(_text(page))
    return found[1].split() if found else []


def agrees(expected: str, found: str) -> bool:
    """Whether a text is what a page says, up to "..." and space at the ends of lines."""
    lines = [line.rstrip() for line in expected.strip("\n").splitlines()]
    pattern = "".join(r"(?:.*\n)*?" if x == "..." else re.escape(x).replace(r"\.\.\.", ".*") + "\n" for x in lines)
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in found.strip("\n").splitlines())) is not None


def install_packages(page: str, folder: Path) -> str:
    """Make `env` below a folder as a page says; where hpcdp's own Python finds the packages that it lacks, or nothing."""
    found = _PACKAGES.search(_text(page))
    if found is None:
        return ""
    environments = load_script("environments", ROOT / "workflows" / "wild" / "environments.py")
    root = Path(tempfile.gettempdir()) / f"hpcdp-libraries-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    try:
        made = environments.make_environment(ROOT / found[1], "3.11", root)
    except environments.CannotInstall as error:
        if os.environ.get("HPCDP_REQUIRE_LIBRARIES") == "1":
            raise
        pytest.skip(f"{page}: {error}")
    (folder / "env").symlink_to(made)
    if not found[2]:
        return ""
    beside = folder / ".bin" / "beside"
    beside.mkdir()
    (site,) = made.glob("lib/python*/site-packages")
    for package in site.iterdir():  # and what is told of them, such as their versions
        name = package.name.partition("-")[0]
        if package.is_dir() and name.isidentifier() and importlib.util.find_spec(name) is None:
            (beside / package.name).symlink_to(package)
    return str(beside)


class Reader:
    """Somebody who follows a page in an empty folder."""

    def __init__(self, folder: Path, page: str | None = None) -> None:
        self.folder, self.printed = folder, ""
        binaries = folder / ".bin"
        binaries.mkdir()
        exports = "".join(f"export {name}={value}\n" for name, value in worker_environment().items())
        for name, text in {
            "python": f'exec "{sys.executable}" "$@"',
            "hpcdp": f'{exports}exec "{sys.executable}" -m hpcdp "$@"',
        }.items():
            (binaries / name).write_text(f"#!/bin/sh\n{text}\n")
            (binaries / name).chmod(0o755)
        beside = "" if page is None else install_packages(page, folder)
        paths = [str(ROOT), *filter(None, [beside, os.environ.get("PYTHONPATH")])]
        self.environment = {
            **os.environ,
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(paths),
        }
        if page is None or not _PACKAGES.search(_text(page)):  # libraries warn as they like
            self.environment["PYTHONWARNINGS"] = "error"

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=LONG, check=False
        )

    def follow(self, block: Block) -> Iterator[tuple[str, int, int, str, str]]:
        """Do what the block's note says; yields (command, exit code said and found, text said and found)."""
        if block.note.startswith("file: "):
            (self.folder / block.note.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
        elif block.note == "python":
            script = self.folder / "block.py"
            script.write_text(block.text, encoding="utf-8")
            done = self.call(sys.executable, str(script))
            self.printed = done.stdout
            yield "python", 0, done.returncode, "", "" if done.returncode == 0 else done.stderr
        elif block.note == "output":
            yield "the block before", 0, 0, block.text, self.printed
        elif block.note.startswith("run"):
            yield from self._commands(block)

    def _commands(self, block: Block) -> Iterator[tuple[str, int, int, str, str]]:
        assert block.text.startswith("$ ")
        parts = [part.partition("\n") for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]]
        last = int(block.note.partition("exit ")[2] or 0)
        for number, (command, _, said) in enumerate(parts):
            done = self.call("sh", "-c", command)
            code = last if number == len(parts) - 1 else 0
            found = done.stdout if done.returncode == 0 else done.stderr
            yield command, code, done.returncode, said, found


class Follower:
    """Follows pages, each once and to its end, in folders of their own. base: an empty folder, which holds them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.folders: dict[str, Path] = {}

    def follow(self, page: str) -> Path:
        """The folder in which a page was followed."""
        if page not in self.folders:
            before = [self.follow(f"docs/{name}") for name in pages_before(page)]
            folder = self.folders[page] = self.base / page.replace("/", "-")
            folder.mkdir()
            reader = Reader(folder, page)
            for other in before:
                shutil.copytree(other, folder, ignore=shutil.ignore_patterns(".bin"), dirs_exist_ok=True)
            for block in read_blocks(page):
                for command, code_said, code, said, found in reader.follow(block):
                    assert code == code_said, f"{page}: {command}\n{found}"
                    assert not said or agrees(said, found), f"{page}: {command}\nprinted\n{found}"
        return self.folders[page]

    def made(self, page: str, *endings: str) -> set[str]:
        """Files with these endings that the page itself made, by their places in its folder."""
        folder = self.follow(page)
        before = [self.follow(f"docs/{name}") for name in pages_before(page)]
        found = {path.relative_to(folder) for path in folder.rglob("*") if path.suffix in endings}
        return {str(path) for path in found if not any(_are_equal(folder / path, other / path) for other in before)}


def _are_equal(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()
