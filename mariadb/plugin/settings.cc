// The system variables.

#include "settings.h"
#include "errors.h"
#include "server_functions.h"

#include <algorithm>
#include <mutex>
#include <string>

#include <mysql_version.h>

namespace millpond {
namespace settings {

namespace {

constexpr ulonglong MIB = 1024 * 1024;

ulonglong buffer_pool_size;
ulong recovery_target;
ulonglong redo_capacity;
ulong flush_at_commit;
ulong counter_lock_mode;
my_bool protect_pages;
my_bool log_all_deadlocks;
my_bool use_binlog;
ulonglong lock_memory;
char *redo_directory;
char *doublewrite_directory;

// Makes the redo log as long as the two settings say.
int size_log(ulonglong capacity, ulong target) {
  return capacity > 0 ? millpond_set_redo_capacity(database, capacity)
                      : millpond_set_recovery_target(database, target * 1000ULL);
}

void stays(THD *thd, const char *variable) {
  const std::string stopped = failure();
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_WRONG_ARGUMENTS, "%s stays as it is: %s", variable,
                      stopped.empty() ? millpond_error_text() : stopped.c_str());
}

void set_redo_capacity(THD *thd, st_mysql_sys_var *, void *var, const void *save) {
  ulonglong wanted = *static_cast<const ulonglong *>(save);
  if (size_log(wanted, recovery_target) != MILLPOND_RC_OK) return stays(thd, "millpond_redo_capacity");
  *static_cast<ulonglong *>(var) = wanted;
}

void set_recovery_target(THD *thd, st_mysql_sys_var *, void *var, const void *save) {
  ulong wanted = *static_cast<const ulong *>(save);
  if (size_log(redo_capacity, wanted) != MILLPOND_RC_OK) return stays(thd, "millpond_recovery_target");
  *static_cast<ulong *>(var) = wanted;
}

// Makes a change that may take long. The server asks for changes under LOCK_global_system_variables,
// which every SHOW VARIABLES and every new connection needs, so the lock is released meanwhile. Two
// changes of one setting follow each other by its `order`, so the variable shows the engine's state.
template <class Change, class Store>
void change_slowly(std::mutex &order, Change change, Store store) {
  mysql_mutex_unlock(&LOCK_global_system_variables);
  std::lock_guard<std::mutex> one_at_a_time(order);
  int rc = change();
  mysql_mutex_lock(&LOCK_global_system_variables);
  store(rc);
}

void set_lock_memory(THD *thd, st_mysql_sys_var *, void *var, const void *save) {
  ulonglong wanted = *static_cast<const ulonglong *>(save);
  if (millpond_set_lock_memory_bytes(database, wanted) != MILLPOND_RC_OK) {
    return stays(thd, "millpond_lock_memory_bytes");
  }
  *static_cast<ulonglong *>(var) = wanted;
}

// A smaller pool may have many pages to write first.
void set_buffer_pool_size(THD *thd, st_mysql_sys_var *, void *var, const void *save) {
  ulonglong wanted = *static_cast<const ulonglong *>(save);
  static std::mutex resizing;
  change_slowly(
      resizing, [&] { return millpond_set_buffer_pool_bytes(database, wanted); },
      [&](int rc) {
        if (rc != MILLPOND_RC_OK) return stays(thd, "millpond_buffer_pool_size");
        *static_cast<ulonglong *>(var) = wanted;
      });
}

// The root is written first, with a checkpoint.
void set_doublewrite(THD *thd, st_mysql_sys_var *, void *var, const void *save) {
  my_bool wanted = *static_cast<const my_bool *>(save);
  static std::mutex switching;
  change_slowly(
      switching, [&] { return millpond_set_doublewrite(database, wanted); },
      [&](int rc) {
        if (rc != MILLPOND_RC_OK) return stays(thd, "millpond_doublewrite");
        if (!wanted) {
          push_warning(thd, Sql_condition::WARN_LEVEL_WARN, ER_WRONG_ARGUMENTS,
                       "millpond_doublewrite is OFF: a power cut may tear pages, and they are lost");
        }
        *static_cast<my_bool *>(var) = wanted;
      });
}

// The memory of the two variables from the opening on. Changed under LOCK_global_system_variables,
// under which the server reads them.
std::string redo_text, doublewrite_text;

void show(std::string &text, const Result &dir, char **variable) {
  text.assign(reinterpret_cast<const char *>(dir.ptr), dir.len);
  *variable = text.data();
}

void show_redo_dir(char **variable) {
  Result dir, before;
  if (millpond_redo_dir(database, &dir, &before) == MILLPOND_RC_OK) show(redo_text, dir, variable);
}

void show_doublewrite_dir(char **variable) {
  Result dir;
  if (millpond_doublewrite_dir(database, &dir) == MILLPOND_RC_OK) show(doublewrite_text, dir, variable);
}

// DEFAULT is the directory in the engine's own.
std::string wanted_directory(const void *save, const char *name) {
  const char *wanted = *static_cast<const char *const *>(save);
  return wanted != nullptr && *wanted != 0 ? wanted : data_directory() + "/" + name;
}

// Files as long as the log are written first.
void set_redo_dir(THD *thd, st_mysql_sys_var *, void *var, const void *save) {
  std::string wanted = wanted_directory(save, "redo");
  static std::mutex moving;
  change_slowly(
      moving, [&] { return millpond_set_redo_dir(database, wanted.c_str()); },
      [&](int rc) {
        if (rc != MILLPOND_RC_OK) return stays(thd, "millpond_redo_dir");
        show_redo_dir(static_cast<char **>(var));
      });
}

void set_doublewrite_dir(THD *thd, st_mysql_sys_var *, void *var, const void *save) {
  std::string wanted = wanted_directory(save, "doublewrite");
  static std::mutex moving;
  change_slowly(
      moving, [&] { return millpond_set_doublewrite_dir(database, wanted.c_str()); },
      [&](int rc) {
        if (rc != MILLPOND_RC_OK) return stays(thd, "millpond_doublewrite_dir");
        show_doublewrite_dir(static_cast<char **>(var));
      });
}

void warn_if_moved(const char *variable, const char *wanted, const char *is) {
  if (wanted == nullptr || *wanted == 0 || is == nullptr || strcmp(wanted, is) == 0) return;
  sql_print_warning("Millpond: %s is %s, but it was moved to %s, and that counts", variable, wanted, is);
}

}  // namespace

static MYSQL_SYSVAR_ULONGLONG(buffer_pool_size, buffer_pool_size, PLUGIN_VAR_RQCMDARG,
                              "Memory for cached pages, bytes.", nullptr, set_buffer_pool_size, 128 * MIB,
                              8 * MIB, ULONGLONG_MAX, MIB);
static MYSQL_SYSVAR_ULONGLONG(lock_memory_bytes, lock_memory, PLUGIN_VAR_RQCMDARG,
                              "Memory for row locks, bytes; a statement that needs more fails. 0: an eighth of "
                              "the buffer pool at the start, and at least 256 MiB.",
                              nullptr, set_lock_memory, 0, 0, ULONGLONG_MAX, 65536);
static MYSQL_SYSVAR_ULONG(recovery_target, recovery_target, PLUGIN_VAR_RQCMDARG,
                          "How long a recovery after a crash may take, seconds. It sizes the redo log.",
                          nullptr, set_recovery_target, 10, 1, 3600, 0);
static MYSQL_SYSVAR_ULONGLONG(redo_capacity, redo_capacity, PLUGIN_VAR_RQCMDARG,
                              "How many bytes the redo log may hold. 0: as the recovery target allows.",
                              nullptr, set_redo_capacity, 0, 0, ULONGLONG_MAX, MIB);
static MYSQL_SYSVAR_ULONG(flush_log_at_trx_commit, flush_at_commit, PLUGIN_VAR_RQCMDARG,
                          "1: a commit is on disk when it returns. 2: it is with the operating system. "
                          "0: it is on disk within a second. 3: as 1; where the binary log has the commit too, "
                          "both are synced.",
                          nullptr, nullptr, 1, 0, 3, 0);
static MYSQL_SYSVAR_ULONG(autoinc_lock_mode, counter_lock_mode, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                          "Statements that lock a table's AUTO_INCREMENT counter to their end. 0: all that "
                          "insert. 1: those that do not know how many rows they insert. 2: none.",
                          nullptr, nullptr, 1, 0, 2, 0);
static MYSQL_SYSVAR_BOOL(doublewrite, protect_pages, PLUGIN_VAR_OPCMDARG,
                         "Whether each page is written to the doublewrite before it is written in place. "
                         "OFF is unsafe: a power cut may tear pages, and they are lost.",
                         nullptr, set_doublewrite, TRUE);
static MYSQL_SYSVAR_BOOL(print_all_deadlocks, log_all_deadlocks, PLUGIN_VAR_OPCMDARG,
                         "Whether each deadlock is written to the server's log. SHOW ENGINE MILLPOND STATUS shows "
                         "the latest one.",
                         nullptr, nullptr, FALSE);
static MYSQL_SYSVAR_BOOL(recover_from_binlog, use_binlog, PLUGIN_VAR_OPCMDARG,
                         "Whether a commit that the binary log has durably, with all its rows, is not synced to the redo "
                         "log too. After a crash the server repeats from the binary log what the redo log lacks. At the "
                         "start OFF leaves that out.",
                         nullptr, nullptr, TRUE);
static MYSQL_SYSVAR_STR(redo_dir, redo_directory, PLUGIN_VAR_RQCMDARG,
                        "The directory of the redo log.", nullptr, set_redo_dir, nullptr);
static MYSQL_SYSVAR_STR(doublewrite_dir, doublewrite_directory, PLUGIN_VAR_RQCMDARG,
                        "The directory of the doublewrite.", nullptr, set_doublewrite_dir, nullptr);
// The default follows the server's innodb_snapshot_isolation: off before 11.6, on from 11.6 on.
static MYSQL_THDVAR_BOOL(snapshot_isolation, PLUGIN_VAR_OPCMDARG,
                         "Whether a change of a row that was changed after the snapshot fails (error 1020) "
                         "at REPEATABLE READ.",
                         nullptr, nullptr, MYSQL_VERSION_ID >= 110600);
static MYSQL_THDVAR_LONG(lock_wait_timeout, PLUGIN_VAR_RQCMDARG,
                         "How long a statement waits for a row lock, seconds. -1: innodb_lock_wait_timeout.",
                         nullptr, nullptr, -1, -1, 100000000, 0);

st_mysql_sys_var *variables[] = {
    MYSQL_SYSVAR(buffer_pool_size),   MYSQL_SYSVAR(recovery_target),         MYSQL_SYSVAR(redo_capacity),
    MYSQL_SYSVAR(snapshot_isolation), MYSQL_SYSVAR(flush_log_at_trx_commit), MYSQL_SYSVAR(lock_wait_timeout),
    MYSQL_SYSVAR(redo_dir),           MYSQL_SYSVAR(doublewrite_dir),         MYSQL_SYSVAR(autoinc_lock_mode),
    MYSQL_SYSVAR(doublewrite),        MYSQL_SYSVAR(lock_memory_bytes),       MYSQL_SYSVAR(print_all_deadlocks),
    MYSQL_SYSVAR(recover_from_binlog),
    nullptr,
};

ulonglong buffer_pool_bytes() { return buffer_pool_size; }
ulonglong recovery_target_ms() { return recovery_target * 1000ULL; }
ulonglong redo_capacity_bytes() { return redo_capacity; }
ulonglong lock_memory_bytes() { return lock_memory; }
bool doublewrite() { return protect_pages; }
const char *redo_dir() { return redo_directory; }
const char *doublewrite_dir() { return doublewrite_directory; }
void show_directories() {
  std::string redo = redo_directory == nullptr ? "" : redo_directory;
  std::string doublewrite = doublewrite_directory == nullptr ? "" : doublewrite_directory;
  show_redo_dir(&redo_directory);
  show_doublewrite_dir(&doublewrite_directory);
  warn_if_moved("millpond_redo_dir", redo.c_str(), redo_directory);
  warn_if_moved("millpond_doublewrite_dir", doublewrite.c_str(), doublewrite_directory);
}
ulong flush_log_at_trx_commit() { return flush_at_commit; }
bool print_all_deadlocks() { return log_all_deadlocks; }
bool recover_from_binlog() { return use_binlog; }
ulong autoinc_lock_mode() { return counter_lock_mode; }
bool snapshot_isolation(THD *thd) { return THDVAR(thd, snapshot_isolation); }

namespace {

// Returns the session's value of another variable in milliseconds, or `otherwise` if there is none.
ulonglong session_ms(THD *thd, sys_var *variable, ulonglong otherwise) {
  if (variable == nullptr) return otherwise;
  bool null = false;
  const longlong seconds = sys_var_val_int(variable, &null, thd, OPT_SESSION, &null_clex_str);
  return null ? otherwise : seconds * 1000ULL;
}

}  // namespace

// Programs know InnoDB's variable and set it. InnoDB is a part of the server and never leaves, but it
// may be switched off.
ulonglong lock_wait_ms(THD *thd) {
  constexpr ulonglong DEFAULT_MS = 50000;
  static const char INNODB[] = "innodb_lock_wait_timeout";
  const long own = THDVAR(thd, lock_wait_timeout);
  if (own >= 0) return own * 1000ULL;
  static sys_var *const innodb = find_sys_var(thd, INNODB, sizeof INNODB - 1, true);
  return session_ms(thd, innodb, DEFAULT_MS);
}

// NOWAIT and WAIT n set the server's own lock_wait_timeout for their statement.
ulonglong locking_read_wait_ms(THD *thd) {
  static const char NAME[] = "lock_wait_timeout";
  static sys_var *const variable = find_sys_var(thd, NAME, sizeof NAME - 1, true);
  const ulonglong own = lock_wait_ms(thd);
  return std::min(own, session_ms(thd, variable, own));
}

}  // namespace settings
}  // namespace millpond
