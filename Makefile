# weft: a thin door to CMake. P: a preset. MODEL: a folder, a .gguf or a hub id.
P      ?= release
MODEL  ?= models/tiny
PREFIX ?= /usr/local

all: deps
	@cmake --preset $(P) && cmake --build --preset $(P)
test: all
	@ctest --preset $(P)
run: all
	@tools/first_run.sh build/$(P)/weft '$(MODEL)'
install: all
	@cmake --install build/$(P) --prefix '$(PREFIX)'
docs: all
	@build/$(P)/weft --help-markdown > docs/cli.md
	@build/$(P)/tests/test_docs_models --write
oracle:
	@tools/oracle.sh
deps:
	@tools/deps.sh $(P)
.PHONY: all test run install docs oracle deps
