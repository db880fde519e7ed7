#!/usr/bin/env bash
# Tool use: Qwen2.5-7B after run_retool_sft_7b.sh, with sandboxed Python, 8 GPUs.
#
#   bash recipes/run_stare_tool_7b.sh [Hydra overrides]
#   METHOD=grpo bash recipes/run_stare_tool_7b.sh      another arm: stare, grpo, dapo, clip_cov, kl_cov
#   DRY_RUN=1 bash recipes/run_stare_tool_7b.sh        checks everything, starts nothing
#   TINY=1 bash recipes/run_stare_tool_7b.sh           two steps of a tiny model on the CPU
#
# Values: verl_stare/presets/stare/tool_7b.yaml. Variables, what to expect, how to read it: recipes/README.md.
set -euo pipefail
# shellcheck source=launch.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

: "${DATA_DIR:=$ROOT/data}"
# Where the cold start leaves its last checkpoint.
: "${MODEL_PATH:=$(newest_model "$ROOT/outputs/retool_7b")}"
: "${TRAIN_FILE:=$DATA_DIR/tool_math/train.parquet}"
: "${VAL_FILES:=$(evaluation_files eval_tool)}"
launch tool_7b tool_math "$@"
