#!/usr/bin/env bash
# Checks the CUDA backend on a machine with an NVIDIA GPU: `verify` against flex and, where Vulkan
# is installed, wgpu; the tests that need a GPU; one benchmark. Prints the GPU and driver, the tables,
# the test results and the figures. Exit code 0 if every promise holds.
#
#   scripts/check-cuda.sh                 # builds first; the driver is enough, no toolkit
#   CARGO_TARGET_DIR=... scripts/check-cuda.sh
set -euo pipefail
cd "$(dirname "$0")/.."

features=(--features burn-virtual-cli/cuda,burn-virtual-cli/wgpu,burn-virtual-cli/fast)

step() {
  printf '\n== %s\n' "$*"
  "$@"
}

command -v nvidia-smi >/dev/null || { echo "no NVIDIA driver: nvidia-smi was not found" >&2; exit 1; }
step nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total --format=csv
step cargo build --release --locked -p burn-virtual-cli "${features[@]}"
binary="${CARGO_TARGET_DIR:-target}/release/burn-virtual"

# wgpu takes part if it has an adapter here; flex and cuda have to.
backends=flex,cuda,cuda-fast
if "$binary" train --devices wgpu:0 --steps 1 >/dev/null 2>&1; then
  backends=flex,wgpu,cuda,cuda-fast
fi
failed=0
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for model in digits-cnn digits-mlp; do
  step "$binary" verify --model "$model" --steps 50 --backends "$backends" || failed=1
done
for devices in cuda:0 cuda:0,cuda:0,cuda:0; do
  step "$binary" train --devices "$devices" --json | tee -a "$results" || failed=1
done
if [ "$(grep -o '"weights_sha256":"[0-9a-f]*"' "$results" | sort -u | wc -l)" != 1 ]; then
  echo "one rank and three have other weights" >&2
  failed=1
fi

# Those that need a GPU are ignored elsewhere, and have `cuda` in their names.
library=(-p burn-virtual -p burn-virtual-backend --features burn-virtual/cuda,burn-virtual/wgpu)
step cargo test --locked "${library[@]}" cuda -- --ignored 2>&1 | tee "$results" || failed=1
if ! grep -q '^test result: ok. [1-9]' "$results"; then
  echo "no test of the CUDA backend ran" >&2
  failed=1
fi
step cargo bench --locked -p burn-virtual --features cuda,wgpu --bench gpu || failed=1
exit "$failed"
