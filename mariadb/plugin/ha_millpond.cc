// The server's interface of a storage engine: what the engine can do, opening, locks, statements.

#include "ha_millpond.h"
#include "errors.h"
#include "session.h"
#include "settings.h"

#include <new>

namespace millpond {

namespace {

// Tells whether the transaction's reads for a change lock the gaps between rows too.
bool locks_gaps(THD *thd) {
  const uint isolation = thd_tx_isolation(thd);
  return isolation == ISO_SERIALIZABLE ||
         (isolation == ISO_REPEATABLE_READ && reads_newest(thd));
}

}  // namespace

ulonglong ha_millpond::table_flags() const {
  // The server looks for duplicates of long values and for overlapping periods itself. Where its
  // reads lock no gaps, two transactions could both find none before they insert; so it reads after
  // the insert, and one of them waits for the other one's row. The server asks when it opens the
  // table and once a statement, and keeps the answer.
  ulonglong check = 0;
  const bool looks = !open_.is_open() || table_share->long_unique_table || table_share->period.name;
  if (looks && !locks_gaps(ha_thd())) check = HA_CHECK_UNIQUE_AFTER_WRITE;
  return check | HA_CAN_TABLES_WITHOUT_ROLLBACK | HA_REC_NOT_IN_SEQ | HA_NULL_IN_KEY | HA_CAN_INDEX_BLOBS |
         HA_CAN_GEOMETRY | HA_CAN_SQL_HANDLER | HA_PARTIAL_COLUMN_READ | HA_TABLE_SCAN_ON_INDEX |
         HA_PRIMARY_KEY_IN_READ_INDEX | HA_PRIMARY_KEY_REQUIRED_FOR_POSITION |
         HA_REQUIRES_KEY_COLUMNS_FOR_DELETE | HA_BINLOG_ROW_CAPABLE | HA_CAN_VIRTUAL_COLUMNS |
         HA_CAN_SKIP_LOCKED | HA_CRASH_SAFE | HA_CONCURRENT_OPTIMIZE | HA_ONLINE_ANALYZE;
}

ulong ha_millpond::index_flags(uint index, uint part, bool all_parts) const {
  if (open_.is_open()) return open_.table().index(index).flags.of(part, all_parts);
  return IndexFlags(table_share, index, part + 1).of(part, all_parts);
}

int ha_millpond::open(const char *path, int, uint) {
  lock_shared_ha_data();
  Table *shared = static_cast<Table *>(get_ha_share_ptr());
  int error = 0;
  if (shared == nullptr) {
    shared = new (std::nothrow) Table();
    error = shared ? shared->open(path, table) : HA_ERR_OUT_OF_MEM;
    if (error) {
      delete shared;
    } else {
      set_ha_share_ptr(shared);
    }
  }
  unlock_shared_ha_data();
  if (error) return error;
  error = open_.open(shared);
  if (!error) error = writer_.open();
  if (error) {
    close();
    return error;
  }
  // A table scan goes in the order of the primary key. The server has to know, so that an UPDATE of
  // that key collects its rows before it changes one: else it would find changed rows once more.
  key_used_on_scan = shared->primary();
  ref_length = shared->has_primary() ? table->key_info[shared->primary()].key_length : HIDDEN_KEY_BYTES;
  least_row_bytes_ = least_row_bytes(table->s);
  return info(HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_OPEN);
}

int ha_millpond::close() {
  open_.close();
  return 0;
}

int ha_millpond::external_lock(THD *thd, int lock_type) {
  if (lock_type == F_UNLCK) {
    locks_.unlock_table();
    return 0;
  }
  if (lock_type == F_WRLCK) locks_.choose_exclusive();
  if (int error = open_.use_session(thd)) return error;
  if (!locks_.locks() || thd_sql_command(thd) != SQLCOM_SELECT) return 0;
  return open_.error_of(millpond_txn_set_lock_wait(open_.session()->txn(), settings::locking_read_wait_ms(thd)));
}

int ha_millpond::start_stmt(THD *thd, thr_lock_type lock_type) {
  if (lock_type >= TL_FIRST_WRITE) locks_.choose_exclusive();
  return open_.use_session(thd);
}

// The server's own table locks are not used: rows are locked, and metadata locks guard tables. Here
// the server only tells how the statement reads.
THR_LOCK_DATA **ha_millpond::store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) {
  if (lock_type != TL_IGNORE) locks_.choose(thd, lock_type);
  return to;
}

int ha_millpond::extra(ha_extra_function operation) {
  switch (operation) {
    case HA_EXTRA_KEYREAD: reader_.set_keyread(true); break;
    case HA_EXTRA_NO_KEYREAD: reader_.set_keyread(false); break;
    case HA_EXTRA_WRITE_CAN_REPLACE:
    case HA_EXTRA_INSERT_WITH_UPDATE: writer_.set_replaces(true); break;
    case HA_EXTRA_WRITE_CANNOT_REPLACE: writer_.set_replaces(false); break;
    default: break;
  }
  return 0;
}

int ha_millpond::reset() {
  open_.end_statement();
  if (by_handler_) end_handler();
  scan_.end_statement();
  locks_.end_statement();
  reader_.set_keyread(false);
  writer_.set_replaces(false);
  numbers_.end_statement();
  many_ranges_.dsmrr_close();
  return 0;
}

// HANDLER has closed the table. Now its metadata lock does not keep the table from being dropped,
// so the transaction must not either. Metadata locks of its own guard all other tables that it has
// read.
void ha_millpond::end_handler() {
  by_handler_ = false;
  Session *session = Session::existing(ha_thd());
  if (session) session->release_tables();
}

bool ha_millpond::get_error_message(int error, String *text) {
  if (error >= OWN_ERRORS) {
    const std::string own = open_.own_error_text(error);
    text->append(own.data(), own.size());
  } else if (error == HA_ERR_ROLLBACK) {
    text->append(STRING_WITH_LEN("an earlier error has rolled the transaction back"));
  }
  return false;
}

void ha_millpond::print_error(int error, myf flags) {
  if (error < OWN_ERRORS) return handler::print_error(error, flags);
  print_own_error(error, open_.own_error_text(error).c_str(), flags);
}

int ha_millpond::index_init(uint index, bool) {
  active_index = index;
  return scan_.begin(index);
}

int ha_millpond::index_end() {
  active_index = MAX_KEY;
  scan_.end();
  in_range_check_pushed_down = false;
  many_ranges_.dsmrr_close();
  return 0;
}

}  // namespace millpond
