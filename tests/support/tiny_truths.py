"""Deltas to 50 digits by other formulas than those of hpcdp.analytic: mpmath's quadrature, error functions and sums.

A truth is a function of a level (mpf) and of whether the direction is forward; it gives delta as an mpf.
"""

from collections.abc import Callable, Sequence

from mpmath import mp, mpf

mp.dps = 50

Truth = Callable[[mpf, bool], mpf]

FAR = 40  # standard deviations beyond which a normal law has less than 1e-340


def above(x: mpf, centre: mpf | int = 0) -> mpf:
    """P(N(centre, 1) > x)."""
    return mp.ncdf(centre - x)


def root(function: Callable[[mpf], mpf], low: mpf | int, high: mpf | int) -> mpf:
    """Where it changes its sign between the two."""
    return mp.findroot(function, (low, high), solver="bisect", maxsteps=220, verify=False)


def by_quadrature(shifts: Sequence[float], weights: Sequence[float]) -> Truth:
    """N(0, 1) against a normal mixture: the integral of what is positive of one density less the inflated other."""
    s, w = [mpf(x) for x in shifts], [mpf(x) for x in weights]

    def p(x: mpf) -> mpf:
        return mp.npdf(x)

    def q(x: mpf) -> mpf:
        return sum(b * mp.npdf(x, a) for a, b in zip(s, w, strict=True))

    def ratio(x: mpf) -> mpf:
        return sum(b * mp.exp(a * x - a * a / 2) for a, b in zip(s, w, strict=True))

    def slope(x: mpf) -> mpf:
        return sum(a * b * mp.exp(a * x - a * a / 2) for a, b in zip(s, w, strict=True))

    def truth(level: mpf, forward: bool) -> mpf:
        goal = mp.exp(-level if forward else level)
        least = mpf(-FAR) if min(s) >= 0 else mpf(FAR) if max(s) <= 0 else root(slope, -FAR, FAR)
        low = root(lambda x: ratio(x) - goal, -FAR, least) if least > -FAR else mpf(-FAR)
        high = root(lambda x: ratio(x) - goal, least, FAR) if least < FAR else mpf(FAR)
        if forward:
            return integral(lambda x: p(x) - q(x) / goal, low, high)
        right = integral(lambda x: q(x) - goal * p(x), high, max(high, max(s) + FAR))
        return right + integral(lambda x: q(x) - goal * p(x), min(low, min(s) - FAR), low)

    return truth


def integral(function: Callable[[mpf], mpf], low: mpf, high: mpf) -> mpf:
    """Of what is smooth on the scale of 1."""
    pieces = int(mp.ceil((high - low) / 2))
    return mp.quad(function, mp.linspace(low, high, pieces + 1), method="gauss-legendre") if pieces else mpf(0)


def by_error_functions(shifts: Sequence[mpf], weights: Sequence[mpf]) -> Truth:
    """The same with all shifts >= 0, as a difference of two probabilities of a half-line, to 50 digits."""

    def truth(level: mpf, forward: bool) -> mpf:
        goal = mp.exp(-level if forward else level)

        def over(at: mpf) -> mpf:  # nearly a line
            return mp.log(sum(b * mp.exp(a * at - a * a / 2) for a, b in zip(shifts, weights, strict=True)) / goal)

        x = mp.findroot(over, (-FAR, FAR), solver="anderson", tol=mpf(10) ** -80)
        mixed = sum(b * above(-x if forward else x, -a if forward else a) for a, b in zip(shifts, weights, strict=True))
        return above(-x) - mixed / goal if forward else mixed - goal * above(x)

    return truth


def steps(updates: int, rate: mpf, sigma: mpf, shift: mpf, batch: int, rows: int) -> Truth:
    """Toy DP-SGD by its recursion: what each step's gradient leaves of a shift, over all sets of steps that see the row."""
    left = [rate * (1 - rate) ** later for later in range(updates)]
    spread = sigma * mp.sqrt(sum(x * x for x in left))
    chance = mpf(batch) / rows
    laws = {mpf(0): mpf(1)}
    for share in left:
        moved = share * shift / batch / spread
        laws = {
            at + seen * moved: mass * (chance if seen else 1 - chance) for at, mass in laws.items() for seen in (0, 1)
        }
    return by_error_functions(list(laws), list(laws.values()))


def geometric_sums(rate: float, terms: int) -> Truth:
    """A count that is larger by one against the smaller, by binomial coefficients, outcome by outcome."""
    fall = mp.exp(-mpf(rate))

    def mass(k: int) -> mpf:
        return mp.binomial(k + terms - 1, k) * (1 - fall) ** terms * fall**k if k >= 0 else mpf(0)

    def truth(level: mpf, forward: bool) -> mpf:
        last = int(120 / rate) + 50 * terms
        pairs = [(mass(k - 1), mass(k)) if forward else (mass(k), mass(k - 1)) for k in range(last)]
        return sum(max(mine - mp.exp(level) * other, mpf(0)) for mine, other in pairs)

    return truth


def release(chance: mpf) -> Truth:
    """Something with this probability, or nothing, against nothing."""

    def truth(level: mpf, forward: bool) -> mpf:
        return chance if forward else max(1 - mp.exp(level) * (1 - chance), mpf(0))

    return truth


def laplace_columns(shifts: Sequence[float]) -> Truth:
    """Near the top of the loss, which is 1/2 at its top and e^(-u/2)/4 below it in each column, u being how far below."""
    columns = len(shifts)

    def truth(level: mpf, forward: bool) -> mpf:
        gap = sum(mpf(x) for x in shifts) - level
        assert 0 < gap < 2 * min(shifts)
        whole = mpf(2) ** -columns * -mp.expm1(-gap)
        for several in range(1, columns + 1):  # of the columns are below their top, together by u
            ways = mp.binomial(columns, several) * mpf(2) ** (several - columns) * mpf(4) ** -several
            whole += ways * mp.quad(
                lambda u, n=several: u ** (n - 1) / mp.factorial(n - 1) * mp.exp(-u / 2) * -mp.expm1(u - gap), [0, gap]
            )
        return whole

    return truth
