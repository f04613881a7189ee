"""Classes of outputs on a line that is cut into few runs."""

from __future__ import annotations

from hpcdp._base.kernels import kernel


@kernel(error_model="numpy")
def find_inside(values, starts, inside, out):  # type: ignore[no-untyped-def]
    """Numbers of the values in runs that are inside, into out; how many there are. For few runs."""
    found, runs = 0, starts.size
    for i in range(values.size):
        x, at = values[i], 0
        for k in range(1, runs):
            at += starts[k] <= x
        out[found] = i
        found += inside[at]
    return found
