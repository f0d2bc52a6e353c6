// Unseen labels: those of a document's last token in packed batch files. What follows it is another document's, so
// its label is no target (batch_set_documents), which whoever shifted the ids by one has not asked for, but whoever
// labelled it on purpose should know. Said once, by the process that a command is, before it starts what reads
// them.
#pragma once

// Says on stderr how many the first 1,000 sequences of the file have, or of all files of the folder; nothing where
// there are none. path: as share_resolve takes it; NULL: no file. What cannot be read is for the reader to say.
void unseen_labels_say(const char *path);
