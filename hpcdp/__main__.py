"""python -m hpcdp"""

import sys

from hpcdp.cli.command import main

if __name__ == "__main__":
    sys.exit(main())
