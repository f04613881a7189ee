"""Run, check and draw figures of the histogram paper: python workflows/papers/histogram/make.py precision

Exit code 1: a pass rule fails. 2: a wrong command or study.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # of what the workflows share

from histogram.figures.catalogue import PAPER
from paper_figures.command import main

if __name__ == "__main__":  # worker processes import this file
    sys.exit(main(PAPER, sys.argv[1:]))
