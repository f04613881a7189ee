"""What results say in a word, how they read when they are printed, and look in notebooks."""

from __future__ import annotations

VIOLATION, NOT_SEPARABLE, CONSISTENT = "violation", "not separable", "consistent"
"""The worst first: refuted (certified), above the claim but perhaps by chance, neither."""


class Shown:
    """What reads as a command prints it, and looks so in notebooks."""

    def __str__(self) -> str:
        from hpcdp.report.notions import words_of  # of a higher floor, and few results are printed

        return words_of(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: HTML in which all text is escaped."""
        from hpcdp.report.html.page import fragment_of

        return fragment_of(self)
