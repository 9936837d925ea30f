// The tables information_schema.MILLPOND_LOCKS and MILLPOND_LOCK_WAITS.
#pragma once

namespace millpond {

// Describe the tables to the server.
int start_locks_table(void *place);
int start_lock_waits_table(void *place);

}  // namespace millpond
