"""What the commands that read stores do with their parsed arguments."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from hpcdp.errors import DONE, FAILED, VIOLATED, StudyError
from hpcdp.mechanisms import describe_builtins
from hpcdp.results.shown import VIOLATION
from hpcdp.store.root import resume_command


def default_plot(store: Path | str, suffix: str = ".png") -> Path:
    """Beside a store; of a copy at an address in the current folder."""
    if isinstance(store, str):
        return Path((store.partition("://")[2].rstrip("/").rpartition("/")[2] or "copy") + suffix)
    return store.with_suffix(suffix)


def status(options: argparse.Namespace) -> None:
    """Print what is done and to do."""
    from hpcdp.report.status import status

    print(status(options.store))


_NOTIONS = ("delta", "accuracy", "rows", "renyi", "zcdp", "pure", "risk", "notion")
"""Options of `show` that ask for something else than what is printed without."""


def show(options: argparse.Namespace) -> None:
    """Print a store's results."""
    from hpcdp.report.notions import refuse_together, show_as
    from hpcdp.results.load import load_result

    if not options.rows:
        refuse_contents(options)
    asked = {name: getattr(options, name, None) for name in _NOTIONS}
    refuse_together(asked)
    result = load_result(options.store)
    print(show_as(result, options.format, asked, options.show_rows), end="")
    for words in result.code_warnings if options.format == "csv" else ():  # which has no place for them
        print(f"hpcdp: WARNING: {words}", file=sys.stderr)
    if options.show_rows and not options.rows:
        print_contents(result)


def refuse_contents(options: argparse.Namespace) -> None:
    """Contents of rows are for people; what scripts read has them only with --rows."""
    if options.show_rows and options.format != "table":
        raise StudyError(f"--show-rows: accepted with --format table, or with show --rows; given: {options.format}")


def print_contents(result: Any) -> None:
    """What is in the most exposed rows; StudyError where pairs have no rows."""
    from hpcdp.report.exposed import contents_table

    table = contents_table(result)
    if table.entries:
        print("\n".join(["", table.caption, *table.lines()]))


def plot(options: argparse.Namespace) -> None:
    """Draw a store's results."""
    from hpcdp.report._spectra import check_path, save
    from hpcdp.results.load import load_result

    path = options.output or default_plot(options.store)
    check_path(path)
    if options.loss:
        from hpcdp.report.plots_methods import draw_loss

        result = load_result(options.store)
        save(draw_loss(result), path, result.code_warnings)
    else:
        load_result(options.store).plot(path, options.log)
    print(path)


def report(options: argparse.Namespace) -> None:
    """Write a page of one or several stores."""
    from hpcdp.report._spectra import check_path
    from hpcdp.report.html.page import PAGES, write_page
    from hpcdp.results.load import load_result

    path = options.output or default_plot(options.stores[0], ".html")
    check_path(path, PAGES)
    write_page([load_result(store) for store in options.stores], path, options.show_rows)
    print(path)


def export(options: argparse.Namespace) -> None:
    """Write a store's results for others."""
    from hpcdp.report.export import write_export
    from hpcdp.results.load import load_result

    for words in write_export(load_result(options.store), options.folder, options.show_rows):
        print(f"hpcdp: {words}", file=sys.stderr)
    print(options.folder)


def verify(options: argparse.Namespace) -> int:
    """Check claims against a store's results; the exit code."""
    from hpcdp.report.verdict import report, to_json, to_junit, to_markdown
    from hpcdp.results.load import load_store
    from hpcdp.results.verdict import verify, worst
    from hpcdp.study.claims import meaning, parse_claim

    refuse_contents(options)
    claims: list[Any] = [parse_claim(text) for text in options.claim or ()]
    result = load_store(options.store)
    if not claims and result.claim is None:
        raise StudyError("--claim: none was given, and the study makes none; accepted: such as laplace(epsilon=1)")
    verdicts = [verify(result, claim) for claim in claims or [None]]
    ranking = None
    if len(claims) > 1 and "spectrum" in result.notions:
        from hpcdp.results.ranking import rank

        ranking = rank(result, claims)
    if options.format == "junit":
        print(to_junit(verdicts, options.incomplete))
    elif options.format == "markdown":
        print(to_markdown(verdicts))
    else:
        print(to_json(verdicts, ranking) if options.format == "json" else report(verdicts, ranking))
    if options.show_rows:
        print_contents(result)
    judged = {meaning(verdict.claim.text) for verdict in verdicts}
    for audit in (audit for audit in result.sequential_audits if meaning(audit.claim) in judged):
        print(
            f"hpcdp: the sequential audit of {audit.claim} in this store, a family of its own: {audit.verdict}; hpcdp show "
            "says more",
            file=sys.stderr,
        )
    if worst(verdicts).verdict == VIOLATION:
        return VIOLATED
    if result.complete or options.incomplete:
        return DONE
    print(
        f"hpcdp: {options.store} is not complete: {verdicts[0].cells_words} have all their counts; go on with: "
        f"{resume_command(options.store)}, or accept what there is with --incomplete",
        file=sys.stderr,
    )
    return FAILED


def compare(options: argparse.Namespace) -> None:
    """Draw and compare several stores' spectra."""
    from hpcdp.report._spectra import check_path
    from hpcdp.report.plots import draw_comparison
    from hpcdp.report.spectrum import table
    from hpcdp.results.comparison import compare
    from hpcdp.results.load import load_store
    from hpcdp.results.result import to_json

    path = options.output or options.stores[0].parent / "compare.png"
    check_path(path)
    comparison = compare([load_store(store) for store in options.stores])
    draw_comparison(comparison, path, options.log)
    if options.format == "json":
        print(to_json(comparison.to_dict() | {"plot": str(path)}))
    else:
        print(table(comparison))
        print(f"\nplot: {path}")


def mechanisms(_: argparse.Namespace) -> None:
    """List the built-in mechanisms."""
    print(describe_builtins())
