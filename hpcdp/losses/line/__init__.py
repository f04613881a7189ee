"""Classes of outputs on a line."""
