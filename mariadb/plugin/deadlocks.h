// The last deadlocks: what the engine knows of them, with the statements of their connections.
#pragma once

#include "server.h"

#include <cstdint>
#include <string>

namespace millpond {

// Notes what the connections of a deadlock do. The engine calls it while they still wait.
void note_deadlock(void *, uint64_t number, const uint64_t *connections, size_t count);

// Returns the report of the latest deadlock; empty if there was none.
std::string latest_deadlock();

// Writes to the server's log the deadlocks for which that was asked (millpond_print_all_deadlocks) and
// that are not there yet. The thread of a victim calls it.
void log_deadlocks();

// Forgets all: the database is closed.
void forget_deadlocks();

}  // namespace millpond
