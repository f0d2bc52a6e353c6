# longbp: make · make figures · make test · make test-asan · make bench · make lint · make help
ifeq ($(origin CC),default)
CC := gcc
endif

ARCH    ?= native
BUILD   ?= build
OPT     ?= -O3 -march=$(ARCH) -mprefer-vector-width=512
WARN    := -Wall -Wextra -Werror
CFLAGS  := -std=gnu11 $(OPT) -g -fopenmp -fno-math-errno $(WARN) $(SANITIZE)
CPPFLAGS := -I. -MMD -MP $(shell pkg-config --cflags openblas 2>/dev/null)
LDFLAGS := -fopenmp $(SANITIZE)
LDLIBS  := -ljansson -lopenblas -lm

BASE    := $(patsubst %.c,$(BUILD)/%.o,$(wildcard kernels/*.c kernels/base/*.c kernels/cpu/*.c kernels/transformer/*.c methods/*.c))
REAL    := $(foreach bits,32 64,$(patsubst %.c,$(BUILD)/%.f$(bits).o,$(wildcard kernels/cpu/real/*.c)))
CORE    := $(BASE) $(REAL)
HARNESS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out harness/main.c,$(wildcard harness/*.c)))

all: $(BUILD)/longbp

$(BUILD)/longbp: $(BUILD)/harness/main.o $(HARNESS) $(CORE)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/%.f32.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -DREAL_BITS=32 -c -o $@ $<
$(BUILD)/%.f64.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -DREAL_BITS=64 -c -o $@ $<
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# Tests: every tests/test_*.c is one cmocka program.
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(BUILD)/tests/fixture.o $(HARNESS) $(CORE)
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: all
.SECONDARY:
