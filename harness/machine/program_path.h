// Program path: the path with which this program restarts itself.
#pragma once

// "/proc/self/exe", which works even if the file was replaced since the start. Without /proc, the path it was
// started with; under valgrind, the path of its file.
const char *program_path(void);
