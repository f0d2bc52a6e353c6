// Doubtful labels of batch files: those that no step counts, and those that were not shifted. A packed document's
// last token has another document's behind it, so its label is no target (batch_set_documents), which whoever
// shifted the ids by one has not asked for, but whoever labelled it on purpose should know. Labels that are the ids
// themselves are Hugging Face's, whose models shift them; here they ask for the token that is there. Said once, by
// the process that a command is, before it starts what reads them.
#pragma once

// Says on stderr how many the first 1,000 sequences of the file have, or of all files of the folder, and whether
// all labels of these are their ids; nothing where there are none. path: as share_resolve takes it; NULL: no file.
// What cannot be read is for the reader to say.
void doubtful_labels_say(const char *path);
