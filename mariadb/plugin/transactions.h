// The table information_schema.MILLPOND_TRX: the transactions that run now.
#pragma once

#include "server.h"

namespace millpond {

extern st_mysql_information_schema transactions_interface;

// Describes the table to the server.
int start_transactions_table(void *place);

}  // namespace millpond
