"""The pictures of a page: the same that `plot` draws, each with words for who cannot see it."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from hpcdp._base.rounding import at_least, share
from hpcdp.notions.implied import outline
from hpcdp.report._spectra import SHADE
from hpcdp.report._tape_spectra import CERTIFIED_WORDS as TAPE_WORDS
from hpcdp.report.colours import CERTIFIED
from hpcdp.report.html.listed import POINTS, leading_points
from hpcdp.report.html.svg import to_svg
from hpcdp.report.plots import draw_largest, draw_points, levels_of, save
from hpcdp.report.plots_at_risk import draw_sensitivities
from hpcdp.report.plots_audit import draw_audit, draw_sequential
from hpcdp.report.plots_pure import draw_limits
from hpcdp.results.audit import Audit
from hpcdp.results.composition import Spectrum
from hpcdp.results.exact import exact_of
from hpcdp.results.result import Result
from hpcdp.results.sequential import SequentialAudit

if TYPE_CHECKING:
    from hpcdp.study.claims import Claim

_SIZE = (4.9, 4.9)  # inches: about as wide as a telephone, where text is still read
_EXACT = 1000  # pairs whose exact curves are worth a wait
_WIDE = 52  # characters of a line of a legend
_BELOW = -0.5  # inches from an axis to its legend


@dataclass(frozen=True)
class Picture:
    """caption: what it shows. svg: the element, which holds the caption and the description too."""

    caption: str
    svg: str


def spectrum_pictures(result: Result, claim: Claim | None, key: str) -> list[Picture]:
    """The spectrum with a linear and with a logarithmic axis."""
    found, truth = [], None
    if len(result.pairs) <= _EXACT:  # and never by the clock: equal stores make equal pages
        truth = exact_of(result, levels_of(result), math.inf)
    for log, scale in ((False, "linear"), (True, "logarithmic")):
        figure, axis = _figure()
        draw_largest(axis, result, claim, truth, log, "")
        found.append(
            _picture(figure, f"{key}-{scale}", f"Spectrum, {scale} axis", _spectrum_words(result, claim, scale))
        )
    return found


def _spectrum_words(result: Result, claim: Claim | None, scale: str) -> str:
    rows = sorted(result.spectrum(), key=lambda row: row["epsilon"])
    if not rows:
        return "No cell has all its counts yet."
    ends = [rows[0], rows[-1]] if len(rows) > 1 else rows
    parts = [
        f"at ε = {row['epsilon']:g} δ is certified to be at least {at_least(row['lower'])}, "
        + (f"and estimated as {share(row['delta'])}" if row["resolved"] else "and its estimate is not resolved")
        for row in ends
    ]
    beside = "" if claim is None else f" Dashed: what the claim {claim.text} allows."
    region = TAPE_WORDS if result.is_tape else "The shaded region is certified"
    return f"δ against ε, {scale}: {'; '.join(parts)}. {region}.{beside} The table below has every number."


def tradeoff_picture(result: Result, claim: Claim | None, key: str) -> Picture:
    """Trade-off points, of the most exposed pairs where there are many."""
    points = leading_points(result)
    figure, axis = _figure()
    draw_points(axis, result, claim, points[:POINTS])
    axis.set_title("")
    some = "" if len(points) <= POINTS else f" of the most exposed pairs, {POINTS} of {len(points):,}"
    words = f"Type-II error against type-I error: {min(len(points), POINTS)} points{some}, with certified upper limits."
    return _picture(figure, f"{key}-tradeoff", f"Trade-off points{some}", words)


def audit_picture(audit: Audit, key: str) -> Picture:
    """The claimed curve and the box with the largest margin."""
    box = audit.worst
    words = (
        f"The claimed trade-off curve and the box of pair {box.pair}, {box.orientation}, at η = {box.eta:.4g}; its margin to the "
        f"claim is {at_least(box.margin, '+.4g')}. The table below has every box."
    )
    with _fonts():
        figure = draw_audit(audit, upright=True)
    for axis, title in zip(figure.axes, ("", "around its box"), strict=True):
        axis.set_title(title)
    return _picture(figure, f"{key}-audit", f"Audit of {audit.claim.text}", words)


def sequential_picture(audit: SequentialAudit, key: str) -> Picture:
    """The evidence against the claim after each batch, and what refutes it."""
    last = audit.looks[-1]
    words = (
        f"Evidence against the claim {audit.claim} after each of {len(audit.looks):,} looks, logarithmic: 1 at the start, "
        f"at least {at_least(last.evidence, '.4g')} after {last.samples:,} samples per database. The line at {audit.needed:g} is "
        "what refutes the claim. The table below has numbers."
    )
    with _fonts():
        figure = draw_sequential(audit)
    figure.set_size_inches(*_SIZE)
    figure.axes[0].set_title("")
    return _picture(figure, f"{key}-batches", f"Evidence against {audit.claim}", words)


def pure_picture(result: Result, key: str) -> Picture:
    """Certified limits of pure ε."""
    with _fonts():
        figure = draw_limits(result)
    figure.set_size_inches(*_SIZE)
    figure.axes[0].set_title("")
    words = "Certified limits and published figures of pure ε, pair by pair. The table below has every number."
    return _picture(figure, f"{key}-pure", "Pure ε", words)


def risk_picture(result: Result, key: str) -> Picture:
    """Sampled sensitivities."""
    with _fonts():
        figure = draw_sensitivities(result, upright=True)
    words = (
        "A histogram of sampled sensitivities and their empirical distribution, with the sensitivity of every cover."
    )
    return _picture(figure, f"{key}-risk", "Sampled sensitivities", words)


def small_picture(result: Result, claim: Claim | None, key: str) -> Picture | None:
    """The one picture of a notebook; None where nothing can be drawn."""
    if result.study.at_risk is not None:
        return risk_picture(result, key) if result.risk else None
    if result.study.counts_levels:
        return spectrum_pictures(result, claim, key)[int(result.study.estimate.has_budget or result.is_tape)]
    return pure_picture(result, key) if result.pure is not None else None


def curve_picture(spectrum: Spectrum, key: str) -> Picture:
    """A spectrum that no result has: estimates, and what its lower bounds imply."""
    figure, axis = _figure()
    ends = (float(spectrum.epsilon[0]), float(spectrum.epsilon[-1]))
    x, y = outline(spectrum.epsilon, spectrum.lower, *(ends if ends[0] < ends[1] else (0.0, 2.0 * ends[1] or 1.0)))
    axis.fill_between(x, y, 0.0, color=CERTIFIED, alpha=SHADE, linewidth=0)
    axis.plot(x, y, color=CERTIFIED, label="lower bounds: δ is on or above the line")
    axis.plot(spectrum.epsilon, spectrum.delta, "o", color=CERTIFIED, markerfacecolor="white", label="estimates")
    axis.set(xlabel="ε", ylabel="δ(ε)", ylim=(0.0, None))
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    words = f"δ against ε: {spectrum!r}. The table has numbers."
    return _picture(figure, key, "Spectrum", words)


def _fonts() -> Any:
    return matplotlib.rc_context({"font.size": 10.5, "legend.fontsize": 9.0})


def _figure() -> tuple[Any, Any]:
    with _fonts():
        figure = Figure(figsize=_SIZE, layout="constrained")
        return figure, figure.subplots()


def _picture(figure: Any, key: str, caption: str, words: str) -> Picture:
    for axis in figure.axes:
        if (legend := axis.get_legend()) is not None:  # below, where it hides nothing
            for text in legend.get_texts():
                text.set_text(textwrap.fill(text.get_text(), _WIDE))
            below = axis.transAxes + ScaledTranslation(0.0, _BELOW, figure.dpi_scale_trans)
            legend.set_loc("upper center")
            legend.set_bbox_to_anchor((0.5, 0.0), transform=below)
            legend.set_frame_on(False)
    with _fonts():
        return Picture(caption, to_svg(save(figure, None), key, caption, words))
