"""Random tapes: a mechanism's noise drawn from proposals, with the weight of each output."""
