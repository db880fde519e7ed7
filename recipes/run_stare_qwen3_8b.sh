#!/usr/bin/env bash
# Long CoT: Qwen3-8B-Base on the mix of four training sets, 16 GPUs.
#
#   bash recipes/run_stare_qwen3_8b.sh [Hydra overrides]
#   METHOD=grpo bash recipes/run_stare_qwen3_8b.sh      another arm: stare, grpo, dapo, clip_cov, kl_cov
#   DRY_RUN=1 bash recipes/run_stare_qwen3_8b.sh        checks everything, starts nothing
#   TINY=1 bash recipes/run_stare_qwen3_8b.sh           two steps of a tiny model on the CPU
#
# Values: verl_stare/presets/stare/qwen3_8b.yaml. Variables, what to expect, how to read it: recipes/README.md.
set -euo pipefail
# shellcheck source=launch.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

: "${DATA_DIR:=$ROOT/data}"
: "${MODEL_PATH:=Qwen/Qwen3-8B-Base}"
: "${TRAIN_FILE:=$DATA_DIR/train_mix/train.parquet}"
: "${VAL_FILES:=$(evaluation_files eval)}"
launch qwen3_8b train_mix "$@"
