#!/usr/bin/env bash
# Feature `overlap` takes gradients on another way and must not change one bit: trains the same job
# in a build with it and one without, and compares the weights.
set -euo pipefail
cd "$(dirname "$0")/.."

weights() {
  cargo run --quiet --locked -p burn-virtual-cli "$@" -- \
    train --steps 40 --devices flex:0,flex:1,flex:2 --json |
    sed -n 's/.*"weights_sha256":"\([0-9a-f]*\)".*/\1/p'
}

with=$(weights)
without=$(weights --no-default-features)
if [ -z "$with" ] || [ "$with" != "$without" ]; then
  echo "overlap changes the weights: '$with' with it, '$without' without" >&2
  exit 1
fi
echo "weights with and without overlap: $with"
