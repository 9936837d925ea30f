// Two-phase commit: with the binary log, with other engines, and by XA statements.
#pragma once

#include "server.h"

#include <string>
#include <vector>

namespace millpond {

// Returns the name under which the engine prepares the transaction of a connection. Puts into `own`
// whether the server has made it up itself.
std::string xid_of(THD *thd, bool *own);

// Returns a name that only the plugin knows, for XA COMMIT ... ONE PHASE: the binary log has such a
// transaction as any other, and not by its name.
std::string private_name();
// Rolls back what has such a name after a crash. What the binary log has of it is repeated.
void roll_back_private();

// Returns the names of what is prepared, as the server has them.
std::vector<XID> prepared_xids();

// Puts the functions of two-phase commit into the engine's entry.
void set_two_phase_functions(handlerton *engine);

// Whether transactions were prepared when the plugin started.
extern bool had_prepared_at_start;

// Notes that.
void note_prepared();

// Says in the server's log how many transactions are prepared, if the server runs already: it asks for
// them only when it starts.
void tell_prepared();

}  // namespace millpond
