// What a crash has left, and nobody will use: dropped when the server starts, or with its database.
#pragma once

#include "server.h"

namespace millpond {

// Drops the trees of temporary tables, and those of loads that were not put in place.
void drop_leftovers();

// Drops the trees of tables that a statement was making, after the server has ended or undone what
// the crash cut off. What it needs has a definition file by then.
int drop_orphans(handlerton *);

// Drops all trees of a database. The server has dropped its tables: what is left belongs to tables
// without a definition, which a crash may leave, and which would be in the way of new ones.
void drop_database(handlerton *, char *path);

}  // namespace millpond
