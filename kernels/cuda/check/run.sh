#!/bin/bash
# run: holds the GPU of this machine against its CPU in ten minutes at most. Needs nothing but the
# program gpu_check beside it, an NVIDIA driver, and compute-sanitizer for four of the steps.
set -uo pipefail

usage() {
  cat <<'EOF'
usage: run [--seconds N] [--seed N] [--out DIR] [--device N]

Checks the GPU in these steps and ends with a summary:

  checks     self-test and golden vectors
  memcheck   small batches under compute-sanitizer, where it is installed and knows the GPU
  racecheck  the same, for threads of a block that do not wait for each other
  synccheck  the same, for barriers that not all threads come to
  initcheck  the same, for device memory that is read before it is written
  bench      how fast it is; the figures go to bench.json beside the logs
  fuzz       seeded batches and streams, against the CPU

What nvidia-smi, where there is one, says of clocks, power and heat meanwhile goes to clocks.csv.

  --seconds N  the fuzzing's time, 180 unless told otherwise; less where ten minutes would pass
  --seed N     of the fuzzing; another one each time unless told
  --out DIR    where the logs go, a file for each step; ./gpu_check_results
  --device N   the GPU's number, 0

Examples:
  ./run
  ./run --seconds 60 --out /tmp/gpu
  ./gpu_check fuzz --seed 1234 --rounds 1     # replays a round that failed

Exit codes: 0 all steps passed or could not be run here, 1 a step failed, 2 usage, 5 there is no GPU
that can be used, 6 the GPU differs from the CPU.
EOF
}

here=$(cd "$(dirname "$0")" && pwd)
program=$here/gpu_check
seconds=180
seed=$((RANDOM * 32768 + RANDOM))
out=gpu_check_results
device=0
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --seconds | --seed | --out | --device)
      [ $# -gt 1 ] || { echo "run: $1 wants a value; see --help" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    *) echo "run: '$1' is no option; see --help" >&2; exit 2 ;;
  esac
done
for number in "$seconds" "$seed" "$device"; do
  [[ $number =~ ^[0-9]+$ ]] || { echo "run: '$number' is no number; see --help" >&2; exit 2; }
done
[ -x "$program" ] || { echo "run: there is no program $program; tools/gpu_check build makes it" >&2; exit 1; }
mkdir -p "$out" || exit 1

# Some seconds less than ten minutes, which are often a machine's limit.
whole_seconds=560
left() { echo $((whole_seconds - SECONDS)); }
summary=()
code=0
sanitizer=

# cannot_run STATUS COMMAND LOG: whether it is compute-sanitizer that has failed, and not what it looks at.
# Its findings are exit code 9; and a program that it has started says first which GPU there is.
cannot_run() {
  [ -n "$sanitizer" ] && [ "$2" = "$sanitizer" ] || return 1
  case $1 in 0 | 9 | 124 | 137) return 1 ;; esac
  grep -qF "Device not supported" "$3" || ! grep -q '^gpu_check ' "$3"
}

# step NAME SECONDS COMMAND...: what it says goes to the screen and to a file.
step() {
  local name=$1 limit=$2 status verdict
  shift 2
  [ "$limit" -lt "$(left)" ] || limit=$(left)
  if [ "$limit" -le 0 ]; then
    summary+=("$name: FAILED: the time was over before it began")
    [ "$code" -ne 0 ] || code=1
    return
  fi
  printf '\n== %s\n' "$name"
  timeout --kill-after=5 "$limit" "$@" 2>&1 | tee "$out/$name.log"
  status=${PIPESTATUS[0]}
  if cannot_run "$status" "$1" "$out/$name.log"; then
    summary+=("$name: NOT RUN: compute-sanitizer does not work with this GPU or machine: $(
      grep -m 1 -i error "$out/$name.log" || echo "exit code $status")")
    return
  fi
  case $status in
    0) verdict=passed ;;
    124 | 137) verdict="FAILED: not done after $limit s" ;;
    5) verdict="FAILED: there is no GPU that can be used" ;;
    6) verdict="FAILED: the GPU differs from the CPU" ;;
    *) verdict="FAILED: exit code $status" ;;
  esac
  summary+=("$name: $verdict")
  case $status in
    0) ;;
    5 | 6) [ "$code" -eq 6 ] || code=$status ;;
    *) [ "$code" -ne 0 ] || code=1 ;;
  esac
}

finish() {
  [ -z "$watcher" ] || kill "$watcher" 2>/dev/null
  printf '\n== summary, %s s; logs are in %s\n' "$SECONDS" "$out"
  printf '%s\n' "${summary[@]}"
  exit "$code"
}

watcher=
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --id="$device" --loop=2 --format=csv \
    --query-gpu=timestamp,name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu \
    >"$out/clocks.csv" 2>&1 &
  watcher=$!
fi

find_sanitizer() {
  command -v compute-sanitizer && return
  local folder
  for folder in "${CUDA_HOME:-}" /usr/local/cuda; do
    [ -x "$folder/bin/compute-sanitizer" ] && echo "$folder/bin/compute-sanitizer" && return
  done
  return 1
}

# A driver that compiles has two minutes for it, as in kerfd.
step checks 210 "$program" self-test vectors --device "$device"
# Nothing that follows could say more.
[ "$code" -ne 5 ] || finish
if sanitizer=$(find_sanitizer); then
  for tool in memcheck racecheck synccheck initcheck; do
    step "$tool" 60 "$sanitizer" --tool "$tool" --error-exitcode 9 \
      "$program" self-test fuzz --small --rounds 10 --seconds 20 --seed "$seed" --device "$device"
  done
else
  summary+=("memcheck, racecheck, synccheck, initcheck: NOT RUN: compute-sanitizer is not installed")
fi
step bench 180 "$program" bench --json "$out/bench.json" --device "$device"
# The last batches, and the comparison, may take as long again as half a minute.
spare=$(($(left) - 30))
[ "$seconds" -lt "$spare" ] || seconds=$spare
if [ "$seconds" -lt 1 ]; then
  # Of no rounds the program would say that they are well.
  summary+=("fuzz: FAILED: the time was over before it began")
  [ "$code" -ne 0 ] || code=1
  finish
fi
step fuzz $((seconds + 30)) "$program" fuzz --seconds "$seconds" --seed "$seed" --device "$device"
finish
