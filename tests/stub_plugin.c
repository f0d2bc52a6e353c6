// Stub plug-in: for CUDA and for MPI, with nothing in it but what a test writes there.
#include "kernels/cuda/plugin.h"
#include "kernels/mpi/plugin.h"

struct cuda_plugin longbp_cuda;
struct mpi_plugin longbp_mpi;
