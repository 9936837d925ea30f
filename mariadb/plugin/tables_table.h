// The table information_schema.MILLPOND_TABLES.
#pragma once

namespace millpond {

// Describes the table to the server.
int start_tables_table(void *place);

}  // namespace millpond
