# make build | test | demo | run | bench | soak | fuzz
# Everything fetched lies in .cache, everything built in bin; `make clean` removes bin, `make distclean` both.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

CACHE ?= $(CURDIR)/.cache
TOOLS := $(CACHE)/bin
export MOONCAKE_CACHE_DIR := $(CACHE)

# Time for each fuzz target of `make fuzz`.
FUZZTIME ?= 20s
# Memory that `make run` gives to the pool.
SIZE ?= 1GiB
# Packages with the tests that need no client wheels.
UNIT = $$(go list ./... | grep -v '^mooncake/interop')

.PHONY: build prepare lint unit interop test demo run bench soak fuzz clean distclean

build:
	@mkdir -p bin
	go build -trimpath -o bin/ ./cmd/...
	@ln -sf mooncake-master bin/mooncake_master

prepare:
	@go run ./interop/prepare test

lint: prepare
	go vet ./...
	$(TOOLS)/staticcheck ./...
	@unformatted=$$($(TOOLS)/gofumpt -l $$(git ls-files -co --exclude-standard '*.go' ':!*.gen.go' 2>/dev/null || find . -name '*.go' -not -name '*.gen.go' -not -path './.*')); \
	if [[ -n $$unformatted ]]; then echo "not formatted by gofumpt:"; echo "$$unformatted"; exit 1; fi

unit:
	go test -race -timeout 10m $(UNIT)

interop: prepare
	go test -count=1 -timeout 20m ./interop/...

test: lint unit interop

demo:
	@go run ./interop/prepare demo
	@go run ./interop/demo

run: build
	@go run ./interop/demo -serve -binaries bin -size $(SIZE)

bench:
	go test -run '^$$' -bench . -benchmem $(UNIT)

# Hours are better spent here than in `make test`: many repetitions, daemons built with the race detector.
soak: prepare
	MOONCAKE_RANDOM=1 go test -race -count=5 -timeout 1h $(UNIT)
	go test -count=1 -timeout 4h -v ./interop -args -soak

fuzz:
	@go list -f '{{$$p := .ImportPath}}{{range .TestGoFiles}}{{$$p}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$$p}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}' ./... | \
	while read -r package file; do \
	  for target in $$(grep -oE '^func Fuzz[A-Za-z0-9_]+' "$$file" | cut -c6-); do \
	    echo "== $$package $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package"; \
	  done; \
	done

clean:
	rm -rf bin

distclean: clean
	chmod -R u+w $(CACHE) 2>/dev/null || true
	rm -rf $(CACHE)
