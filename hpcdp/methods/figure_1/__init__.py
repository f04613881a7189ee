"""Figure 1 to the letter: each (pair, direction, ε) draws, trains and tests for itself."""
