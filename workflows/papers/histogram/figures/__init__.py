"""The figures of the histogram paper."""
