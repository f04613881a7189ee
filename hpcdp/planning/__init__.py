"""What is left to do: the index of a store, tasks, costs, targets."""
