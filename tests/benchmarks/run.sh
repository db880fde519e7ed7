#!/usr/bin/env bash
# What STARE costs: the driver's arithmetic and verl's advantage stage in one process, then pairs of
# training runs; what preparing the largest dataset takes; speed and errors of the grader; and the
# sandbox. Prints tables and writes one JSON file a benchmark into $OUT.
#
#   bash tests/benchmarks/run.sh             both (about 20 minutes on two quiet cores)
#   bash tests/benchmarks/run.sh driver      one of them; further arguments go to it
#   bash tests/benchmarks/run.sh paired --pairs 5
#   STARE_REAL_DATA=... bash tests/benchmarks/run.sh dapo   the raw DAPO-Math-17k (5 minutes; --help)
#   STARE_REAL_DATA=... bash tests/benchmarks/run.sh grader   the grader beside others (3 minutes)
#   bash tests/benchmarks/run.sh sandbox     the sandbox under load, and what a call costs (2 minutes)
#
#   OUT   where the figures go (outputs/benchmarks)
set -euo pipefail
# shellcheck source=../../recipes/demo/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../recipes/demo/environment.sh"

ensure_environment dev
OUT=$(realpath -m "${OUT:-$ROOT/outputs/benchmarks}")
mkdir -p "$OUT"
cd "$ROOT"
export OMP_NUM_THREADS=1

benchmark() {
  "$PY" -m "tests.benchmarks.$1" --json "$OUT/$1.json" "${@:2}"
}

case ${1:-both} in
  both) benchmark driver && benchmark paired --out "$OUT/paired" ;;
  driver | dapo | grader | sandbox) benchmark "$@" ;;
  paired) benchmark "$1" --out "$OUT/paired" "${@:2}" ;;
  *)
    echo "Unknown benchmark: $1 (known: driver, paired, dapo, grader, sandbox)" >&2
    exit 2
    ;;
esac
