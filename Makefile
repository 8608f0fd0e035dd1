# Everything a contributor needs. `make` lists the targets.

# The module needs Go 1.27, which any go since 1.21 fetches by itself, unless the environment forbids it.
export GOTOOLCHAIN = auto

GO ?= go
# More flags for go test, such as -v or -short.
TEST ?=
# The judge that runs Millrace beside Java Kafka Streams, and more flags for it.
JUDGE ?= ../shared/bench/run.sh
BENCH ?=
# Flags of `make kafka`: -version, -port, -nodes, -dir.
KAFKA ?=

GOLANGCI = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Folders with tests behind the build tag kafka.
kafka_packages = $(shell grep -rl --include='*_test.go' '^//go:build kafka' integration | xargs -rn1 dirname | sort -u | sed 's|^|./|')

.DEFAULT_GOAL := help
.PHONY: help run test test-kafka mutants lint bench kafka coverage-ids features

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

run: ## run the word count example, with a broker in the same process
	$(GO) run ./examples/wordcount

test: ## run all tests; with java 17 and mvn also those on a real Kafka (MILLRACE_KAFKA=required: fail without)
	$(GO) test -race -shuffle=on -timeout 12m $(TEST) ./...
	@if why=$$($(GO) run ./integration/kafka/cmd -check 2>&1); then \
		$(MAKE) --no-print-directory test-kafka; \
	elif [ "$$MILLRACE_KAFKA" = required ]; then \
		echo "$$why; MILLRACE_KAFKA=required asks for the tests on a real Kafka" >&2; exit 1; \
	else \
		echo "tests on a real Kafka are left out: $$why" | head -n 1; \
	fi

test-kafka: ## run only the packages with tests on a real Kafka
	$(GO) test -tags kafka -count=1 -p 1 -timeout 20m $(TEST) $(kafka_packages)

mutants: ## break each rule of windows, joins and tables in turn: some program of the oracle must notice (Java, Maven; about 15 CPU minutes)
	$(GO) test -tags mutants -count=1 -timeout 60m -run TestMutants -v $(TEST) ./integration/oracle

lint: ## vet, format and golangci-lint
	$(GO) vet ./...
	$(GO) vet -tags kafka $(kafka_packages)
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run go fmt ./...:" >&2; echo "$$unformatted" >&2; exit 1; fi
	$(GO) run $(GOLANGCI) run ./...

bench: ## measure against Java Kafka Streams (JUDGE=path of run.sh, BENCH=more flags)
	@if [ ! -x "$(JUDGE)" ]; then \
		echo "there is no judge at $(JUDGE): give its run.sh with make bench JUDGE=path" >&2; exit 1; \
	fi
	$(GO) build -o bin/bench ./integration/bench
	"$(JUDGE)" --contestants java,pipe --contestant millrace='$(CURDIR)/bin/bench {flags}' $(BENCH)

kafka: ## start a real Apache Kafka until Ctrl-C (KAFKA="-port 9092 -nodes 3 -version 4.3.1")
	$(GO) run ./integration/kafka/cmd $(KAFKA)

coverage-ids: ## list the items of the specifications that no test names
	$(GO) run ./internal/coverageids

features: ## write docs/features.md from the tests that it names, which must pass
	$(GO) run ./internal/features
