#include "harness/papers/claim_pictures.h"
#include "harness/files/share.h"
#include "harness/text/text.h"
#include <jansson.h>
#include <string.h>

static const char *text_at(const json_t *claim, const char *key)
{
    const char *text = json_string_value(json_object_get(claim, key));
    return text ? text : "";
}

static bool is_about(const json_t *claim, const char *picture)
{
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(claim, "pictures"), i,
                       name) if (json_is_string(name) && strcmp(json_string_value(name), picture) == 0) return true;
    return false;
}

// Appends the claim, up to its first figure, the published one.
static void append_claim(char *text, size_t bytes, const json_t *claim)
{
    const char *words = text_at(claim, "claim");
    text_append(text, bytes, "%sClaimed by %s: %.*s: %s (%s)", *text ? "; " : "", text_at(claim, "paper"),
                (int)strcspn(words, ";"), words, text_at(claim, "published"), text_at(claim, "source"));
}

void claim_pictures_find(const char *picture, char *text, size_t bytes)
{
    char found[PATH_MAX];
    json_t *root = json_load_file(share_resolve("experiments/claims.json", found), 0, NULL), *claim;
    size_t i;
    *text = 0;
    json_array_foreach(json_object_get(root, "claims"), i, claim) if (is_about(claim, picture))
        append_claim(text, bytes, claim);
    json_decref(root);
}
