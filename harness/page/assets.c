#include "harness/page/assets.h"

// The assembler reads the file; its path is from the repository's root, where make compiles.
#define ASSET(name, file)                                                                                          \
    __asm__(".section .rodata\n"                                                                                   \
            ".global " #name "\n"                                                                                  \
            ".type " #name ", @object\n" #name ":\n"                                                               \
            ".incbin \"harness/page/" file "\"\n"                                                                  \
            ".byte 0\n"                                                                                            \
            ".size " #name ", . - " #name "\n"                                                                     \
            ".previous\n")

ASSET(page_template, "page.html");
ASSET(page_style, "page.css");
ASSET(page_script, "page.js");
