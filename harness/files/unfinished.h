// Unfinished: files and folders to remove if a signal ends the program before they are complete. SIGKILL cannot be
// handled.
#pragma once

// Registers a file or empty folder. SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ and SIGABRT remove the registered
// ones, latest first, before they end the program. The text must live until it is dropped.
void unfinished_add(const char *path);
// Removes all that is registered, when the program ends at once.
void unfinished_remove(void);
// Unregisters a path that is complete or already gone. Does nothing if it was not registered.
void unfinished_drop(const char *path);
