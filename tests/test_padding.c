// Padding: the embedding's row of a pad token takes no gradient from its tokens, under every method; a tied head
// gives it one; all else is as without padding.
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// All gradients of a step; the embedding's begin at *begin.
static double *gradients(struct fixture f, const char *method, size_t chunk, size_t *begin, size_t *count)
{
    struct step_report report = {0};
    fixture_open(&f);
    void *options =
        fixture_options(method_find(method), "chunk=%zu budget=%zu", chunk, (f.context + chunk - 1) / chunk);
    double *all = fixture_step(&f, method, options, &report);
    *begin = 0;
    for (const struct parameter *p = f.model.parameters; p != f.model.embedding; p++)
        *begin += tensor_count(p->grad);
    *count = f.gradient_count;
    options_free(&method_find(method)->options, options);
    step_report_free(&report);
    fixture_close(&f);
    return all;
}

static void check(struct fixture f, const char *method, size_t chunk, bool narrow)
{
    size_t begin, count, width = f.config.width;
    f.config.padded = false;
    double *plain = gradients(f, method, chunk, &begin, &count);
    f.config.padded = true;
    double *padded = gradients(f, method, chunk, &begin, &count), row = 0, lost = 0;
    begin += f.config.pad * width;
    for (size_t i = 0; i < count; i++) {
        if (i < begin || i >= begin + width) {
            if (padded[i] != plain[i])
                fail_msg("%s, chunk %zu: gradient %zu is %g with padding, %g without", method, chunk, i, padded[i],
                         plain[i]);
            continue;
        }
        row += fabs(padded[i]);
        lost += fabs(plain[i] - padded[i]);
    }
    if (!(lost > 0) || (f.config.tied ? !(row > 0) : row != 0))
        fail_msg("%s, chunk %zu, tied %d, narrow %d: the row of padding is %g, and lost %g", method, chunk,
                 f.config.tied, narrow, row, lost);
    free(plain);
    free(padded);
}

static void the_row_of_padding_takes_no_gradient(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        struct fixture f = fixture_default();
        f.config.tied = variant & 1;
        if (variant & 2) { // sums in bf16, in which the CPU takes rows of an id together
            f.dtype = DTYPE_BF16;
            f.narrow = true;
        }
        fixture_open(&f);
        f.config.pad = (size_t)f.ids[2];
        fixture_close(&f);
        for (const struct method *const *m = methods; *m; m++)
            if (!(*m)->no_gradient)
                check(f, (*m)->name, 5, f.narrow);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_row_of_padding_takes_no_gradient)};
    return cmocka_run_group_tests_name("padding", tests, NULL, NULL);
}
