// Flags: values typed on a command line, as the JSON that a spec would hold. Nothing is checked here: the decoder
// of specs does that, with one set of messages. New references, to be released with json_decref.
#pragma once
#include <jansson.h>

// "128" a whole number, "0.5" a number, "true" and "false" truth values, anything else a text.
json_t *flag_value(const char *text);
// "1,3" a list of the values above; one value is a list of one.
json_t *flag_list(const char *text);
// "r=8,alpha=16,targets=q,v": an object; what follows a key without a key of its own belongs to its list.
json_t *flag_object(const char *text);
// Such an object, or the one value that text without a key is.
json_t *flag_object_or_value(const char *text);
// "adamw" a text; "adamw,rate=1e-3" an object with "name": "adamw".
json_t *flag_named(const char *text);
