"""What the commands that read stores do with their parsed arguments."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from hpcdp._base.plugins import load_plugin
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


_WITHOUT = {
    "--accuracy": ("--delta",),
    "--rows": ("--delta", "--accuracy"),
    "--renyi": ("--delta", "--accuracy", "--rows"),
    "--zcdp": ("--delta", "--accuracy", "--rows"),
    "--pure": ("--delta", "--accuracy", "--renyi", "--zcdp"),
}
"""Of each option of `show` that asks for something else than the table of cells, with which others it cannot be given."""


def show(options: argparse.Namespace) -> None:
    """Print a store's results."""
    from hpcdp.results.exported import load_result

    names = ("--delta", "--accuracy", "--rows", "--renyi", "--zcdp", "--pure")
    given = [name for name in names if getattr(options, name[2:])]
    for name, others in _WITHOUT.items():
        if name in given and any(other in given for other in others):
            listed = " and ".join([", ".join(others[:-1]), others[-1]] if others[1:] else others)
            raise StudyError(f"{name}: accepted without {listed}; given: both")
    for name in ("risk", "notion"):
        if getattr(options, name, None) and given:
            raise StudyError(f"--{name}: accepted alone; given with it: {', '.join(given)}")
    if not options.rows:
        refuse_contents(options)
    result = load_result(options.store)
    if result.study.at_risk is not None:
        wrong = [*given, *(["--risk"] if options.risk else []), *(["--show-rows"] if options.show_rows else [])]
        if wrong:
            raise StudyError(
                f"{', '.join(wrong)}: accepted with a store of databases; this one is of a study with [at_risk]"
            )
    print(_view(result, options).render(options.format), end="")
    for words in result.code_warnings if options.format == "csv" else ():  # which has no place for them
        print(f"hpcdp: WARNING: {words}", file=sys.stderr)
    if options.show_rows and not options.rows:
        print_contents(result)


def _view(result: Any, options: argparse.Namespace) -> Any:
    """What is asked for; StudyError where the result does not have it."""
    if notion := getattr(options, "notion", None):
        return load_plugin("hpcdp.notions", notion).view(notion, result)
    has_cells, is_binned = result.study.counts_levels, result.study.bounds_pure
    if options.risk and not has_cells:
        raise StudyError("--risk: accepted with cells by ε, which this store has not")
    if not has_cells and (options.delta or options.accuracy or options.zcdp or (options.renyi and not is_binned)):
        raise StudyError(
            '--delta, --accuracy, --renyi, --zcdp: accepted with cells by ε, which a study with [pure] has with test = "all" '
            "only, and one of a histogram with epsilons"
        )
    if options.rows and is_binned and not has_cells:
        raise StudyError(
            "--rows: of a histogram accepted with epsilons, whose cells tell rows apart; --pure has every pair"
        )
    if options.pure or (options.rows and result.study.pure is not None):
        from hpcdp.report.pure import pure_view

        if result.study.pure is None and not is_binned:
            raise StudyError(
                '--pure: accepted with a study that has [pure] or loss = "histogram"; of others: --delta 0'
            )
        return pure_view(result, options.rows)
    if options.rows:
        from hpcdp.report.exposed import rows_view

        return rows_view(result, options.show_rows)
    if options.renyi or options.zcdp:
        return _renyi_view(result, options)
    if options.delta or options.risk or options.accuracy:
        from hpcdp.report.levels import accuracy_view, levels_view, risk_view
        from hpcdp.results.bootstrap import bootstrap

        if options.risk:
            return risk_view(result, options.risk)
        if options.delta:
            return levels_view(result, [result.epsilon_at(d, alone=len(options.delta) == 1) for d in options.delta])
        if options.format == "csv":
            raise StudyError("--accuracy: accepted with --format are table and json; given: csv")
        return accuracy_view(result, bootstrap(result))
    from hpcdp.report import printed, pure, table
    from hpcdp.report.tables import View

    csv_text = table.csv_text if result.study.at_risk is None else pure.risk_csv
    return View(result.to_dict, lambda: printed.text(result), lambda: csv_text(result))


def _renyi_view(result: Any, options: argparse.Namespace) -> Any:
    """Rényi divergences and ρ; of a histogram what its published estimate says too."""
    from hpcdp.report.levels import renyi_view
    from hpcdp.report.pure import published_renyi_view

    orders, form = options.renyi or [], options.format
    if result.study.bounds_pure and orders:
        published = published_renyi_view(result, orders)
        if not result.study.counts_levels:
            if form == "csv":
                raise StudyError(
                    "--renyi: of a histogram without epsilons accepted with --format table and json; given: csv"
                )
            return published
        if form == "table":
            print(published.text(), end="\n\n")
    return renyi_view(result, result.renyi(orders), result.zcdp() if options.zcdp else None)


def refuse_contents(options: argparse.Namespace) -> None:
    """Contents of rows are for people; what scripts read has them only with --rows."""
    if options.show_rows and options.format != "table":
        raise StudyError(f"--show-rows: accepted with --format table, or with show --rows; given: {options.format}")


def print_contents(result: Any) -> None:
    from hpcdp.report.exposed import contents_lines

    print("\n" + "\n".join(contents_lines(result)))


def plot(options: argparse.Namespace) -> None:
    """Draw a store's results."""
    from hpcdp.results.exported import load_result

    path = options.output or default_plot(options.store)
    if options.loss:
        from hpcdp.report._spectra import check_path, save
        from hpcdp.report.plots_methods import draw_loss

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
    from hpcdp.report.verdict import report, to_json, to_junit, to_markdown
    from hpcdp.report.words import claim_of
    from hpcdp.results.result import load_result
    from hpcdp.results.verdict import verify, worst
    from hpcdp.study.claims import meaning, parse_claim

    refuse_contents(options)
    claims = [parse_claim(text) for text in options.claim or ()]
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
    from hpcdp.report._spectra import check_path
    from hpcdp.report.comparison import table
    from hpcdp.report.plots import draw_comparison
    from hpcdp.results.comparison import compare
    from hpcdp.results.result import load_result, to_json

    path = options.output or options.stores[0].parent / "compare.png"
    check_path(path)
    comparison = compare([load_result(store) for store in options.stores])
    draw_comparison(comparison, path, options.log)
    if options.format == "json":
        print(to_json(comparison.to_dict() | {"plot": str(path)}))
    else:
        print(table(comparison))
        print(f"\nplot: {path}")


def mechanisms(_: argparse.Namespace) -> None:
    """List the built-in mechanisms."""
    print(describe_builtins())
