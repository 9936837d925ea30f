// Two-phase commit: with the binary log, with other engines, and by XA statements.
#pragma once

#include "server.h"

#include <string>

namespace millpond {

// Returns the name under which the engine prepares the transaction of a connection.
std::string xid_of(THD *thd);

// Puts the functions of two-phase commit into the engine's entry.
void set_two_phase_functions(handlerton *engine);

// Says in the server's log how many transactions are prepared, if the server runs already: it asks for
// them only when it starts.
void tell_prepared();

}  // namespace millpond
