"""Importance sampling on the random tape, as a method: levels learn of every pair, then draws are weighed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp._base.rounding import at_most
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.accuracy import Statement
from hpcdp.engine.context import Context
from hpcdp.engine.index import Index, first_of
from hpcdp.engine.method import Learned, Rows, memory
from hpcdp.engine.outcomes import Report
from hpcdp.engine.series import Effort, Phase, Series
from hpcdp.engine.task import Amounts, Costs
from hpcdp.errors import MechanismError, StudyError
from hpcdp.importance.generator import draw_tape
from hpcdp.importance.kinds import Proposal
from hpcdp.importance.plan import (
    CHUNK,
    FEW,
    PARTS,
    PLAIN,
    WEIGHING,
    chosen_words,
    describe,
    how_to_ask,
    last_of,
    level_series,
    parts_of,
    tape_keys,
    tested_pairs,
)
from hpcdp.importance.result import DRAWN, INFLATED, LEFT_OUT, TapeResults
from hpcdp.importance.work import Judge, chunk_sums, learn_levels, learned_state
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.mechanisms.outputs import describe as describe_outputs
from hpcdp.methods.sample_split.targets import aim_words
from hpcdp.store.layout import Layout
from hpcdp.store.stages import Stage
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem, describe_pairs
from hpcdp.study.sampler import TRIAL_SIZE
from hpcdp.study.trial_draws import Timing, Trial, Tried, time_draws

_SHOWN = 6  # pairs and directions that are listed


def _assumptions(result: Any) -> list[str]:
    drawn = np.flatnonzero(result["tape_stage"] == DRAWN)
    by_rows = result["tape_by_rows"][drawn].astype(np.bool_)
    lines: list[str] = []
    for direction, name in enumerate(DIRECTIONS):
        without = (result["level"][drawn, direction] == 0.0).all(axis=1)
        if without.any():
            lines.append(
                f"{name}{_which(drawn, without)}: δ̂ alone, without bounds: the whole failure probability and all plain draws are "
                "for the other direction (target.direction)."
            )
    if drawn.size:
        lines.append(
            "Assumption of the certified numbers and of those up to the leftover: output i is a function of its database and of "
            "its own noise; nothing kept from other outputs enters. Checked on n = "
            f"{int(result['tape_seen'][drawn].min()):,} outputs without a difference; a dependence that shows in fewer than "
            "about 3/n of outputs, or over more than a chunk, would be missed."
        )
    if not by_rows.all():
        lines.append(
            f"one output a call{_which(drawn, ~by_rows)}: the numbers are of calls for one output; whether calls for many have "
            "the same distribution was not looked at."
        )
    if drawn.size and (result["tape_gain"][drawn] <= 1.0).any():
        where = _which(drawn, result["tape_gain"][drawn] <= 1.0)
        lines.append(f"nothing is gained by proposals{where}: plain draws were counted")
    if (declared := result.study.mechanism.impossible) is not None:
        lines.append(
            f"DECLARED, not measured (mechanism.impossible): D′ gives no output of the set {declared}. For sets inside it P(S) "
            "alone is certified: if D′ can give such an output, certified numbers are wrong."
        )
    return lines + [f"WARNING: {words}" for words in result.method.warnings(result.arrays)]


def _leftovers(result: Any) -> list[str]:
    """The leftover of the pairs and directions that tables show: plain draws, hits, limit, and what a certificate would take."""
    name = "spectrum_lower_up_to_leftover"
    places: dict[tuple[int, int], int] = {}  # with the last column that shows them
    for column in np.argsort(result["epsilon"]):
        if result[name][column] > 0.0:
            places[int(result[f"{name}_pair"][column]), int(result[f"{name}_direction"][column])] = int(column)
    lines = [_leftover(result, *place, column) for place, column in [*places.items()][:_SHOWN]]
    if len(places) > _SHOWN:
        lines.append(f"… and {len(places) - _SHOWN:,} more; JSON has the leftover of every entry")
    return lines


def _leftover(result: Any, pair: int, direction: int, column: int) -> str:
    place = (pair, direction, column)
    who = f"{result.describe_pair(pair)}, {DIRECTIONS[direction]}"
    draws, hits = (int(result[f"leftover_{name}"][place]) for name in ("draws", "hits"))
    if result["tape_declared"][pair] and direction == 0:
        return (
            f"{who}: D′ gives none of its sets, as is declared, so nothing is left over: X is certified if that is true"
        )
    if not draws and result["leftover_limit"][place] == 0.0:
        epsilon, has_none = result["epsilon"], result["leftover_limit"][pair, direction] == 0.0
        smaller = has_none[epsilon <= epsilon[column]].all()
        where = "" if has_none.all() else f"at ε {'≤' if smaller else '='} {epsilon[column]:g} "
        return f"{who}: {where}no weight is above the cut-off, so r = 0{' there' * bool(where)}: X is certified"
    limit = at_most(float(result["leftover_limit"][place]))
    met = "no hit" if hits == 0 else "1 hit" if hits == 1 else f"{hits:,} hits"
    words = f"{who}: {met} in {draws:,} plain draws of {INFLATED[direction]}: r ≤ {limit}"
    needed = float(result["tape_needed"][pair, direction])
    if needed < 0.0:
        return f"{words}; how many a certificate would take, training could not tell"
    if draws >= needed:
        return words
    asked = how_to_ask(result.study.estimate, needed)
    return f"{words}; a certificate that keeps most of δ takes about {needed:.2g} without a hit{asked}"


def _left_out(result: Any) -> list[str]:
    """Pairs that training left out of the test."""
    out = int((result["tape_stage"] == LEFT_OUT).sum())
    if not out:
        return []
    return [
        f"{out:,} of {len(result.pairs):,} pairs were left out of the test, as training showed a smaller δ̂ of them by 3 standard "
        "errors; heuristic: one of them may hold more. The bounds hold of the others, and so of the largest δ, all the same."
    ]


def _which(drawn: Any, chosen: Any) -> str:
    """Of which pairs, where not of all."""
    if bool(chosen.all()):
        return ""
    numbers: Sequence[int] = drawn[chosen].tolist()
    more = ", …" if len(numbers) > _SHOWN else ""
    return f" (pair{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:_SHOWN]))}{more})"


_ALONE = 256  # outputs of the largest timed call of a draw one by one
_MOST_TAUGHT = 4096  # ε, of which learning looks at each
_FEWEST_TAUGHT = 1 << 8  # draws of a level
_LEVELS = 12  # rounds of draws that learning takes, about
_WORDS = {"tape": "draw from proposals", "leftover": "draw the leftover"}


class ImportanceSampling(TapeResults):
    """See `Method`. A series is a part of one distribution's draws: from proposals ("tape"), or plain ones ("leftover")."""

    further_bounds = ("lower_up_to_leftover",)
    limit_kind = "asymptotic"
    basis = "rests on the assumptions that are named below"
    no_classes = "draws have weights; bounds are of the certified row, not of what is up to the leftover"

    asked = "estimate.tape = true"
    takes = frozenset({"δ target", "certify", "impossible"})
    accepted = (
        'cells by ε of given or relative pairs; keep = "none"; a loss that brings vectors to a line ("auto", "smooth", '
        '"learned"); a built-in or a callable that takes all its randomness from rng, and no timeout'
    )
    unaudited = (
        "estimate.tape: audits, sequential ones too, are of plain draws; given: true; accepted: a study without it. A claim is "
        "compared with what random tapes certify by: hpcdp verify"
    )

    def limits(self, study: Study) -> Iterator[str]:
        e = study.estimate
        if len(e.epsilons) > _MOST_TAUGHT:
            yield f"estimate.epsilons: at most {_MOST_TAUGHT:,} with tape; given: {len(e.epsilons):,}"
        if e.train < _FEWEST_TAUGHT:
            yield f"estimate.train: at least {_FEWEST_TAUGHT} with tape, of which each level teaches; given: {e.train}"
        most, key = (e.test, "test") if e.target is None else (e.target.most, "target.most")
        if most < FEW:
            yield f"estimate.{key}: at least {FEW:,} with tape, the draws of a chunk; given: {most:,}"
        yield from super().limits(study)

    def refuse_outputs(self, problem: Problem, trial: Trial) -> None:
        super().refuse_outputs(problem, trial)
        if trial.schema.kind == "bytes":
            raise StudyError(
                f"estimate.tape: of numbers and vectors of numbers; given: {describe_outputs(trial.schema)}"
            )

    def worst_errors(self, problem: Problem, epsilon: float) -> None:
        return None

    def state_accuracy(self, study: Study, columns: int | None, pairs: int, test: int | None = None) -> list[Statement]:
        return []

    def kept_stages(self, problem: Problem) -> tuple[Stage, ...]:
        return ()

    def phases(self, problem: Problem, index: Index) -> list[Phase]:
        levels = [level_series(problem, number) for number in first_of(problem.once(tape_keys)).values()]
        phases = [Phase(levels, learned="learn levels", keeps=False)]
        tested = (tested_pairs(problem, index) or {}).items()
        parts = [
            (number, choice, part) for number, choice in tested for part in parts_of(problem, index, number, choice)
        ]
        for name in PARTS:
            for number, choice, part in parts:
                if part.name == name:
                    law = problem.pair_laws[number][part.side]
                    series = Series(name, part.key, (law,), part.stage, number, item=(choice, part.side))
                    phases.append(Phase([series], counted=_WORDS[name], by_chunk=True))
        return phases

    def effort(self, problem: Problem, costs: Costs, phase: Phase) -> Effort:
        series, e, last = phase.series[0], problem.study.estimate, last_of(problem)
        if series.kind not in PARTS:
            drawing = _LEVELS * costs.drawing(e.train, -(-e.train // CHUNK)) + costs.drawing(last, -(-last // CHUNK))
            learn = 2.0 * WEIGHING * drawing + 1.0
            return Effort(0.0, 0.0, learn, learn)
        choice = series.item[0]
        seconds = costs.drawing(choice.chunk, 1 if choice.by_rows else choice.chunk)
        seconds *= WEIGHING if series.kind == "tape" else PLAIN
        return Effort(seconds, seconds)

    def is_decided(self, problem: Problem, index: Index) -> bool:
        return tested_pairs(problem, index) is not None

    def amounts(self, problem: Problem) -> Amounts:
        e = problem.study.estimate
        learning = (_LEVELS * e.train + last_of(problem)) * len(problem.laws)  # the last round, should chains be tried
        draws = learning + (0 if e.target is not None else 2 * e.test * len(problem.pairs))
        return Amounts(draws, -(-draws // CHUNK), memory(problem), e.train)

    def decides(self, problem: Problem) -> bool:
        return True

    def known_draws(self, problem: Problem, index: Index) -> int:
        tested = tested_pairs(problem, index) or {}
        return sum(choice.total(part, side) for choice in tested.values() for part in PARTS for side in (0, 1))

    def describe_plan(self, problem: Problem, costs: Costs, workers: int) -> Rows:
        target = problem.study.estimate.target
        return [] if target is None else [("target", aim_words(target))]

    def describe_choices(self, problem: Problem, index: Index, costs: Costs, workers: int) -> Rows:
        return describe(problem, index, costs, workers)

    def describe_learned(self, problem: Problem, index: Index) -> Rows:
        return chosen_words(problem, index)

    def describe_series(self, problem: Problem, series: Sequence[Series]) -> str:
        pairs = describe_pairs(problem, list(dict.fromkeys(one.pair for one in series)))
        return pairs if series[0].kind not in PARTS else f"{pairs}, {problem.describe_law(series[0].laws[0])}"

    def time_draws(self, tried: Sequence[Tried], schema: Schema, size: int) -> Timing:
        """What plain draws on random tapes cost by rows, and a call for each besides; of calls alone, where rows fail."""
        (sampler, first), *_ = tried
        most = 0 if size == TRIAL_SIZE else size  # of a timed call; 0: a chunk by rows, and some one by one

        def draw(size: int, by_rows: bool = True) -> Outputs:
            how = {"proposal": Proposal.plain(), "is_plain": True, "by_rows": by_rows}
            outputs, tape = draw_tape(sampler, first, sampler.key(first), None, 2, size, schema, **how)
            if by_rows and tape.shared:
                raise MechanismError("it draws what belongs to no output")
            return outputs

        alone = partial(draw, by_rows=False)
        alone(1)  # kernels are loaded at a first call
        many = min(_ALONE, most or _ALONE)
        apart = time_draws(alone, many)
        each = apart.per_draw + apart.per_call / many  # no call is for more than one
        try:
            draw(1)
            together = time_draws(draw, most or CHUNK)
        except MechanismError:
            return Timing(0.0, each, apart.outputs)
        return Timing(max(0.0, each - together.per_draw), together.per_draw, together.outputs)

    def files(self, problem: Problem, layout: Layout, series: Series) -> Iterable[Path]:
        return [layout.counter(problem.once(tape_keys)[series.pair], ())] if series.kind in PARTS else []

    def learn(self, context: Context, series: Series) -> Learned:
        if series.kind in PARTS:
            return Learned(None, records_facts=False)
        state, choice = learn_levels(context, series.pair)
        return Learned(None, {"choice": asdict(choice)}, file=state)

    def count_series(self, context: Context, series: Series, chunks: range, report: Report) -> dict[str, Any]:
        test = Judge(context.problem, learned_state(context, series, report), series.item[0])
        return {"chunks": list(chunk_sums(context, test, series, chunks))}

    def describe_columns(self, result: Any, sure: str) -> list[str]:
        return [
            "δ̂ ± error: the estimate, from draws of proposals with known weights, and its standard error; weights above the "
            "cut-offs are included; asymptotic. The learned sets may miss part of δ. approx ≤: the one-sided normal limit above "
            "δ̂ at the confidence level, at one ε at a time; asymptotic, no limit of δ.",
            "up to the leftover ≥ X: X alone is no bound on δ. The bound is X − e^ε·r, for all pairs, directions and ε together "
            f"with confidence {sure}; finite-sample. Draws from proposals tell nothing of outputs with a weight above the "
            "cut-off. The leftover r is the probability of such outputs in the set of X: under D′ (forward) or D (reverse).",
            f"certified ≥: δ is at least this, for all pairs, directions and ε together with confidence {sure}; finite-sample, "
            "with the limit of r that plain draws give. No number here bounds δ from above with certainty.",
        ]

    def describe_limits(self, sure: str) -> str:
        return (
            f"* δ̂ is not significantly above 0. Rows without a star are significant, all together with confidence {sure} "
            f"(asymptotic, a separate test). The number after < is δ̂ plus as many standard errors as {sure} asks for at this ε "
            "alone, and at least 24 over the number of draws (asymptotic). It limits only the learned sets; δ may be larger."
        )

    def describe_needed(self, samples: int, now: int, leftover: int | None) -> str:
        many = f"about {samples:,} draws from proposals per database (now {now:,})"
        if leftover is None:
            return (
                "Plain draws hit the leftover: more draws than now do not separate it; what is hidden may explain it."
            )
        more = (
            "; nothing is left over"
            if leftover == 0
            else f" and about {leftover:,} plain draws for the leftover without a hit"
        )
        return f"If it is real, the bound would pass the claim with {many}{more}."

    def describe_basis(self, result: Any) -> list[str]:
        return [*_leftovers(result), *_assumptions(result), *_left_out(result)]


METHOD = ImportanceSampling()
