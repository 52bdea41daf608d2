#!/bin/bash
# run_clang_tidy REPORT SOURCE -- FLAGS...: fails with the findings on stderr. KERF_CLANG_TIDY is the
# program; tools/tidy sets it.
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
# In deep mode the analyzer needs three quarters of all the time, most of it in the bodies of tests.
analyzer=(-Xclang -analyzer-config -Xclang mode=shallow)
# In a test that also runs under the sanitizers it does not follow calls, which takes a third of the
# time: what goes wrong across a call of a test, its own run shows.
if [[ $source == *_test.cc && $source != e2e/* ]]; then
  analyzer+=(-Xclang -analyzer-config -Xclang ipa=none)
fi
# tools/test has other checks run meanwhile, some of which measure time.
if ! nice -n 10 "${KERF_CLANG_TIDY:?run tools/tidy}" --quiet "$source" -- \
  -xc++ -std=c++20 "${analyzer[@]}" "${flags[@]}" >"$report" 2>"$report.errors"; then
  cat "$report" >&2
  grep -v 'warnings generated' "$report.errors" >&2
  exit 1
fi
