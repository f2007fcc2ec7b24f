# What a newcomer and CI call. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
# Where unpacked test pools lie, and what OpenZFS says of them.
IMAGES := $(CURDIR)/target/images
export WEIR_FIXTURES ?= $(IMAGES)
export WEIR_EXPECTED ?= $(CURDIR)/testing/images
export WEIR_RECORDED ?= $(CURDIR)/testing/images
# Seconds for each part of `make soak`.
SECONDS_EACH ?= 600

.PHONY: help build deps images test lint unit demo soak interop bench doc

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

build: ## the program, target/release/weir
	$(CARGO) build --release --package weir-cli

deps: ## install what tests need from Debian, as far as root and missing
	@missing=""; for p in fuse3:fusermount3 attr:getfattr acl:getfacl zstd:zstd; do command -v $${p#*:} >/dev/null || missing="$$missing $${p%%:*}"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	else echo "not installed, tests that need them are skipped:$$missing (apt-get install$$missing)"; fi

images: ## unpack the pools that OpenZFS made
	@$(CARGO) xtask images testing/images $(IMAGES)

lint: ## format, warnings, who uses whom
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) xtask edges

unit: images ## all tests
	$(CARGO) test --workspace --quiet

test: deps lint unit ## everything that must hold before a commit lands
	@echo "make test: all passed"

demo: build images ## open a shipped pool, list it, copy a file out, verify it
	@testing/demo

soak: build images ## hours of bit flips, power cuts, kills and fuzzing (SECONDS_EACH=600)
	SECONDS_EACH=$(SECONDS_EACH) testing/soak

interop: build images ## other pools, other judges: OpenZFS's own test images, zdb, zhack; POSIX suites on a mount
	testing/interop
	testing/posix/run
	testing/sim/judge

bench: build ## side by side with peers
	bench/run

doc: ## the documentation of all crates
	$(CARGO) doc --workspace --no-deps
