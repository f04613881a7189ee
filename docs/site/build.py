"""Put the pages of the site together and have Sphinx build it, strictly: `python docs/site/build.py FOLDER`.

Pages stay where readers of the repository find them; here they keep their places, so that their links to files hold, but for
names: no two pages of the site share one. Commands, study keys, API and the list of figures are generated.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from study_keys import study_keys_page

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = {
    "Start": ["docs/check-function", "docs/tutorial", "docs/which"],
    "How to": [
        *(f"docs/{name}" for name in ("python", "ci", "black-boxes", "claims", "auditing", "wild")),
        *(f"docs/{name}" for name in ("trained-models", "tiny")),
        *(f"docs/{name}" for name in ("cluster", "other-clusters")),
    ],
    "Cookbook": [f"docs/cookbook-{name}" for name in ("opendp", "diffprivlib", "opacus", "csv", "sql", "synthetic")],
    "Reference": [
        f"docs/{name}"
        for name in (
            "glossary",
            "errors",
            "commands",
            "study-keys",
            "study",
            "store",
            "exact",
            "proposals",
            "extending",
            "api",
        )
    ],
    "Gallery": ["docs/gallery"],
    "Mathematics": [
        "docs/mathematics",
        *(
            f"docs/mathematics-{name}"
            for name in ("estimator", "bounds", "claims", "orders", "risk", "draws", "accuracy", "proofs")
        ),
        "docs/papers",
    ],
    "Design": ["docs/design", "docs/design-house", "docs/benchmarks"],
    "Project": ["CONTRIBUTING", "SECURITY", "CHANGELOG"],
}
_SOURCES = {
    "hpcdp/study/described.toml": "docs/study-keys.md"
}  # what pages of the repository link to where the site has a page
_LINK = re.compile(r"(\]\()([^)\s#]*)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)
_FILES = (
    "*.toml",
    "*.csv",
    "*.json",
    "*.py",
    "*.sh",
    "*.png",
    "*.svg",
    "*.def",
    "*.lock",
    "Dockerfile",
)  # what pages link to


def page_names() -> dict[str, str]:
    """Every page of the repository that is one of the site, and its name there; both with their folders."""
    found = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
    found["SECURITY.md"] = "SECURITY.md"
    found |= {f"docs/{page.name}": f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))}
    for page in sorted((ROOT / "workflows").rglob("README.md")):
        place = page.parent.relative_to(ROOT).as_posix()
        found[f"{place}/README.md"] = f"{place}/{place.rpartition('/')[2]}.md"
    return found


def relink(text: str, page: str, names: dict[str, str]) -> str:
    """A page whose links to renamed pages have their new names; blocks of code stay."""

    def change(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[2])) if link[2] else page
        if "://" in link[2] or path not in names:
            return link[0]
        new = posixpath.relpath(names[path], posixpath.dirname(names[page]) or ".")
        return f"{link[1]}{new if link[2] else ''}{link[3]}"

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(change, part) for part in parts)


def stage(source: Path) -> None:
    """Write all that Sphinx reads into an empty folder."""
    names = page_names()
    for page, name in names.items():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = relink((ROOT / page).read_text(encoding="utf-8"), page, names | _SOURCES)
        target.write_text(text, encoding="utf-8")
    for folder in ("workflows", "slurm", "containers", "docs/images"):
        for pattern in _FILES:
            for file in (ROOT / folder).rglob(pattern):
                copy = source / file.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
    shutil.copyfile(ROOT / "LICENSE", source / "LICENSE")
    generated = {"commands": commands_page, "study-keys": study_keys_page, "api": api_page}
    for name, make in {**generated, "gallery": lambda: gallery_page(names)}.items():
        (source / "docs" / f"{name}.md").write_text(make(), encoding="utf-8")
    home = source / "index.md"
    home.write_text(_home(home.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copyfile(Path(__file__).with_name("conf.py"), source / "conf.py")


def _home(readme: str) -> str:
    """The README without its list of pages, which the menu has, and the menu."""
    before, _, after = readme.partition("## Documentation\n")
    text = before + after[after.index("Apache License") :]
    for caption, pages in SECTIONS.items():
        listed = "\n".join(pages)
        text += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"
    return text


def gallery_page(names: dict[str, str]) -> str:
    """Every picture of the workflows, with a link to its chapter; and the pages of workflows, for the menu."""
    lines = ["# Gallery", "", "Each picture is of runs of hpcdp; its page has study, command and what came out.", ""]
    pages = [page for page in names if page.startswith("workflows/")]
    for page in pages:
        title, _, text = (ROOT / page).read_text(encoding="utf-8").removeprefix("# ").partition("\n")
        place = posixpath.dirname(page)
        chapters = [chapter.partition("\n") for chapter in text.split("\n## ")[1:]]
        pictures = [
            (head, found[1]) for head, _, rest in chapters if (found := re.search(r"!\[[^\]]*\]\(([^)]+)\)", rest))
        ]
        if pictures:
            lines += [f"## {title}", ""]
        for head, picture in pictures:
            chapter = f"../{names[page]}#{head.lower().replace(' ', '-')}"
            lines += [f"[![{title}, {head}](../{place}/{picture})]({chapter})", "", f"[{head}]({chapter})", ""]
    listed = [f"/{names[page].removesuffix('.md')}" for page in pages]
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", *listed, "```", ""])


def commands_page() -> str:
    """Every command with its arguments, as its `--help` has them."""
    from hpcdp.cli.arguments import make_parser

    lines = [
        "# Commands",
        "",
        "What `hpcdp COMMAND --help` prints. [Which command?](which.md) begins with what you want.",
        "",
    ]
    for name, parser in _commands(make_parser()):
        help_text = _formatted(parser)
        lines += [f"## {name}", "", f"```text\n{help_text.rstrip()}\n```", ""]
    return "\n".join(lines)


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _formatted(parser: argparse.ArgumentParser) -> str:
    """Help of a width that does not depend on the terminal."""
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=84)  # type: ignore[assignment]
    return parser.format_help()


def api_page() -> str:
    """What `import hpcdp` offers, from docstrings."""
    import hpcdp

    said = "All that is public. Docstrings say which bound is finite-sample, asymptotic or heuristic."
    lines = ["# Python API", "", said, ""]
    kinds: dict[str, Callable[[object], bool]] = {
        "Functions": lambda value: not isinstance(value, type),
        "Classes": lambda value: isinstance(value, type) and not issubclass(value, Exception),
        "Exceptions": lambda value: isinstance(value, type) and issubclass(value, Exception),
    }
    public = [name for name in hpcdp.__all__ if not name.startswith("_")]
    for title, belongs in kinds.items():
        lines += [f"## {title}", ""]
        for name in public:
            value = getattr(hpcdp, name)
            if belongs(value):
                directive = {"Functions": "autofunction", "Exceptions": "autoexception"}.get(title, "autoclass")
                members = "\n   :members:" if title == "Classes" else ""
                lines += [f"### {name}", "", "```{eval-rst}", f".. {directive}:: hpcdp.{name}{members}", "```", ""]
    return "\n".join(lines)


def build(folder: Path) -> int:
    """Build the site into a folder; warnings, and links that lead nowhere, fail it. Returns Sphinx's exit code."""
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    stage(source)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-d", str(folder / "read")]
    return subprocess.call([*command, str(source), str(folder / "html")], env={**os.environ, "PYTHONPATH": str(ROOT)})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/site/build.py FOLDER")
    sys.exit(build(Path(sys.argv[1])))
