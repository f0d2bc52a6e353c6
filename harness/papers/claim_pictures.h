// Claim pictures: the claims of papers (claims.h) that a picture is about, in words for its heading.
#pragma once
#include <stddef.h>

// "Claimed by SeCO: times its time: 1 or less (arXiv ...)", with semicolons between several; empty if there is
// none. picture: the name of its files without what tells settings apart ("seco-figure6-published-memory"). The
// claims are those of experiments/claims.json, here or beside the program; what cannot be read there is said by
// `longbp claims`.
void claim_pictures_find(const char *picture, char *text, size_t bytes);
