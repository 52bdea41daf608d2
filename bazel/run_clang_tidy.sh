#!/bin/bash
# run_clang_tidy REPORT SOURCE -- FLAGS...: fails with the findings on stderr.
set -u
report=$1
source=$2
shift 3
flags=()
for flag in "$@"; do
  case $flag in
    -fno-canonical-system-headers | -Wunused-but-set-parameter | -Wno-free-nonheap-object) ;;
    -fsanitize=*) ;;
    *) flags+=("$flag") ;;
  esac
done
if ! clang-tidy-19 --quiet "$source" -- -xc++ -std=c++20 "${flags[@]}" >"$report" 2>"$report.errors"; then
  cat "$report" >&2
  grep -v 'warnings generated' "$report.errors" >&2
  exit 1
fi
