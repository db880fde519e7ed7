# shellcheck shell=bash
# Sourced by the recipes. `launch PRESET DATASET "$@"` trains with a preset of verl_stare/presets/stare,
# `launch_sft PRESET DATASET "$@"` with one of stare_sft. All variables: recipes/README.md.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
METHODS="stare grpo dapo clip_cov kl_cov"
EVALUATION="aime24 aime25 amc23 math500 minerva_math olympiadbench"
LOGGERS="console file tensorboard wandb swanlab mlflow trackio"

fail() {
  echo "error: $*" >&2
  exit 1
}

# Variable $1 with value $2 may be one of the others.
one_of() {
  local name=$1 value=$2 allowed
  shift 2
  for allowed in "$@"; do
    [ "$value" != "$allowed" ] || return 0
  done
  fail "$name=$value: allowed are $*"
}

is_number() {
  case ${!1} in
    "" | *[!0-9]* | 0) fail "$1=${!1}: must be a whole number, at least 1" ;;
  esac
}

# The interpreter that has verl and this package: PYTHON, the active environment's, or the checkout's.
find_python() {
  local candidate candidates=(python3 "$ROOT/.venv/bin/python")
  [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    if (cd / && "$candidate" -c 'import importlib.util as u, sys
sys.exit(not (u.find_spec("verl") and u.find_spec("verl_stare")))') 2>/dev/null; then
      PY=$candidate
      return
    fi
  done
  fail "no Python with verl and verl_stare among: ${candidates[*]} (pip install \"$ROOT\", or name one: PYTHON=...)"
}

# One word of Hydra's override grammar, whatever characters it has.
quoted() {
  local text=${1//\\/\\\\}
  printf "'%s'" "${text//\'/\\\'}"
}

# A list of the words in $1.
listed() {
  local word words=()
  read -ra words <<<"${1//,/ }"
  for word in "${words[@]}"; do
    printf '%s%s' "${comma:-}" "$(quoted "$word")"
    local comma=,
  done
}

# The six evaluation sets in folder $1 of the data.
evaluation_files() {
  # shellcheck disable=SC2086
  printf "$DATA_DIR/$1/%s/test.parquet " $EVALUATION
}

# The last model that supervised training saved under $1, or the place where one was looked for.
newest_model() {
  local found
  found=$(find "$1" -path '*/global_step_*/huggingface/*.safetensors' -printf '%h\n' 2>/dev/null | sort -uV)
  found=${found##*$'\n'}
  echo "${found:-$1/global_step_N/huggingface}"
}

# What RL and supervised recipes share: reads the variables, leaves overrides in OVERRIDES.
settle() {
  local name=$1 family=$2 word words
  : "${DRY_RUN:=0}" "${TINY:=0}" "${PREPARE:=0}" "${LOGGER:=console}" "${DATA_DIR:=$ROOT/data}"
  for word in DRY_RUN TINY PREPARE; do one_of "$word" "${!word}" 0 1; done
  read -ra words <<<"${LOGGER//,/ }"
  # shellcheck disable=SC2086
  for word in "${words[@]}"; do one_of LOGGER "$word" $LOGGERS; done
  case ${VAL_FILES:-} in *"$DATA_DIR"/*)
    [ "$DATA_DIR" = "${DATA_DIR//[[:space:]]/}" ] || fail "DATA_DIR=$DATA_DIR: must be without spaces, as must all of VAL_FILES" ;;
  esac
  for word in NNODES NGPUS_PER_NODE; do [ -z "${!word+set}" ] || is_number "$word"; done
  find_python
  if [ "$TINY" = 1 ]; then
    : "${TINY_DIR:=$ROOT/outputs/tiny}" "${RUN_NAME:=tiny-$name-$(date +%Y%m%d-%H%M%S)-$$}"
    : "${CKPTS_DIR:=$TINY_DIR/runs/$RUN_NAME}"
    export VERL_PLATFORM=cpu OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
    export RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0
    unset RAY_ADDRESS
    "$PY" "$ROOT/recipes/tiny/make.py" --family "$family" --out "$TINY_DIR/$family"
    MODEL_PATH=$TINY_DIR/$family/model
    TRAIN_FILE=$TINY_DIR/$family/train.parquet VAL_FILES=$TINY_DIR/$family/test.parquet
    unset NNODES NGPUS_PER_NODE
  fi
  : "${RUN_NAME:=$name}"
  : "${CKPTS_DIR:=$ROOT/outputs/$RUN_NAME}"
  # verl begins its metrics file afresh with each start, so each has one of its own.
  export VERL_FILE_LOGGER_PATH=${VERL_FILE_LOGGER_PATH:-$CKPTS_DIR/metrics.$(date +%Y%m%d-%H%M%S).jsonl}
  export TENSORBOARD_DIR=${TENSORBOARD_DIR:-$CKPTS_DIR/tensorboard}
  OVERRIDES=(
    "trainer.experiment_name=$(quoted "$RUN_NAME")"
    "trainer.default_local_dir=$(quoted "$CKPTS_DIR")"
    "trainer.logger=[$(listed "$LOGGER")]"
    "hydra.run.dir=$(quoted "$CKPTS_DIR/hydra")"
    "data.train_files=[$(quoted "$TRAIN_FILE")]"
  )
  [ -z "${NNODES:-}" ] || OVERRIDES+=("trainer.nnodes=$NNODES")
  [ -z "${NGPUS_PER_NODE:-}" ] || OVERRIDES+=("trainer.n_gpus_per_node=$NGPUS_PER_NODE")
}

# Checks, and goes on only if nothing is wrong.
preflight() {
  local options=()
  [ "$DRY_RUN$TINY" = 00 ] || options+=(--dry-run)
  "$PY" -m verl_stare.cli preflight "${options[@]+"${options[@]}"}" "$@" || exit 1
  if [ "$DRY_RUN" = 1 ]; then
    echo "DRY_RUN=1: nothing is wrong, nothing was started"
    exit 0
  fi
  mkdir -p "$CKPTS_DIR"
}

launch() {
  local preset=$1 dataset=$2 family=math
  shift 2
  : "${METHOD:=stare}"
  # shellcheck disable=SC2086
  one_of METHOD "$METHOD" $METHODS
  [ "$dataset" != tool_math ] || family=tool
  settle "$preset-$METHOD" "$family"
  if [ "$PREPARE" = 1 ] && [ "$TINY" = 0 ]; then
    # shellcheck source=prepare.sh
    source "$ROOT/recipes/prepare.sh"
    prepare "$dataset"
  fi
  local presets=("+stare=$preset" "+stare_method=$METHOD")
  [ "$TINY" = 0 ] || presets+=("+cpu=tiny" "+stare_tiny=$family")
  set -- "${presets[@]}" "${OVERRIDES[@]}" "data.val_files=[$(listed "$VAL_FILES")]" \
    "actor_rollout_ref.model.path=$(quoted "$MODEL_PATH")" "$@"
  preflight "$@"
  exec "$PY" -m verl.trainer.main_ppo "$@"
}

launch_sft() {
  local preset=$1 dataset=$2
  shift 2
  settle "$preset" sft
  if [ "$PREPARE" = 1 ] && [ "$TINY" = 0 ]; then
    # shellcheck source=prepare.sh
    source "$ROOT/recipes/prepare.sh"
    prepare "$dataset"
  fi
  local presets=("+stare_sft=$preset") ranks=${NGPUS_PER_NODE:-8} nodes=${NNODES:-1}
  [ "$TINY" = 0 ] || presets+=("+stare_tiny=sft") ranks=1
  set -- "${presets[@]}" "${OVERRIDES[@]}" "model.path=$(quoted "$MODEL_PATH")" "$@"
  [ -z "${VAL_FILES:-}" ] || set -- "$@" "data.val_files=[$(listed "$VAL_FILES")]"
  preflight --kind sft --ranks $((ranks * nodes)) "$@"
  local cluster=(--standalone)
  [ "$nodes" = 1 ] || cluster=(--nnodes "$nodes" --node-rank "${NODE_RANK:?of this node, from 0}"
    --master-addr "${MASTER_ADDR:?of node 0}" --master-port "${MASTER_PORT:-29500}")
  exec "$PY" -m torch.distributed.run "${cluster[@]}" --nproc-per-node "$ranks" \
    -m verl.trainer.sft_trainer "$@"
}
