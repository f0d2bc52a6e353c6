# clang's fuzzer over the readers of files, from what the repository has of each and this folder; what it finds on the way is
# kept in build/fuzz/corpus, which begins with tests/fuzz/kept.tar.gz. The kernels as gcc builds them, for they need its OpenMP.
SECONDS  ?= 30
EXECUTIONS ?= 1e8
FUZZERS  := $(patsubst tests/fuzz_%.c,%,$(wildcard tests/fuzz_*.c))
CHECKS   ?= address,undefined
FUZZ     := clang-14 -I. $(BLAS) -std=gnu11 -D_GNU_SOURCE= -g -O2 -fsanitize=fuzzer
READERS  := $(filter $(BUILD)/harness/% $(BUILD)/methods/%,$(OBJECTS))
PROGRAMS := $(FUZZERS:%=$(BUILD)/fuzz/fuzz_%)
$(BUILD)/fuzz/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(FUZZ)-no-link,$(CHECKS) -MMD -MP -c -o $@ $<
$(PROGRAMS): $(BUILD)/fuzz/fuzz_%: $(BUILD)/fuzz/tests/fuzz_%.o $(READERS:$(BUILD)/%=$(BUILD)/fuzz/%) $(filter $(BUILD)/kernels/%,$(OBJECTS))
	$(call say,LINK,$@)
	$(Q)$(FUZZ),$(CHECKS) -o $@ $^ $(LDLIBS) -lgomp -ldl
fuzz: $(FUZZERS:%=fuzz-%) ## clang's fuzzer over the readers of files, SECONDS=30 each
fuzz-%: $(BUILD)/fuzz/fuzz_%
	@tools/fuzz --build $(BUILD) --seconds $(SECONDS) $*
fuzz-campaign: $(PROGRAMS) ## the same in turn until tests/fuzz/runs.jsonl has EXECUTIONS=1e8; goes on where it stopped
	@tools/fuzz --build $(BUILD) --seconds $(SECONDS) --record tests/fuzz/runs.jsonl --until $(EXECUTIONS) $(FUZZERS)
fuzz-keep: $(PROGRAMS) ## what of build/fuzz/corpus reaches all that it reaches, into tests/fuzz/kept.tar.gz
	@tools/fuzz --build $(BUILD) --keep $(FUZZERS)
.PHONY: fuzz fuzz-campaign fuzz-keep

# The same readers in a suite, over what is kept alone.
$(FUZZERS:%=$(BUILD)/tests/kept/%.o): $(BUILD)/tests/kept/%.o: tests/fuzz_%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -O1 -DLLVMFuzzerTestOneInput=kept_$* -c -o $@ $<
