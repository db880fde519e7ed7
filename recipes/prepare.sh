# shellcheck shell=bash
# Sourced by launch.sh for PREPARE=1. `prepare DATASET` makes $DATA_DIR/DATASET/train.parquet and the six
# evaluation sets by data_prep, each unless it is there.
#
#   SOURCES  a folder with local copies, SOURCES/<set> a folder or SOURCES/<set>.<suffix> a file; sets without
#            one are fetched from the Hugging Face hub

# Leaves the option for a local copy of $1 in SOURCE; $2 is the option's name.
local_copy() {
  local found
  SOURCE=()
  [ -n "${SOURCES:-}" ] || return 0
  for found in "$SOURCES/$1" "$SOURCES/$1".*; do
    if [ -e "$found" ]; then
      SOURCE=("$2" "$found")
      return
    fi
  done
}

# The evaluation sets into folder $1 of the data, for the agent loop $2.
prepare_evaluation() {
  local name
  for name in $EVALUATION; do
    [ ! -f "$DATA_DIR/$1/$name/manifest.json" ] || continue
    echo "== Preparing $1/$name"
    local_copy "$name" --source
    "$PY" -m "data_prep.$name" "${SOURCE[@]+"${SOURCE[@]}"}" --agent-name "$2" --out "$DATA_DIR/$1/$name"
  done
}

prepare() {
  local dataset=$1 name options=() against=()
  export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}
  prepare_evaluation eval single_turn_agent
  [ "$dataset" != tool_math ] || prepare_evaluation eval_tool stare_tool_agent
  [ ! -f "$DATA_DIR/$dataset/manifest.json" ] || return 0
  echo "== Preparing $dataset"
  case $dataset in
    train_mix)
      for name in deepscaler skywork polaris dapo_math; do
        local_copy "$name" "--${name//_/-}"
        options+=("${SOURCE[@]+"${SOURCE[@]}"}")
      done
      ;;
    tool_math)
      # The same source with other settings.
      local_copy dapo_math --source
      options=("${SOURCE[@]+"${SOURCE[@]}"}")
      ;;
    *)
      local_copy "$dataset" --source
      options=("${SOURCE[@]+"${SOURCE[@]}"}")
      ;;
  esac
  for name in $EVALUATION; do against+=("$DATA_DIR/eval/$name/test.parquet"); done
  "$PY" -m "data_prep.$dataset" "${options[@]+"${options[@]}"}" --out "$DATA_DIR/$dataset" \
    --against "${against[@]}"
}
