"""The pictures of a page: the same that `plot` draws, each with words for who cannot see it, as inline SVG."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from hpcdp._base.rounding import at_least, share
from hpcdp.notions.epsilon_at import outline
from hpcdp.report._spectra import SHADE, save
from hpcdp.report.colours import CERTIFIED
from hpcdp.report.plots import draw_largest, draw_points, levels_of
from hpcdp.report.plots_methods import FIGURES, draw_audit, draw_sensitivities, draw_sequential
from hpcdp.report.spectrum import POINTS, leading_points
from hpcdp.results.audit import Audit
from hpcdp.results.comparison import exact_of
from hpcdp.results.composition import Spectrum
from hpcdp.results.result import Result
from hpcdp.results.sequential import SequentialAudit
from hpcdp.study.claims import Claim

ElementTree.register_namespace("", "http://www.w3.org/2000/svg")

_SIZE = (4.9, 4.9)  # inches: about as wide as a telephone, where text is still read
_WIDE = 52  # characters of a line of a legend
_BELOW = -0.5  # inches from an axis to its legend
_SVG, _LINK = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
_FONT_SIZE = re.compile(r"(\d+(?:\.\d+)?)px")
_USED = re.compile(r"(?:^|url\()#([^)]+)")
_STYLE = re.compile(r"([\w-]+)\s*:\s*([^;]*[^;\s])")


@dataclass(frozen=True)
class Picture:
    """caption: what it shows. svg: the element, which holds the caption and the description too."""

    caption: str
    svg: str


def spectrum_pictures(result: Result, claim: Claim | None, key: str) -> list[Picture]:
    """The spectrum with a linear and with a logarithmic axis."""
    pictures, truth = [], exact_of(result, levels_of(result))
    for log, scale in ((False, "linear"), (True, "logarithmic")):
        figure, axis = _figure()
        draw_largest(axis, result, claim, truth, log, "")
        pictures.append(
            _picture(figure, f"{key}-{scale}", f"Spectrum, {scale} axis", _spectrum_words(result, claim, scale))
        )
    return pictures


def _spectrum_words(result: Result, claim: Claim | None, scale: str) -> str:
    rows = sorted(result.spectrum(), key=lambda row: row["epsilon"])
    if not rows:
        return "No entry has all its counts yet."
    ends = [rows[0], rows[-1]] if len(rows) > 1 else rows
    parts = [
        f"at ε = {row['epsilon']:g} δ is certified to be at least {at_least(row['lower'])}, "
        + (
            f"and estimated as {share(row['delta'])}"
            if row["resolved"]
            else "and its estimate is not significantly above 0"
        )
        for row in ends
    ]
    beside = "" if claim is None else f" Dashed: what the claim {claim.text} allows."
    region = "The shaded region is certified"
    return f"δ against ε, {scale}: {'; '.join(parts)}. {region}.{beside} The table below has every number."


def tradeoff_pictures(result: Result, claim: Claim | None, key: str) -> list[Picture]:
    """Trade-off points, of the most exposed pairs where there are many."""
    points = leading_points(result)
    figure, axis = _figure()
    draw_points(axis, result, claim, points[:POINTS])
    axis.set_title("")
    which = "" if len(points) <= POINTS else f" of the most exposed pairs, {POINTS} of {len(points):,}"
    words = (
        f"Type-II error against type-I error: {min(len(points), POINTS)} points{which}, with certified upper limits."
    )
    return [_picture(figure, f"{key}-tradeoff", f"Trade-off points{which}", words)]


def audit_picture(audit: Audit, key: str) -> Picture:
    """The claimed curve and the box with the largest margin."""
    box = audit.worst
    words = (
        f"The claimed trade-off curve and the box of pair {box.pair}, {box.orientation}, at η = {box.eta:.4g}; its margin to the "
        f"claim is {at_least(box.margin, '+.4g')}. The table below has every box."
    )
    titles = ("", "close-up of the confidence rectangle")
    return _redrawn(
        lambda: draw_audit(audit, upright=True), f"{key}-audit", f"Audit of {audit.claim.text}", words, titles
    )


def sequential_picture(audit: SequentialAudit, key: str) -> Picture:
    """The evidence against the claim after each batch, and what refutes it."""
    last = audit.looks[-1]
    words = (
        f"Evidence against the claim {audit.claim} after each of {len(audit.looks):,} looks, logarithmic: 1 at the start, "
        f"at least {at_least(last.evidence, '.4g')} after {last.samples:,} samples per database. The line at {audit.needed:g} is "
        "what refutes the claim. The table below has numbers."
    )
    return _redrawn(lambda: draw_sequential(audit), f"{key}-batches", f"Evidence against {audit.claim}", words)


def pure_pictures(result: Result, _: Claim | None, key: str) -> list[Picture]:
    """Certified limits of pure ε."""
    words = "Certified limits and published figures of pure ε, pair by pair. The table below has every number."
    return [_redrawn(lambda: FIGURES[result.notions[0]](result), f"{key}-pure", "Pure ε", words)]


def risk_pictures(result: Result, _: Claim | None, key: str) -> list[Picture]:
    """Sampled sensitivities."""
    words = (
        "A histogram of sampled sensitivities and their empirical distribution, with the sensitivity of every cover."
    )
    return [
        _redrawn(lambda: draw_sensitivities(result, upright=True), f"{key}-risk", "Sampled sensitivities", words, ())
    ]


def _redrawn(drawing: Callable[[], Any], key: str, caption: str, words: str, titles: Sequence[str] = ("",)) -> Picture:
    """What `plot` draws too, as a page has it. titles: of its first axes, in place of their own."""
    with _fonts():
        figure = drawing()
    if len(figure.axes) == 1:
        figure.set_size_inches(*_SIZE)
    for axis, title in zip(figure.axes, titles, strict=False):
        axis.set_title(title)
    return _picture(figure, key, caption, words)


DRAWN: Mapping[str, Callable[[Result, Claim | None, str], list[Picture]]] = {
    "spectrum": spectrum_pictures,
    "tradeoff": tradeoff_pictures,
    "pure": pure_pictures,
    "interval": pure_pictures,
    "covers": risk_pictures,
}
"""The pictures of a notion, of a result beside a claim."""


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


def to_svg(figure: Any, key: str, title: str, description: str) -> str:
    """A figure as an SVG element, equal for equal ones; key: makes its ids its own; title, description: what is read aloud."""
    figure.patch.set_visible(False)
    for axis in figure.axes:
        axis.patch.set_visible(False)
    written = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": f"hpcdp-{key}"}):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    root = ElementTree.fromstring(written.getvalue().partition("?>")[2].partition(">")[2])
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag.rpartition("}")[2] in ("metadata", "style")]:
            parent.remove(child)
    for element in root.iter():
        _plain_attributes(element)
    used = {place for element in root.iter() for value in element.attrib.values() for place in _USED.findall(value)}
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{key}-title {key}-desc"}
    for place, (name, text) in enumerate((("title", title), ("desc", description))):
        node = ElementTree.Element(f"{{{_SVG}}}{name}", {"id": f"{key}-{name}"})
        node.text = text
        root.insert(place, node)
    return ElementTree.tostring(root, encoding="unicode")


def _plain_attributes(element: ElementTree.Element) -> None:
    """Styles as attributes, since a page's policy allows no others; letters are the page's own but for their size."""
    style = dict(_STYLE.findall(element.attrib.pop("style", "")))
    if size := _FONT_SIZE.search(style.pop("font", "")):
        style["font-size"] = size[1]
    element.attrib |= style
    if _LINK in element.attrib:
        element.set("href", element.attrib.pop(_LINK))
