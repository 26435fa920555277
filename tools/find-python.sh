#!/usr/bin/env bash
# Print a Python that is new enough; PYTHON in the environment names the one to use.
set -euo pipefail

for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
  if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    command -v "$candidate"
    exit 0
  fi
done
echo "No Python 3.11 or newer with venv was found (tried ${PYTHON:-python3, python3.13, python3.12, python3.11})." >&2
echo "Install one, or name it: make PYTHON=/path/to/python3.11 ..." >&2
exit 1
