# What running and removing the demonstration have in common; sourced by both.
# shellcheck shell=bash

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The one-node Kubernetes of the demonstration; tests use directories of their own.
state=${XDG_CACHE_HOME:-$HOME/.cache}/myelin/demo
context=${CONTEXT:-}
operator_namespace=myelin-system
manifests=docs/examples/manifests

step() {
  printf '\n[%3d s] %s\n' "$SECONDS" "$1"
}

# Sets kubectl, helm and the programs behind them. Without a context, KUBECONFIG names the one-node Kubernetes.
prepare_programs() {
  kubenode_directory=$(testing/kubernetes/build.sh)
  tools_directory=$(testing/tools/build.sh)
  kubenode=$kubenode_directory/kubenode
  kubectl=("$kubenode_directory/kubectl")
  helm=("$tools_directory/helm")
  if [ -n "$context" ]; then
    kubectl+=(--context "$context")
    helm+=(--kube-context "$context")
  else
    export KUBECONFIG=$state/kubeconfig
  fi
}
