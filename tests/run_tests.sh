#!/usr/bin/env bash
# The whole test suite in the checkout's .venv, which is set up first. Arguments go to pytest:
#
#   bash tests/run_tests.sh                         everything (about a quarter of an hour, 2 cores)
#   bash tests/run_tests.sh -m "not trainer"        without the runs of verl's trainer
set -euo pipefail
# shellcheck source=../recipes/demo/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../recipes/demo/environment.sh"

ensure_environment dev
cd "$ROOT"
export OMP_NUM_THREADS=1
exec "$PY" -m pytest "$@"
