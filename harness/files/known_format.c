#include "harness/files/known_format.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

#define DECOMPRESS "decompress it first"
#define AS_NPY     "save the token ids in it by numpy.save, as a 1-D array of integers"
#define FROM_TEXT  "make token ids of its text with tools/tokens"
#define NOT_DATA   "give a file of token ids"

#define RESAVE "save its model again by transformers' save_pretrained, which writes safetensors"

// ANY is a remedy for all files, TOKENS for files of tokens alone.
#define ANY(remedy)    remedy, remedy
#define TOKENS(remedy) remedy, NULL

#define MAGIC(text) text, sizeof text - 1

static const struct {
    const char *magic;
    size_t length, at; // bytes of magic, and their position
    struct known_format format;
} magics[] = {
    {MAGIC("\x1f\x8b\x08"), 0, {"a gzip archive", ANY(DECOMPRESS), false}},
    {MAGIC("\x28\xb5\x2f\xfd"), 0, {"a zstd archive", ANY(DECOMPRESS), false}},
    {MAGIC("\xfd\x37zXZ\0"), 0, {"an xz archive", ANY(DECOMPRESS), false}},
    {MAGIC("1AY&SY"), 4, {"a bzip2 archive", ANY(DECOMPRESS), false}},
    {MAGIC("\x04\x22\x4d\x18"), 0, {"an lz4 archive", ANY(DECOMPRESS), false}},
    {MAGIC("7z\xbc\xaf\x27\x1c"), 0, {"a 7z archive", ANY(DECOMPRESS), false}},
    {MAGIC("ustar"), 257, {"a tar archive", ANY("unpack it first"), false}},
    {MAGIC("PAR1"), 0, {"a Parquet file", TOKENS(AS_NPY), false}},
    {MAGIC("ARROW1"), 0, {"an Arrow (Feather) file", TOKENS(AS_NPY), false}},
    {MAGIC("FEA1"), 0, {"a Feather file", TOKENS(AS_NPY), false}},
    {MAGIC("\x89HDF\r\n\x1a\n"), 0, {"an HDF5 file", TOKENS(AS_NPY), false}},
    {MAGIC("GGUF"),
     0,
     {"a GGUF model", NOT_DATA, "give the folder of the safetensors that it was made from", false}},
    {MAGIC("SQLite format 3\0"), 0, {"an SQLite database", TOKENS(AS_NPY), false}},
    {MAGIC("\x7f"
           "ELF"),
     0,
     {"a program (ELF)", TOKENS(NOT_DATA), false}},
    {MAGIC("%PDF-"), 0, {"a PDF", TOKENS("extract its text, and make token ids of that with tools/tokens"), false}},
    {MAGIC("MMIDIDX\0\0"), 0, {"an index of Megatron", TOKENS("give the .bin beside it, with its dtype"), false}},
    {MAGIC("\x8a\xd8\x34\x01"),
     0,
     {"an evaluation file of llm.c", TOKENS("give one of its files of tokens"), false}},
    {MAGIC("\xc6\xd7\x34\x01"), 0, {"a GPT-2 model of llm.c", TOKENS("give one of its files of tokens"), false}},
    {MAGIC("\xa3\xd9\x34\x01"), 0, {"a Llama 3 model of llm.c", TOKENS("give one of its files of tokens"), false}},
    {MAGIC("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"),
     0,
     {"a file of torch.save", AS_NPY, RESAVE, false}},
    {MAGIC("version https://git-lfs.github.com/spec/"),
     0,
     {"a pointer of Git LFS, not the file itself", ANY("fetch it by `git lfs pull`"), false}},
};

static const struct known_format torch_zip = {"a file of torch.save", AS_NPY, RESAVE, false};
static const struct known_format npz = {"an .npz archive of NumPy", TOKENS("save one array of it by numpy.save"),
                                        false};
static const struct known_format zip = {"a zip archive", ANY("unpack it first"), false};
static const struct known_format pickle = {"a pickle of Python", AS_NPY, RESAVE, false};
static const struct known_format arrow_stream = {"an Arrow stream, as the datasets library keeps it",
                                                 TOKENS(AS_NPY), false};
static const struct known_format safetensors = {
    "a safetensors file", TOKENS("give a batch file by --batch FILE, in a spec as {\"batch\": PATH}"), false};
static const struct known_format sentencepiece = {"a SentencePiece tokenizer",
                                                  TOKENS("give a file of the token ids that it made"), false};
static const struct known_format html = {"an HTML page", "download the file itself, or " FROM_TEXT,
                                         "download the file itself", true};
static const struct known_format tokenizer = {"a tokenizer", TOKENS("give a file of the token ids that it made"),
                                              true};
static const struct known_format json = {"JSON", TOKENS(FROM_TEXT), true};

static bool holds(const unsigned char *head, size_t count, const char *text)
{
    return memmem(head, count, text, strlen(text));
}

static bool begins(const unsigned char *head, size_t count, const char *magic, size_t length)
{
    return count >= length && memcmp(head, magic, length) == 0;
}

static const struct known_format *find_binary(const unsigned char *head, size_t count)
{
    static const unsigned char zeros[7] = {0};
    if (begins(head, count, MAGIC("PK\3\4")))
        return holds(head, count, "data.pkl") ? &torch_zip : holds(head, count, ".npy") ? &npz : &zip;
    // A pickle of protocol 4 or 5 is a frame, preceded by its length in eight bytes.
    if (count >= 11 && head[0] == 0x80 && (head[1] == 4 || head[1] == 5) && head[2] == 0x95 &&
        memcmp(head + 7, zeros, 4) == 0)
        return &pickle;
    // A message of an Arrow stream: a mark, the length of its metadata, and the offset of the metadata's root.
    if (begins(head, count, MAGIC("\xff\xff\xff\xff")) && count >= 12 && head[6] == 0 && head[7] == 0 &&
        memcmp(head + 8, "\x10\0\0\0", 4) == 0)
        return &arrow_stream;
    // The header's length, which is below 16 MiB for every format tried, then the header.
    if (count >= 10 && memcmp(head + 3, zeros, 5) == 0 && head[8] == '{' && head[9] == '"')
        return &safetensors;
    if (count >= 12 && head[0] == 0x0a && head[2] == 0x0a && memcmp(head + 4, "<unk>", 5) == 0)
        return &sentencepiece;
    return NULL;
}

static const struct known_format *find_text(const unsigned char *head, size_t count)
{
    if (begins(head, count, MAGIC("\xef\xbb\xbf"))) { // a byte order mark
        head += 3;
        count -= 3;
    }
    while (count && isspace(*head)) {
        head++;
        count--;
    }
    if (!known_format_is_text(head, count))
        return NULL;
    if (strncasecmp((const char *)head, "<!doctype html", 14) == 0 ||
        strncasecmp((const char *)head, "<html", 5) == 0)
        return &html;
    if (head[0] != '{' && head[0] != '[')
        return NULL;
    return holds(head, count, "\"added_tokens\"") || holds(head, count, "\"tokenizer_class\"") ? &tokenizer : &json;
}

const struct known_format *known_format_find(const unsigned char *head, size_t count)
{
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (count > magics[i].at &&
            begins(head + magics[i].at, count - magics[i].at, magics[i].magic, magics[i].length))
            return &magics[i].format;
    const struct known_format *binary = find_binary(head, count);
    return binary ? binary : find_text(head, count);
}

// Bytes of the UTF-8 character that starts here; 0 if there is none. A character cut off at the end counts.
static size_t character(const unsigned char *bytes, size_t count)
{
    size_t length = bytes[0] < 0x80                        ? 1
                    : bytes[0] >= 0xc2 && bytes[0] <= 0xdf ? 2
                    : bytes[0] >> 4 == 0xe                 ? 3
                    : bytes[0] >= 0xf0 && bytes[0] <= 0xf4 ? 4
                                                           : 0;
    if (length == 1)
        return (bytes[0] >= 0x20 && bytes[0] != 0x7f) || (bytes[0] >= '\t' && bytes[0] <= '\r');
    length = length < count ? length : count;
    for (size_t i = 1; i < length; i++)
        if (bytes[i] >> 6 != 2)
            return 0;
    return length;
}

bool known_format_is_text(const unsigned char *head, size_t count)
{
    for (size_t i = 0, length; i < count; i += length)
        if (!(length = character(head + i, count - i)))
            return false;
    return count >= 16;
}

bool known_format_refuse(const char *path, const unsigned char *head, size_t count, const char *expected,
                         struct status *status)
{
    const struct known_format *known =
        known_format_find(head, count < KNOWN_FORMAT_BYTES ? count : KNOWN_FORMAT_BYTES);
    return known && strcmp(known->name, expected) != 0 &&
           !status_set(status, STATUS_BAD_INPUT, "%s: is %s, not %s%s%s", path, known->name, expected,
                       known->elsewhere ? "; " : "", known->elsewhere ? known->elsewhere : "");
}
