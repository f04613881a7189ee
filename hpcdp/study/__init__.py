"""The study: from the file to databases, pairs, laws and keys, which are the problem."""

from hpcdp.study.file import Study

__all__ = ["Study"]
