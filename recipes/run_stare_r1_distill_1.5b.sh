#!/usr/bin/env bash
# Long CoT: DeepSeek-R1-Distill-Qwen-1.5B on the mix of four training sets, 8 GPUs.
#
#   bash recipes/run_stare_r1_distill_1.5b.sh [Hydra overrides]
#   METHOD=grpo bash recipes/run_stare_r1_distill_1.5b.sh      another arm: stare, grpo, dapo, clip_cov, kl_cov
#   DRY_RUN=1 bash recipes/run_stare_r1_distill_1.5b.sh        checks everything, starts nothing
#   TINY=1 bash recipes/run_stare_r1_distill_1.5b.sh           two steps of a tiny model on the CPU
#
# Values: verl_stare/presets/stare/r1_distill_1.5b.yaml. Variables, what to expect, how to read it: recipes/README.md.
set -euo pipefail
# shellcheck source=launch.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

: "${DATA_DIR:=$ROOT/data}"
: "${MODEL_PATH:=deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B}"
: "${TRAIN_FILE:=$DATA_DIR/train_mix/train.parquet}"
: "${VAL_FILES:=$(evaluation_files eval)}"
launch r1_distill_1.5b train_mix "$@"
