# The front door: `make help` lists what there is.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
STATIC := $(TARGET)/$(HOST)/release
IMAGES := $(TARGET)/images
# The bound on the size of an image, and how long each fuzz target runs.
IMAGE_BYTES_MAX := 20000000
FUZZ_SECONDS ?= 60
# The image with the `nats` tool that the examples name. The one-node Kubernetes has no registry, so it gets one of this name.
NATS_IMAGE := natsio/nats-box:0.19.2

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 16

.PHONY: build
build: ## Build the broker and the operator for development
	$(CARGO) build -p broker -p operator

.PHONY: check
check: ## Type-check everything
	$(CARGO) check --workspace --all-targets

.PHONY: test
test: ## Run all tests and print how many there were
	@testing/test.sh

.PHONY: it
it: ## Run the broker's black-box tests, with the reference server beside it
	MYELIN_REFERENCE="$$(testing/tools/build.sh)/nats-server" $(CARGO) test -p broker --test it

.PHONY: e2e
e2e: image ## Run the tests of the whole chain in the one-node Kubernetes
	MYELIN_KUBENODE="$$(testing/kubernetes/build.sh)/kubenode" MYELIN_TOOLS="$$(testing/tools/build.sh)" \
	MYELIN_IMAGES="$$(realpath $(IMAGES))" $(CARGO) test -p e2e

.PHONY: lint
lint: tidy ## Check format and lints of Rust and Go, and the charts
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	(cd testing/kubernetes && test -z "$$(gofmt -l . | tee /dev/stderr)" && go vet ./node ./pki ./image ./pause)
	"$$(testing/tools/build.sh)/helm" lint charts/operator charts/operator-crds

.PHONY: tidy
tidy: ## Check the rules of the house: imports, sizes, words, generated files
	$(CARGO) run -q -p xtask -- tidy
	$(CARGO) run -q -p xtask -- codegen --check

.PHONY: codegen
codegen: ## Write the files that are derived from Rust types
	$(CARGO) run -q -p xtask -- codegen

.PHONY: image
image: ## Build static binaries and write the images as archives, without a container engine
	@RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --release --locked --target $(HOST) -p broker -p operator
	mkdir -p $(IMAGES)
	kubenode="$$(testing/kubernetes/build.sh)/kubenode"
	"$$kubenode" image -output $(IMAGES)/broker.tar -name myelin/broker:dev $(STATIC)/myelin=/myelin
	"$$kubenode" image -output $(IMAGES)/operator.tar -name myelin/operator:dev $(STATIC)/myelin-operator=/myelin-operator
	"$$kubenode" image -output $(IMAGES)/nats.tar -name $(NATS_IMAGE) -env PATH=/,HOME=/,USER=nats "$$(testing/tools/build.sh)/nats=/nats"
	for archive in $(IMAGES)/broker.tar $(IMAGES)/operator.tar; do
	  bytes=$$(stat -c %s "$$archive")
	  echo "$$archive: $$((bytes / 1000)) kB"
	  test "$$bytes" -lt $(IMAGE_BYTES_MAX) || { echo "that is more than an image may have"; exit 1; }
	done

.PHONY: chart
chart: ## Pack both charts
	@helm="$$(testing/tools/build.sh)/helm"
	mkdir -p $(TARGET)/charts
	for chart in operator-crds operator; do "$$helm" package charts/$$chart --destination $(TARGET)/charts; done

.PHONY: bench
bench: ## Measure the broker and the reference server alternately
	$(CARGO) build --release -p broker -p bench
	$(TARGET)/release/bench compare --ours $(TARGET)/release/myelin --reference "$$(testing/tools/build.sh)/nats-server"

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZ_SECONDS each
	@command -v cargo-fuzz > /dev/null || $(CARGO) install --locked cargo-fuzz
	cd testing/fuzz
	for target in fuzz_targets/*.rs; do
	  RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run --fuzz-dir . "$$(basename "$$target" .rs)" -- -max_total_time=$(FUZZ_SECONDS)
	done

.PHONY: demo
demo: ## From nothing to messages, streams and scaling; CONTEXT=name uses your own Kubernetes
	@testing/demo/run.sh

.PHONY: demo-down
demo-down: ## Remove everything that the demo made
	@testing/demo/remove.sh

.PHONY: tools
tools: ## Build the pinned Go programs (nats, helm, nats-server) and print their paths
	@directory=$$(testing/tools/build.sh) && ls -d "$$directory"/*

.PHONY: kubernetes
kubernetes: ## Build the one-node Kubernetes and print the paths of its programs
	@directory=$$(testing/kubernetes/build.sh) && ls -d "$$directory"/*
