// Claim pictures: the papers' claims (claims.h) that a picture illustrates, for its heading.
#pragma once
#include <stddef.h>

// "Claimed by SeCO: times its time: 1 or less (arXiv ...)", separated by semicolons; empty if there is none.
// picture: the name of its files without settings ("seco-figure6-published-memory"). Claims come from
// experiments/claims.json, here or beside the program; `longbp claims` reports its errors.
void claim_pictures_find(const char *picture, char *text, size_t bytes);
