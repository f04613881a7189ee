"""The study: from the file to databases, pairs, laws and keys, which are the problem."""
