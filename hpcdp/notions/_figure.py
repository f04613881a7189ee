"""Figures that notebooks show; a module of its own, as matplotlib takes long to load."""

from __future__ import annotations

import io

from matplotlib import figure


class Figure(figure.Figure):
    """As matplotlib's, and a picture in a notebook without `%matplotlib inline`; with it, that draws it, once."""

    def _repr_png_(self) -> bytes:
        """What IPython shows where no backend of matplotlib has said how figures look."""
        held = io.BytesIO()
        self.savefig(held, format="png")
        return held.getvalue()
