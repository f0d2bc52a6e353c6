// Refusals of the emulated CUDA runtime: each mistake is made in a child process, which must die of it.
#include "tests/emulator/stream.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static cudaStream_t stream, other;
static cudaMemPool_t pool;
static char *data; // 1,000 bytes
static char host[2000];

static void fill(void *to)
{
    memset(to, 1, 1001);
}

static void read_from_the_host(void)
{
    host[0] = *(volatile char *)data;
}
static void write_from_the_host(void)
{
    *(volatile char *)data = 1;
}
static void write_behind_the_end(void)
{
    emulator_ask(stream, fill, data);
    cudaFreeAsync(data, stream);
    cudaStreamSynchronize(stream);
}
static void copy_beyond_the_end(void)
{
    cudaMemcpyAsync(host, data, 1001, cudaMemcpyDeviceToHost, stream);
}
static void copy_the_wrong_way(void)
{
    cudaMemcpyAsync(host, data, 8, cudaMemcpyHostToDevice, stream);
}
static void clear_what_is_free(void)
{
    cudaFreeAsync(data, stream);
    cudaMemsetAsync(data, 0, 8, stream);
}
static void free_twice(void)
{
    cudaFreeAsync(data, stream);
    cudaFreeAsync(data, stream);
}
static void free_in_another_stream(void)
{
    cudaFreeAsync(data, other);
}
static void use_the_default_stream(void)
{
    cudaMemsetAsync(data, 0, 8, NULL);
}
static void use_another_card(void)
{
    setenv("LONGBP_EMULATED_CARDS", "2", 1);
    cudaSetDevice(1);
    cudaMemsetAsync(data, 0, 8, stream);
}
static void lose_a_pool_in_use(void)
{
    cudaMemPoolDestroy(pool);
}
static void lose_a_stream_with_work(void)
{
    cudaStreamDestroy(stream);
}
static void leave_an_error(void)
{
    void *pointer;
    cudaMallocFromPoolAsync(&pointer, (size_t)1 << 50, pool, stream);
    cudaMemsetAsync(data, 0, 8, stream);
}

static void test_mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*make)(void);
        int signal;
    } mistakes[] = {{"a read from the host", read_from_the_host, SIGSEGV},
                    {"a write from the host", write_from_the_host, SIGSEGV},
                    {"a write behind the end", write_behind_the_end, SIGABRT},
                    {"a copy beyond the end", copy_beyond_the_end, SIGABRT},
                    {"a copy the wrong way", copy_the_wrong_way, SIGABRT},
                    {"a use of what is free", clear_what_is_free, SIGABRT},
                    {"freeing twice", free_twice, SIGABRT},
                    {"freeing in another stream", free_in_another_stream, SIGABRT},
                    {"the default stream", use_the_default_stream, SIGABRT},
                    {"work for another card", use_another_card, SIGABRT},
                    {"destroying a pool in use", lose_a_pool_in_use, SIGABRT},
                    {"destroying a stream with work", lose_a_stream_with_work, SIGABRT},
                    {"leaving an error", leave_an_error, SIGABRT}};
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL); // neither cmocka's nor a sanitizer's
            signal(SIGABRT, SIG_DFL);
            fclose(stderr);
            mistakes[i].make();
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != mistakes[i].signal)
            fail_msg("%s is not refused: status %d", mistakes[i].name, status);
    }
}

// Fresh memory and what was freed are NaN, a stream does nothing before somebody waits, and memory comes back.
static void test_memory(void **state)
{
    (void)state;
    float *first, *second, number = 3, found[2] = {0};
    assert_int_equal(cudaMallocFromPoolAsync((void **)&first, 4, pool, stream), cudaSuccess);
    cudaMemcpyAsync(&found[0], first, 4, cudaMemcpyDeviceToHost, stream);
    cudaMemcpyAsync(first, &number, 4, cudaMemcpyHostToDevice, stream);
    cudaFreeAsync(first, stream);
    assert_int_equal(cudaMallocFromPoolAsync((void **)&second, 4, pool, stream), cudaSuccess);
    assert_ptr_equal(first, second);
    cudaMemcpyAsync(&found[1], second, 4, cudaMemcpyDeviceToHost, stream);
    assert_true(found[0] == 0);
    size_t waits = emulator_waits();
    cudaStreamSynchronize(stream);
    assert_int_equal(emulator_waits(), waits + 1);
    assert_true(found[0] != found[0] && found[1] != found[1]);
    cudaFreeAsync(second, stream);
    cudaStreamSynchronize(stream);
}

int main(void)
{
    const struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                                .location = {.type = cudaMemLocationTypeDevice}};
    cudaFree(NULL);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaMemPoolCreate(&pool, &properties);
    cudaMallocFromPoolAsync((void **)&data, 1000, pool, stream);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
