#!/usr/bin/env bash
# Checks two builds of the command that `.ci/run` has no time for: the default one, with Burn's
# gradient hook, on GPU backends, and the one that tunes its kernels.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --locked -p burn-virtual-cli --features ndarray,wgpu,cuda,fast --test gpu --test verify
cargo test --locked -p burn-virtual-cli --features ndarray,wgpu,cuda,autotune --test gpu
