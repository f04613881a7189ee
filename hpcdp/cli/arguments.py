"""What the commands accept."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from hpcdp import __version__
from hpcdp._base.files import parse_toml
from hpcdp._base.plugins import plugins
from hpcdp.cli import auditing, reading, running, starting
from hpcdp.errors import WRONG
from hpcdp.notions.renyi import LARGEST_ORDER, ORDER


class _Parser(argparse.ArgumentParser):
    def __init__(self, **given: Any) -> None:
        super().__init__(allow_abbrev=False, **given)

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized") and " --claim" in message:  # as in run STUDY --claim "dp(epsilon=1)"
            message += (
                '; a claim stands in the study, [study] claim = "…"; or after the run: hpcdp verify STORE --claim CLAIM'
            )
        elif message.startswith("unrecognized") and re.search(
            r"\w\(.*\)", message
        ):  # as in verify STORE "dp(epsilon=1)"
            message += "; a claim follows --claim"
        self.exit(WRONG, f"{self.prog}: {message}; see {self.prog} --help\n")


class _EitherWay(argparse.BooleanOptionalAction):
    """--NAME or --no-NAME, and not both."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        before = getattr(namespace, self.dest)
        super().__call__(parser, namespace, values, option_string)
        if before not in (None, getattr(namespace, self.dest)):
            parser.error(f"{' and '.join(self.option_strings)}: accepted: one of them; given: both")


def _number(kind: Callable[[str], Any], holds: Callable[[Any], bool], accepted: str) -> Callable[[str], Any]:
    """A reader of numbers for which something holds; of others it says what is accepted."""

    def read(text: str) -> Any:
        try:
            value = kind(text) + 0  # no −0
        except ValueError:
            value = math.nan
        if not holds(value):
            raise argparse.ArgumentTypeError(f"{accepted}; given: {text!r}")
        return value

    return read


def _place(text: str) -> Path | str:
    """A path; an address as it is, since a path merges its slashes."""
    return text if "://" in text else Path(text)


TYPES: Mapping[str, Callable[[str], Any]] = {
    "path": Path,
    "place": _place,
    "positive": _number(int, lambda value: value >= 1, "a positive integer"),
    "count": _number(int, lambda value: value >= 0, "0 or a positive integer"),
    "delta": _number(float, lambda value: 0.0 <= value < 1.0, "a number from 0 to below 1"),
    "risk": _number(float, lambda value: 0.0 <= value < math.inf, "a finite number, at least 0"),
    "order": _number(
        float, lambda value: 1.0 <= value <= LARGEST_ORDER, f"an order of {ORDER}; for the infinite order: --pure"
    ),
}


CHOICES: Mapping[str, Callable[[], list[str]]] = {
    "kinds": lambda: [*starting.KINDS],
    "shells": lambda: [*starting.SHELLS],
    "forms": lambda: ["table", "json", "csv", *plugins("hpcdp.renderers")],
    "notions": lambda: [*plugins("hpcdp.notions")],
}


def make_parser() -> argparse.ArgumentParser:
    """The parser of `hpcdp`, by commands.toml; `command` of what it parses is the function that does the work."""
    parser = _Parser(prog="hpcdp", description="Measure how private a mechanism really is.")
    parser.add_argument("--version", action="version", version=f"hpcdp {__version__}")
    group = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    table = parse_toml((files("hpcdp.cli") / "commands.toml").read_text(encoding="utf-8"))
    for told in table["commands"]:
        command = group.add_parser(told["name"], help=told["text"], description=told["text"])
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
        module = {"starting": starting, "auditing": auditing, "running": running, "reading": reading}[told["module"]]
        command.set_defaults(command=getattr(module, told["name"].replace("-", "_")), parser=parser)
        _accept(command, told["accepts"], table["shared"])
    return parser


def _accept(command: Any, accepted: Sequence[Any], shared: Mapping[str, Any]) -> None:
    """Let a command, or a group of its arguments, accept what the table says."""
    for argument in accepted:
        if isinstance(argument, str):
            _accept(command, shared[argument], shared)
        elif "one_of" in argument:
            _accept(command.add_mutually_exclusive_group(required=True), argument["one_of"], shared)
        else:
            given = _given(argument)
            if given.get("choices") != []:  # no package offers any
                command.add_argument(*given.pop("names").split(), **given)


def _given(argument: Mapping[str, Any]) -> dict[str, Any]:
    """An argument of the table as argparse takes it."""
    given = dict(argument)
    if isinstance(given.get("choices"), str):
        given["choices"] = CHOICES[given["choices"]]()
    if "type" in given:
        given["type"] = TYPES[given["type"]]
    if given.get("action") == "either":
        given["action"] = _EitherWay
    if "help" in given:
        kinds = ", ".join(f"{kind} ({meant})" for kind, meant in starting.MEANT.items())
        words = given["help"].replace("{kinds}", kinds).replace("{shells}", " | ".join(starting.SHELLS))
        given["help"] = words or argparse.SUPPRESS
    return given
