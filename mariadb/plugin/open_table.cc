// One open instance of a table: what its reads, its changes of rows and its numbers share.

#include "open_table.h"
#include "errors.h"

#include <ctime>

namespace millpond {

int OpenTable::open(Table *table) {
  table_ = table;
  return cursors_.open(table);
}

void OpenTable::close() {
  tell_changes(true);
  if (table_) cursors_.close();
  apart_.close();
  table_ = nullptr;  // The server frees it with its cache entry of the table.
}

THD *OpenTable::thd() const {
  const TABLE *form = this->form();
  return form && form->in_use ? form->in_use : current_thd;
}

int OpenTable::use_session(THD *thd) {
  session_ = Session::of(thd);
  if (session_ == nullptr) return HA_ERR_OUT_OF_MEM;
  return session_->begin_statement();
}

int OpenTable::begin_apart() {
  // The server does not lock a temporary sequence before it uses it.
  if (session_ == nullptr) {
    if (int error = use_session(thd())) return error;
  }
  return error_of(apart_.begin(thd()));
}

int OpenTable::commit_apart(int error) {
  if (error == 0) {
    table_->memory()->changed_at.store(time(nullptr), std::memory_order_relaxed);
    return error_of(session_->commit_apart(apart_.get()));
  }
  apart_.rollback();
  return error;
}

int OpenTable::put_primary(millpond_bytes primary, uchar *record) {
  if (!table_->has_primary()) return hidden_key_.set(primary) ? 0 : HA_ERR_WRONG_IN_RECORD;
  const KeyCodec &codec = table_->index(table_->primary()).codec;
  return codec.restore(primary.ptr, primary.len, record) == primary.len ? 0 : HA_ERR_WRONG_IN_RECORD;
}

int OpenTable::put_row(millpond_bytes primary, millpond_bytes value, uchar *record) {
  count_read();
  if (!table_->row().unpack(value.ptr, value.len, record)) return HA_ERR_WRONG_IN_RECORD;
  // The value has all columns that the primary key cannot give back.
  if (table_->has_primary() && !table_->index(table_->primary()).codec.restorable()) return 0;
  return put_primary(primary, record);
}

int OpenTable::error_of_failure(int rc) {
  count_conflict(rc);
  int error = server_error(thd(), rc);
  if (error >= OWN_ERRORS) {
    last_own_error_ = error;
    strmake(error_text_, last_error_text(error).c_str(), sizeof error_text_ - 1);
  }
  return error;
}

int OpenTable::own_error(int rc, const char *text) {
  last_own_error_ = OWN_ERRORS + rc;
  strmake(error_text_, text, sizeof error_text_ - 1);
  return last_own_error_;
}

std::string OpenTable::own_error_text(int error) const {
  return error == last_own_error_ ? error_text_ : last_error_text(error);
}

void OpenTable::count_conflict(int rc) {
  if (table_ == nullptr) return;
  TableMemory &memory = *table_->memory();
  if (rc == MILLPOND_RC_WRITE_CONFLICT) memory.write_conflicts.fetch_add(1);
  if (rc == MILLPOND_RC_LOCK_TIMEOUT) memory.lock_timeouts.fetch_add(1);
  if (rc == MILLPOND_RC_DEADLOCK) memory.deadlocks.fetch_add(1);
}

void OpenTable::count_change(uint op) {
  switch (op) {
    case MILLPOND_ROW_OP_INSERT: counts_.inserted++; break;
    case MILLPOND_ROW_OP_DELETE: counts_.deleted++; break;
    default: counts_.updated++;
  }
  if (counts_.inserted + counts_.updated + counts_.deleted >= COUNTS_MANY) tell_counts();
}

void OpenTable::note_change(const Session::Change &change) {
  changed_rows_++;
  session_->count_changed_row(change);
  if (!noted_) session_->note_changed_table(table_->memory());
  noted_ = true;
}

// All handlers of a table share its statistics, so a large table is told less often.
void OpenTable::tell_changes(bool always) {
  constexpr uint MANY = 64;
  if (changed_rows_ == 0 || table_ == nullptr) return;
  Statistics &statistics = table_->statistics();
  if (!always && changed_rows_ < MANY && !statistics.counts_every_change()) return;
  statistics.note_changes(changed_rows_);
  changed_rows_ = 0;
}

void OpenTable::tell_counts() {
  if (counts_.is_empty() || table_ == nullptr) return;
  table_->memory()->counts.add(thd_get_thread_id(thd()), counts_);
  counts_ = RowCounts();
}

void OpenTable::end_statement() {
  tell_changes(false);
  tell_counts();
  noted_ = false;
}

}  // namespace millpond
