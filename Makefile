# `make help` lists the targets. VENV names the environment (made when it is absent), PYTHON the interpreter to make
# it with; VENV=/path/of/an/environment uses one that has everything already.
VENV ?= .venv
PYTHON ?= python3
IMAGES ?=
ENGINE ?= builtin

CLUSTER = $(VENV)/bin/python dev/cluster/cluster.py
READY = $(VENV)/.specfleet-ready
PYTHON_CHECK = -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 14) else \
	"venv: %s is %s, 3.11 to 3.13 is needed: make PYTHON=python3.12" % (sys.executable, sys.version.split()[0]))'

.DEFAULT_GOAL := help
.PHONY: help venv constraints cluster cluster-delete images demo

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

venv: $(READY)  ## make the Python environment
	@echo "venv: $(VENV) is ready"

$(READY): pyproject.toml constraints.txt
	@echo "venv: install the project and its pinned packages into $(VENV)"
	@$(VENV)/bin/python -m pip --version > /dev/null 2>&1 || { $(PYTHON) $(PYTHON_CHECK) && $(PYTHON) -m venv $(VENV); }
	@$(VENV)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev,engine]'
	@touch $@

constraints:  ## renew the pinned versions from the environment
	@$(VENV)/bin/python dev/constraints.py
	@echo "constraints: written"

cluster: $(READY)  ## provide a Kubernetes cluster
	@kubeconfig=$$($(CLUSTER) up) && echo "cluster: ready; kubeconfig $$kubeconfig"

cluster-delete: $(READY)  ## end the cluster and remove all it left on the host but images and caches
	@$(CLUSTER) down && echo "cluster-delete: done"

images: cluster  ## build the images (all, or IMAGES="operator simulated") and load them
	@references=$$($(CLUSTER) build $(IMAGES)) && echo "images: loaded; references in $$references"

# The images that each engine's demo needs beside the operator's.
DEMO_builtin = engine
DEMO_simulated = simulated
DEMO_vllm = vllm-cpu vllm-plugin
DEMO_IMAGES = operator prometheus $(DEMO_$(ENGINE))

demo:  ## watch one deployment tune itself under a changing load (30 min; ENGINE=simulated: 15, no model; ENGINE=vllm: 30 to 40)
	@$(if $(DEMO_$(ENGINE)),,$(error demo: no ENGINE=$(ENGINE); there are builtin, simulated and vllm))
	@$(MAKE) --no-print-directory images IMAGES="$(DEMO_IMAGES)"
	@kubeconfig=$$($(CLUSTER) kubeconfig) && bin=$$($(CLUSTER) bin) && \
	KUBECONFIG=$$kubeconfig PATH=$$bin:$$PATH $(VENV)/bin/python -m dev.demo --engine $(ENGINE)

.PHONY: bench-engine
bench-engine: $(READY)  ## measure the built-in engine against vLLM and transformers; 8 min
	@$(VENV)/bin/python -m dev.bench

# SEEDS=FILE: other seeds than the held-out ones; EVALUATE="--first 2 --scenarios base-diurnal": a part of it.
SEEDS ?= dev/evaluation/seeds/held-out.txt
EVALUATE ?=
.PHONY: evaluate

evaluate: $(READY)  ## all policies in all scenarios over SEEDS: table, figures, pictures; goes on where it was stopped
	@$(VENV)/bin/python -m dev.evaluation --seeds $(SEEDS) $(EVALUATE)

PYTEST = $(VENV)/bin/python -m pytest -q --durations=5
.PHONY: generate lint test test-unit test-integration test-evaluation test-chart test-e2e

generate: $(READY)  ## renew the files that are generated from code
	@$(VENV)/bin/python -m specfleet crds --write crds
	@cp crds/*.yaml charts/specfleet/files/crds/
	@$(VENV)/bin/python -m dev.faults
	@$(VENV)/bin/python -m dev.metric_names
	@$(VENV)/bin/python -m dev.engines
	@echo "generate: crds, the chart's copy, docs/{faults,metrics,engines}.md are written"

lint: $(READY)  ## format, style, types, import contracts, generated files
	@echo "lint: ruff, mypy --strict, import-linter, generated files"
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports
	@$(VENV)/bin/python -m specfleet crds --check crds
	@$(VENV)/bin/python -m dev.faults --check
	@$(VENV)/bin/python -m dev.metric_names --check
	@$(VENV)/bin/python -m dev.engines --check
	@echo "lint: ok"

# Two workers share the cores, so one thread for each BLAS call: the tuner's matrices are small.
TWO_WORKERS = OPENBLAS_NUM_THREADS=1 $(PYTEST) -n 2

test-unit: $(READY)  ## pure tests
	@$(TWO_WORKERS) tests/unit

test-integration: $(READY) model  ## fake API server, HTTP servers, the real engine in process
	@$(TWO_WORKERS) --dist loadfile tests/integration

test-evaluation: $(READY)  ## the evaluation on a small scale
	@$(PYTEST) tests/evaluation

test-chart: $(READY)  ## the chart, rendered
	@bin=$$($(CLUSTER) bin) && PATH=$$bin:$$PATH $(PYTEST) tests/chart

test-e2e: images  ## a real cluster: admission, operator, engines, faults
	@$(TWO_WORKERS) --dist loadfile tests/e2e

test:  ## everything that CI runs, layer by layer; times are printed and lie in build/test-times.json
	@$(MAKE) $(READY)
	@$(CLUSTER) check
	@$(VENV)/bin/python dev/layers.py lint test-unit test-integration test-evaluation test-chart test-e2e

.PHONY: model
model: $(READY)  ## write the demo's model into the cache and print its folder
	@$(VENV)/bin/python dev/models/smollm2.py
