#!/usr/bin/env bash
# Builds kubenode (with kubectl and the pause program beside it) once per state of its sources and prints the directory.
set -euo pipefail
cd "$(dirname "$0")"

version=1.34.4
sources=$(find . -name '*.go' ! -name '*_test.go' -o -name manifests.yaml -o -name go.mod -o -name go.sum -o -name build.sh | LC_ALL=C sort)
# shellcheck disable=SC2086 # a list of names without spaces
hash=$( (go env GOVERSION GOARCH; sha256sum $sources) | sha256sum | cut -c1-16)
target=${XDG_CACHE_HOME:-$HOME/.cache}/myelin/kubenode/$hash
mkdir -p "$target"

# Two builds of the same state wait for each other instead of doing the work twice.
exec 9>"$target/.lock"
flock 9
if [ ! -x "$target/kubenode" ]; then
  echo "building the one-node Kubernetes; the first time takes ten minutes or more" >&2
  started=$SECONDS
  flags="-s -w -X k8s.io/component-base/version.gitVersion=v$version"
  flags="$flags -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34"
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$target/pause" ./pause >&2
  CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$target/kubenode.partial" . >&2
  ln -sf kubenode "$target/kubectl"
  mv "$target/kubenode.partial" "$target/kubenode"
  echo "built in $((SECONDS - started)) s" >&2
fi
echo "$target"
