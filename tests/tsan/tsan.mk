# ThreadSanitizer over the suites whose code runs in threads. clang's, for its OpenMP tells the sanitizer what waits for what
# (libarcher); gcc's does not. Libraries are not looked into, and loops that are watched have no vectors.
TSAN       := $(BUILD)/tsan
ARCHER     := $(wildcard /usr/lib/llvm-14/lib/libarcher.so)
TSAN_TESTS := $(addprefix test_,attention bf16 accumulators quantisation projector draws)
TSAN_RUN   := OMP_NUM_THREADS=3 KMP_BLOCKTIME=0 OMP_TOOL_LIBRARIES=$(ARCHER) TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1:exitcode=66
test-tsan: ## the suites whose code runs in threads under ThreadSanitizer, with clang and its OpenMP
	@tools/dependencies --all
	@$(MAKE) --no-print-directory $(PARALLEL) CC=clang-14 CXX=clang++-14 BUILD=$(TSAN) OPT="-O1 -march=$(ARCH)" SANITIZE=-fsanitize=thread tsan-runs
ifneq ($(findstring thread,$(SANITIZE)),)
$(BUILD)/tests/canary: $(BUILD)/tests/tsan/canary.o
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $<
run/tsan-canary: $(BUILD)/tests/canary
	@$(SUITE) tsan-canary sh -c '$(TSAN_RUN) $< order && { $(TSAN_RUN) $< race; test $$? = 66; }'
TSAN_RUNS  := $(TSAN_TESTS:%=run/tsan-%)
$(TSAN_RUNS): run/tsan-%: $(BUILD)/tests/% $(BUILD)/longbp run/tsan-canary
	@$(SUITE) tsan-$* env LONGBP=$(BUILD)/longbp $(TSAN_RUN) $<
tsan-runs: $(TSAN_RUNS)
	@$(SUITE)
endif
.PHONY: test-tsan tsan-runs $(TSAN_RUNS) run/tsan-canary
