# shellcheck shell=bash
# Sourced by the demo and the tests. `ensure_environment EXTRA` makes `.venv` in the checkout, with
# this package and one of its extras at pinned versions, and leaves the interpreter in $PY.
# It does nothing when that is done already, and goes on where it was interrupted.
#
#   PYTHON   interpreter for a new .venv (default: the first of python3.12, 3.11, 3.10, python3)

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PY=$ROOT/.venv/bin/python

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
  local extra=$1 python want
  # The checkout's place is part of it: an editable installation points there.
  want=$(echo "$ROOT" | cat - "$ROOT/pyproject.toml" "$ROOT/recipes/demo/constraints.txt" | sha256sum)
  # The extra dev includes demo.
  if [ -x "$PY" ] && grep -qsxF "$want" "$ROOT/.venv/installed-$extra" "$ROOT/.venv/installed-dev"; then
    return
  fi
  if [ -x "$PY" ] && ! _supported "$PY"; then
    echo "$ROOT/.venv has no supported Python (3.10 to 3.12): remove it" >&2
    return 1
  fi
  if ! "$PY" -m pip --version >/dev/null 2>&1; then
    python=$(_find_python) || return 1
    echo "Making a virtual environment with $python in $ROOT/.venv"
    "$python" -m venv "$ROOT/.venv" || return 1
  fi
  echo "Installing verl_stare and what it needs (some minutes the first time)"
  # One line a package, so that one sees it going on.
  "$PY" -m pip install --disable-pip-version-check --progress-bar off \
    --constraint "$ROOT/recipes/demo/constraints.txt" --editable "${ROOT}[$extra]" |
    { grep --line-buffered -E '^(Collecting|Installing|Successfully)' || true; }
  [ "${PIPESTATUS[0]}" = 0 ] || return 1
  echo "$want" >"$ROOT/.venv/installed-$extra"
}
