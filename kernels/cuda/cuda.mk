# The CUDA device's plug-in, and what tests and measures it. Without nvcc all of this is left out.
NVCC      ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
CUDA      ?= $(if $(NVCC),$(abspath $(dir $(realpath $(NVCC)))/..))
# Kernels are compiled to the PTX of the oldest card, for they use nothing newer, and from it assembled for each.
# Code for 8.0 runs on 8.6 and 8.9 as well: its registers and instructions are theirs; which tile fits is asked of the
# card. The PTX goes along: a driver assembles it for whatever card is not in the list and is no older.
CUDA_ARCHS ?= 80 90 100 120
CUDA_CODE := $(CUDA_ARCHS:%=sm_%) compute_80
CUDA_BUILT_FOR := -DCUDA_BUILT_FOR='"$(CUDA_CODE)"'
comma     := ,
empty     :=
NVFLAGS   := '-gencode=arch=$(lastword $(CUDA_CODE)),code=[$(subst $(empty) ,$(comma),$(CUDA_CODE))]' --threads 0 \
             -std=c++17 -O3 -lineinfo -Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror \
             -Werror=all-warnings --expt-relaxed-constexpr
# The base is linked into both sides: it has no state, but for host_memory.c, which is the program's.
CUDA_BASE := $(filter-out $(addprefix kernels/,$(addprefix base/,host_memory.c plugin.c random.c xxhash.c) \
             $(addprefix device/,attention.c delta.c eigen.c memo.c memory.c ops.c quantisation.c)),$(wildcard $(addprefix kernels/,base/*.c device/*.c measure/*.c))) \
             kernels/cuda/workspace.c
CUDA_C    := $(wildcard kernels/cuda/plugin/*.c)
CUDA_PIC  := $(patsubst %.c,$(BUILD)/pic/%.o,$(CUDA_C) $(CUDA_BASE)) \
             $(patsubst %.cu,$(BUILD)/pic/%.o,$(wildcard kernels/cuda/kernels/*.cu))
# The sources of both the real and the emulated plug-in. The program needs their hash, too, without nvcc.
CUDA_SOURCES := $(sort $(CUDA_BASE) $(wildcard $(addprefix kernels/,base/*.h comm/*.h device/*.h measure/*.h $(addprefix cuda/,*.h plugin/*.[ch] kernels/*.h kernels/*.cu kernels/*.cuh))))
CUDA_HOLDERS := $(addprefix $(BUILD)/,kernels/cuda/plugin.o pic/kernels/cuda/plugin/cuda.o emulated/kernels/cuda/plugin/cuda.o tests/test_plugins.o)
$(CUDA_HOLDERS): $(BUILD)/CUDA.sources
$(CUDA_HOLDERS): CPPFLAGS += $(shell cat $(BUILD)/CUDA.sources 2>/dev/null)

$(BUILD)/pic/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(if $(FILL_FREED),-DFILL_FREED) $(CUDA_BUILT_FOR) -isystem $(CUDA)/include -std=gnu11 -O2 -g -fPIC -fvisibility=hidden \
	  -Wall -Wextra -Werror -c -o $@ $<
$(BUILD)/pic/%.o: %.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -I. -MMD -MP $(NVFLAGS) -c -o $@ $<

$(BUILD)/longbp-cuda.so: $(CUDA_PIC)
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared -Wl,-z,defs -Wl,--as-needed -o $@ $^ -L$(CUDA)/lib64 -L$(CUDA)/lib -lcublasLt -lcudnn \
	  -lcudart_static -lpthread -ldl -lrt

cuda: all $(if $(NVCC),$(BUILD)/longbp-cuda.so) ## the program and the CUDA device, a plug-in for CUDA_ARCHS="80 90 100 120" (needs nvcc, cuBLASLt and cuDNN)
	@test -n "$(NVCC)" || { echo "make cuda: no nvcc on PATH or in /usr/local/cuda; NVCC= names another" >&2; exit 1; }

# Without a GPU: cuDNN builds every graph of the presets for cards that are only described.
CUDA_LINK := -L$(CUDA)/lib64 -L$(CUDA)/lib -lcublasLt -lcudnn -lcudart_static -lstdc++ -lpthread -ldl -lrt -lm
$(BUILD)/tests/cuda/check_graphs: $(BUILD)/pic/tests/cuda/check_graphs.o $(BUILD)/pic/kernels/model/config.o $(CUDA_PIC)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(CUDA_LINK)
# Each driver function that driver.c does not define returns CUDA_ERROR_STUB_LIBRARY (34), as the toolkit's own library does.
$(BUILD)/stubs/libcuda.so.1: tests/cuda/driver.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	@nm -D --defined-only $(firstword $(wildcard $(CUDA)/lib64/stubs/libcuda.so $(CUDA)/lib/stubs/libcuda.so)) | \
	  sed -n 's/.* T \(cu[A-Za-z0-9_]*\)$$/__attribute__((weak)) int \1(void) { return 34; }/p' > $(@D)/rest.c
	$(Q)$(CC) -shared -fPIC -O2 -Wall -Wextra -Werror -o $@ $< $(@D)/rest.c
GRAPHS    := $(if $(NVCC),cuda $(BUILD)/tests/cuda/check_graphs $(BUILD)/stubs/libcuda.so.1)
test-cuda-graphs: $(GRAPHS)
	@$(SUITE) cuda-graphs $(if $(NVCC),env LD_LIBRARY_PATH=$(BUILD)/stubs:$(CUDA)/lib64:$(CUDA)/lib $(BUILD)/tests/cuda/check_graphs,--left-out "there is no nvcc")

# Check of the plug-in's contents. Some toolkits have no cuobjdump: tools/dependencies brings it.
CUOBJDUMP ?= $(firstword $(shell command -v cuobjdump 2>/dev/null) \
             $(wildcard $(CUDA)/bin/cuobjdump build/python/nvidia/*/bin/cuobjdump))
test-cuda-code: $(if $(NVCC),cuda)
	@$(SUITE) cuda-code $(if $(and $(NVCC),$(CUOBJDUMP)),tests/cuda/check_code $(CUOBJDUMP) $(BUILD)/longbp-cuda.so $(CUDA_CODE),--left-out "there is no nvcc or no cuobjdump")

# Apart from `make test`: nvcc takes as long as all of that.
test-cuda-build: ## what nvcc makes of the CUDA device, without a GPU: kernels' registers, cuDNN's graphs; minutes
	@$(MAKE) --no-print-directory --output-sync=target $(PARALLEL) test-cuda-graphs test-cuda-code

# With a GPU. These programs print and count for themselves: where they run there may be no cmocka.
CUDA_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/cuda/test_*.c))
$(BUILD)/tests/cuda/test_ops: $(CASES)
$(BUILD)/tests/cuda/test_%: $(BUILD)/tests/cuda/test_%.o $(BUILD)/tests/fixture.o $(LIBRARY)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter-out $(LIBRARY),$^) $(LIBRARY) $(LDLIBS)
test-cuda: cuda $(CUDA_TESTS) ## every operation and method on the GPU against the CPU in f64
	@failed=; for test in $(CUDA_TESTS); do LONGBP_CUDA=$(abspath $(BUILD))/longbp-cuda.so $$test || failed="$$failed $$test"; \
	  done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

# The same program holds the CPU in bf16; in f32 and f64 other tests do.
test-bf16: $(CUDA_TESTS) ## every method on the CPU in bf16 against the CPU in f64
	@$(SUITE) methods-bf16 $(BUILD)/tests/cuda/test_methods cpu plan-cpu 40 bf16
test-programs: $(CUDA_TESTS)

bench-cuda: cuda $(BUILD)/bench/bench_ops ## operations on the GPU: rates and shares of its large GEMM and large copy
	@LONGBP_CUDA=$(abspath $(BUILD))/longbp-cuda.so $(BUILD)/bench/bench_ops cuda

# `make figures DEVICE=cuda`
RUN += $(if $(DEVICE),--device $(DEVICE))
figure-programs: $(if $(filter cuda cuda:%,$(DEVICE)),cuda)

# For a machine that has neither compiler nor libraries but a driver, cuBLASLt and cuDNN: the program, the tests and the
# benchmark with their libraries and the compiler's own linked in; Google Benchmark, which comes shared alone, beside
# them; all in one archive. tools/cuda-all runs them there.
SYSTEM := -lm -ldl -lpthread
STATIC := -Wl,-Bstatic $(filter-out $(SYSTEM),$(LDLIBS)) -lgomp -lgfortran -lquadmath -Wl,-Bdynamic $(SYSTEM)
cuda-static: ## all of this section for another machine, static but for CUDA; tools/cuda-all runs it there
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/static ARCH=x86-64-v3 LDLIBS="$(STATIC)" \
	  LDFLAGS="-static-libgcc -s -Wl,-rpath,'\$$\$$ORIGIN/../lib'" \
	  all cuda $(CUDA_TESTS:$(BUILD)/%=$(BUILD)/static/%) $(BUILD)/static/bench/bench_ops
	@mkdir -p $(BUILD)/static/lib
	@so=$$(readlink -f $$($(CXX) -print-file-name=libbenchmark.so)); \
	  cp $$so $(BUILD)/static/lib/$$(readelf -d $$so | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
	@cd $(BUILD)/static && tar -cf - longbp longbp-cuda.so $(notdir $(MPI)) $(CUDA_TESTS:$(BUILD)/%=%) bench/bench_ops lib | \
	  xz -T0 -6 --lzma2=preset=6,dict=128MiB > ../longbp-cuda.tar.xz && ls -l ../longbp-cuda.tar.xz

lint-cuda: $(BUILD)/CUDA.sources
	@$(if $(NVCC),clang-tidy --quiet $(CUDA_C) $(wildcard tests/cuda/*.c tests/emulator/*.c) -- -I. $(CUDA_BUILT_FOR) $(shell cat $(BUILD)/CUDA.sources 2>/dev/null) -isystem $(CUDA)/include -std=gnu11 $(ANALYZER) 2>/dev/null,:)

.PHONY: cuda cuda-static lint-cuda test-cuda-graphs test-cuda-code test-cuda-build test-cuda test-bf16 bench-cuda
