# SPDX-License-Identifier: MIT
# nagleshim: `make demo` shows the effect, `make check` runs the tests, `make help` lists all targets.

PREFIX ?= /usr/local
# A directory of ld.so's search path, so that LD_PRELOAD=libnagleshim.so works by name alone.
LIBDIR ?= $(PREFIX)/lib
BINDIR ?= $(PREFIX)/bin
DATADIR ?= $(PREFIX)/share
# The library looks for this machine's policies in $(SYSCONFDIR)/nagleshim.
SYSCONFDIR ?= /etc
MANDIR ?= $(DATADIR)/man
# Debian's zsh searches /usr/share/zsh/vendor-completions instead, and both below /usr/local.
ZSHDIR ?= $(DATADIR)/zsh/site-functions
UNITDIR = $(PREFIX)/lib/systemd/system
DESTDIR ?=

# The packages, the manuals, the image and --version take the version from here. CHANGELOG.md begins with it.
VERSION := 0.3.0
RELEASED = $(shell LC_ALL=C date -d "$$(sed -n 's/^## \[$(VERSION)\] - //p' CHANGELOG.md)" '+%B %-d, %Y')
# make predefines CC as cc, so ?= would have no effect.
ifeq ($(origin CC),default)
CC := gcc
endif
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
OPT ?= -O2 -g
WERROR ?=
# The constants of an enum are numbers, also beside a double. clang 17 and newer warn of that with -Wconversion.
CLANG_WARN := -Wno-enum-float-conversion
WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 \
	-Wundef -Wvla $(WERROR) $(if $(filter i686-% arm-%,$(MACHINE)),-Wno-psabi) $(if $(findstring clang,$(CC)),$(CLANG_WARN))
ALL_CFLAGS = -std=gnu11 $(OPT) $(WARN) -D_GNU_SOURCE -Ishim -DNS_VERSION='"$(VERSION)"' \
	-DNS_LIBDIR='"$(LIBDIR)"' -DNS_SYSCONFDIR='"$(SYSCONFDIR)/nagleshim"' $(CPPFLAGS) $(CFLAGS)
# One library file must work with every libc. It must not use fortified function names or the stack protector's symbols,
# which a libc may lack. On aarch64, it must not select atomics at run time, because that needs a symbol that musl lacks.
# _FILE_OFFSET_BITS and _TIME_BITS must be unset, because they would rename the exported functions. The TLS model must not
# allocate in a signal handler, and thread cancellation must be able to unwind through the library. With __NO_INLINE__, glibc's
# headers have no inline atoi, which since glibc 2.38 calls a function that older ones and musl lack. These flags come
# after the user's CFLAGS and CPPFLAGS, because those of distributions ask for the opposite.
REQUIRED := -fPIC -fvisibility=hidden -ftls-model=initial-exec -fexceptions -fno-lto \
	$(if $(filter aarch64%,$(MACHINE)),-mno-outline-atomics) \
	-fno-stack-protector -D__NO_INLINE__ -U_FORTIFY_SOURCE -Wp,-U_FORTIFY_SOURCE -U_FILE_OFFSET_BITS \
	-U_TIME_BITS -fno-plt -ffunction-sections -fdata-sections
SHIM_CFLAGS = $(ALL_CFLAGS) $(REQUIRED) -MMD -MP
# Functions of gcc's own libraries that some architectures need, linked statically and not exported: unwinding, and atomic
# operations on bytes (before gcc 14).
GCC_LIBS_arm := -static-libgcc
GCC_LIBS_riscv64 := -l:libatomic.a
GCC_LIBS := $(GCC_LIBS_$(firstword $(subst -, ,$(MACHINE))))
# The command on 32-bit systems: addresses above 2 GiB in /proc/PID/mem, large inode numbers, and times after 2038.
LARGE := -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64

B := build

# One line for each file; V=1 prints the commands instead, and -s nothing.
SILENT = $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
say = $(if $(V),,@$(if $(SILENT),,echo '$1 $2';))

# What a target builds for its own use: on all processors, unless a -j says how many.
BUILD = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

# --- cJSON: the distribution's source package (tests/deps fetches it), or CJSON_DIR -------------------------
CJSON_DIR ?= $(or $(firstword $(wildcard .deps/cjson-*)),.deps/cjson)
CJSON_C := $(CJSON_DIR)/cJSON.c
# cJSON recurses. No text that it parses here is nested deeper; text.c names the limit.
CJSON_DEPTH := -DCJSON_NESTING_LIMIT=8

# Files that the library and the command share. Unit tests and fuzzers test them without preloading.
CORE_SRC := shim/policy/policy.c shim/policy/json.c shim/policy/text.c shim/policy/endpoint.c \
	shim/policy/find.c shim/policy/match.c shim/base/memory.c shim/judge/look.c
# Files that run in every process, at its start, fork and end, are linked first, so that they share few pages.
START_SRC := shim/init.c shim/base/real.c shim/base/object.c shim/calls/process.c shim/conn/process.c shim/calls/loader.c shim/base/exports.c shim/conn/fds.c \
	shim/report/status.c shim/report/report.c shim/report/log.c shim/socket/handover.c shim/socket/socket.c \
	shim/socket/option.c shim/traffic/pending.c shim/conn/kernel.c shim/policy/match.c \
	shim/policy/policy.c shim/policy/find.c
# The command's own folders. The judge consists of pure functions and is tested and fuzzed like CORE_SRC.
JUDGE_SRC := $(filter-out $(CORE_SRC),$(wildcard shim/judge/*.c))
CLI_SRC := $(wildcard shim/cli/*.c shim/cli/*/*.c shim/cure/*.c shim/process/*.c shim/watch/*.c) $(JUDGE_SRC)
# The program of the container image; config/image/build builds it.
IMAGE_SRC := $(wildcard shim/image/*.c)
# libnagleshim-observe.so: its own folder, and the files that it shares with libnagleshim.so.
OBSERVE_SRC := $(wildcard shim/observe/*.c)
OBSERVE_OBJ := $(patsubst %.c,$B/pic/%.o,$(OBSERVE_SRC) $(wildcard shim/base/*.c) shim/conn/kernel.c shim/judge/look.c \
	shim/policy/match.c shim/report/log.c)
SHIM_SRC := $(START_SRC) $(filter-out $(START_SRC) $(CLI_SRC) $(IMAGE_SRC) $(OBSERVE_SRC),$(wildcard shim/*.c shim/*/*.c))
SHIM_OBJ := $(SHIM_SRC:%.c=$B/pic/%.o) $B/pic/cJSON.o
CLI_OBJ := $(CLI_SRC:%.c=$B/obj/%.o) $(filter $(CORE_SRC:%.c=$B/pic/%.o),$(SHIM_OBJ)) $B/pic/cJSON.o

EXAMPLE_SRC := $(wildcard examples/*.c)
EXAMPLES := $(EXAMPLE_SRC:examples/%.c=$B/examples/%)
PROBE_SRC := $(wildcard tests/probes/*.c tests/probes/*/*.c)
# liburing is installed only for this machine, so a cross-build leaves out its probes.
ifneq ($(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null))),$(shell uname -m))
PROBE_SRC := $(filter-out %uring_rounds.c,$(PROBE_SRC))
endif
PROBES := $(patsubst %.c,$B/probes/%,$(notdir $(PROBE_SRC)))
PROBE_H := $(wildcard tests/probes/*.h tests/probes/*/*.h)
vpath %.c $(sort $(dir $(PROBE_SRC)))
UNIT_SRC := $(wildcard tests/unit/*.c)
UNITS := $(UNIT_SRC:tests/unit/%.c=$B/unit/%)

# The completions for bash, zsh and fish. Each file has the name that its shell looks for.
COMPLETIONS := $B/completions/nagleshim $B/completions/_nagleshim $B/completions/nagleshim.fish

.PHONY: all compiler always examples probes units lwip differential demo check deps check-libcs check-kernels check-architectures \
	check-sidecar check-bare check-strangers check-museum check-relay check-page image check-fleet fuzzers fuzz fuzz-programs \
	check-stress check-packaging check-asan check-tsan check-valgrind check-sabotage mutants install install-library uninstall dist deb rpm bench figures lint format \
	clean help

all: $B/libnagleshim.so $B/libnagleshim-observe.so $B/nagleshim $(COMPLETIONS) ## build the libraries and the command

$(CJSON_C): | compiler
	@tests/deps cjson

compiler:
	@printf '\043include <stdio.h>\n' | $(CC) -E -o /dev/null - 2>/dev/null || \
		{ echo "make: '$(CC)' is missing, or the C library's headers are: on Debian install gcc and libc6-dev" >&2; \
		exit 1; }

# Object files that contain the version or a directory are rebuilt if it changes.
$B/settings: always
	@mkdir -p $(@D)
	@echo '$(VERSION) $(SYSCONFDIR) $(LIBDIR) $(DATADIR)' | cmp -s - $@ || echo '$(VERSION) $(SYSCONFDIR) $(LIBDIR) $(DATADIR)' >$@
SETTINGS := NS_VERSION|NS_LIBDIR|NS_DATADIR|NS_SYSCONFDIR|NS_POLICY_DIR_DEFAULT|variables\.def
SETTINGS_SRC := $(shell grep -lE '$(SETTINGS)' $(SHIM_SRC) $(CLI_SRC))
$(SETTINGS_SRC:%.c=$B/pic/%.o) $(SETTINGS_SRC:%.c=$B/obj/%.o): $B/settings

$B/pic/cJSON.o: $(CJSON_C)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) -std=gnu11 $(OPT) $(CPPFLAGS) $(CFLAGS) $(REQUIRED) $(CJSON_DEPTH) -DCJSON_HIDE_SYMBOLS -c -o $@ $<

$B/pic/%.o: %.c | $(CJSON_C) compiler
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(SHIM_CFLAGS) -isystem $(CJSON_DIR) -c -o $@ $<

$B/obj/%.o: %.c | $(CJSON_C) compiler
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) $(LARGE) -fPIE -MMD -MP -isystem $(CJSON_DIR) -c -o $@ $<

# The command proposes to copy an installed file.
INSTALLED = -DNS_DATADIR='"$(DATADIR)/nagleshim"'
$B/obj/shim/cli/main.o $B/obj/shim/cli/diagnose/policy.o: ALL_CFLAGS += $(INSTALLED)
$B/fuzz/obj/shim/cli/diagnose/policy.o: FUZZ_FLAGS += $(INSTALLED)

# The command contains this file: it is included with the assembler's .incbin.
$B/obj/shim/cli/diagnose/json.o: config/diagnosis.html

# The versions of exported functions, from the call table. All others stand in for every version of a function.
$B/exports.map: $(addprefix shim/base/,calls.def timed.def machine.h)
	@mkdir -p $(@D)
	$(call say,MAKE,$@)$(CC) -E -P -x c -D'NS_CALL(...)=' -D'NS_SINCE(version, ...)=since version __VA_ARGS__;' $< | awk '$$1 == "since" { \
		version = $$2; gsub("_", ".", version); sub("since [^ ]* ", ""); gsub(",", ";"); \
		print "GLIBC_" version " { " $$0 " };" }' | sort >$@

$B/libnagleshim.so: $(SHIM_OBJ)
$B/libnagleshim-observe.so: $(OBSERVE_OBJ)
# Constants and code are one segment: two mappings less in every process, which its start and each fork would pay for. nodelete: a
# thread that has used the library calls it at its end. Bsymbolic-functions: its own calls skip libraries in front.
$B/libnagleshim.so $B/libnagleshim-observe.so: $B/exports.map shim/base/layout.ld Makefile
	$(call say,LINK,$@)$(CC) $(OPT) $(CFLAGS) -fno-lto $(LDFLAGS) -shared -o $@ $(filter %.o,$^) -nostartfiles \
		-Wl,--version-script=$B/exports.map -Wl,-soname,$(@F) -Wl,-z,relro,-z,now \
		-Wl,-z,noexecstack -Wl,-z,defs -Wl,-z,nodelete -Wl,-Bsymbolic-functions -Wl,--gc-sections -Wl,-z,noseparate-code -Wl,-T,shim/base/layout.ld \
		$(GCC_LIBS) -Wl,--exclude-libs,ALL

$B/nagleshim: $(CLI_OBJ)
	$(call say,LINK,$@)$(CC) $(OPT) $(CFLAGS) $(LDFLAGS) -pie -o $@ $(CLI_OBJ) -lm -ldl $(GCC_LIBS)

# The only program of the container image, which has no C library.
$B/copy: shim/image/copy.c shim/base/raw_syscall.h $(wildcard shim/image/*.h)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) -std=gnu11 -Os -D_GNU_SOURCE -Ishim -Wall -Wextra $(WERROR) -ffreestanding -fno-stack-protector -fno-pie \
		-fno-asynchronous-unwind-tables -nostdlib -static -s -Wl,--build-id=none -Wl,-z,noexecstack -o $@ $<

# The preprocessor prints this table, because a program that prints it could not run in a cross-build.
$B/completions/table: config/completions/verbs.in shim/cli/verbs.def shim/policy/modes.def
	@mkdir -p $(@D)
	$(call say,MAKE,$@)$(CC) -E -P -x c -Ishim -o $@ $<

$B/completions/nagleshim: SHELL_NAME := bash
$B/completions/_nagleshim: SHELL_NAME := zsh
$B/completions/nagleshim.fish: SHELL_NAME := fish
$(COMPLETIONS): config/completions/generate.awk $B/completions/table
	$(call say,MAKE,$@)awk -v shell=$(SHELL_NAME) -f $^ >$@.new && mv -f $@.new $@

# For unit tests: the library with all symbols visible, and the parts of the command that have unit tests.
TESTED_SRC := $(JUDGE_SRC) shim/cli/output.c shim/cli/policy/warn.c $(wildcard shim/cure/*.c shim/process/*.c shim/watch/*.c) \
	$(addprefix shim/cli/diagnose/,recorded.c rows.c sentences.c policy.c text.c)
TESTED_OBJ := $(TESTED_SRC:%.c=$B/obj/%.o)
TESTED_OBJ += $(filter-out %/calls.o %/init.o,$(OBSERVE_SRC:%.c=$B/pic/%.o))
$B/libnagleshim-testing.a: $(SHIM_OBJ) $(TESTED_OBJ)
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $(filter-out $B/pic/shim/calls/%.o,$(SHIM_OBJ)) $(TESTED_OBJ)

$B/examples/%: examples/%.c $(wildcard examples/*.h)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(OPT) -Wall -Wextra $(WERROR) $(CFLAGS) -o $@ $< -lrt -pthread

# Libraries that probes load. make prefers this rule to the next one because its stem is shorter.
$B/probes/%.so: %.so.c $(PROBE_H)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) -Itests/probes -shared -fPIC -o $@ $< -pthread -ldl

$B/probes/%: %.c $(PROBE_H)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) -Itests/probes -o $@ $< -pthread -ldl $(PROBE_LIBS)
$B/probes/uring_rounds: PROBE_LIBS := -luring

$B/unit/%: tests/unit/%.c $B/libnagleshim-testing.a
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) -isystem $(CJSON_DIR) -o $@ $< $B/libnagleshim-testing.a -pthread -ldl -lm

# The differential fuzzer: the program that loads the library, and the runner, which is the program's peer.
DIFFERENTIAL := $B/differential/program $B/differential/runner $B/probes/mistakes.so
$B/differential/program: $(wildcard tests/differential/*.c tests/differential/*.h) $(PROBE_H)
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(ALL_CFLAGS) -o $@ $(filter %.c,$^) -pthread

$B/differential/runner: $(wildcard tests/differential/runner/*) tests/differential/shared.h $(PROBE_H)
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(ALL_CFLAGS) -o $@ $(filter %.c,$^)

differential: $(DIFFERENTIAL)
examples: $(EXAMPLES) ## build the example programs
probes: $(PROBES)
units: $(UNITS)

# --- the two main targets -----------------------------------------------------------------------------------
demo: ## install missing packages, build, and measure stalls without and with the library
	@tests/deps demo
	@$(BUILD) -s all examples
	@tests/demo

check: ## install what the tests need, build, and run all tests
	@tests/deps check
	@$(BUILD) -s all examples probes units differential
	@tests/run

check-packaging: ## build Debian's and rpm packages and compare them with make install; run the image in a pod; build and install as an ordinary user
	@tests/deps check
	@tests/deps packaging
	@$(BUILD) -s all
	@tests/run tests/file/packaging

check-libcs: ## test the library with glibc 2.31, 2.36 and 2.41 and with musl (as root; installs systems in .deps/libcs)
	@tests/deps libcs
	@$(BUILD) -s all
	@tests/systems/libcs/run $(LIBCS)

check-kernels: ## test the library on Linux 5.10, 6.1 and 6.12, in virtual machines (downloads kernels to .deps/kernels)
	@tests/deps kernels
	@$(BUILD) -s all examples probes
	@tests/systems/kernels/run $(KERNELS)

check-architectures: ## compile for the architectures of Debian, and run tests, under qemu-user if needed (ARCH='i386 s390x')
	@$(BUILD) -s all examples probes $B/unit/show_record
	@tests/systems/architectures/run $(ARCH)

check-sidecar: ## run the pod of examples/sidecar with podman, with glibc and with musl
	@tests/deps sidecar
	@$(BUILD) -s all examples
	@examples/sidecar/test

check-bare: ## run make demo and make check in a new Debian 12 and 13 with only gcc and make (as root; systems in .deps/bare; ARCH=i386 RELEASES=bookworm)
	@tests/deps bare
	@tests/systems/bare

check-strangers: ## run the test suites of other programs without and with the library (as root; suites in .deps/strangers)
	@tests/deps strangers
	@$(BUILD) -s all
	@tests/systems/strangers/run $(SUITES)

check-museum: ## run versions of programs whose users reported the stall, without and with the library (downloads to .deps/museum)
	@tests/deps museum
	@$(BUILD) -s all $B/probes/run_delay $B/probes/prompt
	@tests/museum/run $(ROWS)

check-relay: ## run fifty clients and servers of other projects through a relay that cuts messages in two (PAIRS='redis/redis-py')
	@tests/deps relay
	@$(BUILD) -s all $B/probes/run_delay $B/probes/prompt
	@tests/relay/run $(PAIRS)

check-page: ## test the page of diagnose in headless Chromium
	@tests/deps page
	@$(BUILD) -s all examples
	@tests/run tests/systems/browser/page.bats

image: ## build the container image for amd64 and arm64, and its bill of materials, in build/image (MACHINES='arm64 s390x')
	@tests/deps image
	@config/image/build

check-fleet: ## test with Kubernetes' API server, the image, a booted Debian and the packages (as root; systems in .deps/fleet)
	@tests/fleet/build --check
	@tests/deps fleet
	@tests/fleet/build
	@$(BUILD) -s all examples image
	@JOBS=1 tests/run tests/fleet/*/*.bats

deps: ## install the packages that all targets need, after listing them
	@tests/deps all

# --- tests that take longer than those of check ---------------------------------------------------------------
# clang builds the fuzzers and the code that they test, with sanitizers. A fuzzer ends at the first error.
FUZZ_FLAGS = -std=gnu11 -O1 -g $(WARN) $(CLANG_WARN) -D_GNU_SOURCE -DNS_SYSCONFDIR='"$(SYSCONFDIR)/nagleshim"' \
	-DNS_VERSION='"$(VERSION)"' -fno-omit-frame-pointer \
	-fsanitize=address,undefined -fno-sanitize-recover=all -Ishim -isystem $(CJSON_DIR)
FUZZ_OBJ := $(patsubst %.c,$B/fuzz/obj/%.o,$(CORE_SRC) $(TESTED_SRC) shim/cli/diagnose/json.c) $B/fuzz/obj/cJSON.o
FUZZERS := $(patsubst tests/fuzz/%.c,$B/fuzz/%,$(wildcard tests/fuzz/*.c))

$B/fuzz/obj/cJSON.o: $(CJSON_C)
	@mkdir -p $(@D)
	$(call say,CC,$<)clang -std=gnu11 -O1 -g $(CJSON_DEPTH) -fsanitize=fuzzer-no-link,address,undefined -c -o $@ $<

$B/fuzz/obj/%.o: %.c | $(CJSON_C)
	@mkdir -p $(@D)
	$(call say,CC,$<)clang $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

$B/fuzz/%: tests/fuzz/%.c $(FUZZ_OBJ) $(wildcard tests/fuzz/*.h)
	@mkdir -p $(@D)
	$(call say,LINK,$@)clang $(FUZZ_FLAGS) -fsanitize=fuzzer -o $@ $< $(FUZZ_OBJ) -lm

.SECONDARY: $(FUZZ_OBJ)
fuzzers: $(FUZZERS)

fuzz: ## run each fuzzer of tests/fuzz for FUZZ_SECONDS (600)
	@tests/deps check
	@tests/deps fuzz
	@$(BUILD) -s fuzzers
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) tests/run fuzz.bats

fuzz-programs: ## run random programs without and with the library, and compare, for SECONDS (3600) in total
	@tests/deps check
	@$(BUILD) -s all differential
	@DIFFERENTIAL_SECONDS=$(or $(SECONDS),3600) tests/run differential.bats

check-stress: ## run 64 threads on 2000 sockets, for STRESS_SECONDS (60) in each mode
	@tests/deps check
	@$(BUILD) -s all probes $B/unit/show_record
	@STRESS_SECONDS=$${STRESS_SECONDS:-60} tests/run stress.bats

# Each sanitizer has its own build of the library. The test programs are not rebuilt.
SANITIZE_asan := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
SANITIZE_tsan := -fsanitize=thread
check-asan: ## run the tests with AddressSanitizer and UBSan in the library, and those of the command with it in the command
check-tsan: ## run the tests with ThreadSanitizer in the library
check-asan check-tsan: check-%:
	@tests/deps check
	@$(BUILD) -s all examples probes $B/unit/show_record
	@$(BUILD) -s B=build/$* OPT='-O1 -g' CFLAGS='$(SANITIZE_$*)' \
		build/$*/libnagleshim.so build/$*/libnagleshim-observe.so $(if $(filter asan,$*),build/asan/nagleshim) units
	@tests/sanitized $*

check-valgrind: ## run the life-cycle tests under memcheck
	@tests/deps check
	@$(BUILD) -s all examples probes $B/unit/show_record
	@tests/sanitized memcheck

check-sabotage: ## make check with four faulty libraries, three times each: it must fail each time (FAULTS='push ack' RUNS=1 TESTS='stdio victims')
	@tests/deps check
	@$(BUILD) -s $(CJSON_C)
	@$(if $(FAULTS),FAULTS='$(FAULTS)') $(if $(RUNS),RUNS='$(RUNS)') tests/suite/sabotage $(TESTS)

mutants: ## change lines of shim/ at random, and list the changes that no test notices (as root; FOLDER='traffic conn' MUTANTS=60 SEED=1)
	@tests/deps check
	@tests/deps mutants
	@tests/mutants/run $(if $(MUTANTS),--mutants $(MUTANTS)) $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(SAMPLE),--sample $(SAMPLE)) $(if $(FLOOR),--floor $(FLOOR)) $(FOLDER)

# --- install ------------------------------------------------------------------------------------------------
SHARED = $(DESTDIR)$(DATADIR)/nagleshim
POLICIES = $(SYSCONFDIR)/nagleshim
LIBRARY = $(LIBDIR)/libnagleshim.so
# The library that diagnose preloads. The command looks for it in the directory of libnagleshim.so.
OBSERVER = $(LIBDIR)/libnagleshim-observe.so
install-library: $B/libnagleshim.so $B/libnagleshim-observe.so ## install the libraries only; for 32-bit programs CC=i686-linux-gnu-gcc B=build/i386 LIBDIR=DIR
	install -d $(DESTDIR)$(LIBDIR)
	@# The files are replaced by mv, so that running processes keep the old file mapped.
	for library in $(LIBRARY) $(OBSERVER); do \
		install -m 0644 $B/$${library##*/} $(DESTDIR)$$library.new && \
		mv -f $(DESTDIR)$$library.new $(DESTDIR)$$library || exit; done
	@test -n "$(DESTDIR)" || { $(LDCONFIG); }

PAGES = $(notdir $(wildcard config/man/*))
INSTALLED_PAGES = $(foreach page,$(PAGES),$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(page))

install: all ## install in PREFIX; the library reads policies in SYSCONFDIR/nagleshim (also honours DESTDIR and LIBDIR)
	@top='$(DESTDIR)$(PREFIX)'; until test -e "$$top"; do top=$$(dirname "$$top"); done; test -w "$$top" || { \
		echo "make: $$(id -un) may not write to $$top: type 'sudo make install', or 'make install PREFIX=\$$HOME/.local'" >&2; \
		exit 1; }
	@$(MAKE) --no-print-directory install-library
	install -d $(DESTDIR)$(BINDIR) $(SHARED)/policies $(SHARED)/systemd $(SHARED)/container \
		$(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man5 $(DESTDIR)$(MANDIR)/man7
	install -m 0755 $B/nagleshim $(DESTDIR)$(BINDIR)/nagleshim
	install -m 0644 config/policy.schema.json config/output.schema.json config/default.json $(SHARED)/
	install -m 0644 config/policies/*.json $(SHARED)/policies/
	install -m 0644 config/systemd/README.md config/systemd/nagleshim.conf $(SHARED)/systemd/
	install -D -m 0644 -t $(DESTDIR)$(UNITDIR) config/systemd/*.service
	install -m 0644 config/container/* $(SHARED)/container/
	@find config/kubernetes config/prometheus -type f | while read -r file; do \
		install -D -m 0644 "$$file" "$(SHARED)/$${file#config/}" || exit; done
	@# Write the paths of this installation into the files. The paths inside a container do not change.
	sed -i 's#/usr/local/lib/libnagleshim\.so#$(LIBRARY)#; s#/etc/nagleshim#$(POLICIES)#; s#/usr/local/bin/#$(BINDIR)/#' \
		$(SHARED)/systemd/* $(DESTDIR)$(UNITDIR)/nagleshim-*.service
	sed -i -E -e 's#(- |-v )/usr/local/lib/libnagleshim\.so:#\1$(LIBRARY):#; s#(- |-v )/etc/nagleshim:#\1$(POLICIES):#' \
		-e 's#(hostPath": ")/usr/local/lib/libnagleshim\.so#\1$(LIBRARY)#; s#(hostPath": ")/etc/nagleshim#\1$(POLICIES)#' \
		-e 's#(hostPath": ")/usr/local/share/#\1$(DATADIR)/#' $(SHARED)/container/*
	@# An editor finds the schema of a policy that is copied elsewhere, too.
	sed -i -E -e 's#/etc/nagleshim#$(POLICIES)#g' -e 's#("\$$schema": ")[^"]*#\1file://$(DATADIR)/nagleshim/policy.schema.json#' \
		$(SHARED)/default.json $(SHARED)/policies/*.json
	for page in $(PAGES); do install -m 0644 config/man/$$page $(DESTDIR)$(MANDIR)/man$${page##*.}/ || exit; done
	sed -i 's#/etc/nagleshim#$(POLICIES)#g; s#/usr/share/nagleshim#$(DATADIR)/nagleshim#; s/^\.Os nagleshim$$/& $(VERSION)/; s/^\.Dd .*/.Dd $(RELEASED)/' \
		$(INSTALLED_PAGES)
	install -D -m 0644 $B/completions/nagleshim $(DESTDIR)$(DATADIR)/bash-completion/completions/nagleshim
	install -D -m 0644 $B/completions/_nagleshim $(DESTDIR)$(ZSHDIR)/_nagleshim
	install -D -m 0644 $B/completions/nagleshim.fish $(DESTDIR)$(DATADIR)/fish/vendor_completions.d/nagleshim.fish
	@# If the policy directory cannot be created, comment out the lines that name it in the files to copy, or delete them.
	@install -d $(DESTDIR)$(POLICIES) 2>/dev/null || test -d $(DESTDIR)$(POLICIES) || { \
		sed -i 's#^Environment=NAGLESHIM_POLICY_DIR=#\#&#' $(SHARED)/systemd/nagleshim.conf && \
		sed -i -E 's#^( *)(NAGLESHIM_POLICY_DIR: |- $(POLICIES):)#\1\#\2#' $(SHARED)/container/compose.yaml && \
		sed -i '/NAGLESHIM_POLICY_DIR/d; /"hostPath": "[^"]*", "containerPath": "\/etc\/nagleshim"/d' $(SHARED)/container/cdi.json && \
		echo "note: $(DESTDIR)$(POLICIES) cannot be made; name policies in NAGLESHIM_POLICY or NAGLESHIM_POLICY_DIR"; }
	@test -n "$(DESTDIR)" || { $(LDCONFIG); \
		name='$(LIBRARY)'; ! ldconfig -p 2>/dev/null | grep -qF "=> $$name" || name=libnagleshim.so; \
		echo "installed; next: $(BINDIR)/nagleshim diagnose -- PROGRAM, or LD_PRELOAD=$$name PROGRAM"; }

# ldconfig may fail: an ordinary user cannot write its cache and often lacks /sbin in PATH, and musl has no ldconfig.
LDCONFIG = PATH=$$PATH:/usr/sbin:/sbin; ldconfig 2>/dev/null || true

# As with the packages, `nagleshim host enable` is reverted first: later no command could. Only root can have enabled the library.
uninstall: ## disable the library on this host; remove the installed files, and directories that are then empty
	@test -n "$(DESTDIR)" || test "$$(id -u)" -ne 0 || test ! -x $(BINDIR)/nagleshim || \
		$(BINDIR)/nagleshim host disable --library $(LIBRARY) || { \
		echo "make: nothing was removed: first type '$(BINDIR)/nagleshim host disable --library $(LIBRARY)'" >&2; exit 1; }
	rm -f $(DESTDIR)$(LIBRARY) $(DESTDIR)$(OBSERVER) $(DESTDIR)$(BINDIR)/nagleshim \
		$(INSTALLED_PAGES) \
		$(DESTDIR)$(DATADIR)/bash-completion/completions/nagleshim \
		$(DESTDIR)$(ZSHDIR)/_nagleshim \
		$(DESTDIR)$(DATADIR)/fish/vendor_completions.d/nagleshim.fish \
		$(DESTDIR)$(UNITDIR)/nagleshim-cure.service $(DESTDIR)$(UNITDIR)/nagleshim-metrics.service
	rm -rf $(SHARED)
	@rmdir $(DESTDIR)$(POLICIES) $(DESTDIR)$(MANDIR)/man? $(DESTDIR)$(MANDIR) 2>/dev/null || true
	@cd $(DESTDIR)$(DATADIR) 2>/dev/null && rmdir -p bash-completion/completions fish/vendor_completions.d 2>/dev/null || true
	@cd $(DESTDIR)$(PREFIX)/lib 2>/dev/null && rmdir -p systemd/system 2>/dev/null || true
	@rmdir $(DESTDIR)$(ZSHDIR) 2>/dev/null && rmdir $(dir $(DESTDIR)$(ZSHDIR)) 2>/dev/null || true
	@test -n "$(DESTDIR)" || { $(LDCONFIG); }

dist: ## make the release's tarball from the last commit, with its checksum, in build/dist
	@config/package dist $(VERSION)

deb rpm: $(CJSON_C) ## build the packages libnagleshim and nagleshim in PACKAGES, build/packages (deb: ARCH=armhf for another architecture)
	@tests/deps $@
	@test -z '$(ARCH)' || tests/deps '$(ARCH)'
	@env -u MAKEFLAGS -u MAKELEVEL $(if $(PACKAGES),PACKAGES='$(PACKAGES)') config/package $@ $(VERSION) $(ARCH)

# --- measuring and pictures ---------------------------------------------------------------------------------
bench: ## compare the library with the unmodified program and with hand-written fixes, as ratios
	@tests/deps bench
	@$(BUILD) all examples probes
	@tests/bench/run $(BENCH)

figures: ## draw the picture of the README
	@tests/deps figures
	@$(BUILD) all examples
	@examples/figures/draw

# --- tidiness -----------------------------------------------------------------------------------------------
C_FILES = $(shell git ls-files '*.c' '*.h' 2>/dev/null)
SHELL_FILES = $(shell git ls-files 2>/dev/null | grep -v '\.bats$$' | xargs grep -lE '^\#!.*(bash|/sh)' 2>/dev/null)
# What bats and a test's helpers set and call is unknown in its file, and each test is a subshell.
BATS_FILES = $(shell git ls-files 'tests/*.bats' 'tests/*.bash' 2>/dev/null)
BATS_EXCEPT = SC1091,SC2001,SC2015,SC2016,SC2030,SC2031,SC2034,SC2119,SC2120,SC2154,SC2178,SC2317
lint: ## check formatting, layers and shell scripts, and build with gcc and clang with warnings as errors
	@tests/deps lint
	$(call say,LINT,clang-format)clang-format --dry-run --Werror $(C_FILES)
	$(call say,LINT,tests/layers)tests/layers
	$(call say,LINT,shellcheck)shellcheck -x $(SHELL_FILES)
	$(call say,LINT,shellcheck of tests)shellcheck -x -s bats -e $(BATS_EXCEPT) $(BATS_FILES)
	@$(BUILD) B=$(or $(LINT_GCC),build/lint-gcc) CC=gcc WERROR=-Werror all examples probes units fuzzers differential
	@# clang's warnings do not depend on the optimization.
	@$(BUILD) B=build/lint-clang CC=clang OPT=-O0 WERROR=-Werror all examples probes units differential

format: ## reformat the C files with clang-format
	clang-format -i $(C_FILES)

clean: ## remove the directory build (but not .deps)
	rm -rf build

help: ## print this list
	@grep -hE '^[a-z0-9 -]+:.*## ' $(MAKEFILE_LIST) | sort | \
		awk -F':.*## ' '{printf "  make %-22s %s\n", $$1, $$2}'
	@echo "  make bench BENCH=--quick takes minutes only; its times are less precise"
	@echo "  make check FILTER=REGEX runs the tests whose names match"
	@echo "  make mutants SECONDS=300 begins no mutant later; SAMPLE=FILE tries those of an earlier run in build/mutants again"
	@echo "  CJSON_DIR=DIR, with any target, uses the cJSON in DIR; V=1 prints the commands"
	@echo "  make check-museum ROWS='twisted py4j' runs only these rows of tests/museum/museum.table"
	@echo "  make check-strangers SUITES='redis cpython/test_ssl' runs only these suites"

-include $(shell find $B/pic $B/obj $B/fuzz/obj -name '*.d' 2>/dev/null)
