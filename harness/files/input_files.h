// Input files: the files that this program has read, so that no output replaces one of them.
#pragma once
#include <stdbool.h>

// Starts recording. A program that runs one command never reads its own output.
void input_files_watch(void);
// Records a path that this process or one that it starts will read.
void input_files_name(const char *path);
// Records an open file; does nothing below 0.
void input_files_note(int descriptor);
// Tells whether the path leads to a recorded file, by any name. A new file is a different one, even with the inode
// number of a removed file.
bool input_files_have(const char *path);
