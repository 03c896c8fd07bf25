#!/usr/bin/env bash
# All-reduces of f32 between two ranks, in place: this project's and Open MPI's, round after round of
# each in turn, so that what else the machine does falls on all. Prints medians over the rounds, in
# microseconds a call. Needs mpicc and mpirun (Debian: openmpi-bin, libopenmpi-dev).
#
#   scripts/compare-open-mpi.sh [rounds, default 9]
#
# PREFIX is put before each command: `PREFIX="chrt --rr 1"` keeps other work off the cores.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds="${1:-9}"
read -ra prefix <<<"${PREFIX:-}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Bytes, and calls in each round.
sizes=(4096 1000 65536 400 1048576 100 4194304 30 16777216 12 67108864 4)
columns=("tcp ring" "tcp ordered" "open-mpi tcp" "memory ring" "memory ordered" "open-mpi shared" "one core adds")

work="$(mktemp -d)"
trap 'rm -r "$work"' EXIT
mpicc -O2 -o "$work/open-mpi" scripts/compare-open-mpi.c
cargo build --release --quiet -p burn-virtual-collective --example all_reduce
example="$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/examples/all_reduce"

port=29600
# Both ranks of a job; rank 0 prints.
processes() {
  port=$((port + 1))
  export MASTER_PORT="$port" WORLD_SIZE=2
  RANK=1 "${prefix[@]}" "$example" "$1" "${sizes[@]}" &
  RANK=0 "${prefix[@]}" "$example" "$1" "${sizes[@]}"
  wait "$!"
  unset MASTER_PORT WORLD_SIZE
}

mpi() {
  "${prefix[@]}" mpirun -np 2 --mca btl "$1,self" "$work/open-mpi" "${sizes[@]}"
}

for ((round = 1; round <= rounds; round++)); do
  echo "round $round of $rounds, load $(cut -d' ' -f1-3 /proc/loadavg)" >&2
  for column in "${columns[@]}"; do
    case "$column" in
      "tcp "*) processes "${column#tcp }" ;;
      "memory "*) "${prefix[@]}" "$example" "${column#memory }" "${sizes[@]}" ;;
      "open-mpi tcp") mpi tcp ;;
      "open-mpi shared") mpi vader ;;
      "one core adds") "${prefix[@]}" "$example" add "${sizes[@]}" ;;
    esac | sed "s/^/$column,/; s/ \([^ ]*\)$/,\1/" >>"$work/times"
  done
done

# The middle one of the times of a column and size.
median() {
  grep "^$1,$2," "$work/times" | cut -d, -f3 | sort -n |
    awk '{ time[NR] = $1 } END { print time[int((NR + 1) / 2)] }'
}

printf '| bytes |'
printf ' %s |' "${columns[@]}"
printf '\n|---|'
printf -- '---|%.0s' "${columns[@]}"
printf '\n'
for ((index = 0; index < ${#sizes[@]}; index += 2)); do
  printf '| %s |' "${sizes[index]}"
  for column in "${columns[@]}"; do
    printf ' %s |' "$(median "$column" "${sizes[index]}")"
  done
  printf '\n'
done
