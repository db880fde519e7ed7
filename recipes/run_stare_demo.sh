#!/usr/bin/env bash
# GRPO loses the policy's entropy, STARE holds it: both trained by verl on this machine's CPU.
#
#   bash recipes/run_stare_demo.sh [Hydra overrides for both arms]
#
#   STEPS  training steps an arm        (180)       SEED  of data, model and sampling   (1)
#   OUT    where everything goes        (outputs/demo)    ARMS  which to train  ("grpo stare")
#   ROLLOUT  what generates: hf (transformers) or vllm, then OUT is outputs/demo-vllm  (hf)
#
# Sets up .venv (vllm: .venv-vllm), makes data and a warm-started tiny model, trains, and writes
# entropy.png, <arm>.jsonl and summary.json to $OUT. Started again, it goes on where it was.
set -euo pipefail
# shellcheck source=demo/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo/environment.sh"

[ "$ROLLOUT" = hf ] || : "${OUT:=$ROOT/outputs/demo-$ROLLOUT}"
export STEPS=${STEPS:-180} SEED=${SEED:-1} OUT=${OUT:-$ROOT/outputs/demo} ARMS=${ARMS:-grpo stare}
ensure_environment demo
exec "$PY" "$ROOT/recipes/demo/run.py" "$@"
