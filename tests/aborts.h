// Aborts: calls that are bugs of the caller's, which end the program.
#pragma once
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// Fails unless the call, in a process of its own, ends it by abort().
#define EXPECT_ABORT(call)                                                                                         \
    do {                                                                                                           \
        int abort_status;                                                                                          \
        pid_t abort_child = fork();                                                                                \
        assert_true(abort_child >= 0);                                                                             \
        if (abort_child == 0) {                                                                                    \
            signal(SIGABRT, SIG_DFL);                                                                              \
            fclose(stderr);                                                                                        \
            call;                                                                                                  \
            _exit(0);                                                                                              \
        }                                                                                                          \
        assert_int_equal(waitpid(abort_child, &abort_status, 0), abort_child);                                     \
        assert_true(WIFSIGNALED(abort_status) && WTERMSIG(abort_status) == SIGABRT);                               \
    } while (0)
