# Short names for common tasks; the work is done by CMakeLists.txt and tools/.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 30

RELEASE := build/release

.PHONY: help demo build test test-torch fuzz install wheel format bench clean

help:
	@echo "make demo        install what is missing, build, and show what neap does"
	@echo "make build       build the library and the command into $(RELEASE)"
	@echo "make test        lint, then build and test with gcc, clang and the sanitizers"
	@echo "make test-torch  test the Python package with PyTorch, in an environment of its own"
	@echo "make fuzz        run each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS) seconds"
	@echo "make install     install under PREFIX=$(PREFIX) (DESTDIR is honoured)"
	@echo "make wheel       build and try the wheel of the Python package, into build/wheel"
	@echo "make format      apply .clang-format to every source"
	@echo "make bench       list the benchmarks"
	@echo "make clean       remove build/"

demo:
	@tools/setup.sh build
	@tools/build.sh neap
	@tools/demo.sh

build:
	@tools/setup.sh build
	@PREFIX="$(PREFIX)" tools/build.sh

test:
	@tools/setup.sh test
	@tools/run_tests.sh

test-torch:
	@tools/setup.sh torch
	@tools/test_torch.sh

fuzz:
	@tools/setup.sh test
	@FUZZ_SECONDS="$(FUZZ_SECONDS)" tools/run_fuzz.sh

install: build
	@DESTDIR="$(DESTDIR)" cmake --install $(RELEASE) --prefix "$(PREFIX)"

wheel:
	@tools/wheel.sh

format:
	@tools/setup.sh test
	@tools/check_format.sh --fix

bench:
	@if [ -d bench ]; then \
	    find bench -maxdepth 2 -type f -perm -u+x | sort; \
	else \
	    echo "no bench/ folder yet"; \
	fi

clean:
	@rm -rf build
