#define _GNU_SOURCE // flock, getline, open_memstream
#include "kernels/cuda/plugin/gemm_algorithms.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER  "longbp GEMM algorithms, "
#define NUMBERS (sizeof(struct gemm_problem) / sizeof(uint64_t))

struct algorithm {
    struct gemm_problem problem;
    size_t candidate;
};

struct gemm_algorithms {
    char *path, *library;
    struct algorithm *items;
    size_t count;
};

static void append(struct gemm_algorithms *algorithms, const struct gemm_problem *problem, size_t candidate)
{
    algorithms->items = realloc(algorithms->items, (algorithms->count + 1) * sizeof *algorithms->items);
    CHECK(algorithms->items);
    algorithms->items[algorithms->count++] = (struct algorithm){*problem, candidate};
}

// Reads the problem's numbers in order, then the candidate.
static bool parse(const char *line, struct algorithm *algorithm)
{
    uint64_t numbers[NUMBERS + 1];
    for (size_t i = 0; i <= NUMBERS; i++) {
        char *end;
        if (*line < '0' || *line > '9')
            return false;
        errno = 0;
        numbers[i] = strtoull(line, &end, 10);
        if (errno || *end != (i == NUMBERS ? '\n' : ' '))
            return false;
        line = end + 1;
    }
    memcpy(&algorithm->problem, numbers, sizeof algorithm->problem);
    algorithm->candidate = numbers[NUMBERS];
    return *line == '\0' && algorithm->candidate < GEMM_CANDIDATES;
}

static bool check_header(const struct gemm_algorithms *algorithms, const char *line, struct status *status)
{
    const char *library = line + strlen(HEADER);
    if (strncmp(line, HEADER, strlen(HEADER)) != 0) {
        return status_set(status, STATUS_BAD_INPUT,
                          "%s is no file of GEMM algorithms: it does not begin with \"%s\"", algorithms->path,
                          HEADER);
    }
    return strcmp(library, algorithms->library) == 0 ||
           status_set(status, STATUS_BAD_INPUT,
                      "%s has the algorithms of %.200s, and this is %.200s; name another file", algorithms->path,
                      library, algorithms->library);
}

static bool read_line(struct gemm_algorithms *algorithms, const char *line, size_t number, struct status *status)
{
    struct algorithm algorithm;
    if (!parse(line, &algorithm)) {
        return status_set(status, STATUS_BAD_INPUT,
                          "%s:%zu: expected a product's %zu numbers and a candidate below %d; remove the file, and "
                          "the next run chooses again",
                          algorithms->path, number, NUMBERS, GEMM_CANDIDATES);
    }
    append(algorithms, &algorithm.problem, algorithm.candidate);
    return true;
}

static bool read_lines(struct gemm_algorithms *algorithms, FILE *file, struct status *status)
{
    char *line = NULL;
    size_t room = 0;
    bool fine = true;
    for (size_t number = 1; fine && getline(&line, &room, file) >= 0; number++) {
        if (number == 1)
            line[strcspn(line, "\n")] = '\0';
        fine = number == 1 ? check_header(algorithms, line, status) : read_line(algorithms, line, number, status);
    }
    if (fine && ferror(file))
        fine = status_set(status, STATUS_IO, "cannot read %s: %s", algorithms->path, strerror(errno));
    free(line);
    return fine;
}

struct gemm_algorithms *gemm_algorithms_open(const char *path, const char *library, struct status *status)
{
    struct gemm_algorithms *algorithms = calloc(1, sizeof *algorithms);
    CHECK(algorithms);
    algorithms->path = strdup(path);
    algorithms->library = strdup(library);
    CHECK(algorithms->path && algorithms->library);
    FILE *file = fopen(path, "r");
    bool fine =
        file ? read_lines(algorithms, file, status)
             : errno == ENOENT || status_set(status, STATUS_BAD_INPUT, "cannot read %s: %s", path, strerror(errno));
    if (file)
        fclose(file);
    if (!fine) {
        gemm_algorithms_close(algorithms);
        return NULL;
    }
    return algorithms;
}

void gemm_algorithms_close(struct gemm_algorithms *algorithms)
{
    if (algorithms) {
        free(algorithms->items);
        free(algorithms->library);
        free(algorithms->path);
        free(algorithms);
    }
}

bool gemm_algorithms_find(const struct gemm_algorithms *algorithms, const struct gemm_problem *problem,
                          size_t *candidate)
{
    for (size_t i = 0; i < algorithms->count; i++) {
        if (memcmp(&algorithms->items[i].problem, problem, sizeof *problem) == 0) {
            *candidate = algorithms->items[i].candidate;
            return true;
        }
    }
    return false;
}

// Appends a line in one write, after the header if the file is empty.
static bool write_line(const struct gemm_algorithms *algorithms, const struct algorithm *algorithm, int file)
{
    struct stat now;
    char *text = NULL;
    size_t bytes;
    if (flock(file, LOCK_EX) != 0 || fstat(file, &now) != 0)
        return false;
    FILE *line = open_memstream(&text, &bytes);
    CHECK(line);
    if (now.st_size == 0)
        fprintf(line, HEADER "%s\n", algorithms->library);
    uint64_t numbers[NUMBERS];
    memcpy(numbers, &algorithm->problem, sizeof numbers);
    for (size_t i = 0; i < NUMBERS; i++)
        fprintf(line, "%llu ", (unsigned long long)numbers[i]);
    fprintf(line, "%zu\n", algorithm->candidate);
    CHECK(fclose(line) == 0);
    errno = ENOSPC; // for a short write
    bool written = write(file, text, bytes) == (ssize_t)bytes;
    free(text);
    return written;
}

bool gemm_algorithms_add(struct gemm_algorithms *algorithms, const struct gemm_problem *problem, size_t candidate,
                         struct status *status)
{
    struct algorithm algorithm = {*problem, candidate};
    append(algorithms, problem, candidate);
    int file = open(algorithms->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    bool written = file >= 0 && write_line(algorithms, &algorithm, file);
    int error = errno;
    if (file >= 0)
        close(file);
    return written || status_set(status, STATUS_IO, "cannot write %s: %s", algorithms->path, strerror(error));
}
