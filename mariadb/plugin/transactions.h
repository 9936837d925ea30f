// The transactions that run, as the session and the engine know them, and the table
// information_schema.MILLPOND_TRX.
#pragma once

#include "lock_text.h"
#include "session.h"

#include <string>
#include <vector>

namespace millpond {

// A transaction of a connection, or one that XA has prepared and whose connection has ended.
struct RunningTransaction {
  Session::Shown session;      // Of one without a connection only the number is known, as 0.
  ulonglong transaction = 0;   // The engine's number; 0 while it has neither locked nor changed anything.
  ulonglong locks = 0, undo_bytes = 0, changed_rows = 0;
  bool prepared = false;
  bool waits = false;
  Lock waited;  // The lock for which it waits.
};

// Returns the transactions that run now.
std::vector<RunningTransaction> running_transactions();

// Returns the name of an isolation level.
const char *isolation_name(uint level);

// Describes the table to the server.
int start_transactions_table(void *place);

}  // namespace millpond
