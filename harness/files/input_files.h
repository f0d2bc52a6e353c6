// Input files: what this program has read, lest what it writes takes the place of that.
#pragma once
#include <stdbool.h>

// From now on they are noted: a program that is one command reads nothing that it has written itself.
void input_files_watch(void);
// The file of this name is read, by this process or one that it starts.
void input_files_name(const char *path);
// The open file is read; below 0: none.
void input_files_note(int descriptor);
// Whether the path leads to a file that was read, by whatever name. A new file is another one, also where the file
// system gives it the inode number of one that was read and removed.
bool input_files_have(const char *path);
