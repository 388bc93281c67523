# Everything is set up on first use: Python 3.11+, pip and make are enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEV    := $(VENV)/.dev
RUN    := $(VENV)/.run
FUZZ   := $(VENV)/.fuzz
OLD    := .venv-02/.done .venv-03/.done
FRAMEWORKS := .venv-frameworks
JS     := tests/legacy/js/node_modules
IDP    := tests/auth/idp/node_modules
TUS    := tests/files/js/node_modules

.PHONY: help demo test unit test-integrations test-framework test-pythons check format soak protos stubs bench clean console docs image reference shots release release-check

help: ## What can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip

$(RUN): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(RUN)

# Old releases of a2a-sdk, for the tests, in environments of their own; and, where there is Node, @a2a-js/sdk.
$(OLD): .venv-%/.done: tests/legacy/sdk%.txt tests/legacy/accord.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $< -r tests/legacy/accord.txt
	@touch $@

# Frameworks that agents are written in, likewise.
$(FRAMEWORKS)/.done: tests/integrations/frameworks/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/integrations/frameworks/requirements.txt -e .
	@touch $@

# MCP clients of other makers, likewise.
CLIENTS := .venv-mcp1/.done .venv-fastmcp/.done

$(CLIENTS): .venv-%/.done: tests/integrations/mcp/clients/%.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Those that can't live together, each in an environment of its own.
OTHERS := $(patsubst tests/integrations/frameworks/others/%.txt,%,$(wildcard tests/integrations/frameworks/others/*.txt))
OTHER_VENVS := $(OTHERS:%=.venv-framework-%/.done)

$(OTHER_VENVS): .venv-framework-%/.done: tests/integrations/frameworks/others/%.txt pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $< -e .
	@touch $@

# Likewise an OpenID provider, and a client of resumable uploads.
$(JS) $(IDP) $(TUS): %/node_modules: %/package.json
	@if command -v npm >/dev/null; then cd $(@D) && npm install --no-package-lock --no-audit --no-fund --silent && touch $(@F); \
	else echo "no Node.js here: $(@D) is not tested"; fi

# The web console: built with Node 20 or newer, served without it.
CONSOLE := src/accord/console/static/index.html

$(CONSOLE): console/package.json console/index.html console/vite.config.ts $(shell find console/src console/public -type f)
	@$(PYTHON) console/build.py

console: $(CONSOLE) ## Build the web console

shots: $(DEV) $(CONSOLE) programs ## Make the pictures of the console for the docs
	$(BIN)/python -m tests.console.shots

# Where make has set Accord up already, else in an environment of its own: a .venv that is yours is not changed.
DEMO := $(if $(wildcard $(RUN)),$(VENV),.venv-demo)

.venv-demo/.run: pyproject.toml
	@echo "Setting up $(@D) for the demo: about a minute, once."
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

demo: $(DEMO)/.run ## Start a hub with the example agents and walk through a conversation
	@$(PYTHON) console/build.py || true
	@$(DEMO)/bin/python -m examples.demo

# Programs that tests use, from Debian's packages. A test whose program is not here says so and is skipped.
PROGRAMS := strace chromium nginx caddy pgbouncer prometheus

.PHONY: programs print-programs
print-programs:
	@echo $(PROGRAMS)

programs:
	@missing=; for name in $(PROGRAMS); do command -v $$name >/dev/null || [ -x /usr/sbin/$$name ] || missing="$$missing $$name"; done; \
	[ -z "$$missing" ] || echo "tests use these Debian packages, which are not here:$$missing"; \
	[ -z "$$missing" ] || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing them" && apt-get update -qq \
	&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; } \
	|| echo "not here, so what needs them is not tested:$$missing"

# So many files of tests at a time; none: one after the other. What measures runs afterwards, alone.
WORKERS := 2

# What failed runs once more, alone: many tests kill processes under load, and a busy machine can make one fail. Both reports are printed.
twice = $(1) -p tests.report || $(1) --last-failed --last-failed-no-failures none

# Says what a run will install, before anything is.
.PHONY: announce
announce:
	@for name in $(VENV) $(dir $(OLD)) $(FRAMEWORKS) $(JS) $(IDP) $(TUS); do [ -e $$name ] || new="$$new $${name%/}"; done; \
	[ -f $(CONSOLE) ] || new="$$new console/node_modules"; [ -z "$$new" ] || echo "make test installs packages into:$$new"; \
	for name in $(PROGRAMS); do command -v $$name >/dev/null || [ -x /usr/sbin/$$name ] || lacks="$$lacks $$name"; done; \
	[ -z "$$lacks" ] || { if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then echo "make test installs these Debian packages:$$lacks"; \
	else echo "these programs are not here, so what needs them is not tested:$$lacks"; fi; }; \
	command -v npm >/dev/null || echo "Node.js is not here, so what needs it is not tested"

test: announce $(DEV) $(OLD) $(FRAMEWORKS)/.done $(JS) $(IDP) $(TUS) $(CONSOLE) programs ## Run lint, types and all tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@[ ! -d console/node_modules ] || npm --prefix console run --silent test
	@rm -f .cache/test-report
	$(if $(WORKERS),$(call twice,$(BIN)/python -m pytest -m "not alone" --numprocesses $(WORKERS) --dist loadfile))
	$(call twice,$(BIN)/python -m pytest $(if $(WORKERS),-m alone))
	$(call twice,$(FRAMEWORKS)/bin/python -m pytest --confcutdir=tests/integrations/frameworks tests/integrations/frameworks)
	@$(BIN)/python -m tests.report

# What needs nothing but $(VENV), of the folders that most changes touch, without what measures. Tests wait more than they work, so four files at a time.
UNIT := tests/test_tree.py tests/test_repository.py tests/protocol tests/store tests/engine tests/interaction tests/client tests/auth tests/push

unit: $(DEV) ## Run the quick tests: two to three minutes, nothing else to install
	$(BIN)/python -m pytest -m "not alone and not outside" --numprocesses 4 --dist loadfile $(UNIT)

# One framework: make test-framework OTHERS=adk
test-integrations: $(DEV) $(CLIENTS) $(OTHER_VENVS) ## Run what needs other programs' packages in environments of their own
	$(BIN)/python -m pytest tests/integrations/mcp/test_clients.py
	@$(MAKE) --no-print-directory test-framework

test-framework: $(OTHER_VENVS) ## Run the tests of the frameworks that have environments of their own
	@for name in $(OTHERS); do echo "$$name"; .venv-framework-$$name/bin/python -m pytest --confcutdir=tests/integrations/frameworks \
	tests/integrations/frameworks -k "[$$name or test_$$name" || failed="$$failed $$name"; done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# Each in an environment of its own. One of them, or one that is not in the PATH: make test-pythons PYTHONS=python3.13
PYTHONS := python3.11 python3.12 python3.13

test-pythons: $(OLD) $(JS) $(IDP) $(TUS) $(CONSOLE) programs ## Run all tests on every Python that is here
	@for python in $(PYTHONS); do \
	version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || { echo "no $$python here: not tested"; continue; }; \
	echo "Python $$version"; tested=1; \
	$(MAKE) --no-print-directory test PYTHON=$$python VENV=.venv-$$version || failed="$$failed $$version"; \
	done; [ -z "$$failed" ] || { echo "failed on Python$$failed"; exit 1; }; [ -n "$$tested" ]

check: $(DEV) ## Lint, types, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_tree.py

format: $(DEV) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only .

# Makes hostile input by what it reaches in our code; without it that is random.
$(FUZZ): $(DEV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]' \
	|| echo "no Atheris here: hostile input is random"
	@touch $@

# A part of it: make soak PART=tests/survive/test_model.py
PART := tests/reliability tests/survive tests/hostile tests/replicas tests/files

soak: $(DEV) $(FUZZ) ## Run the long forms of the reliability tests
	ACCORD_SOAK=1 $(BIN)/python -m pytest -s --timeout=0 --durations=0 --durations-min=10 $(PART)

release: $(DEV) $(CONSOLE) ## Build the wheel and the sdist into dist/, and try the wheel in an empty environment
	$(BIN)/python -m tests.release

image: $(DEV) ## Build the image of deploy/Dockerfile with buildah, as root, and try it
	$(BIN)/python -m tests.deploy.image

release-check: $(DEV) $(CONSOLE) ## The same, with each extra alone
	$(BIN)/python -m tests.release --extras

reference: $(DEV) ## Write the reference pages of the docs from the code
	$(BIN)/python docs/reference.py

docs: $(DEV) ## Build the documentation into site/
	$(BIN)/zensical build --strict
	@echo "open site/index.html"

stubs: $(DEV) ## Write the types of connect_sync from the client's source
	$(BIN)/python -m tests.client.stubs

protos: $(DEV) ## Compile the .proto files of gRPC
	$(BIN)/python -m accord.protocol.protobuf.compile

bench: $(DEV) ## Measure against a2a-sdk, side by side; ROWS="send32 get32" measures some rows
	$(BIN)/python -m bench $(ROWS)

clean: ## Remove what was set up; what agents kept in ./.accord stays
	rm -rf $(VENV) .venv-* $(JS) $(IDP) $(TUS) console/node_modules site dist .cache
