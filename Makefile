# make build | man | install | test | demo | run | bench | benchmarks | soak | fuzz | rdma | asan | vm | dashboards | rollout-times
# Everything fetched lies in .cache, everything built in bin; `make clean` removes bin, `make distclean` both.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

CACHE ?= $(CURDIR)/.cache
TOOLS := $(CACHE)/bin
export MOONCAKE_CACHE_DIR := $(CACHE)

# Time for each fuzz target of `make fuzz`. An input that is new takes as many tries to be made shorter: without a bound
# a short run is spent on that.
FUZZTIME ?= 20s
FUZZMINIMIZETIME ?= 5x
# Where `make install` puts the programs.
PREFIX ?= /usr/local
# Memory that `make run` gives to the pool.
SIZE ?= 1GiB
# What `make vm` runs in the emulated machine.
CMD ?= rdma link
# Packages with the tests that need no client wheels.
UNIT = $$(go list ./... | grep -vE '^mooncake/(interop|bench/yardsticks)')

# The segment daemon speaks RDMA where libibverbs-dev is installed.
HAVE_VERBS = $(wildcard /usr/include/infiniband/verbs.h)

# A failed test is repeated once by gotestsum: by itself, from its root, three of one part at most. What repeats cannot make good
# is red: panics, data races, leaks, timeouts, tests that never had their turn; interop/verdict looks for it. What was repeated
# is named as FLAKY. Arguments: name of the part, its packages, flags of go test.
define tested
	@mkdir -p $(CACHE); rm -f $(CACHE)/$(1).json; \
	packages="$(2)"; status=0; \
	$(TOOLS)/gotestsum --format pkgname-and-test-fails --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test \
	  --rerun-fails-abort-on-data-race --jsonfile $(CACHE)/$(1).json --packages "$$packages" -- $(3) || status=$$?; \
	go run ./interop/verdict $(CACHE)/$(1).json || status=1; \
	exit $$status
endef

.PHONY: build man install prepare tools lint unit interop test demo run bench benchmarks soak fuzz rdma asan vm dashboards rollout-times clean distclean

build:
	@mkdir -p bin
	$(if $(HAVE_VERBS),,@echo "libibverbs-dev is not installed: building WITHOUT RDMA (with it: apt-get install gcc libc6-dev libibverbs-dev)")
	go build -trimpath $(if $(HAVE_VERBS),,-tags nordma) -o bin/ ./cmd/...
	@ln -sf mooncake-master bin/mooncake_master
	@ln -sf mooncake-segment bin/mooncake_client

# Manual pages of mooncakectl, from what its commands say of themselves.
man: build
	bin/mooncakectl man bin/man

# The daemons under their own names and under the published ones, which process names follow, and mooncakectl with its
# manual pages: PREFIX=/usr, DESTDIR for packages.
install: man
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 bin/mooncake-master bin/mooncake-segment bin/mooncakectl $(DESTDIR)$(PREFIX)/bin
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 bin/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	ln -sf mooncake-master $(DESTDIR)$(PREFIX)/bin/mooncake_master
	ln -sf mooncake-segment $(DESTDIR)$(PREFIX)/bin/mooncake_client

prepare:
	@go run ./interop/prepare test

# Only what is built from Go's module proxy.
tools:
	@go run ./interop/prepare tools

lint: prepare
	go vet ./...
	go vet -tags nordma ./...
	go vet -tags rdmavm ./interop ./rdma
	$(TOOLS)/staticcheck ./...
	$(TOOLS)/staticcheck -tags rdmavm ./interop ./rdma
	@unformatted=$$($(TOOLS)/gofumpt -l $$(git ls-files -co --exclude-standard '*.go' ':!*.gen.go' ':!*.pb.go' 2>/dev/null || find . -name '*.go' -not -name '*.gen.go' -not -name '*.pb.go' -not -path './.*')); \
	if [[ -n $$unformatted ]]; then echo "not formatted by gofumpt:"; echo "$$unformatted"; exit 1; fi

unit: tools
	$(call tested,unit,$(UNIT),-race -timeout 20m)

interop: prepare
	$(call tested,interop,./interop/... ./bench/yardsticks,-count=1 -timeout 60m)

test: lint unit interop
	@go run ./interop/verdict $(CACHE)/unit.json $(CACHE)/interop.json

demo:
	@go run ./interop/prepare demo
	@go run ./interop/demo

run: build
	@go run ./interop/demo -serve -binaries bin -size $(SIZE)

# The yardsticks of docs/performance.md, ours beside a published master: ARGS='-suite calls -rounds 3 -json FILE', and others.
bench: prepare
	@go run ./bench/yardsticks $(ARGS)

# Go's own benchmarks, with allocations.
benchmarks:
	go test -run '^$$' -bench . -benchmem $(UNIT)

# Hours are better spent here than in `make test`: many repetitions, daemons built with the race detector.
soak: prepare
	MOONCAKE_RANDOM=1 go test -race -count=5 -timeout 1h $(UNIT)
	MOONCAKE_RANDOM=1 go test -count=1 -timeout 2h -run '^TestSimulatedCluster$$' ./master -args -seeds 5000
	go test -count=1 -timeout 4h -v ./interop ./bench/yardsticks -args -soak

# Only the tests in the emulated machine.
rdma: prepare
	go test -count=1 -timeout 40m -v -run '^TestRDMA$$' ./interop

# The C side of package rdma on real devices with the address sanitizer, in the emulated machine.
asan: prepare
	@mkdir -p bin
	go test -c -asan -tags rdmavm -o bin/rdma-asan.test ./rdma
	cd rdma && go run ../interop/vm/run -limit 30m -- ../bin/rdma-asan.test -test.v -test.run '^TestVM'

# A command in the emulated machine, for trying things: make vm CMD='ibv_devices'
vm: prepare
	go run ./interop/vm/run -- bash -c '$(CMD)'

# Debian's Prometheus scrapes a running master: no query of a dashboard without an answer, rules that are evaluated.
dashboards:
	@go run ./interop/prepare demo
	@go run ./interop/dashboards

# How long rollouts take from hand to hand: the client in Go, an unchanged wheel, and Ray where RAY_PYTHON names an interpreter with it.
rollout-times:
	@go run ./interop/prepare demo
	@go run ./interop/rollouttimes $(if $(RAY_PYTHON),-ray-python $(RAY_PYTHON)) $(ARGS)

fuzz:
	@go list -f '{{$$p := .ImportPath}}{{range .TestGoFiles}}{{$$p}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$$p}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}' ./... | \
	while read -r package file; do \
	  for target in $$(grep -oE '^func Fuzz[A-Za-z0-9_]+' "$$file" | cut -c6-); do \
	    echo "== $$package $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime $(FUZZMINIMIZETIME) "$$package"; \
	  done; \
	done

clean:
	rm -rf bin

distclean: clean
	chmod -R u+w $(CACHE) 2>/dev/null || true
	rm -rf $(CACHE)
