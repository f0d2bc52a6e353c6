// Unfinished: files and folders that go away should a signal end the program before they are complete. Nothing can
// be done about SIGKILL.
#pragma once

// From now on SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ and SIGABRT, where they would end the program, first remove
// this file or empty folder, the latest added first. The text must live until it is dropped.
void unfinished_add(const char *path);
// Removes what was added and not dropped: the program ends at once.
void unfinished_remove(void);
// It stays, or is gone already. Nothing happens if it was not added.
void unfinished_drop(const char *path);
