#!/usr/bin/env bash
# Runs all tests, those that need least first, and prints how many there were.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# Says what comes, runs it, and keeps its output for the count at the end.
step() {
  echo
  echo "=== $1 (after $((SECONDS / 60)) min $((SECONDS % 60)) s)"
  shift
  "$@" 2>&1 | tee -a "$log"
}

# Adds up one figure of the closing lines of all test binaries.
total() {
  sed -n "s/^test result: .* \([0-9]*\) $1.*/\1/p" "$log" | awk '{ sum += $1 } END { print sum + 0 }'
}

step "Rules and lints" make --no-print-directory lint

MYELIN_TOOLS=$(testing/tools/build.sh)
export MYELIN_TOOLS
export MYELIN_REFERENCE=$MYELIN_TOOLS/nats-server
step "Unit and black-box tests" cargo test --workspace --exclude operator --exclude e2e

echo "=== One-node Kubernetes (after $((SECONDS / 60)) min)"
MYELIN_KUBENODE=$(testing/kubernetes/build.sh)/kubenode
export MYELIN_KUBENODE
step "Tests of the one-node Kubernetes" go -C testing/kubernetes test -v ./image ./node ./pki
cargo build -p broker
export MYELIN_BROKER=$target/debug/myelin
step "Operator against a real API server" cargo test -p operator

step "Images" make --no-print-directory image
export MYELIN_IMAGES=$target/images
step "The whole chain in the one-node Kubernetes" cargo test -p e2e -- --test-threads=1

rust=$(total passed)
ignored=$(total ignored)
go=$(grep -c '^--- PASS' "$log")
echo
echo "=== $((rust + go)) tests passed: $rust in Rust, $go in Go; $ignored ignored; $((SECONDS / 60)) min $((SECONDS % 60)) s"
