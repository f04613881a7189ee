"""Methods of estimating, a package each: what it plans, what its tasks do, what it derives from records."""
