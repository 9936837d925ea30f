// What the threads need that apply a primary's changes on a replica.
#pragma once

#include "server.h"

#include <cstdint>

namespace millpond {

// Tells whether a connection applies a primary's changes.
bool is_applier(THD *thd);

// Waits until the transactions have committed that an applier's has to follow. Returns an error of the
// server if that cannot be, and tells it.
int wait_for_prior_commits(THD *thd);

// Returns the name by which the engine tells who waits for a transaction of the connection; 0: nobody
// asks for it.
uint64_t wait_name(THD *thd);

// Lets the server hear of waits between transactions. Called once, after the database is open.
void observe_waits();

}  // namespace millpond
