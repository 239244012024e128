#!/usr/bin/env bash
# Puts our C++ files into the layout of .clang-format; with --check only says which are not.
# Exit code 77 (skipped) when clang-format-14 is not installed: another version formats differently.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v clang-format-14 > /dev/null; then
  echo "skipped: clang-format-14 is not installed (apt-get install clang-format-14)"
  exit 77
fi
mode=(-i)
if [[ ${1:-} == --check ]]; then mode=(--dry-run -Werror); fi
find src apps tests -name '*.h' -print0 -o -name '*.cc' -print0 |
  xargs -0 -r -n 20 -P 2 clang-format-14 "${mode[@]}"
