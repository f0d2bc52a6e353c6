# longbp. `make help` lists the targets; variables: ARCH=native|x86-64-v3|..., BUILD=build, PREFIX=/usr/local, FILL_FREED=1.
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif
ARCH     ?= native
BUILD    ?= build
PREFIX   ?= /usr/local
OPT      ?= -O3 -march=$(ARCH) -mprefer-vector-width=512
RESULTS  ?= $(BUILD)/results
PICTURES ?= $(BUILD)/pictures
BLAS     := $(shell pkg-config --cflags openblas 2>/dev/null)
# Lines are what profilers, sanitizers and backtraces read; more takes a fifth of the build.
# Warnings are no errors under the sanitizers, where gcc warns of what is right: its manual advises against it.
# clang also warns of loops that it does not vectorise as they ask for.
COMMON   := $(OPT) -g1 -fopenmp -fno-math-errno -Wall -Wextra $(if $(findstring clang,$(CC)),-Wno-pass-failed) $(if $(SANITIZE),,-Werror) $(SANITIZE) $(if $(FILL_FREED),-DFILL_FREED)
FLAGS    := $(CC) $(CXX) $(strip $(COMMON))
CFLAGS    = -std=gnu11 -D_GNU_SOURCE= $(COMMON)
CXXFLAGS  = -std=c++17 $(COMMON)
CPPFLAGS := -I. -MMD -MP $(BLAS)
# gold, where binutils has it, links a hundred tests in half the time.
LDFLAGS  := -fopenmp $(SANITIZE) $(if $(shell command -v ld.gold),-fuse-ld=gold)
LDLIBS   := -ljansson -lyaml -lopenblas -lm -ldl
# Calls that can fail for want of memory end the program instead: kernels/base/host_memory.h.
CHECKED  := malloc calloc realloc posix_memalign strdup strndup asprintf __asprintf_chk vasprintf getline getdelim __getdelim fopen \
            fdopen opendir fdopendir scandir realpath setenv dlopen tsearch regcomp open_memstream
override LDLIBS += $(CHECKED:%=-Wl,--wrap=%)

# One line per compilation; `make V=1` shows the commands.
Q        := $(if $(V),,@)
say       = $(if $(V),,@echo "  $(1)  $(2)")

# Everything is found by wildcard; kernels/cpu/real is compiled once per dtype. kernels/cuda/plugin, which needs CUDA, is
# no part of the program but kernels/cuda/cuda.mk's.
REAL     := $(wildcard kernels/cpu/real/*.c)
PLAIN    := $(filter-out harness/main.c,$(wildcard kernels/*.c kernels/*/*.c methods/*.c methods/*/*.c harness/*/*.c))
OBJECTS  := $(PLAIN:%.c=$(BUILD)/%.o) $(foreach bits,16 32 64,$(REAL:%.c=$(BUILD)/%.$(bits).o))
TESTS    := $(patsubst tests/%,$(BUILD)/tests/%,$(basename $(wildcard tests/test_*.c tests/test_*.cpp)))
SOURCES  := $(foreach folder,kernels kernels/* kernels/*/* methods methods/* harness harness/* tests tests/* bench bench/*,\
              $(wildcard $(addprefix $(folder)/*.,c h cpp cu cuh)))
FIGURES  := context-sweep chunk sparsity gradient-error timeline accumulation accumulators

all: $(BUILD)/longbp ## build the program (the default)

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /\1\t/p' Makefile kernels/cuda/cuda.mk tests/emulator/emulator.mk tests/fuzz/fuzz.mk tests/tsan/tsan.mk tests/valgrind/valgrind.mk | expand -t 20

# The library that programs link with, each taking the objects that it needs. Thin: it holds their names.
LIBRARY  := $(BUILD)/longbp.a
$(LIBRARY): $(OBJECTS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsT $@ $^

$(BUILD)/longbp: $(BUILD)/harness/main.o $(LIBRARY)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

define REAL_RULE
$(BUILD)/%.$(1).o: %.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) -DREAL_BITS=$(1) -c -o $$@ $$<
endef
$(foreach bits,16 32 64,$(eval $(call REAL_RULE,$(bits))))
$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(BUILD)/%.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c -o $@ $<

# Another ARCH or OPT, or a compiler of another name, compiles all anew: objects of two would be linked, unsaid.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@flags='$(FLAGS)'; [ "$$flags" = "$$(cat $@ 2>/dev/null)" ] || echo "$$flags" > $@

# Records name the source they were made from: a change of revision rebuilds this one file.
$(BUILD)/harness/machine/provenance.o: CPPFLAGS += -DLONGBP_FLAGS='"-std=gnu11 $(strip $(COMMON))"' $(shell cat $(BUILD)/revision 2>/dev/null)
$(BUILD)/harness/machine/provenance.o: $(BUILD)/revision
$(BUILD)/revision: FORCE
	@mkdir -p $(@D)
	@echo "-DLONGBP_VERSION='\"$$(cat VERSION)\"'" "-DLONGBP_REVISION='\"$$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)\"'" \
	  "-DLONGBP_DIRTY=$$(test -z "$$(git status --porcelain -uno -- . ":!results" ":!plots/pictures" 2>/dev/null)"; echo $$?)" > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# A plug-in fits a program that was built from the same sources of it: each holds their hash, whose change compiles what
# holds it. $(NAME_SOURCES) -> $(BUILD)/NAME.sources, which defines NAME_PLUGIN_SOURCES.
$(BUILD)/%.sources: FORCE
	@mkdir -p $(@D)
	@hash=$$(sha256sum $($*_SOURCES) | sha256sum | cut -c 1-16) && test -n "$$hash" && defined="-D$*_PLUGIN_SOURCES='\"$$hash\"'" && \
	  { [ "$$defined" = "$$(cat $@ 2>/dev/null)" ] || echo "$$defined" > $@; }

# The page's template, style and script are part of the program.
$(BUILD)/harness/page/page.o: $(wildcard harness/page/page.*)

dependencies: ## install the packages that are missing, or say how
	@tools/dependencies

# The two commands that start from nothing. Packages first; then what compiles, in a make of its own, for this one asked
# pkg-config before they were there, and on all cores, unless -j says how many; then what runs, in sequence.
PARALLEL  = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
# Suites: one more, for some wait for a second or ten.
CROWDED   = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell expr $$(nproc) + 1))
figures: ## measure the default experiments (RESULTS=) and draw them (PICTURES=); some minutes
	@tools/dependencies
	@$(MAKE) --no-print-directory $(PARALLEL) figure-programs
	@mkdir -p $(RESULTS) $(PICTURES)
	@for name in $(FIGURES); do \
	  $(BUILD)/longbp run experiments/$$name.json --out $(RESULTS)/$$name.jsonl $(RUN) || exit $$?; done
	@tools/pictures $(BUILD)/longbp $(RESULTS) $(PICTURES) $(FIGURES)
	@$(BUILD)/longbp report $(FIGURES:%=$(RESULTS)/%.jsonl) --html $(BUILD)/report.html && echo $(BUILD)/report.html
figure-programs: all

pictures: all ## draw what was measured and planned (RESULTS=) anew (PICTURES=)
	@tools/pictures $(BUILD)/longbp $(RESULTS) $(PICTURES)

# The model of experiments/sparsity-trained.json: random weights, three states of one training run, and 8 sequences of the text.
BYTES := build/byte-model
TEXT  := experiments/data/king-james.txt
byte-model: all ## train the model of experiments/sparsity-trained.json in build/byte-model; a minute
	@rm -rf $(BYTES) && mkdir -p $(BYTES)
	@$(BUILD)/longbp init --model experiments/data/byte-model --out $(BYTES)/random
	@$(BUILD)/longbp train --model $(BYTES)/random --tokens $(TEXT) --context 512 --batch 2 --steps 600 --clip 1 --shuffle 1 \
	  --optimizer adamw,rate=0.002,beta2=0.95,decay=0 --schedule cosine --warmup 10 \
	  --checkpoint 10 --keep-checkpoints 60 --quiet --out $(BYTES)/run
	@for step in 40 150 600; do mv $(BYTES)/run/checkpoint-$$(printf %06d $$step) $(BYTES)/trained-$$step || exit; done
	@rm -r $(BYTES)/run
	@for place in 0 1 2 3 4 5 6 7; do tail -c +$$((place * 550000 + 1)) $(TEXT) | head -c 192; done > $(BYTES)/sequences.txt

papers: all ## regenerate the papers' figures from the plan; needs no GPU
	@tools/papers $(BUILD)/longbp $(RESULTS) $(PICTURES)

# A context of 1,024 takes two thirds of the time, and weekly alone comes what is measured there.
REGRESS  := $(addprefix regress/,baseline baseline-plan baseline-families baseline-ranks)
regress/baseline: SHORT = $(if $(LONGBP_EXHAUSTIVE),,512)
regress: $(REGRESS) ## hold memory, work and accuracy against results/baseline
$(REGRESS): regress/%: all
	@mkdir -p $(BUILD)/regress
	@grep '"context":$(SHORT)' results/baseline/$*.jsonl > $(BUILD)/regress/$*.before.jsonl
	@OMP_NUM_THREADS=1 $(BUILD)/longbp run experiments/$*.json $(SHORT:%=--axis context=%) --fresh --quiet --out $(BUILD)/regress/$*.jsonl $(RUN) > /dev/null && \
	  $(BUILD)/longbp compare --deterministic --exact $(BUILD)/regress/$*.before.jsonl $(BUILD)/regress/$*.jsonl

speed: all ## measure experiments/speed.json: throughput against the BLAS peak, methods as ratios
	$(BUILD)/longbp run experiments/speed.json --rounds 5 --out $(RESULTS)/speed.jsonl $(RUN)

prediction: all ## measure this machine's rates, and how well they predict steps (experiments/prediction.json); idle, 9 minutes
	@mkdir -p $(RESULTS) $(PICTURES)
	$(BUILD)/longbp calibrate --seconds 240 --out $(RESULTS)/host.json
	$(BUILD)/longbp run experiments/prediction.json --profile $(RESULTS)/host.json --out $(RESULTS)/prediction.jsonl $(RUN)
	$(BUILD)/longbp report $(RESULTS)/prediction.jsonl --summary
	$(BUILD)/longbp plot $(RESULTS)/prediction.jsonl --figures prediction --out $(PICTURES)

# Pairs of this build with itself, and half as many with a build in which a method is a fifth slower, alternating by tens.
PAIRS    ?= 40
pairs: all $(BUILD)/slowed/longbp ## does compare tell this build from itself, and from one that is a fifth slower? PAIRS=40, half an hour; goes on
	@for count in $$(seq 10 10 $$(($(PAIRS) - 1))) $(PAIRS); do \
	  tools/pairs $(BUILD)/longbp $(BUILD)/longbp experiments/pair.json $$count $(BUILD)/pairs/same && \
	  tools/pairs $(BUILD)/slowed/longbp $(BUILD)/longbp experiments/pair.json $$((count / 2)) $(BUILD)/pairs/slowed || exit $$?; done
	@mkdir -p $(RESULTS)
	@for kind in same slowed; do cp $(BUILD)/pairs/$$kind/pairs.csv $(RESULTS)/pairs-$$kind.csv; done
$(BUILD)/slowed/longbp: $(BUILD)/harness/main.o $(BUILD)/tests/slowed_step.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -Wl,--wrap=method_step $(LDLIBS)

# A build whose products have coarse accumulators, which `run` is to find.
$(BUILD)/coarse/longbp: $(BUILD)/harness/main.o $(BUILD)/tests/coarse_gemm.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -Wl,--wrap=gemm_f32,--wrap=gemm_bf16 $(LDLIBS)
$(if $(SANITIZE),,test-programs) run/tests/check_rounding: $(BUILD)/coarse/longbp

SIMT_TESTS := $(filter $(BUILD)/tests/test_simt_%,$(TESTS))
# The requirements of every operation, on each device.
CASES    := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/cases/*.c))
$(BUILD)/tests/test_ops: $(CASES)
# Inputs that fuzzers kept, read again (tests/fuzz/fuzz.mk).
$(BUILD)/tests/test_kept_inputs: $(patsubst tests/fuzz_%.c,$(BUILD)/tests/kept/%.o,$(wildcard tests/fuzz_*.c))
# Steps whose gradient is wrong, or that do other work.
$(BUILD)/tests/test_verify $(BUILD)/tests/test_samples: override LDLIBS += -Wl,--wrap=method_step
# Readings of counters and of a card's sensors that are made up.
$(BUILD)/tests/test_event_counter: override LDLIBS += -Wl,--wrap=syscall
$(BUILD)/tests/test_watch: override LDLIBS += $(foreach call,open close card_find read,-Wl,--wrap=sensors_$(call))
# -O1 saves a second of the build; records by the hundred thousand (tools/scale) then take half as long again.
$(BUILD)/harness/%.o: CFLAGS += $(if $(SANITIZE),-O1,-O2)
# Code of tests takes longer to be optimised than to run, but for tests that compute much themselves.
$(TESTS:=.o): CFLAGS += -O1
$(addsuffix .o,$(filter-out $(addprefix %/test_,bf16 galore optimizer ranks),$(TESTS))): CFLAGS += -O0
$(filter-out $(SIMT_TESTS),$(TESTS)): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/tests/fixture.o $(BUILD)/tests/chosen_tests.o $(LIBRARY)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter-out $(LIBRARY),$^) $(LIBRARY) -lcmocka $(LDLIBS)

# CUDA's own kernels, compiled for the CPU: tests/simt stands in for CUDA's headers. They are the emulated plug-in's, too.
KERNELS  := $(patsubst kernels/cuda/kernels/%.cu,$(BUILD)/tests/simt/%.o,$(wildcard kernels/cuda/kernels/*.cu))
FIBERS   := $(addprefix $(BUILD)/tests/simt/,fibers.o tensor_core.o)
SIMT     := $(KERNELS) $(FIBERS) $(addprefix $(BUILD)/tests/simt/,array.o device.o) $(CASES)
$(BUILD)/tests/simt/%.o $(BUILD)/tests/test_simt_%.o: CPPFLAGS += -Itests/simt -Wno-unknown-pragmas
$(KERNELS) $(FIBERS): CPPFLAGS += -fPIC -fvisibility=hidden
$(BUILD)/tests/simt/%.o: kernels/cuda/kernels/%.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -x c++ -c -o $@ $<
$(SIMT_TESTS): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/tests/chosen_tests.o $(SIMT) $(LIBRARY)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# Each suite is a target, so that all cores are busy, each suite on one thread; ranks that wait leave the
# core to those that do not. tests/suite says what came of it. Under the sanitizers without the checks, which are of
# sources, scripts and a page in a browser, and without gnuplot's points, while the program's part in them other suites
# run; without what simulates times, whose code test_time_change runs too; and without what preloads a malloc or system
# calls of its own. Weekly alone (LONGBP_EXHAUSTIVE=1) come there the longest of the others: those of each change are chosen so
# that they run every source file.
SUITE     = BUILD=$(BUILD) tests/suite
BRIEF    := $(and $(SANITIZE),$(if $(LONGBP_EXHAUSTIVE),,1))
LONG     := auto_ranks batch_command bf16 bread compare compare_table compare_times config_keys flops galore kills \
            largest_block machine_load max_context objective_methods offload_places optimizer_steps plan plan_command \
            plan_ranks planner plot_command preference published_ranks ranks_command ranks_ends record_table \
            replica_updates replicas samples segments shared_prompt spaco step sweep_file train_command \
            train_ranks_command train_sequences training trial_text verify weights writers
UNKNOWN  := $(if $(TESTS),$(filter-out $(notdir $(TESTS)),$(LONG:%=test_%)))
$(if $(UNKNOWN),$(error LONG names suites that there are not: $(UNKNOWN)))
LEFT_OUT := $(if $(SANITIZE),tests/check_% $(addprefix %/test_,drawn_figures time_noise host_memory sweep_crashes system_calls)) \
            $(if $(BRIEF),$(addprefix %/test_,$(LONG)))
RUNS     := $(addprefix run/,$(filter-out $(LEFT_OUT),$(wildcard tests/check_*) $(TESTS)))
run/$(BUILD)/tests/test_host_memory: $(BUILD)/tests/failing_malloc.so
# The one test of these suites that runs what no other suite does.
ONE_TEST := $(if $(BRIEF),plan_table=frontiers_print_theirs advise=remedies_are_planned completion=help_shows_first_what_is_used_first)
$(foreach test,$(ONE_TEST),$(eval run/$(BUILD)/tests/test_$(subst =,: export LONGBP_TEST := ,$(test))))
run/$(BUILD)/tests/test_sweep_crashes run/$(BUILD)/tests/test_system_calls: $(BUILD)/tests/system_calls.so
run/$(BUILD)/tests/test_plugins: $(BUILD)/tests/stub_plugin.so
$(BUILD)/tests/%.so: tests/%.c
	$(call say,LINK,$@)
	$(Q)$(CC) -I. -MMD -MP -std=gnu11 -O2 -fPIC -shared -Wall -Wextra -Werror -o $@ $< -ldl -lgcc_s
# An allocation that is too large is refused, as it is without the sanitizers: programs are to say so. Freed memory stays
# poisoned until 16 MiB more are freed: the default of 256 costs some suites a fifth of their time, in new pages.
ASAN     := allocator_may_return_null=1:quarantine_size_mb=16
# Open MPI does not free all that it takes.
$(addprefix run/$(BUILD)/tests/,test_batch_command test_ranks test_ranks_command test_ranks_ends test_replicas test_replica_updates test_monitored_ranks test_train_ranks test_train_ranks_command test_auto_ranks): export ASAN_OPTIONS := $(ASAN):detect_leaks=0
test: ## install what is missing, build, run every test; some minutes
	@tools/dependencies --test
	@$(MAKE) --no-print-directory $(PARALLEL) test-programs
	@rm -rf $(BUILD)/suites
	@OMP_NUM_THREADS=1 OMPI_MCA_mpi_yield_when_idle=1 $(MAKE) --no-print-directory -k --output-sync=target $(CROWDED) test-runs; code=$$?; $(SUITE) && exit $$code
test-programs: all $(filter-out $(LEFT_OUT),$(TESTS))
$(RUNS): run/%: % all
	@LONGBP=$(BUILD)/longbp $(SUITE) $(notdir $*) $*

# Another program has other call stacks: what was tried of this one is noted beside it.
MINUTES  ?= 10
KILLS    ?= 1000
TRIED     = $(BUILD)/torture/tried$(if $(EVERY),-every)
golden: all ## write what tests/golden expects of refusals anew, for review
	@GOLDEN=1 $(MAKE) --no-print-directory -k $(patsubst tests/golden/%,run/$(BUILD)/tests/%,$(wildcard tests/golden/*))
torture: all $(BUILD)/tests/test_host_memory $(BUILD)/tests/failing_malloc.so $(BUILD)/tests/test_kills ## let allocations of every command fail one by one for MINUTES=10, one of each call stack or EVERY=1, going on where it stopped; then KILLS=1000 of runs
	@mkdir -p $(BUILD)/torture
	@[ $(TRIED) -nt $(BUILD)/longbp ] || rm -f $(TRIED)
	@$(if $(EVERY),TORTURE_EVERY=1) TORTURE_TRIED=$(TRIED) TORTURE_SECONDS=$$((60 * $(MINUTES))) BUILD=$(BUILD) LONGBP=$(BUILD)/longbp \
	  $(BUILD)/tests/test_host_memory
	@KILLS=$(KILLS) LONGBP=$(BUILD)/longbp $(BUILD)/tests/test_kills

# Optimised, for without vectors the tests take three times as long; -O1 has them, and compiles in two thirds of -O2's
# time, which only the kernels are worth. Left out is what AddressSanitizer finds, too, and what takes a third of the time:
# pointers that are computed and not followed.
test-asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@ASAN_OPTIONS=$(ASAN) $(MAKE) BUILD=$(BUILD)/asan OPT="-O1 -march=$(ARCH)" \
	  SANITIZE="-fsanitize=address,undefined -fno-sanitize=null,object-size,pointer-overflow -fno-sanitize-recover=all" test
# Compiling CUDA's kernels takes longer at a higher level than their tests then save.
$(filter $(BUILD)/kernels/cpu/real/%,$(OBJECTS)): CFLAGS += $(if $(SANITIZE),-O2)
$(KERNELS): CXXFLAGS += -O1
$(FIBERS): CXXFLAGS += -O2
$(filter %/attention_forward.o %/attention_backward.o,$(KERNELS)): CXXFLAGS += $(if $(SANITIZE),-O1,-O2)

mutants: ## put small mistakes into a copy of the code, one at a time: which do the tests find? hours; goes on
	@tools/mutate

# From another folder than this one, as users do.
PYTHON   ?= python3
PYTORCH  := $(addprefix run/tools/,check_against_pytorch check_training_against_pytorch check_adapters_against_peft check_tokens_against_trl check_sizes_against_transformers)
test-pytorch: all ## gradients and training runs in f64 against PyTorch, transformers, peft and TRL, as far as PYTHON=python3 has them
	@if $(PYTHON) -c 'import numpy, safetensors, torch' 2>/dev/null; then $(MAKE) --no-print-directory --output-sync=target $(PARALLEL) $(PYTORCH); \
	else $(SUITE) pytorch --left-out "$(PYTHON) has no torch, numpy and safetensors"; fi
fuzz-configs: all ## random config.json against transformers, as far as PYTHON=python3 has it
	@if $(PYTHON) -c 'import numpy, safetensors, torch, transformers' 2>/dev/null; then tools/fuzz_configs.py --seed "$$(date +%s)"; \
	else $(SUITE) fuzz_configs --left-out "$(PYTHON) has no torch, transformers, numpy and safetensors"; fi
$(PYTORCH): run/tools/%: all
	@$(SUITE) $* sh -c 'cd / && exec $(PYTHON) $(CURDIR)/tools/$*.py $(if $(filter build,$(BUILD)),,--longbp $(abspath $(BUILD))/longbp)'

# The timed code is in the library.
$(BUILD)/bench/%.o: CXXFLAGS += -O1
$(BUILD)/bench/bench_%: $(BUILD)/bench/bench_%.o $(LIBRARY)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -lbenchmark $(LDLIBS)
bench: $(patsubst %.cpp,$(BUILD)/%,$(wildcard bench/bench_*.cpp)) ## the operations alone: rates and shares of a large GEMM and a large copy
	@for bench in $^; do $$bench || exit 1; done

format: ## clang-format every source
	$(Q)clang-format -i $(SOURCES)

# Nearly all of clang-tidy's time is the static analyzer's, which by default gives a function 225,000 states: ANALYZER=
# (.ci/run weekly). With 5,000 it takes half as long again as with these.
ANALYZER := -Xclang -analyzer-config -Xclang max-nodes=1000
lint: ## clang-format, clang-tidy and cppcheck, all without a finding
	@$(MAKE) --no-print-directory --output-sync=target $(PARALLEL) lint-each lint-cppcheck
lint-each: lint-format lint-tidy lint-cuda # of each change (.ci/run)
lint-format:
	@echo $(SOURCES) | xargs -n 16 -P $$(nproc) clang-format --dry-run -Werror
	@! git grep -nE '^ *(//|\*) (Of|What|Where) ' -- kernels methods harness tests bench || { echo "comments begin with their subject" >&2; exit 1; }
lint-cppcheck:
	@cppcheck --quiet -j $$(nproc) --error-exitcode=1 --std=c11 --enable=warning,portability,performance --inline-suppr \
	  --suppressions-list=.cppcheck -I. -D_GNU_SOURCE= -DREAL_BITS=32 $(PLAIN) $(REAL) harness/main.c
lint-tidy:
	@echo $(PLAIN) $(REAL) harness/main.c | xargs -n 8 -P $$(nproc) sh -c \
	  'clang-tidy --quiet "$$@" -- -I. $(BLAS) -std=gnu11 -D_GNU_SOURCE= -DREAL_BITS=32 -DCUDA_PLUGIN_SOURCES=__FILE__ -DMPI_PLUGIN_SOURCES=__FILE__ $(ANALYZER) 2>/dev/null' clang-tidy
.PHONY: lint-each lint-format lint-cppcheck lint-tidy

man: all ## man pages, from the commands' help
	@tools/man $(BUILD)/longbp $(BUILD)/man

SHARED   := $(wildcard plots/*.gp $(foreach kind,json csv txt md,experiments/*.$(kind) experiments/*/*.$(kind)))
SHELLS   := bash:bash-completion/completions/longbp zsh:zsh/site-functions/_longbp fish:fish/vendor_completions.d/longbp.fish
install: man ## into PREFIX=/usr/local (and DESTDIR)
	install -D -t $(DESTDIR)$(PREFIX)/bin $(BUILD)/longbp
	$(if $(MPI),install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/longbp $(MPI))
	@for file in $(SHARED); do install -D -m 644 $$file $(DESTDIR)$(PREFIX)/share/longbp/$$file || exit 1; done
	@for shell in $(SHELLS); do $(BUILD)/longbp completion $${shell%%:*} | \
	  install -D -m 644 /dev/stdin $(DESTDIR)$(PREFIX)/share/$${shell#*:} || exit 1; done
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 $(BUILD)/man/*.1

include kernels/cuda/cuda.mk kernels/mpi/mpi.mk tests/emulator/emulator.mk tests/new_method/new_method.mk tests/new_block/new_block.mk tests/fuzz/fuzz.mk tests/tsan/tsan.mk tests/valgrind/valgrind.mk
# Those that take longest are begun first, and those that wait apart from each other: so all cores are busy, and end together.
LONGEST  := $(filter $(RUNS),$(addprefix run/$(BUILD)/tests/test_,ranks_ends replicas ranks_command harness train_command \
              train_ranks_command advise planner simt_ops run_command ops host_memory sweep_crashes methods plot_command kills \
              optimizer_steps replica_updates))
test-runs: $(LONGEST) test-cuda-emulated $(if $(BRIEF),,test-bf16) $(RUNS)

clean: ## remove what was built
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: all help dependencies golden figures figure-programs pictures byte-model papers regress $(REGRESS) speed prediction pairs test test-programs test-runs $(RUNS) torture test-asan mutants test-pytorch fuzz-configs $(PYTORCH) bench format lint man install clean FORCE
.SECONDARY:
