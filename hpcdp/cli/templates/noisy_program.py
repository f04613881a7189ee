"""A mechanism in a process of its own: it answers hpcdp's requests on its standard input and output.

serve.py, beside this file, needs Python 3.8 and NumPy 1.17 or newer and nothing else: this program may live in any
environment, with libraries that hpcdp's own lacks.
"""

from serve import serve


def noisy_sum(database, size, rng, *, scale):
    """`size` independent outputs, shape (size,) or (size, d); all randomness from rng. Without `size`: one a call."""
    return database.sum() + rng.laplace(0.0, scale, size)


serve(noisy_sum)
