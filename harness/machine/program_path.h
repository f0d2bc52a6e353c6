// Program path: what this program is started again by.
#pragma once

// "/proc/self/exe", also where its file was replaced since it started. Without /proc what it was started by; under
// a tool that runs it within its own process, as valgrind does, the path of its file.
const char *program_path(void);
