// Revision order: in which order git has revisions.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// The place of each revision, full or cut off, among the commits that lead to the HEAD of the repository that
// longbp is started in, the oldest first. False if there is no git, no repository, or a revision that is not there.
bool revision_order(const char *const *revisions, size_t count, size_t *places);
