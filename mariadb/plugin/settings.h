// The system variables.
#pragma once

#include "server.h"

namespace millpond {
namespace settings {

extern st_mysql_sys_var *variables[];

// The global settings at start.
ulonglong buffer_pool_bytes();
ulonglong recovery_target_ms();
ulonglong redo_capacity_bytes();
ulonglong lock_memory_bytes();
bool doublewrite();
const char *redo_dir();
const char *doublewrite_dir();
// Makes the variables of the two directories show where they are. Once, when the database is open.
void show_directories();

// 1: a commit is durable when it returns. 2: it is with the operating system. 0: once a second.
ulong flush_log_at_trx_commit();
ulong autoinc_lock_mode();
// Whether commits may be durable by the binary log alone; at the start, whether it is read for that.
bool recover_from_binlog();
// Whether each deadlock is written to the server's log.
bool print_all_deadlocks();

// The settings of a session.
bool snapshot_isolation(THD *thd);
ulonglong lock_wait_ms(THD *thd);
// As lock_wait_ms(), for a locking SELECT: NOWAIT and WAIT n count too.
ulonglong locking_read_wait_ms(THD *thd);

}  // namespace settings
}  // namespace millpond
