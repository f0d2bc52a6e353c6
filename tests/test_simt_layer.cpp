// The layer that runs kernels on the CPU: its results, and its refusal of kernels on which a GPU would hang or
// fail. A child process that must die does, with its reason on stderr.
#include <cuda_runtime.h>
#include <functional>
#include <setjmp.h>
#include <stdarg.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

namespace
{

const uint32_t ALL = 0xffffffffu;

// The text that body writes to stderr before it aborts; fails if it returns.
std::string last_words(const std::function<void()> &body)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(ends[1]);
    std::string words;
    char buffer[256];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        words.append(buffer, (size_t)n);
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return words;
}

void assert_contains(const std::string &words, const char *part)
{
    if (words.find(part) == std::string::npos)
        fail_msg("\"%s\" does not say \"%s\"", words.c_str(), part);
}

void test_indices(void **)
{
    std::vector<int> seen(2 * 3 * 4 * 64);
    simt::launch(dim3(2, 3, 4), dim3(16, 4), 0, [&] {
        size_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        seen[block * 64 + threadIdx.y * blockDim.x + threadIdx.x]++;
    });
    for (int times : seen)
        assert_int_equal(times, 1);
}

void test_warps(void **)
{
    int up[64], across[64], from[64];
    unsigned ballot[64];
    simt::launch(1, 64, 0, [&] {
        int t = (int)threadIdx.x;
        up[t] = __shfl_down_sync(ALL, t, 3);
        across[t] = __shfl_xor_sync(ALL, t, 5);
        from[t] = __shfl_sync(ALL, t, 7);
        ballot[t] = __ballot_sync(ALL, t % 2);
        __syncwarp();
    });
    for (int t = 0; t < 64; t++) {
        assert_int_equal(up[t], t % 32 < 29 ? t + 3 : t);
        assert_int_equal(across[t], t ^ 5);
        assert_int_equal(from[t], t / 32 * 32 + 7);
        assert_int_equal(ballot[t], 0xaaaaaaaau);
    }
}

// Threads that are done do not hold up a barrier.
void test_barrier(void **)
{
    int sum = 0;
    simt::launch(1, 64, 64 * sizeof(int), [&] {
        int *shared = (int *)(void *)simt::dynamic_shared;
        if (threadIdx.x >= 40)
            return;
        shared[threadIdx.x] = 1;
        __syncthreads();
        for (int i = 0; threadIdx.x == 0 && i < 40; i++)
            sum += shared[i];
    });
    assert_int_equal(sum, 40);
}

// Without the barrier a neighbour's value is there in one order of the threads alone.
void test_missing_barrier(void **)
{
    int found[2];
    for (bool descending : {false, true}) {
        simt::descending = descending;
        simt::launch(1, 32, 32 * sizeof(int), [&] {
            int *shared = (int *)(void *)simt::dynamic_shared;
            shared[threadIdx.x] = (int)threadIdx.x;
            if (threadIdx.x == 5)
                found[descending] = shared[4];
        });
    }
    simt::descending = false;
    assert_int_equal(found[0], 4);
    assert_int_equal(found[1], -1); // poison
}

void test_refusals(void **)
{
    assert_contains(last_words([] {
                        simt::launch(
                            1, 64, 0,
                            [] {
                                if (threadIdx.x < 16)
                                    __syncthreads();
                                else
                                    __syncwarp();
                            });
                    }),
                    "some threads wait at __syncthreads");
    assert_contains(last_words([] {
                        simt::launch(
                            1, 32, 0, [] { __shfl_sync(0xffffu, 1, 0); });
                    }),
                    "a mask that omits it");
    assert_contains(
        last_words([] { simt::launch(1, 32, 0, [] { __shfl_sync(threadIdx.x < 8 ? 0xffffu : ALL, 1, 0); }); }),
        "different masks");
    for (size_t threads : {0, 33, 2048})
        assert_contains(last_words([&] { simt::launch(1, threads, 0, [] {}); }), "CUDA refuses");
    for (size_t bytes : {99 << 10, 227 << 10})
        assert_contains(last_words([=] {
                            simt::card_shared_bytes = bytes;
                            simt::launch(
                                1, 32, bytes, [] {});
                            simt::launch(
                                1, 32, bytes + 1, [] {});
                        }),
                        "CUDA refuses");
    assert_contains(last_words([] { simt::launch(dim3(1, 70000), 32, 0, [] {}); }), "CUDA refuses");
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_indices),         cmocka_unit_test(test_warps),    cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_missing_barrier), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
