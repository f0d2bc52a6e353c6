# Valgrind's memcheck over the core, the methods, the readers and the program's commands: it sees what is read before it is
# written, which gcc's sanitizers do not, and looks into libraries. It knows no AVX-512, has long double in 64 bits and
# takes a hundred times as long: so all is built for AVX2 and runs on one thread, and what tests times, the processor or
# much at once is left out; so is test_breakdown, whose operations compute with numbers that nobody wrote.
MEMCHECK       := $(BUILD)/memcheck
MEMCHECK_TESTS := $(addprefix test_,accumulators attention batch_file bcd bread bytes_moved compare_bits documents draws \
  expansion floors flops folder_config folder_write gradient_error gradients json_source kept_attention log_probs lost_updates memo \
  objective objective_methods objective_metrics options override pair_sums parts places preference projector quantisation \
  record_json record_read record_values recorded_method result_file round_times rounds safetensors sample sampler setting setup shared_prompt spaco spec stages step \
  step_data time_change tokens trial_id trial_keys trial_text values weights)
MEMCHECK_RUN   := OMP_NUM_THREADS=1 OPENBLAS_CORETYPE=Haswell ONEDNN_MAX_CPU_ISA=AVX2
VALGRIND       := valgrind --quiet --error-exitcode=66 --trace-children=yes --trace-children-skip=/usr/*,/bin/* --num-callers=30
test-memcheck: ## the core, the methods, the readers and the commands under valgrind's memcheck; half an hour
	@tools/dependencies --all
	@$(MAKE) --no-print-directory $(PARALLEL) -k BUILD=$(MEMCHECK) ARCH=x86-64-v3 OPT="-O1 -march=x86-64-v3" memcheck-runs
$(BUILD)/tests/memcheck_canary: $(BUILD)/tests/valgrind/canary.o
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $<
run/memcheck-canary: $(BUILD)/tests/memcheck_canary
	@$(SUITE) memcheck-canary sh -c '$(VALGRIND) $< written && { $(VALGRIND) $< unwritten; test $$? = 66; }'
run/memcheck-commands: $(BUILD)/longbp run/memcheck-canary
	@$(SUITE) memcheck-commands env $(MEMCHECK_RUN) tests/valgrind/commands $(abspath $<) $(VALGRIND)
MEMCHECK_RUNS  := $(MEMCHECK_TESTS:%=run/memcheck-%)
$(MEMCHECK_RUNS): run/memcheck-%: $(BUILD)/tests/% $(BUILD)/longbp run/memcheck-canary
	@$(SUITE) memcheck-$* env LONGBP=$(BUILD)/longbp $(MEMCHECK_RUN) $(VALGRIND) $<
memcheck-runs: run/memcheck-commands $(MEMCHECK_RUNS)
	@$(SUITE)
.PHONY: test-memcheck memcheck-runs $(MEMCHECK_RUNS) run/memcheck-canary run/memcheck-commands
