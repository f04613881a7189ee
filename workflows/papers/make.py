"""Run, check and draw figures of a paper: python workflows/papers/make.py eureka fig4a fig9c

Exit code 1: a pass rule fails. 2: a wrong command or study.
"""

from __future__ import annotations

import sys

from paper_figures.command import main

if __name__ == "__main__":  # worker processes import this file
    sys.exit(main(sys.argv[1:]))
