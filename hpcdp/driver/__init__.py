"""What runs a study: the driver, plans, direct calls, repeated runs, audits that draw."""
