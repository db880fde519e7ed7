#!/usr/bin/env bash
# Short CoT: Qwen2.5-Math-7B on the mix of four training sets, 8 GPUs.
#
#   bash recipes/run_stare_math_7b.sh [Hydra overrides]
#   METHOD=grpo bash recipes/run_stare_math_7b.sh      another arm: stare, grpo, dapo, clip_cov, kl_cov
#   DRY_RUN=1 bash recipes/run_stare_math_7b.sh        checks everything, starts nothing
#   TINY=1 bash recipes/run_stare_math_7b.sh           two steps of a tiny model on the CPU
#
# Values: verl_stare/presets/stare/math_7b.yaml. Variables, what to expect, how to read it: recipes/README.md.
set -euo pipefail
# shellcheck source=launch.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

: "${DATA_DIR:=$ROOT/data}"
: "${MODEL_PATH:=Qwen/Qwen2.5-Math-7B}"
: "${TRAIN_FILE:=$DATA_DIR/train_mix/train.parquet}"
: "${VAL_FILES:=$(evaluation_files eval)}"
launch math_7b train_mix "$@"
