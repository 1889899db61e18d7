#!/usr/bin/env bash
# Removes what the demonstration made: the whole one-node Kubernetes, or its objects in the context that CONTEXT names.
set -euo pipefail
. "$(dirname "$0")/common.sh"

prepare_programs
if [ -z "$context" ]; then
  "$kubenode" down -dir "$state"
  exit
fi
step "Removing clusters, streams and workers"
"${kubectl[@]}" delete pod --selector app=myelin-demo --ignore-not-found
# With the definitions gone there is nothing to delete.
if "${kubectl[@]}" get crd natsclusters.myelin.dev > /dev/null 2>&1; then
  "${kubectl[@]}" delete -f "$manifests" --ignore-not-found --wait
fi
# Volumes stay when their cluster goes; here they are not wanted.
"${kubectl[@]}" delete persistentvolumeclaim --selector app.kubernetes.io/instance=store --ignore-not-found
step "Removing the operator"
for release in myelin myelin-crds; do
  "${helm[@]}" uninstall "$release" --namespace "$operator_namespace" --ignore-not-found --wait
done
# The chart keeps the definitions, because with them go all objects. Those of the demonstration are gone; if there are others,
# the definitions stay.
for kind in natsclusters.myelin.dev natsautoscalers.myelin.dev {streams,consumers,keyvalues,objectstores,accounts}.jetstream.nats.io; do
  others=$("${kubectl[@]}" get "$kind" --all-namespaces --output=name --ignore-not-found 2> /dev/null || true)
  if [ -n "$others" ]; then
    echo "$kind stays: there are objects of it that the demonstration did not make"
  else
    "${kubectl[@]}" delete crd "$kind" --ignore-not-found
  fi
done
"${kubectl[@]}" delete namespace "$operator_namespace" --ignore-not-found
