"""`python tests/golden [write]`: measure the golden studies anew, print what differs from the record, and perhaps record it."""

import sys

from golden_record import differences, measure_all, recorded, write

now = measure_all()
lines = list(differences(recorded(), now))
print("\n".join(lines) or "nothing differs")
if sys.argv[1:] == ["write"]:
    write(now)
elif lines:
    sys.exit(1)
