"""`status.py N COMMAND...` runs COMMAND and succeeds if it exits with N (lit's `not` tells 0 from the rest only)."""

import subprocess
import sys

expected = int(sys.argv[1])
got = subprocess.run(sys.argv[2:]).returncode
if got != expected:
    print(f"error: expected exit status {expected}, got {got}", file=sys.stderr)
sys.exit(got != expected)
