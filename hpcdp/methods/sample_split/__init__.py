"""Sample split: L̂ is learned from training samples and counts test samples, with or without tallies in between."""
