#include "harness/framework/run_reading.h"
#include "harness/text/text.h"
#include <string.h>

void run_reading_note(const struct run_reading *reading, const char *key, const char *why)
{
    char *text = key ? text_new("key \"%s\": %s", key, why) : strdup(why);
    json_array_append_new(reading->unchecked, json_string(text));
    free(text);
}
