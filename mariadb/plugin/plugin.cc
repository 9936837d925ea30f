// The plugins of the library: the engine, its start and end, and its tables of information_schema.

#include "ha_millpond.h"
#include "deadlocks.h"
#include "errors.h"
#include "figures_tables.h"
#include "info_row.h"
#include "leftovers.h"
#include "locks_tables.h"
#include "monitor.h"
#include "repeat.h"
#include "replication.h"
#include "server_functions.h"
#include "settings.h"
#include "status.h"
#include "tables_table.h"
#include "tc_log.h"
#include "transactions.h"
#include "two_phase.h"

#include <unistd.h>

#include <new>
#include <string>

namespace millpond {

handlerton *engine;
millpond_db *database;

std::string data_directory() { return std::string(mysql_real_data_home) + DIRECTORY; }

namespace {

handler *create_handler(handlerton *engine, TABLE_SHARE *share, MEM_ROOT *memory) {
  return new (memory) ha_millpond(engine, share);
}

void log_line(void *, const char *text) { sql_print_error("Millpond: %s", text); }

// A server without the plugin takes the directory for a schema, and may write a schema's options into
// it. A new database would not begin beside them.
void remove_schema_options() {
  const std::string file = data_directory() + "/db.opt";
  if (unlink(file.c_str()) != 0) return;
  sql_print_information("Millpond: removed %s, which the server had made: %s is no schema", file.c_str(), DIRECTORY);
}

// What the crash has left is dropped before the binary log makes anything new.
int recover_rest(handlerton *entry) {
  if (drop_orphans(entry) != 0) return 1;
  return repeat_binlog() ? 0 : 1;
}

void free_database() {
  millpond_db_free(database);
  database = nullptr;
  engine = nullptr;
}

int start(void *place) {
  millpond_set_log(log_line, nullptr);
  ignore_db_dirs_append(DIRECTORY);
  remove_schema_options();
  millpond_options options{};
  std::string directory = data_directory();
  options.dir = directory.c_str();
  options.redo_dir = settings::redo_dir();
  options.doublewrite_dir = settings::doublewrite_dir();
  options.unsafe_no_doublewrite = !settings::doublewrite();
  options.own_process = 1;
  options.page_bytes = PAGE_BYTES;
  options.buffer_pool_bytes = settings::buffer_pool_bytes();
  options.redo_capacity_bytes = settings::redo_capacity_bytes();
  options.recovery_target_ms = settings::recovery_target_ms();
  options.lock_memory_bytes = settings::lock_memory_bytes();
  options.on_deadlock = note_deadlock;
  if (millpond_open(&options, &database) != MILLPOND_RC_OK) {
    sql_print_error("Millpond: the database in %s does not open: %s", options.dir, millpond_error_text());
    return 1;
  }
  if (!can_repeat_binlog()) {
    (void)millpond_close(database);
    free_database();
    return 1;
  }
  roll_back_private();
  engine = static_cast<handlerton *>(place);
  engine->create = create_handler;
  engine->show_status = show_status;
  engine->signal_ddl_recovery_done = recover_rest;
  engine->drop_database = drop_database;
  engine->flags = HTON_SUPPORTS_EXTENDED_KEYS;
  set_transaction_functions(engine);
  set_two_phase_functions(engine);
  if (!commit_decided()) {
    (void)millpond_close(database);
    free_database();
    return 1;
  }
  observe_waits();
  settings::show_directories();
  drop_leftovers();
  note_prepared();
  tell_prepared();
  sql_print_information("Millpond %s: open, data in %s", millpond_version(), options.dir);
  return 0;
}

int end(void *) {
  if (database == nullptr) return 0;
  forget_binlog();
  if (millpond_close(database) != MILLPOND_RC_OK) {
    sql_print_error("Millpond: the database does not close: %s", millpond_error_text());
  }
  free_database();
  forget_all_memories();
  forget_deadlocks();
  return 0;
}

st_mysql_storage_engine interface = {MYSQL_HANDLERTON_INTERFACE_VERSION};

}  // namespace

}  // namespace millpond

// It is tested hard, and runs in production nowhere yet. A stable server refuses it unless its option
// plugin_maturity allows it.
#define MATURITY MariaDB_PLUGIN_MATURITY_BETA

#define TABLE_OF_INFORMATION(name, text, what)                                                             \
  {                                                                                                       \
    MYSQL_INFORMATION_SCHEMA_PLUGIN, &millpond::table_interface, name, "The Millpond authors", text,      \
        PLUGIN_LICENSE_BSD, millpond::start_##what##_table, nullptr, 0x0001, nullptr, nullptr, "0.1", MATURITY \
  }

// The server looks for these symbols; all others of the library are hidden.
#pragma GCC visibility push(default)
maria_declare_plugin(millpond){
    MYSQL_STORAGE_ENGINE_PLUGIN,
    &millpond::interface,
    "Millpond",
    "The Millpond authors",
    "Transactional storage engine with row locks and group commit",
    PLUGIN_LICENSE_BSD,
    millpond::start,
    millpond::end,
    0x0001,
    millpond::status_variables,
    millpond::settings::variables,
    "0.1",
    MATURITY,
},
TABLE_OF_INFORMATION("MILLPOND_TRX", "The transactions of Millpond that run now", transactions),
TABLE_OF_INFORMATION("MILLPOND_METRICS", "The figures of Millpond", metrics),
TABLE_OF_INFORMATION("MILLPOND_FSYNCS", "The syncs of Millpond, by file and reason", fsyncs),
TABLE_OF_INFORMATION("MILLPOND_LOCKS", "The locks of Millpond's transactions", locks),
TABLE_OF_INFORMATION("MILLPOND_LOCK_WAITS", "Which transactions of Millpond wait for which", lock_waits),
TABLE_OF_INFORMATION("MILLPOND_TABLES", "The sizes of Millpond's tables, and what is done to them", tables)
maria_declare_plugin_end;
#pragma GCC visibility pop
