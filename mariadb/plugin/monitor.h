// SHOW ENGINE MILLPOND STATUS.
#pragma once

#include "server.h"

namespace millpond {

bool show_status(handlerton *engine, THD *thd, stat_print_fn *print, ha_stat_type kind);

}  // namespace millpond
