// Memcheck finds a branch on unwritten memory, and none on written memory. canary unwritten: memcheck's exit code;
// canary written: 0.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 1000

int main(int argc, char **argv)
{
    double *values = malloc(COUNT * sizeof *values);
    if (!values)
        return 1;
    size_t written = argc > 1 && strcmp(argv[1], "written") == 0 ? COUNT : COUNT / 2;
    for (size_t i = 0; i < written; i++)
        values[i] = 1;
    double sum = 0;
    for (size_t i = 0; i < COUNT; i++)
        sum += values[i];
    puts(sum > COUNT ? "more" : "no more");
    free(values);
    return 0;
}
