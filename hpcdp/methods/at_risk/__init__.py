"""Privacy at risk: pairs of databases that are drawn and kept."""
