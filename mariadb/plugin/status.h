// The engine's figures as status variables.
#pragma once

#include "server.h"

namespace millpond {

extern st_mysql_show_var status_variables[];

}  // namespace millpond
