#include "harness/data/token_format.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t little_endian(const unsigned char *bytes, size_t width)
{
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

int64_t token_format_value(const struct token_format *format, const unsigned char *bytes)
{
    unsigned char turned[8];
    for (size_t i = 0; format->big_endian && i < format->width; i++)
        turned[i] = bytes[format->width - 1 - i];
    uint64_t value = little_endian(format->big_endian ? turned : bytes, format->width);
    if (format->is_signed && format->width < 8 && value >> (8 * format->width - 1))
        value -= (uint64_t)1 << 8 * format->width;
    return !format->is_signed && value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

// --- NumPy's .npy, as numpy.lib.format describes it

// The text after a key of the header, a Python dict; NULL: no such key.
static const char *behind(const char *header, const char *key)
{
    const char *found = strstr(header, key);
    for (found = found ? found + strlen(key) : NULL; found && (*found == ':' || *found == ' '); found++)
        ;
    return found;
}

static bool read_dtype(struct token_format *format, const char *descr, const char *path, struct status *status)
{
    char order = 0, kind = 0, end = 0;
    unsigned width = 0;
    if (!descr || sscanf(descr, "'%c%c%1u%c", &order, &kind, &width, &end) != 4 || end != '\'' ||
        !strchr("<>|=", order) || !strchr("iu", kind) || (width != 1 && width != 2 && width != 4 && width != 8))
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: is a NumPy array of %.*s, not of integers; save the %ss as integers, such as "
                          "array.astype(\"uint32\")",
                          path, descr ? (int)strcspn(descr, ",}\n") : 7, descr ? descr : "nothing", format->noun);
    format->width = width;
    format->is_signed = kind == 'i';
    format->big_endian = order == '>';
    snprintf(format->text, sizeof format->text, "%sint%u%s (.npy)", kind == 'i' ? "" : "u", 8 * width,
             order == '>' ? ", big-endian" : "");
    return true;
}

static bool read_shape(struct token_format *format, const char *shape, const char *path, struct status *status)
{
    char *end = NULL;
    if (shape && shape[0] == '(' && isdigit((unsigned char)shape[1])) {
        format->count = strtoull(shape + 1, &end, 10);
        if (end[0] == ',' && end[1] == ')' && format->count <= SIZE_MAX / 16)
            return true;
    }
    return status_set(status, STATUS_BAD_INPUT,
                      "%s: is a NumPy array of shape %.*s, expected one dimension; save array.reshape(-1), or "
                      "sequences as a batch file",
                      path, shape ? (int)strcspn(shape, ")}\n") + 1 : 7, shape ? shape : "unknown");
}

static bool read_npy(struct token_format *format, const char *path, const unsigned char *head, size_t count,
                     struct status *status)
{
    char header[KNOWN_FORMAT_BYTES];
    size_t length_bytes = count > 6 && head[6] > 1 ? 4 : 2, begin = 8 + length_bytes;
    size_t length = count >= begin ? little_endian(head + 8, length_bytes) : SIZE_MAX;
    if (count < begin || head[6] < 1 || head[6] > 3 || length > count - begin || length >= sizeof header)
        return status_set(status, STATUS_BAD_INPUT, "%s: is a NumPy array whose header is cut short or not known",
                          path);
    memcpy(header, head + begin, length);
    header[length] = '\0';
    format->start = begin + length;
    return read_dtype(format, behind(header, "'descr'"), path, status) &&
           read_shape(format, behind(header, "'shape'"), path, status);
}

// --- llm.c's .bin: 256 int32, beginning with a magic number, a version and the number of tokens

#define LLMC_HEADER_BYTES 1024

static const struct {
    uint32_t magic, version;
    size_t width;
    const char *text;
} llmc[] = {{20240520, 1, 2, "u16 (llm.c, GPT-2)"}, {20240801, 7, 4, "u32 (llm.c, Llama 3)"}};
#define LLMC (sizeof llmc / sizeof *llmc)

static size_t find_llmc(const unsigned char *head, size_t count)
{
    size_t i = 0;
    while (i < LLMC && (count < 12 || little_endian(head, 4) != llmc[i].magic))
        i++;
    return i;
}

static bool read_llmc(struct token_format *format, size_t which, const char *path, const unsigned char *head,
                      size_t count, struct status *status)
{
    uint32_t version = (uint32_t)little_endian(head + 4, 4);
    if (version != llmc[which].version || count < LLMC_HEADER_BYTES)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: is a file of tokens of llm.c, of version %" PRIu32 "%s; version %" PRIu32 " is read",
                          path, version, count < LLMC_HEADER_BYTES ? ", cut short" : "", llmc[which].version);
    format->width = llmc[which].width;
    format->is_signed = format->big_endian = false;
    format->start = LLMC_HEADER_BYTES;
    format->count = little_endian(head + 8, 4);
    snprintf(format->text, sizeof format->text, "%s", llmc[which].text);
    return true;
}

// --- raw values

// Tells whether integers read with `width` bytes are really wider ones below vocab: their upper halves are 0, or as
// small as the vocabulary allows, and the lower halves differ.
static bool are_wider(const unsigned char *head, size_t count, size_t width, size_t vocab)
{
    size_t half = width / 2, groups = count / width;
    uint64_t max = width == 4 ? (vocab - 1) >> 16 : 0;
    bool differ = false;
    for (size_t i = 0; i < groups; i++) {
        if (little_endian(head + i * width + half, half) > max)
            return false;
        differ |= memcmp(head, head + i * width, half) != 0;
    }
    return differ && groups >= 8;
}

static bool check_raw(const struct token_format *format, const char *path, const unsigned char *head, size_t count,
                      size_t vocab, struct status *status)
{
    static const struct {
        size_t width;
        const char *are, *remedy;
    } wider[] = {{8, "64-bit", "save them by numpy.save, whose .npy has the dtype"},
                 {4, "32-bit", "give --token-dtype u32, in a spec \"dtype\": \"u32\""},
                 {2, "16-bit", "give --token-dtype u16, in a spec \"dtype\": \"u16\", or text in UTF-8"}};
    if (format->width > 1 && known_format_is_text(head, count))
        return status_set(status, STATUS_BAD_INPUT, "%s: is text, not %s %ss; %s", path, format->text, format->noun,
                          format->is_signed
                              ? "save them as int32, raw or by numpy.save"
                              : "make token ids of it with tools/tokens, or give --token-dtype bytes (in a "
                                "spec {\"text\": PATH}) to a model of bytes");
    for (size_t i = 0; vocab && i < sizeof wider / sizeof *wider && wider[i].width > format->width; i++)
        if (are_wider(head, count, wider[i].width, vocab))
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: holds %s values, not %s: the upper half of each is that of an id below %zu; %s",
                              path, wider[i].are, format->text, vocab, wider[i].remedy);
    return true;
}

// Accepts a file without a header.
static bool take_raw(struct token_format *format, const char *path, const unsigned char *head, size_t count,
                     size_t vocab, struct status *status)
{
    const struct known_format *known = known_format_find(head, count);
    if (known && !(known->is_text && format->width == 1))
        return status_set(status, STATUS_BAD_INPUT, "%s: is %s, not %ss; %s%s", path, known->name, format->noun,
                          known->remedy,
                          known->is_text && !format->width ? ", or ask for its bytes by --token-dtype bytes" : "");
    if (!format->width && vocab && vocab != 256 && known_format_is_text(head, count))
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: is text, and the vocabulary is %zu: make token ids of it with tools/tokens, or read "
                          "it as bytes by --token-dtype bytes, in a spec {\"text\": PATH}",
                          path, vocab);
    if (!format->width && vocab && vocab != 256)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: has no header with its dtype, as .npy does, and the vocabulary is %zu: give "
                          "--token-dtype u16 (such as nanoGPT's .bin), u32 or bytes, in a spec \"dtype\"",
                          path, vocab);
    if (!format->width) {
        format->width = 1;
        snprintf(format->text, sizeof format->text, "bytes");
    }
    format->described = false;
    format->start = 0;
    format->count = SIZE_MAX;
    return check_raw(format, path, head, count, vocab, status);
}

bool token_format_find(struct token_format *format, const char *path, const unsigned char *head, size_t count,
                       size_t vocab, struct status *status)
{
    struct token_format asked = *format;
    bool npy = count >= 8 && memcmp(head, "\x93NUMPY", 6) == 0;
    size_t which = find_llmc(head, count);
    if (!npy && which == LLMC)
        return take_raw(format, path, head, count, vocab, status);
    if (!(npy ? read_npy(format, path, head, count, status) : read_llmc(format, which, path, head, count, status)))
        return false;
    bool alike = format->width == asked.width && format->is_signed == asked.is_signed && asked.width > 1;
    format->described = true;
    return asked.described || alike ||
           status_set(status, STATUS_BAD_INPUT,
                      "%s: its header says that it holds %s, not %s; leave --token-dtype out, in a spec give "
                      "{\"tokens\": PATH} alone",
                      path, format->text, asked.text);
}
