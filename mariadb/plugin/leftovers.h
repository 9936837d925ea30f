// What a crash has left, and nobody will use: dropped when the server starts.
#pragma once

#include "server.h"

namespace millpond {

// Drops the trees of temporary tables, and those of loads that were not put in place.
void drop_leftovers();

// Drops the trees of tables that a statement was making, after the server has ended or undone what
// the crash cut off. What it needs has a definition file by then.
int drop_orphans(handlerton *);

}  // namespace millpond
