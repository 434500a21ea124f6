# What CI calls, see .ci/run and .github/workflows/ci.yml. Needs Go; a C compiler
# for the race detector; redis-server for the tests on a real Redis.

.DEFAULT_GOAL := help
SHELL := /bin/sh

# The version that is released next: what modules require of their neighbours.
VERSION := v0.1.0

GOLANGCI_LINT_VERSION := 2.15.0
GOVULNCHECK_VERSION := v1.9.0

# A module that is added counts everywhere from its first day. Released are core
# and the adapters; users must not inherit what the others depend on.
MODULES := $(sort $(patsubst ./%/go.mod,%,$(shell find . -name go.mod -not -path './.*/*' -not -path '*/testdata/*')))
RELEASED := $(filter core adapters/%,$(MODULES))

# The race detector needs cgo, and go turns cgo off where no C compiler is found.
RACE ?= $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)
TESTFLAGS ?=
FUZZTIME ?= 20s
BENCHFLAGS ?=

# $(call each,command) runs command in the folder of each module, in all of them
# even if it fails in one.
define each
@failed=; for module in $(MODULES); do \
	printf '== %s: %s\n' "$$module" '$(1)'; \
	(cd "$$module" && $(1)) || failed="$$failed $$module"; \
done; [ -z "$$failed" ] || { echo "failed in$$failed" >&2; exit 1; }
endef

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-20s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# Not go run, which dies of a SIGTERM without handing it on.
.PHONY: run
run: ## start the example service on :8080; it needs nothing but Go
	@cd examples && go build -o ../.bin/example ./nethttp && exec ../.bin/example

# -count=1: a cached result would outlive the installation of redis-server.
.PHONY: test
test: ## test all modules; says what was skipped; REQUIRE_REDIS=1: a missing redis-server fails
	@go run .ci/gotest/main.go $(RACE) -count=1 $(TESTFLAGS) -- $(MODULES)

.PHONY: vet
vet: ## build and vet each module as it stands alone, without the workspace
	$(call each,GOWORK=off go build -o /dev/null ./... && GOWORK=off go vet ./...)

.PHONY: lint
lint: vet .bin/golangci-lint ## vet, then golangci-lint
	$(call each,$(CURDIR)/.bin/golangci-lint run ./...)

# A link to the one on this machine, if that is of the version, or built.
.PHONY: .bin/golangci-lint
.bin/golangci-lint:
	@.ci/golangci-lint $(GOLANGCI_LINT_VERSION)

.PHONY: bench
bench: ## measure it beside other limiters, on a redis-server of its own; BENCHFLAGS=-h tells more
	@cd core/benchmarks && go run . $(BENCHFLAGS)

.PHONY: faults
faults: ## test what happens when Redis and the network fail; needs redis-server
	@REQUIRE_REDIS=1 go run .ci/gotest/main.go $(RACE) -count=1 $(TESTFLAGS) -- core/faults

.PHONY: fuzz
fuzz: ## run each fuzz test for FUZZTIME, 20s by default
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' $(MODULES) | sort -u | while IFS=: read -r file func; do \
		name=$${func#func }; \
		printf '== %s: %s for %s\n' "$$(dirname "$$file")" "$$name" '$(FUZZTIME)'; \
		(cd "$$(dirname "$$file")" && go test -run '^$$' -fuzz "^$$name\$$" -fuzztime '$(FUZZTIME)' .) || exit 1; \
	done

.PHONY: tidy
tidy: ## tidy each module
	$(call each,GOWORK=off go mod tidy)

.PHONY: tidy-check
tidy-check: ## fail if a module is not tidy, not in go.work, or of another version than its neighbours
	$(call each,GOWORK=off go mod tidy -diff)
	@.ci/modules-agree $(VERSION) $(MODULES)

.PHONY: consumer-check
consumer-check: ## use each released module from outside, as of HEAD, the way its users will get it
	@.ci/consumer-check $(VERSION) $(RELEASED)

.PHONY: consumer-check-test
consumer-check-test: ## prove that consumer-check fails when it should
	@.ci/consumer-check-test $(VERSION)

.PHONY: vuln
vuln: ## look for known vulnerabilities in what the modules call; needs the internet
	$(call each,go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...)

.PHONY: check
check: lint tidy-check test consumer-check consumer-check-test ## all that CI requires of a change

.PHONY: release
release: ## say what a release of VERSION would do; PUSH=1 does it, see .github/RELEASING.md
	@.ci/release $(VERSION) $(RELEASED)

.PHONY: next-version
next-version: ## make TO the version that is released next, in all modules
	@.ci/next-version '$(TO)' $(MODULES)

.PHONY: print-version
print-version: ## print the version that is released next
	@echo $(VERSION)
