#!/usr/bin/env bash
# From nothing to a message that is published through one pod of a NATS cluster and received from another; then a message that
# outlives the pod that stored it, and workers that come and go with the work.
#
# CONTEXT=name            use that Kubernetes context instead of the one-node Kubernetes. Its nodes have to find the images:
# IMAGE_BROKER=name:tag   the broker, IMAGE_OPERATOR=name:tag the operator,
# IMAGE_NATS=name:tag     anything with the `nats` command, for the clients; workers have the image of their manifest.
set -euo pipefail
. "$(dirname "$0")/common.sh"

# The image of the workers, which has the `nats` command.
worker_image=$(sed -n 's/^ *image: //p' "$manifests/autoscaler.yaml")
# Orders at once, and the most seconds until they are done and the workers are gone.
orders=200
scaling_seconds_max=180
# How often a publish is repeated until the receiver has seen it; interest needs a moment to travel between servers.
publishes_max=10

start_one_node_kubernetes() {
  step "Building the images"
  make --no-print-directory image
  images=${CARGO_TARGET_DIR:-target}/images
  step "Starting a one-node Kubernetes"
  "$kubenode" up -dir "$state"
  step "Loading the images"
  "$kubenode" load-image -dir "$state" "$images"/{broker,operator,nats}.tar
  image_broker=$(tag_by_content broker)
  image_operator=$(tag_by_content operator)
  image_nats=$worker_image
}

# Gives a loaded image a tag that changes with its content, so that a second run of changed code updates the pods.
tag_by_content() {
  local name=myelin/$1 sum
  sum=$(sha256sum "$images/$1.tar")
  "$kubenode" exec -dir "$state" ctr --address /run/containerd/containerd.sock --namespace k8s.io \
    images tag --force "docker.io/$name:dev" "docker.io/$name:dev-${sum:0:12}" > /dev/null
  echo "$name:dev-${sum:0:12}"
}

use_context() {
  : "${IMAGE_BROKER:?push the images of \`docker build\` to a registry of yours and name them}"
  : "${IMAGE_OPERATOR:?push the images of \`docker build\` to a registry of yours and name them}"
  image_broker=$IMAGE_BROKER
  image_operator=$IMAGE_OPERATOR
  image_nats=${IMAGE_NATS:-$worker_image}
}

install_operator() {
  "${helm[@]}" upgrade --install myelin-crds charts/operator-crds --namespace "$operator_namespace" --create-namespace --wait > /dev/null
  "${helm[@]}" upgrade --install myelin charts/operator --namespace "$operator_namespace" --wait --timeout 3m \
    --set crds.install=false \
    --set image.repository="${image_operator%:*}" --set image.tag="${image_operator##*:}" \
    --set defaults.natsImage="$image_broker" > /dev/null
  "${kubectl[@]}" --namespace "$operator_namespace" get deployments
}

# Runs `nats` with the arguments in a pod of the name, as the example's user, connected to one address.
run_nats() {
  local pod=$1 address=$2 arguments
  shift 2
  arguments=$(printf ', "%s"' "$@")
  "${kubectl[@]}" delete pod "$pod" --ignore-not-found --wait > /dev/null
  "${kubectl[@]}" create -f - > /dev/null << POD
apiVersion: v1
kind: Pod
metadata: {name: $pod, labels: {app: myelin-demo}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - name: nats
    image: $image_nats
    imagePullPolicy: IfNotPresent
    command: ["nats"$arguments]
    env:
    - {name: NATS_URL, value: "nats://$address:4222"}
    - {name: NATS_USER, value: app}
    - {name: NATS_PASSWORD, valueFrom: {secretKeyRef: {name: "${address%%[-.]*}-users", key: app}}}
POD
}

# Runs `nats` in a pod against the server with streams, to its end, and shows what it printed.
run_store() {
  run_nats demo-client store "$@"
  "${kubectl[@]}" wait pod/demo-client --for=jsonpath='{.status.phase}'=Succeeded --timeout=30s > /dev/null || {
    "${kubectl[@]}" logs demo-client >&2
    return 1
  }
  "${kubectl[@]}" logs demo-client | sed '/^$/d; s/^/  /'
  "${kubectl[@]}" delete pod demo-client --wait=false > /dev/null
}

# Waits until the log of the pod has the text.
await_log() {
  local pod=$1 text=$2
  for _ in $(seq 60); do
    # Not a pipe into grep: a log that is still growing would end with a broken one.
    [[ $("${kubectl[@]}" logs "$pod" 2> /dev/null) == *"$text"* ]] && return
    sleep 0.5
  done
  echo "pod $pod did not say \"$text\" within 30 s:" >&2
  "${kubectl[@]}" describe pod "$pod" >&2
  "${kubectl[@]}" logs "$pod" >&2
  return 1
}

send_message() {
  local text
  text="hello across pods, $(date +%T)"
  run_nats demo-receiver demo-1.demo-headless sub demo.greeting --count=1
  await_log demo-receiver Subscribing
  for _ in $(seq "$publishes_max"); do
    run_nats demo-publisher demo-0.demo-headless pub demo.greeting "$text"
    await_log demo-publisher Published
    if "${kubectl[@]}" wait pod/demo-receiver --for=jsonpath='{.status.phase}'=Succeeded --timeout=3s > /dev/null 2>&1; then
      await_log demo-receiver "$text"
      echo "through pod demo-0:"
      "${kubectl[@]}" logs demo-publisher | sed '/^$/d; s/^/  /'
      echo "from pod demo-1:"
      "${kubectl[@]}" logs demo-receiver | sed '/^$/d; s/^/  /'
      "${kubectl[@]}" delete pod demo-receiver demo-publisher --wait=false > /dev/null
      return
    fi
  done
  echo "the message did not arrive after $publishes_max attempts" >&2
  return 1
}

store_message() {
  local text before shown
  text="stored before the pod was deleted, $(date +%T)"
  run_store request events.demo "$text" --raw
  before=$("${kubectl[@]}" get pod store-0 --output=jsonpath='{.metadata.uid}')
  "${kubectl[@]}" delete pod store-0
  for _ in $(seq 60); do
    [ "$("${kubectl[@]}" get pod store-0 --ignore-not-found --output=jsonpath='{.metadata.uid}')" != "$before" ] &&
      "${kubectl[@]}" wait pod/store-0 --for=condition=Ready --timeout=60s 2> /dev/null && break
    sleep 0.5
  done
  shown=$(run_store stream get events --last-for events.demo)
  echo "$shown"
  [[ $shown == *"$text"* ]] || {
    echo "that is not what was stored" >&2
    return 1
  }
}

# Prints the autoscaler whenever its numbers change, from work for all workers to none of them.
scale_workers() {
  local started=$SECONDS line numbers previous="" most=0 replicas
  run_store publish orders.new "order {{Count}}" "--count=$orders" --quiet
  "${kubectl[@]}" get natsautoscaler orders-worker | head -n 1
  while [ $((SECONDS - started)) -lt "$scaling_seconds_max" ]; do
    line=$("${kubectl[@]}" get natsautoscaler orders-worker --no-headers)
    # Replicas, desired replicas, whether there is work; not the age.
    numbers=$(awk '{ print $5, $6, $7 }' <<< "$line")
    if [ "$numbers" != "$previous" ]; then echo "$line"; fi
    previous=$numbers
    replicas=${numbers%% *}
    if [ "$replicas" -gt "$most" ]; then most=$replicas; fi
    if [ "$most" -gt 1 ] && [ "$replicas" = 0 ]; then
      echo "$orders orders were done by up to $most workers; none is left after $((SECONDS - started)) s"
      return
    fi
    sleep 1
  done
  echo "the workers did not come and go within $scaling_seconds_max s" >&2
  "${kubectl[@]}" describe natsautoscaler orders-worker >&2
  return 1
}

explain() {
  step "Done: a Kubernetes, the operator, a NATS cluster of three servers, a server with streams, and workers as needed"
  if [ -n "$context" ]; then
    echo "Look around:   kubectl --context $context get nats,pods"
    echo "Remove it:     make demo-down CONTEXT=$context"
    return
  fi
  echo "Look around:   export KUBECONFIG=$KUBECONFIG"
  echo "               ${kubectl[*]} get nats,pods"
  echo "Use it:        ${kubectl[*]} port-forward service/demo 4222 &"
  echo "               $tools_directory/nats --server nats://app:change-me-please@127.0.0.1:4222 sub '>'"
  echo "Remove it:     make demo-down"
}

if [ -n "$context" ]; then use_context; fi
step "Building the programs that this needs, unless they are there already"
prepare_programs
if [ -z "$context" ]; then start_one_node_kubernetes; fi
step "Installing the operator"
install_operator
step "Applying $manifests: two clusters, streams, buckets, workers"
"${kubectl[@]}" apply -f "$manifests"
"${kubectl[@]}" wait natscluster --all --for=condition=Ready --timeout=5m
"${kubectl[@]}" wait streams,consumers,keyvalues,objectstores,natsautoscalers --all --for=condition=Ready --timeout=2m
"${kubectl[@]}" get natsclusters,streams,consumers,keyvalues,objectstores,pods
step "Publishing through one pod, receiving from another"
send_message
step "Storing a message, deleting the pod, reading the message back"
store_message
step "Publishing $orders orders: workers come, and go when the orders are done"
scale_workers
explain
