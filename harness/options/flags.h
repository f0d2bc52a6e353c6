// Flags: command line values as the JSON of a spec. The decoder of specs checks them, with one set of messages. New
// references, to be released with json_decref.
#pragma once
#include <jansson.h>

// "128": a whole number, "0.5": a number, "true" and "false": booleans, anything else: a text.
json_t *flag_value(const char *text);
// "1,3": a list of such values; one value is a list of one.
json_t *flag_list(const char *text);
// "r=8,alpha=16,targets=q,v": an object; items without a key belong to the list of the key before.
json_t *flag_object(const char *text);
// An object, or a single value if the text has no key.
json_t *flag_object_or_value(const char *text);
// "adamw": a text; "adamw,rate=1e-3": an object with "name": "adamw".
json_t *flag_named(const char *text);
