"""Pure ε: training chooses one set and one output of each pair, fresh samples test them."""
