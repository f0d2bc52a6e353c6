#include "harness/plot/picture.h"
#include "harness/files/output_file.h"
#include "harness/plot/gnuplot.h"
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static bool make_folder(const char *path, struct status *status)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
        return status_set(status, STATUS_BAD_INPUT, "%.200s...: the name is too long", path);
    }
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(part, 0777);
        *slash = '/';
    }
    struct stat info;
    if (mkdir(part, 0777) != 0 && errno != EEXIST) {
        return status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    if (stat(part, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return status_set(status, STATUS_IO, "%s: not a folder", path);
    }
    return true;
}

static bool draw(const struct picture *picture, const char *format, struct status *status)
{
    char path[PATH_MAX + 400];
    const struct gnuplot_variable variables[] = {{"format", format},
                                                 {"setting", picture->setting},
                                                 {"source", picture->source},
                                                 {"machine", picture->machine}};
    size_t bytes;
    char *drawn = gnuplot_draw(picture->scripts, picture->figure, variables, sizeof variables / sizeof *variables,
                               picture->table, &bytes, status);
    snprintf(path, sizeof path, "%s/%.300s.%s", picture->folder, picture->name, format);
    bool written = drawn && output_file_write(path, drawn, bytes, status);
    free(drawn);
    if (written) {
        printf("%s\n", path);
    }
    return written;
}

bool picture_draw(const struct picture *picture, struct status *status)
{
    char folder[PATH_MAX], data[PATH_MAX + 308], formats[64], *rest = NULL;
    if (snprintf(folder, sizeof folder, "%s/data", picture->folder) >= (int)sizeof folder) {
        return status_set(status, STATUS_BAD_INPUT, "%.200s...: the name is too long", picture->folder);
    }
    snprintf(data, sizeof data, "%s/%.300s.tsv", folder, picture->name);
    if (!make_folder(folder, status) || !output_file_write(data, picture->table, strlen(picture->table), status)) {
        return false;
    }
    snprintf(formats, sizeof formats, "%s", picture->formats);
    bool drawn = true;
    for (char *format = strtok_r(formats, ",", &rest); drawn && format; format = strtok_r(NULL, ",", &rest)) {
        drawn = draw(picture, format, status);
    }
    return drawn;
}
