#include "harness/plot/picture.h"
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

static bool write_table(const char *path, const char *text, struct status *status)
{
    FILE *stream = fopen(path, "w");
    bool fine = stream && fputs(text, stream) >= 0;
    if (stream && fclose(stream) != 0) {
        fine = false;
    }
    return fine || status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
}

bool picture_draw(const struct picture *picture, struct status *status)
{
    char folder[PATH_MAX], data[PATH_MAX + 308], formats[64], *rest = NULL;
    if (snprintf(folder, sizeof folder, "%s/data", picture->folder) >= (int)sizeof folder) {
        return status_set(status, STATUS_BAD_INPUT, "%.200s...: the name is too long", picture->folder);
    }
    snprintf(data, sizeof data, "%s/%.300s.tsv", folder, picture->name);
    if (!make_folder(folder, status) || !write_table(data, picture->table, status)) {
        return false;
    }
    snprintf(formats, sizeof formats, "%s", picture->formats);
    for (char *format = strtok_r(formats, ",", &rest); format; format = strtok_r(NULL, ",", &rest)) {
        char output[PATH_MAX + 400];
        snprintf(output, sizeof output, "%s/%.300s.%s", picture->folder, picture->name, format);
        struct gnuplot_variable variables[] = {{"data", data},
                                               {"picture", output},
                                               {"format", format},
                                               {"setting", picture->setting},
                                               {"source", picture->source},
                                               {"machine", picture->machine}};
        if (!gnuplot_run(picture->scripts, picture->figure, variables, sizeof variables / sizeof *variables,
                         status)) {
            return false;
        }
        printf("%s\n", output);
    }
    return true;
}
