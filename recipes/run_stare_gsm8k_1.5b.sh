#!/usr/bin/env bash
# Short CoT: Qwen2.5-1.5B-Instruct on GSM8K, one GPU (ours: the paper has no such run).
#
#   bash recipes/run_stare_gsm8k_1.5b.sh [Hydra overrides]
#   METHOD=grpo bash recipes/run_stare_gsm8k_1.5b.sh      another arm: stare, grpo, dapo, clip_cov, kl_cov
#   DRY_RUN=1 bash recipes/run_stare_gsm8k_1.5b.sh        checks everything, starts nothing
#   TINY=1 bash recipes/run_stare_gsm8k_1.5b.sh           two steps of a tiny model on the CPU
#
# Values: verl_stare/presets/stare/gsm8k_1.5b.yaml. Variables, what to expect, how to read it: recipes/README.md.
set -euo pipefail
# shellcheck source=launch.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

: "${DATA_DIR:=$ROOT/data}"
: "${MODEL_PATH:=Qwen/Qwen2.5-1.5B-Instruct}"
: "${TRAIN_FILE:=$DATA_DIR/gsm8k/train.parquet}"
: "${VAL_FILES:=$DATA_DIR/gsm8k/test.parquet}"
launch gsm8k_1.5b gsm8k "$@"
