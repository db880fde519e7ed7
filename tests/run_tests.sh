#!/usr/bin/env bash
# The whole test suite in the checkout's .venv, which is set up first. Arguments go to pytest:
#
#   bash tests/run_tests.sh                         everything
#   bash tests/run_tests.sh -m "not trainer"        without the runs of verl's trainer
#   bash tests/run_tests.sh -n 0                    one test at a time
#   ROLLOUT=vllm bash tests/run_tests.sh            with vLLM as the rollout, in .venv-vllm
set -euo pipefail
# shellcheck source=../recipes/demo/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../recipes/demo/environment.sh"

ensure_environment dev
cd "$ROOT"
export OMP_NUM_THREADS=1
# Two files at a time: a run of the trainer spends most of its time waiting for processes to start.
exec "$PY" -m pytest -n 2 --dist loadfile "$@"
