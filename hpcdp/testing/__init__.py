"""Privacy checks in a test suite: the pytest plugin, and the one test that a check plans and makes."""
