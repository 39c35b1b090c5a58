# make test is the whole suite; make peers fetches the real agents it can use.
GO      ?= go
PREFIX  ?= /usr/local
BINDIR  ?= $(PREFIX)/bin
MANDIR  ?= $(PREFIX)/share/man
COMMANDS = os-poll os-workspace os-codex os-openhands os-loop
STAMP    = .peers/codex/.stamp

all:
	$(GO) build -o bin/ $(COMMANDS:%=./cmd/%)

quickstart: all
	examples/quickstart/run

test:
	@unformatted=$$(gofmt -l bench cmd internal *.go); \
	if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted" >&2; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) mod tidy -diff
	GORACE=atexit_sleep_ms=0 $(GO) test -race -shuffle=on -timeout 20m ./...

# Kills whatever runs, over and over: 40 boards with 25 kills each, one of 40 issues until
# it is done, and 500 rounds of os-workspace alone.
chaos:
	OS_CHAOS_KILLS=$${OS_CHAOS_KILLS:-1000} OS_CHAOS_ROUNDS=$${OS_CHAOS_ROUNDS:-500} \
	$(GO) test -count=1 -timeout 60m -run '^(TestChaos|TestKillTrial)$$' -v .

# Kills sessions of os-codex at random moments and looks for what they leave.
leak:
	OS_LEAK_SESSIONS=$${OS_LEAK_SESSIONS:-200} $(GO) test -count=1 -timeout 60m -run '^TestLeak$$' -v .

peers: $(STAMP)
	peers/openhands/install .peers/openhands

$(STAMP): peers/codex/package.json peers/codex/package-lock.json
	mkdir -p .peers/codex
	cp peers/codex/package.json peers/codex/package-lock.json .peers/codex/
	cd .peers/codex && npm ci --no-audit --no-fund
	touch $@

# BENCH='-quick' for a first look, BENCH='-only relay' for a part.
bench:
	$(GO) run ./bench $(BENCH)

install: all
	install -d "$(DESTDIR)$(BINDIR)"
	install -m 755 $(COMMANDS:%=bin/%) "$(DESTDIR)$(BINDIR)"
	for page in doc/*.[1-9]; do \
		[ -e "$$page" ] || continue; \
		dir="$(DESTDIR)$(MANDIR)/man$${page##*.}"; \
		install -d "$$dir" && install -m 644 "$$page" "$$dir" || exit 1; \
	done

clean:
	rm -rf bin

.PHONY: all quickstart test chaos leak peers bench install clean
