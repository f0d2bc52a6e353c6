// Folder contents: what a path that should be a model's folder is instead.
#pragma once
#include <stddef.h>

// Writes the end of a message into text: ": it holds x.gguf, a GGUF model of llama.cpp; give the folder ...".
// Nothing if nothing is recognised.
void folder_contents(const char *path, char *text, size_t bytes);
