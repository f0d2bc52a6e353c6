// Argument words: completions of an argument, derived from its name in a command's help. "text|markdown" stands for
// one of these words, a name in capitals ("METHOD") for the items of a kind, "A,B" for a list whose last item
// repeats, "A=B" for a value after a name.
#pragma once
#include <stddef.h>
#include <stdio.h>

// The word being typed; its first `kept` bytes are not part of the argument ("--method=").
struct typed_word {
    const char *text;
    size_t kept;
};

// Offers a word if it starts with the typed text and the list does not have it: writes a line with the word, a tab
// and a description.
void typed_word_offer(struct typed_word typed, const char *word, const char *end, const char *about, FILE *stream);
// Offers all words for an argument of this name; for files a line ":file", for folders ":folder".
void argument_words_write(struct typed_word typed, const char *argument, FILE *stream);
// Lists a kind's words: "full, checkpoint, ... or auto". Empty for an unknown kind.
void argument_words_list(const char *kind, char *text, size_t bytes);
