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

.PHONY: help build ui ui-if-node ui-test deps images test lint advisories unit demo deps-demo rot soak interop bench doc install

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

build: ui-if-node ## the programs, target/release/weir (with the web page in it where Node is installed) and weir-bench
	$(CARGO) build --release --package weir-cli --package weir-bench

# Node 20.19 or newer builds the page; without it the program is built without one.
NODE := $(shell node -e 'const [a, b] = process.versions.node.split(".").map(Number); if (a > 20 || (a == 20 && b >= 19)) console.log("yes")' 2>/dev/null)
ui/node_modules/.package-lock.json: ui/package-lock.json
	cd ui && npm ci --no-audit --no-fund --loglevel=error
ui/dist/index.html: ui/node_modules/.package-lock.json appliance/api/openapi.json ui/scripts/types.mjs ui/index.html ui/vite.config.ts ui/tsconfig.json $(shell find ui/app ui/public -type f 2>/dev/null)
	cd ui && npm run --silent build

ui: ui/dist/index.html ## the web page, ui/dist

ui-if-node:
ifeq ($(NODE),yes)
	@$(MAKE) --no-print-directory ui
else
	@echo "skipped: the web page, as there is no Node 20.19 or newer (apt-get install nodejs npm, or nodejs.org)"
endif

ui-test: ui-if-node
ifeq ($(NODE),yes)
	cd ui && npm run --silent types && { npm run --silent check & check=$$!; npm test --silent; tests=$$?; wait $$check && [ $$tests = 0 ]; } && WEIR=$${CARGO_TARGET_DIR:-$(CURDIR)/target}/debug/weir npm run --silent e2e
endif

deps: ## install what tests need from Debian, as far as root and missing
	@missing=""; for p in fuse3:fusermount3 attr:getfattr acl:getfacl zstd:zstd $(if $(NODE),chromium:chromium); do command -v $${p#*:} >/dev/null || missing="$$missing $${p%%:*}"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	else echo "not installed, tests that need them are skipped:$$missing (apt-get install$$missing)"; fi

images: ## unpack the pools that OpenZFS made
	@$(CARGO) xtask images testing/images $(IMAGES)

lint: ## format, warnings, who uses whom, figures that may only fall
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) xtask tidy

advisories: ## known vulnerabilities and licences of dependencies, where cargo-deny is installed
	@testing/deny

unit: images ## all tests
	$(CARGO) test --workspace --quiet

test: deps ui-if-node lint advisories unit ui-test ## everything that must hold before a commit lands
	@echo "make test: all passed"

demo: deps-demo build ## a filer to play with: a pool on image files, NFS, the page on http://127.0.0.1:8215
	@testing/demo

deps-demo: # the NFS client that the demo's lines use
	@command -v nfs-ls >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq --no-install-recommends libnfs-utils >/dev/null 2>&1; } || true

rot: build ## makes a pool, mounts it, lets a disk rot, reads on
	@testing/rot

soak: images ## hours of bit flips, power cuts, kills and fuzzing (SECONDS_EACH=600)
	SECONDS_EACH=$(SECONDS_EACH) testing/soak

interop: build images ## other pools, other judges: OpenZFS's own test images, zdb, zhack; POSIX suites on a mount
	testing/interop
	testing/posix/run
	testing/sim/judge
	testing/kernel/user-space
	testing/zts --quick
	testing/system/sanoid
	testing/system/zfs-auto-snapshot
	testing/system/pyznap
	testing/system/zrepl
	testing/system/httm
	testing/system/bench
	testing/system/boot-environments
	testing/kernel/replays
	testing/kernel/round-trips
	testing/kernel/matrix
	testing/kernel/grow
	testing/kernel/shape
	testing/kernel/rebuild
	testing/kernel/spares
	testing/nfs/pynfs
	testing/nfs/kernel-client
	docs/cookbook/run

bench: build ## side by side with peers
	bench/run

doc: ## the documentation of all crates
	$(CARGO) doc --workspace --no-deps

# Where `make install` puts files; DESTDIR, which packages set, comes before all of them.
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
DATADIR ?= $(PREFIX)/share
UNITDIR ?= $(PREFIX)/lib/systemd/system
# The programs to install, which `make build` makes. weir-bench is installed if it is there.
WEIR_BIN ?= $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/release/weir
BENCH_BIN ?= $(dir $(WEIR_BIN))weir-bench
# LINKS="zpool zfs" also installs the program under these names, where OpenZFS's tools are not.
LINKS ?=

install: ## the programs that `make build` made, with man pages, completions and weir.service (PREFIX=/usr/local DESTDIR= LINKS="zpool zfs")
	@test -x "$(WEIR_BIN)" || { echo "there is no $(WEIR_BIN): run make build first, or set WEIR_BIN" >&2; exit 1; }
	install -Dm755 "$(WEIR_BIN)" "$(DESTDIR)$(BINDIR)/weir"
	if [ -x "$(BENCH_BIN)" ]; then install -Dm755 "$(BENCH_BIN)" "$(DESTDIR)$(BINDIR)/weir-bench"; fi
	install -d "$(DESTDIR)$(UNITDIR)"
	sed 's|^ExecStart=[^ ]*|ExecStart=$(BINDIR)/weir|' packaging/weir.service > "$(DESTDIR)$(UNITDIR)/weir.service"
	chmod 644 "$(DESTDIR)$(UNITDIR)/weir.service"
	pages=$$(mktemp -d); trap 'rm -rf "$$pages"' EXIT; "$(WEIR_BIN)" man "$$pages"; \
	install -d "$(DESTDIR)$(DATADIR)/man/man1" "$(DESTDIR)$(DATADIR)/man/man8"; \
	install -m644 "$$pages"/*.1 "$(DESTDIR)$(DATADIR)/man/man1"; \
	install -m644 "$$pages"/*.8 "$(DESTDIR)$(DATADIR)/man/man8"
	install -d "$(DESTDIR)$(DATADIR)/bash-completion/completions" "$(DESTDIR)$(DATADIR)/zsh/site-functions" "$(DESTDIR)$(DATADIR)/fish/vendor_completions.d"
	"$(WEIR_BIN)" completions bash > "$(DESTDIR)$(DATADIR)/bash-completion/completions/weir"
	"$(WEIR_BIN)" completions zsh > "$(DESTDIR)$(DATADIR)/zsh/site-functions/_weir"
	"$(WEIR_BIN)" completions fish > "$(DESTDIR)$(DATADIR)/fish/vendor_completions.d/weir.fish"
	for name in $(LINKS); do \
	  ln -sf weir "$(DESTDIR)$(BINDIR)/$$name"; \
	  ln -sf weir "$(DESTDIR)$(DATADIR)/bash-completion/completions/$$name"; \
	  ln -sf weir.fish "$(DESTDIR)$(DATADIR)/fish/vendor_completions.d/$$name.fish"; \
	  if [ -e "$(DESTDIR)$(DATADIR)/man/man8/weir-$$name.8" ]; then ln -sf "weir-$$name.8" "$(DESTDIR)$(DATADIR)/man/man8/$$name.8"; fi; \
	done
