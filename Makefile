# The commands of this repository. `make` alone lists them.

SHELL := /bin/bash

DATA_DIR ?= data
SERVER_URL ?= http://127.0.0.1:8080
# Extra settings for the server: make run ARGS="--Logs.Mode=None"
ARGS ?=
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
export CORVUS_TEST_SERVER ?= $(abspath $(TARGET_DIR))/release/corvus

.PHONY: help run build studio test verify bench clean-data tools

help:
	@sed -n 's/^## //p' Makefile

## make run         build and start the server on http://127.0.0.1:8080, data in ./data
run: build
	@exec "$(abspath $(TARGET_DIR))/release/corvus" --ServerUrl="$(SERVER_URL)" --DataDir="$(abspath $(DATA_DIR))" $(ARGS)

## make build       build the server, with the Studio where npm is there: target/release/corvus
build: tools studio
	cargo build --release --locked --package corvus

## make studio      build the Studio, the web interface, for the next build of the server
studio:
	@studio/run try-build

## make test        everything: units, power cuts, official clients, kill -9
test: tools
	.ci/test

## make verify      read-only checks: formatting, lints, layers, documents, scripts
verify: tools
	.ci/verify

## make bench       the benchmark programs, see bench/
bench: build
	bench/run

## make clean-data  remove the data of make run
clean-data:
	rm -rf -- "$(abspath $(DATA_DIR))"

tools:
	@.ci/tools build
