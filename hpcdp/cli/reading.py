"""What the commands that read stores do with their parsed arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpcdp.errors import DONE, FAILED, VIOLATED, StudyError
from hpcdp.mechanisms import describe_builtins
from hpcdp.results.decision import VIOLATION
from hpcdp.store.again import resume_command


def default_plot(store: Path | str, suffix: str = ".png") -> Path:
    """Beside a store; of a copy at an address in the current folder."""
    if isinstance(store, str):
        return Path((store.partition("://")[2].rstrip("/").rpartition("/")[2] or "copy") + suffix)
    return store.with_suffix(suffix)


def status(options: argparse.Namespace) -> None:
    """Print what is done and to do."""
    from hpcdp.report.status import status

    print(status(options.store))


def show(options: argparse.Namespace) -> None:
    """Print a store's results."""
    from hpcdp.report.at_risk import csv_text as risk_text
    from hpcdp.report.printed import text
    from hpcdp.report.table import csv_text
    from hpcdp.results.exported import load_result

    if options.accuracy and options.delta:
        raise StudyError("--accuracy: accepted without --delta; given: both")
    if options.rows and (options.delta or options.accuracy):
        raise StudyError("--rows: accepted without --delta and --accuracy; given: both")
    if (options.renyi or options.zcdp) and (options.delta or options.accuracy or options.rows):
        which = "--renyi" if options.renyi else "--zcdp"
        raise StudyError(f"{which}: accepted without --delta, --accuracy and --rows; given: both")
    if options.pure and (options.delta or options.accuracy or options.renyi or options.zcdp):
        raise StudyError("--pure: accepted without --delta, --accuracy, --renyi and --zcdp; given: both")
    others = {
        "--delta": options.delta,
        "--accuracy": options.accuracy,
        "--rows": options.rows,
        "--renyi": options.renyi,
    }
    given = [name for name, value in (others | {"--zcdp": options.zcdp, "--pure": options.pure}).items() if value]
    if options.risk and given:
        raise StudyError(f"--risk: accepted alone; given with it: {', '.join(given)}")
    if not options.rows:
        refuse_contents(options)
    result = load_result(options.store)
    if result.study.at_risk is not None:
        wrong = [*given, *(["--risk"] if options.risk else []), *(["--show-rows"] if options.show_rows else [])]
        if wrong:
            raise StudyError(
                f"{', '.join(wrong)}: accepted with a store of databases; this one is of a study with [at_risk]"
            )
    if options.risk:
        _show_risk(result, options.risk, options.format)
        if options.show_rows:
            print_contents(result)
        return
    of_levels = options.delta or options.accuracy or options.zcdp or (options.renyi and not result.study.bounds_pure)
    if of_levels and not result.study.counts_levels:
        raise StudyError(
            '--delta, --accuracy, --renyi, --zcdp: accepted with cells by ε, which a study with [pure] has with test = "all" '
            "only, and one of a histogram with epsilons"
        )
    if options.rows and result.study.bounds_pure and not result.study.counts_levels:
        raise StudyError(
            "--rows: of a histogram accepted with epsilons, whose cells tell rows apart; --pure has every pair"
        )
    if options.pure or (options.rows and result.study.pure is not None):
        _show_pure(result, options)
    elif options.rows:
        _show_rows(result, options.format, options.show_rows)
    elif options.delta:
        _show_levels(result, options.delta, options.format)
    elif options.renyi or options.zcdp:
        _show_renyi(result, options.renyi or [], options.zcdp, options.format)
    elif options.accuracy:
        _show_accuracy(result, options.format)
    else:
        lines = risk_text if result.study.at_risk is not None else csv_text
        _print(result, options.format, result.to_json, lambda: lines(result), lambda: text(result))
    if options.show_rows and not options.rows:
        print_contents(result)


def refuse_contents(options: argparse.Namespace) -> None:
    """Contents of rows are for people; what scripts read has them only with --rows."""
    if options.show_rows and options.format != "table":
        raise StudyError(f"--show-rows: accepted with --format table, or with show --rows; given: {options.format}")


def print_contents(result: Any) -> None:
    from hpcdp.report.rows import contents_lines

    print("\n" + "\n".join(contents_lines(result)))


def _show_rows(result: Any, form: str, contents: bool) -> None:
    from hpcdp.report.rows import csv_text, rank_rows, table, to_json

    ranking = rank_rows(result)
    given = (result, ranking, contents)
    _print(result, form, lambda: to_json(*given), lambda: csv_text(*given), lambda: table(*given))


def _show_pure(result: Any, options: argparse.Namespace) -> None:
    from hpcdp.report import histogram
    from hpcdp.report.pure import csv_text, rows_table, table, to_json

    if result.study.pure is None and not result.study.bounds_pure:
        raise StudyError('--pure: accepted with a study that has [pure] or loss = "histogram"; of others: --delta 0')
    if result.study.bounds_pure:
        csv_text, table = histogram.csv_text, histogram.table
    text = rows_table if options.rows else table
    _print(result, options.format, lambda: to_json(result), lambda: csv_text(result), lambda: text(result))


def _print(
    result: Any, form: str, to_json: Callable[[], str], csv_text: Callable[[], str], table: Callable[[], str]
) -> None:
    """What is asked for, in its form; CSV ends its last line itself, and has no place for what is said of a whole store."""
    print({"json": to_json, "csv": csv_text, "table": table}[form](), end="" if form == "csv" else "\n")
    for words in result.code_warnings if form == "csv" else ():
        print(f"hpcdp: WARNING: {words}", file=sys.stderr)


def _show_levels(result: Any, deltas: list[float], form: str) -> None:
    from hpcdp.report.epsilon_at import csv_text, table, to_json

    levels = [result.epsilon_at(delta, alone=len(deltas) == 1) for delta in deltas]
    _print(result, form, lambda: to_json(result, levels), lambda: csv_text(levels), lambda: table(result, levels))


def _show_risk(result: Any, epsilons: list[float], form: str) -> None:
    from hpcdp.report.risk import csv_text, find_levels, table, to_json

    if not result.study.counts_levels:
        raise StudyError("--risk: accepted with cells by ε, which this store has not")
    levels = find_levels(result, epsilons)
    _print(result, form, lambda: to_json(result, levels), lambda: csv_text(levels), lambda: table(result, levels))


def _show_renyi(result: Any, orders: list[float], zcdp: bool, form: str) -> None:
    from hpcdp.report.renyi import csv_text, table, to_json

    if result.study.bounds_pure and orders:
        from hpcdp.report.histogram import renyi_json, renyi_lines

        if not result.study.counts_levels:
            if form == "csv":
                raise StudyError(
                    "--renyi: of a histogram without epsilons accepted with --format table and json; given: csv"
                )
            print(renyi_json(result, orders) if form == "json" else renyi_lines(result, orders))
            return
        if form == "table":
            print(renyi_lines(result, orders), end="\n\n")
    levels, rho = result.renyi(orders), result.zcdp() if zcdp else None
    _print(
        result,
        form,
        lambda: to_json(result, levels, rho),
        lambda: csv_text(levels, rho),
        lambda: table(result, levels, rho),
    )


def _show_accuracy(result: Any, form: str) -> None:
    from hpcdp.report.accuracy import table, to_json
    from hpcdp.results.bootstrap import bootstrap

    if form == "csv":
        raise StudyError("--accuracy: accepted with --format are table and json; given: csv")
    errors = bootstrap(result)
    print(to_json(errors) if form == "json" else table(result, errors))


def plot(options: argparse.Namespace) -> None:
    """Draw a store's results."""
    from hpcdp.results.exported import load_result

    path = options.output or default_plot(options.store)
    if options.loss:
        from hpcdp.report.plots import check_path, save
        from hpcdp.report.plots_pure import draw_loss

        check_path(path)
        result = load_result(options.store)
        save(draw_loss(result), path, result.code_warnings)
    else:
        load_result(options.store).plot(path, options.log)
    print(path)


def report(options: argparse.Namespace) -> None:
    """Write a page of one or several stores."""
    from hpcdp.report.html.page import check_page_path, write_page
    from hpcdp.results.exported import load_result

    path = options.output or default_plot(options.stores[0], ".html")
    check_page_path(path)
    write_page([load_result(store) for store in options.stores], path, options.show_rows)
    print(path)


def export(options: argparse.Namespace) -> None:
    """Write a store's results for others."""
    from hpcdp.report.export import write_export
    from hpcdp.results.exported import load_result

    for words in write_export(load_result(options.store), options.folder, options.show_rows):
        print(f"hpcdp: {words}", file=sys.stderr)
    print(options.folder)


def verify(options: argparse.Namespace) -> int:
    """Check claims against a store's results; the exit code."""
    from hpcdp.report.table import claim_of
    from hpcdp.report.verdict import report, to_json
    from hpcdp.report.verdict_formats import to_junit, to_markdown
    from hpcdp.results.result import load_result
    from hpcdp.results.verdict import verify, worst
    from hpcdp.study.claims import meaning, parse_claim

    refuse_contents(options)
    claims = [parse_claim(text, Path.cwd()) for text in options.claim or ()]
    result = load_result(options.store)
    own = claim_of(result) if not claims else None
    if not claims and own is None:
        raise StudyError("--claim: none was given, and the study makes none; accepted: such as laplace(epsilon=1)")
    verdicts = [verify(result, claim) for claim in ([own] if own is not None else claims)]
    ranking = None
    if len(claims) > 1 and result.study.counts_levels:
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
    judged = {meaning(one.claim.text) for one in verdicts}
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
    import json

    from hpcdp.report.comparison import table
    from hpcdp.report.plots import check_path, draw_comparison
    from hpcdp.results.comparison import compare
    from hpcdp.results.result import load_result

    path = options.output or options.stores[0].parent / "compare.png"
    check_path(path)
    comparison = compare([load_result(store) for store in options.stores])
    draw_comparison(comparison, path, options.log)
    if options.format == "json":
        print(json.dumps(comparison.to_dict() | {"plot": str(path)}, allow_nan=False, ensure_ascii=False))
    else:
        print(table(comparison))
        print(f"\nplot: {path}")


def mechanisms(_: argparse.Namespace) -> None:
    """List the built-in mechanisms."""
    print(describe_builtins())
