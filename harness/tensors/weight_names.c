#include "harness/tensors/weight_names.h"
#include "kernels/base/host_memory.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Modules with which torch wraps others, at any depth.
static const char *const around[] = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module",
                                     NULL};
// Modules that contain a language model.
static const char *const above[] = {"model", "language_model", "text_model", NULL};
// Their other parts, which text does not pass through.
static const char *const aside[] = {"vision_tower", "vision_model", "visual",    "multi_modal_projector",
                                    "mm_projector", "audio_tower",  "connector", "image_newline",
                                    "merger",       "mtp",          NULL};
// Modules of a language model: those within `model`, and the head beside it.
static const char *const within[] = {"embed_tokens", "layers", "norm", "rotary_emb", NULL};
static const char *const beside[] = {"lm_head", NULL};

// Whether the name begins with one of the modules.
static bool begins(const char *name, const char *const *modules)
{
    size_t bytes = strcspn(name, ".");
    while (*modules && (strlen(*modules) != bytes || memcmp(name, *modules, bytes) != 0))
        modules++;
    return *modules;
}

static const char *behind(const char *name)
{
    name += strcspn(name, ".");
    return *name ? name + 1 : name;
}

// A copy without the wrapping modules, with `room` spare bytes before it.
static char *unwrapped(const char *name, size_t room)
{
    char *copy = malloc(room + strlen(name) + 1), *to = copy + room;
    for (const char *next; *name; name = next) {
        next = behind(name);
        if (!begins(name, around) || !*next) {
            memcpy(to, name, (size_t)(next - name));
            to += next - name;
        }
    }
    *to = '\0';
    return copy;
}

char *weight_name(const char *name)
{
    static const char model[] = "model.";
    char *copy = unwrapped(name, sizeof model - 1);
    const char *whole = copy + sizeof model - 1, *rest = whole;
    while (begins(rest, above))
        rest = behind(rest);
    if (begins(rest, aside)) {
        free(copy);
        return NULL;
    }
    bool inner = begins(rest, within), known = inner || begins(rest, beside);
    size_t start = inner ? sizeof model - 1 : 0;
    memcpy(copy, model, start);
    memmove(copy + start, known ? rest : whole, strlen(known ? rest : whole) + 1);
    return copy;
}

void weight_name_within(char *text, size_t bytes, const char *submodule, const char *name)
{
    static const char model[] = "model.";
    size_t length = submodule && strncmp(name, model, sizeof model - 1) == 0 ? sizeof model - 1 : 0;
    snprintf(text, bytes, "%.*s%s%s%s", (int)length, name, length ? submodule : "", length ? "." : "",
             name + length);
}
