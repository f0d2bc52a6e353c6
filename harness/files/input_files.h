// Input files: what this program has read, lest what it writes takes the place of that.
#pragma once
#include <stdbool.h>
#include <sys/stat.h>

// From now on they are noted: a program that is one command reads nothing that it has written itself.
void input_files_watch(void);
// The file of this name is read, by this process or one that it starts.
void input_files_name(const char *path);
// The open file is read; below 0: none.
void input_files_note(int descriptor);
// Whether this very file was, by whatever name.
bool input_files_have(const struct stat *file);
