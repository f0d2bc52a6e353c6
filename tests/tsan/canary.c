// The thread sanitizer understands OpenMP: it finds a race of two threads, and none where a barrier, a loop's end
// or a dynamic schedule's hand-over stands between them. With an unknown runtime it would find either everywhere
// or nowhere. canary race: exit code of the sanitizer; canary order: 0.
#include <omp.h>
#include <stdio.h>
#include <string.h>

#define COUNT 1000

static double values[COUNT];

// Each thread reads what another one wrote.
static double sum_of_others(int race)
{
    double sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
#pragma omp for schedule(dynamic) nowait
        for (int i = 0; i < COUNT; i++)
            values[i] = i + 1;
        if (!race) {
#pragma omp barrier
        }
#pragma omp for
        for (int i = 0; i < COUNT; i++)
            sum += values[COUNT - 1 - i];
    }
    return sum;
}

int main(int argc, char **argv)
{
    int race = argc > 1 && strcmp(argv[1], "race") == 0;
    double sum = 0;
    for (int i = 0; i < 100; i++)
        sum += sum_of_others(race);
    printf("%g by %d threads\n", sum, omp_get_max_threads());
    return 0;
}
