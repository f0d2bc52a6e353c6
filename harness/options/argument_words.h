// Argument words: what may be typed for an argument, by its name in a command's help. "text|markdown" is one of
// these words, a name in capitals one of what there is of the kind ("METHOD"), "A,B" a list whose later items are
// as the last, "A=B" a value after a name.
#pragma once
#include <stddef.h>
#include <stdio.h>

// The word that is being typed, of which the first bytes, `kept`, are no part of the argument ("--method=").
struct typed_word {
    const char *text;
    size_t kept;
};

// A word that may stand there, if it begins as the typed one does and the list does not have it yet: a line with
// it, a tab and what it is.
void typed_word_offer(struct typed_word typed, const char *word, const char *end, const char *about, FILE *stream);
// All that may stand there for an argument of this name; where files may, a line ":file", for folders ":folder".
void argument_words_write(struct typed_word typed, const char *argument, FILE *stream);
// "full, checkpoint, ... or auto": of a kind, in words. Nothing if there is no such kind.
void argument_words_list(const char *kind, char *text, size_t bytes);
