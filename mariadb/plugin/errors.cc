// The engine's return codes as the server's error numbers.

#include "errors.h"
#include "deadlocks.h"
#include "engine.h"
#include "server_functions.h"

namespace millpond {

int server_error_of_failure(THD *thd, int rc) {
  switch (rc) {
    case MILLPOND_RC_NOT_FOUND: return HA_ERR_KEY_NOT_FOUND;
    case MILLPOND_RC_KEY_EXISTS: return HA_ERR_FOUND_DUPP_KEY;
    // These four have ended the engine's transaction, so the server's has to end too.
    case MILLPOND_RC_DEADLOCK:
      log_deadlocks();
      if (thd) mark_transaction_to_rollback(thd, true);
      return HA_ERR_LOCK_DEADLOCK;
    case MILLPOND_RC_WRITE_CONFLICT:
      if (thd) mark_transaction_to_rollback(thd, true);
      return HA_ERR_RECORD_CHANGED;
    case MILLPOND_RC_ABORTED:
      if (thd) mark_transaction_to_rollback(thd, true);
      return HA_ERR_ROLLBACK;
    case MILLPOND_RC_CLOSED:
    case MILLPOND_RC_POISONED:
      if (thd) mark_transaction_to_rollback(thd, true);
      return OWN_ERRORS + rc;
    case MILLPOND_RC_LOCK_TIMEOUT:
      // Only the statement is undone, as with innodb_rollback_on_timeout=OFF.
      if (thd) mark_transaction_to_rollback(thd, false);
      return HA_ERR_LOCK_WAIT_TIMEOUT;
    case MILLPOND_RC_CANCELLED: return HA_ERR_ABORTED_BY_USER;
    case MILLPOND_RC_NO_SUCH_TABLE: return HA_ERR_NO_SUCH_TABLE;
    case MILLPOND_RC_TABLE_EXISTS: return HA_ERR_TABLE_EXIST;
    case MILLPOND_RC_TABLE_CHANGED: return HA_ERR_TABLE_DEF_CHANGED;
    case MILLPOND_RC_DISK_FULL: return HA_ERR_RECORD_FILE_FULL;
    case MILLPOND_RC_NO_MEMORY: return HA_ERR_OUT_OF_MEM;
    default: return OWN_ERRORS + rc;
  }
}

std::string last_error_text(int error) {
  if (error == OWN_ERRORS + MILLPOND_RC_POISONED) {
    const std::string cause = failure();
    if (!cause.empty()) return cause;
  }
  return millpond_error_text();
}

int reported(int error) {
  if (error >= OWN_ERRORS) print_own_error(error, last_error_text(error).c_str(), MYF(0));
  return error;
}

void print_own_error(int error, const char *text, myf flags) {
  my_printf_error(ER_GET_ERRMSG, "Got error %d '%s' from Millpond", flags, error, text);
}

std::string failure() {
  Result text;
  if (millpond_failure(database, &text) != MILLPOND_RC_OK) return std::string();
  return std::string(reinterpret_cast<const char *>(text.ptr), text.len);
}

}  // namespace millpond
