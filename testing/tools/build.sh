#!/usr/bin/env bash
# Builds the programs that go.mod pins as tools, once per state of it, and prints the directory that holds them.
set -euo pipefail
cd "$(dirname "$0")"

hash=$( (go env GOVERSION GOARCH; sha256sum go.mod go.sum build.sh) | sha256sum | cut -c1-16)
target=${XDG_CACHE_HOME:-$HOME/.cache}/myelin/tools/$hash
mkdir -p "$target"

# Two builds of the same state wait for each other instead of doing the work twice.
exec 9>"$target/.lock"
flock 9
for package in $(go list -f '{{.ImportPath}}' tool); do
  name=${package%/v[0-9]*}
  name=${name##*/}
  if [ ! -x "$target/$name" ]; then
    echo "building $name" >&2
    CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$target/$name.partial" "$package" >&2
    mv "$target/$name.partial" "$target/$name"
  fi
done
echo "$target"
