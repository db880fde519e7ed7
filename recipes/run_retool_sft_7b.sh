#!/usr/bin/env bash
# Cold start for tool use: Qwen2.5-7B on ReTool-SFT with verl's supervised trainer, 8 GPUs.
#
#   bash recipes/run_retool_sft_7b.sh [Hydra overrides]
#   DRY_RUN=1 bash recipes/run_retool_sft_7b.sh       checks everything, starts nothing
#   TINY=1 bash recipes/run_retool_sft_7b.sh          two steps of a tiny model on the CPU
#
# Several nodes: the same command on each, with NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT.
# run_stare_tool_7b.sh trains on from outputs/retool_7b/global_step_<last>/huggingface.
# Values: verl_stare/presets/stare_sft/retool_7b.yaml. Variables: recipes/README.md.
set -euo pipefail
# shellcheck source=launch.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

: "${DATA_DIR:=$ROOT/data}"
: "${MODEL_PATH:=Qwen/Qwen2.5-7B}"
: "${TRAIN_FILE:=$DATA_DIR/retool_sft/train.parquet}"
launch_sft retool_7b retool_sft "$@"
