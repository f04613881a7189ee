"""Importance sampling on the random tape, as a method: levels learn of every pair, then draws are weighed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hpcdp.engine.accuracy import Statement
from hpcdp.engine.context import Context
from hpcdp.engine.index import Index, first_of
from hpcdp.engine.method import Learned, Rows, memory
from hpcdp.engine.outcomes import Report
from hpcdp.engine.series import Effort, Phase, Series
from hpcdp.engine.task import Amounts, Costs
from hpcdp.errors import MechanismError, StudyError
from hpcdp.importance import words
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
    last_of,
    level_series,
    parts_of,
    tape_keys,
    tested_pairs,
)
from hpcdp.importance.result import TapeResults
from hpcdp.importance.work import Judge, chunk_sums, learn_levels, learned_state
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.mechanisms.outputs import describe as describe_outputs
from hpcdp.methods.sample_split.foreseen import aim_words
from hpcdp.store.layout import Layout
from hpcdp.store.stages import Stage
from hpcdp.study._timing import Timing, time_draws
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem, describe_pairs
from hpcdp.study.sampler import TRIAL_SIZE
from hpcdp.study.trial_draws import Trial, Tried

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
        return Learned(None, {"choice": choice.to_dict()}, file=state)

    def count_series(self, context: Context, series: Series, chunks: range, report: Report) -> dict[str, Any]:
        test = Judge(context.problem, learned_state(context, series, report), series.item[0])
        return {"chunks": list(chunk_sums(context, test, series, chunks))}

    def describe_columns(self, result: Any, sure: str) -> list[str]:
        return words.describe_columns(sure)

    def describe_limits(self, sure: str) -> str:
        return words.describe_limits(sure)

    def describe_needed(self, samples: int, now: int, leftover: int | None) -> str:
        return words.describe_needed(samples, now, leftover)

    def describe_basis(self, result: Any) -> list[str]:
        return words.describe_basis(result)


METHOD = ImportanceSampling()
