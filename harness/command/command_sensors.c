// Command: `longbp sensors`, readings of every card's sensors at intervals, as CSV.
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "kernels/base/sensors.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS_MAX 86400000

struct arguments {
    const char *out;
    size_t every_ms, count;
};

// Prints nothing for an unknown value.
static void print_number(FILE *file, const char *format, double value)
{
    fputc(',', file);
    if (isfinite(value))
        fprintf(file, format, value);
}

static bool print_readings(FILE *file, const struct sensors *sensors)
{
    for (size_t i = 0; i < sensors_count(sensors); i++) {
        struct sensor_card card;
        struct sensor_reading r;
        struct timespec now;
        struct tm utc;
        char text[32];
        if (!sensors_card_at(sensors, i, &card))
            continue;
        sensors_read(sensors, &card, &r);
        clock_gettime(CLOCK_REALTIME, &now);
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
        fprintf(file, "%s.%03ldZ,%s,%s", text, now.tv_nsec / 1000000, card.bus_id, card.name);
        print_number(file, "%.0f", r.sm_clock_mhz);
        print_number(file, "%.0f", r.memory_clock_mhz);
        print_number(file, "%.1f", r.power_w);
        print_number(file, "%.0f", r.temperature_c);
        print_number(file, "%.3f", r.energy_j);
        fputc('\n', file);
    }
    return fflush(file) == 0; // so that no line is lost when this is stopped
}

// Runs until a signal, or `count` times.
static bool watch(const struct arguments *arguments, const struct sensors *sensors, FILE *file)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    struct timespec pause = {(time_t)(arguments->every_ms / 1000), (long)(arguments->every_ms % 1000 * 1000000)};
    for (size_t i = 0; !arguments->count || i < arguments->count; i++) {
        if (i > 0 && sigtimedwait(&stop, NULL, &pause) > 0)
            break;
        if (!print_readings(file, sensors))
            return false;
    }
    return true;
}

static bool run(const struct arguments *arguments, struct status *status)
{
    struct sensors *sensors = sensors_open(status);
    if (!sensors)
        return false;
    FILE *file = arguments->out ? fopen(arguments->out, "a") : stdout;
    if (file && (!arguments->out || (fseek(file, 0, SEEK_END) == 0 && ftell(file) == 0)))
        fputs("time,bus_id,card,sm_clock_mhz,memory_clock_mhz,power_w,temperature_c,energy_j\n", file);
    bool written = file && watch(arguments, sensors, file);
    if (arguments->out && file && fclose(file) != 0)
        written = false;
    sensors_close(sensors);
    return written ||
           status_set(status, STATUS_IO, "%s: %s", arguments->out ? arguments->out : "stdout", strerror(errno));
}

int command_sensors(int argc, char **argv)
{
    static const struct flag options[] = {
        {"out", .key = 'o', TEXT_AT(struct arguments, out), .arg = "FILE", .doc = "file to append to (stdout)"},
        {"every", .key = 'e', COUNT_AT(struct arguments, every_ms, 1, MS_MAX), .arg = "MS",
         .doc = "milliseconds between two readings (500)"},
        {"count", .key = 'n', COUNT_AT(struct arguments, count, 1, 0), .arg = "N",
         .doc = "number of readings (until SIGINT or SIGTERM)"},
        {0}};
    static const struct argp argp = {
        .doc = "Reads every card's clocks, power, temperature and energy through NVIDIA's management library, with "
               "a line of CSV per card and reading. Uses no device memory."};
    struct arguments arguments = {.every_ms = 500};
    struct status status = {0};
    arguments_parse(&argp, options, argc, argv, &arguments);
    run(&arguments, &status);
    return command_end(argv[0], &status);
}
