// Doubtful labels in batch files: labels that no step counts, and labels that were not shifted. The last token of a
// packed document is followed by another document, so its label is no target (batch_set_documents); a user who set
// it on purpose should know. Labels equal to the ids follow Hugging Face, whose models shift them; here they would
// predict the token itself. The command's own process warns once, before it starts others.
#pragma once

// Warns on stderr about such labels in the first 1,000 sequences of a file or folder. path: see share_resolve;
// NULL: no file. Unreadable input is left to the reader to report.
void doubtful_labels_say(const char *path);
