"""The driver and the tasks as they run."""
