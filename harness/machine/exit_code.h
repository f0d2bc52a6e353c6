// Exit codes of every command.
#pragma once

enum exit_code {
    EXIT_FINE = 0,
    EXIT_CHECK_FAILED = 1,
    EXIT_BAD_INPUT = 2, // wrong use, a bad file, an output that cannot be written
    EXIT_UNDECIDED = 3,
    EXIT_OUT_OF_MEMORY = 4, // a trial's process only; its sweep turns it into a record
    EXIT_INTERRUPTED = 130
};
