# The CUDA device on the CPU: a plug-in whose kernels run in the SIMT layer and whose CUDA runtime, cuBLASLt and cuDNN
# are this folder's. Attention's blocks and tiles are small, so that small tests have many; test_simt_ops has the tiles of
# cards.
EMULATED  := $(BUILD)/emulated
# It needs a toolkit's headers alone.
CAN_EMULATE := $(wildcard $(CUDA)/include/cudnn.h)
HEADERS   := $(if $(filter-out /usr,$(CUDA)),-isystem $(CUDA)/include)
$(EMULATED)/%.o: CPPFLAGS += $(CUDA_BUILT_FOR) -fPIC -fvisibility=hidden \
  -DCUDA_ATTENTION_QUERIES=16 -DCUDA_ATTENTION_KEYS=32 -DCUDA_ATTENTION_TILE=8 -DCUDA_ATTENTION_ROWS=1
$(EMULATED)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(HEADERS) $(CFLAGS) -c -o $@ $<
$(EMULATED)/%.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(CPPFLAGS) $(HEADERS) $(CXXFLAGS) -c -o $@ $<
TILED     := $(addprefix kernels/cuda/kernels/attention_,forward.cu backward.cu)
$(TILED:%.cu=$(EMULATED)/%.o): CPPFLAGS += -Itests/simt -Wno-unknown-pragmas
# Without the sanitizers, which see nothing of the card's memory: they watch the same kernels in test_simt_ops.
$(TILED:%.cu=$(EMULATED)/%.o): CXXFLAGS += -O2 $(if $(SANITIZE),-fno-sanitize=all)
$(EMULATED)/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -x c++ -c -o $@ $<
$(EMULATED)/longbp-cuda.so: $(patsubst %.c,$(EMULATED)/%.o,$(CUDA_C) $(CUDA_BASE)) $(TILED:%.cu=$(EMULATED)/%.o) \
  $(filter-out $(TILED:kernels/cuda/kernels/%.cu=$(BUILD)/tests/simt/%.o),$(KERNELS)) $(FIBERS) \
  $(addprefix $(EMULATED)/tests/emulator/,runtime.o card.o cublaslt.o cudnn.o graph.o descriptor.o)
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared $(if $(SANITIZE),,-Wl,-z,defs) $(LDFLAGS) -o $@ $^ -lopenblas -lm
cuda-emulated: all $(if $(CAN_EMULATE),$(EMULATED)/longbp-cuda.so) ## the program and the CUDA device on the CPU, for LONGBP_CUDA=build/emulated/longbp-cuda.so
	@$(if $(CAN_EMULATE),:,echo "make cuda-emulated: there are no headers of CUDA and cuDNN in $(CUDA)/include; CUDA= names another toolkit" >&2; exit 1)
# NCCL's header comes with most toolkits, and with libnccl-dev.
NCCL        := $(if $(and $(MPI),$(shell command -v mpirun),$(wildcard $(CUDA)/include/nccl.h /usr/include/nccl.h)),$(EMULATED)/nccl/libnccl.so.2)
$(EMULATED)/nccl/libnccl.so.2: $(EMULATED)/tests/emulator/nccl.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(LDFLAGS) -o $@ $< -ldl
EMULATED_TESTS := $(addprefix $(EMULATED)/tests/,$(if $(SANITIZE),,cuda/test_ops cuda/test_methods) emulator/test_device emulator/test_ranges emulator/test_cards \
  $(if $(SANITIZE),,emulator/test_rehearse) $(if $(NCCL),emulator/test_nccl_command) \
  $(if $(BRIEF),,test_refused emulator/test_attention emulator/test_places emulator/test_pinned emulator/test_calibrate $(if $(NCCL),emulator/test_nccl)))
RANGES_TOOL := $(EMULATED)/tests/emulator/ranges_tool.so
NVML        := $(EMULATED)/nvml/libnvidia-ml.so.1
$(EMULATED)/tests/cuda/test_ops: $(CASES:$(BUILD)/%=$(EMULATED)/%)
$(EMULATED_TESTS): $(EMULATED)/%: $(EMULATED)/%.o $(BUILD)/tests/fixture.o $(BUILD)/tests/chosen_tests.o \
  $(EMULATED)/kernels/cuda/workspace.o $(LIBRARY)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter-out $(LIBRARY),$^) $(LIBRARY) -lcmocka $(LDLIBS)
$(EMULATED)/tests/emulator/test_traps: $(addprefix $(EMULATED)/tests/emulator/,test_traps.o runtime.o card.o)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -lcmocka
$(RANGES_TOOL): $(RANGES_TOOL:.so=.o)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(LDFLAGS) -o $@ $^
$(addprefix $(EMULATED)/tests/emulator/,nvml.o nccl.o): CPPFLAGS += -fvisibility=default
$(NVML): $(EMULATED)/tests/emulator/nvml.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(LDFLAGS) -o $@ $<
EMULATION := $(if $(CAN_EMULATE),$(EMULATED)/longbp-cuda.so $(EMULATED_TESTS) $(RANGES_TOOL) $(NVML) $(NCCL) $(MPI) \
  $(EMULATED)/tests/emulator/test_traps $(BUILD)/longbp)
# $(call EMULATED_RUN,NAME,COMMAND), one run of them, which is a target.
define EMULATED_RUN
EMULATED_RUNS += run/emulated-$(1)
run/emulated-$(1): $$(EMULATION)
	@LONGBP_CUDA=$$(abspath $(EMULATED)/longbp-cuda.so) LONGBP=$$(abspath $(BUILD))/longbp $$(SUITE) emulated-$(1) env $(2)
endef
# Under the sanitizers, which take ten times as long and see nothing of the card's memory, the methods of test_device
# alone; the same kernels run in test_simt_ops. Weekly alone come there attention, refusals, places, pinned memory,
# calibration, NCCL's operations by themselves and all of cards but their sensors: test_device and test_nccl_command watch
# the device's host code on each change.
$(if $(SANITIZE),,$(eval $(call EMULATED_RUN,methods,$(EMULATED)/tests/cuda/test_methods cuda plan-cuda 36)))
$(if $(SANITIZE),,$(eval $(call EMULATED_RUN,ops,$(EMULATED)/tests/cuda/test_ops cuda $(if $(LONGBP_EXHAUSTIVE),2e4,2.5e3))))
$(if $(SANITIZE),,$(eval $(call EMULATED_RUN,ops-8.6,EMULATED_CARD=8.6 $(EMULATED)/tests/cuda/test_ops cuda $(if $(LONGBP_EXHAUSTIVE),5e3,1e3))))
$(eval $(call EMULATED_RUN,cards,$(if $(BRIEF),LONGBP_TEST=test_sensors_as_csv) NVML=$(abspath $(dir $(NVML))) $(EMULATED)/tests/emulator/test_cards))
$(eval $(call EMULATED_RUN,device,$(EMULATED)/tests/emulator/test_device))
$(if $(BRIEF),,$(eval $(call EMULATED_RUN,attention,$(EMULATED)/tests/emulator/test_attention)))
$(if $(BRIEF),,$(eval $(call EMULATED_RUN,refused,$(EMULATED)/tests/test_refused cuda)))
$(if $(BRIEF),,$(eval $(call EMULATED_RUN,places,$(EMULATED)/tests/emulator/test_places)))
$(if $(BRIEF),,$(eval $(call EMULATED_RUN,pinned,$(EMULATED)/tests/emulator/test_pinned)))
$(if $(BRIEF),,$(eval $(call EMULATED_RUN,calibrate,$(EMULATED)/tests/emulator/test_calibrate)))
$(eval $(call EMULATED_RUN,ranges,$(EMULATED)/tests/emulator/test_ranges))
$(eval $(call EMULATED_RUN,ranges-tool,NVTX_INJECTION64_PATH=$(abspath $(RANGES_TOOL)) $(EMULATED)/tests/emulator/test_ranges))
$(foreach test,$(if $(NCCL),$(if $(BRIEF),,nccl) nccl_command),$(eval $(call EMULATED_RUN,$(test),LONGBP_NCCL=$(abspath $(NCCL)) ASAN_OPTIONS=$(ASAN_OPTIONS):detect_leaks=0 $(EMULATED)/tests/emulator/test_$(test))))
$(eval $(call EMULATED_RUN,traps,$(EMULATED)/tests/emulator/test_traps))
test-cuda-emulated: $(if $(CAN_EMULATE),$(EMULATED_RUNS)) ## every operation and method of the CUDA device, run on the CPU
	@$(if $(CAN_EMULATE),,$(SUITE) emulated --left-out "there are no headers of CUDA and cuDNN")

# The course of a machine with a GPU, at sizes for this one.
REHEARSAL := $(EMULATION) $(if $(CAN_EMULATE),$(BUILD)/bench/bench_ops)
test-rehearse: $(REHEARSAL) ## tools/cuda-all on the emulated device, killed at random moments
	@$(SUITE) rehearse $(if $(CAN_EMULATE),env OMP_NUM_THREADS=1 OMPI_MCA_mpi_yield_when_idle=1 $(EMULATED)/tests/emulator/test_rehearse,--left-out "there are no headers of CUDA and cuDNN")

test-programs: $(EMULATION)
.PHONY: cuda-emulated test-cuda-emulated test-rehearse $(EMULATED_RUNS)
