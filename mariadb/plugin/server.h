// The server's headers, in the one order that compiles. This file is precompiled.
#pragma once

#include <my_global.h>
#include <sql_priv.h>
#include <sql_class.h>
#include <handler.h>
#include <table.h>
#include <field.h>
#include <key.h>
#include <mysql/plugin.h>
