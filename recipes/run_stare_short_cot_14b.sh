#!/usr/bin/env bash
# Short CoT: Qwen2.5-14B-Instruct on the mix of four training sets, 16 GPUs.
#
#   bash recipes/run_stare_short_cot_14b.sh [Hydra overrides]
#   METHOD=grpo bash recipes/run_stare_short_cot_14b.sh      another arm: stare, grpo, dapo, clip_cov, kl_cov
#   DRY_RUN=1 bash recipes/run_stare_short_cot_14b.sh        checks everything, starts nothing
#   TINY=1 bash recipes/run_stare_short_cot_14b.sh           two steps of a tiny model on the CPU
#
# Values: verl_stare/presets/stare/short_cot_14b.yaml. Variables, what to expect, how to read it: recipes/README.md.
set -euo pipefail
# shellcheck source=launch.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

: "${DATA_DIR:=$ROOT/data}"
: "${MODEL_PATH:=Qwen/Qwen2.5-14B-Instruct}"
: "${TRAIN_FILE:=$DATA_DIR/train_mix/train.parquet}"
: "${VAL_FILES:=$(evaluation_files eval)}"
launch short_cot_14b train_mix "$@"
