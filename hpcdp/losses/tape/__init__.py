"""What random tapes teach: proposals, and L̂ where they lead."""
