#!/usr/bin/env bash
# Removes what the demonstration made: the whole one-node Kubernetes, or its objects in the context that CONTEXT names.
set -euo pipefail
. "$(dirname "$0")/common.sh"

prepare_programs
if [ -z "$context" ]; then
  "$kubenode" down -dir "$state"
  exit
fi
step "Removing the NATS cluster"
"${kubectl[@]}" delete pod --selector app=myelin-demo --ignore-not-found
"${kubectl[@]}" delete -f "$manifest" --ignore-not-found --wait
step "Removing the operator"
for release in myelin myelin-crds; do
  "${helm[@]}" uninstall "$release" --namespace "$operator_namespace" --ignore-not-found --wait
done
# The chart keeps the definition, because with it go all clusters; here that is what is wanted.
"${kubectl[@]}" delete crd natsclusters.myelin.dev --ignore-not-found
"${kubectl[@]}" delete namespace "$operator_namespace" --ignore-not-found
