"""`histogram`: counts in bins of an interval, fixed before they are counted."""
