#include "harness/spec/trial_key_words.h"

void trial_key_unit(const struct trial_key *key, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s%s", key->unit ? " of " : "", key->unit ? key->unit : "");
}

void trial_key_values(const struct trial_key *key, char *text, size_t bytes)
{
    char unit[64], upto[32] = "";
    size_t used = 0;
    trial_key_unit(key, unit, sizeof unit);
    if (key->maximum < (double)JSON_INTEGER_MAX)
        snprintf(upto, sizeof upto, " and <= %.0f", key->maximum);
    switch (key->type) {
    case KEY_BOOL:
        snprintf(text, bytes, "true or false");
        break;
    case KEY_COUNT:
        snprintf(text, bytes, "a whole number%s >= %.0f%s%s", unit, key->minimum, upto,
                 strcmp(unit, " of tokens") == 0 ? ", or 32K, 1M" : "");
        break;
    case KEY_NUMBER:
        snprintf(text, bytes, "a number%s >= %g%s", unit, key->minimum, upto);
        break;
    case KEY_CHOICE:
        for (size_t i = 0; key->choices[i] && used < bytes; i++) {
            const char *joint = key->choices[i + 1] ? ", " : " or ";
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? joint : "", key->choices[i]);
        }
        break;
    case KEY_OBJECT:
        snprintf(text, bytes, "an object of the keys below");
        break;
    default:
        snprintf(text, bytes, "%s", key->values);
    }
}

void trial_key_default(const struct trial_key *key, char *text, size_t bytes)
{
    if (key->required)
        snprintf(text, bytes, "must be given");
    else if (key->null)
        snprintf(text, bytes, "null: %s", key->null);
    else if (key->type == KEY_BOOL)
        snprintf(text, bytes, "%s", key->initial > 0 ? "true" : "false");
    else if (key->type == KEY_CHOICE)
        snprintf(text, bytes, "%s", key->choices[(size_t)key->initial]);
    else if (key->type == KEY_OBJECT)
        snprintf(text, bytes, "{}");
    else if (key->standard)
        snprintf(text, bytes, "%s", key->standard);
    else if (key->card_rows > 0)
        snprintf(text, bytes, OPTION_ON_CARD, key->initial, key->card_rows);
    else
        snprintf(text, bytes, "%.15g", key->initial);
}
