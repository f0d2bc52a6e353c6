# The transport between ranks, a plug-in: what ranks need is Open MPI (openmpi-bin, libopenmpi-dev). Without it the rest
# is built, and trials over several ranks are unsupported.
MPI_C     := $(wildcard kernels/mpi/plugin/*.c) $(addprefix kernels/base/,dtype.c status.c)
MPI_SOURCES := $(sort $(MPI_C) $(wildcard $(addprefix kernels/,base/*.h comm/*.h device/*.h measure/*.h mpi/*.h mpi/plugin/*.h)))
MPI_FLAGS := $(shell pkg-config --cflags ompi-c 2>/dev/null)
MPI_LIBS  := $(shell pkg-config --libs ompi-c 2>/dev/null)
MPI       := $(if $(MPI_LIBS),$(BUILD)/longbp-mpi.so)
$(BUILD)/longbp-mpi.so: $(MPI_SOURCES) $(BUILD)/MPI.sources kernels/mpi/mpi.mk
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -I. $(shell cat $(BUILD)/MPI.sources 2>/dev/null) $(MPI_FLAGS) -std=gnu11 -O2 -g -fPIC -fvisibility=hidden -Wall -Wextra -Werror -shared -Wl,-z,defs -o $@ $(MPI_C) $(MPI_LIBS)
MPI_HOLDERS := $(addprefix $(BUILD)/,kernels/mpi/plugin.o tests/test_plugins.o)
$(MPI_HOLDERS): $(BUILD)/MPI.sources
$(MPI_HOLDERS): CPPFLAGS += $(shell cat $(BUILD)/MPI.sources 2>/dev/null)
all: $(MPI)
