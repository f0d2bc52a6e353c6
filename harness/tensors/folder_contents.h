// Folder contents: explains what a path is that should be the folder of a model or an adapter.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Writes the end of a message into text: ": it holds x.gguf, a GGUF model of llama.cpp; give the folder ...".
// Writes nothing if nothing is recognised.
void folder_contents(const char *path, bool adapter, char *text, size_t bytes);
