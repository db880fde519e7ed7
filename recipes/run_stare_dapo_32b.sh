#!/usr/bin/env bash
# Long CoT: Qwen2.5-32B on DAPO-Math-17k, 64 GPUs.
#
#   bash recipes/run_stare_dapo_32b.sh [Hydra overrides]
#   METHOD=grpo bash recipes/run_stare_dapo_32b.sh      another arm: stare, grpo, dapo, clip_cov, kl_cov
#   DRY_RUN=1 bash recipes/run_stare_dapo_32b.sh        checks everything, starts nothing
#   TINY=1 bash recipes/run_stare_dapo_32b.sh           two steps of a tiny model on the CPU
#
# Values: verl_stare/presets/stare/dapo_32b.yaml. Variables, what to expect, how to read it: recipes/README.md.
set -euo pipefail
# shellcheck source=launch.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

: "${DATA_DIR:=$ROOT/data}"
: "${MODEL_PATH:=Qwen/Qwen2.5-32B}"
: "${TRAIN_FILE:=$DATA_DIR/dapo_math/train.parquet}"
: "${VAL_FILES:=$(evaluation_files eval)}"
launch dapo_32b dapo_math "$@"
