// The engine's figures: status variables, and SHOW ENGINE MILLPOND STATUS.
#pragma once

#include "server.h"

namespace millpond {

extern st_mysql_show_var status_variables[];

bool show_status(handlerton *engine, THD *thd, stat_print_fn *print, ha_stat_type kind);

}  // namespace millpond
