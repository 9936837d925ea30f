// How the reads of an open table lock rows, and what the last read has locked.

#include "read_locks.h"

namespace millpond {

namespace {

// Tells whether a statement (SQLCOM_...) never changes the rows that it reads, and needs no locks:
// it only reads, or its metadata lock keeps writers out while it copies.
bool reads_without_locks(int command) {
  switch (command) {
    case SQLCOM_CHECKSUM:
    case SQLCOM_ANALYZE:
    case SQLCOM_CHECK:
    case SQLCOM_OPTIMIZE:
    case SQLCOM_ALTER_TABLE:
    case SQLCOM_CREATE_INDEX:
    case SQLCOM_DROP_INDEX:
      return true;
    default: return false;
  }
}

}  // namespace

void ReadLocks::choose(THD *thd, thr_lock_type lock_type) {
  const int command = thd_sql_command(thd);
  const bool committed = thd_tx_isolation(thd) <= ISO_READ_COMMITTED;
  // Statements that change rows read with shared locks what they copy from, so that what they write
  // does not depend on an old snapshot. At READ COMMITTED they read without locks.
  bool shared = lock_type == TL_READ_WITH_SHARED_LOCKS || lock_type == TL_READ_SKIP_LOCKED ||
                lock_type == TL_READ_NO_INSERT ||
                (command != SQLCOM_SELECT && lock_type <= TL_READ_NO_INSERT);
  if (reads_without_locks(command)) shared = false;
  if (committed && lock_type != TL_READ_WITH_SHARED_LOCKS && lock_type != TL_READ_SKIP_LOCKED) shared = false;
  mode_ = lock_type >= TL_FIRST_WRITE ? MILLPOND_LOCK_EXCLUSIVE
          : shared                    ? MILLPOND_LOCK_SHARED
                                      : MILLPOND_LOCK_NONE;
  bool skip = lock_type == TL_READ_SKIP_LOCKED || lock_type == TL_WRITE_SKIP_LOCKED;
  wait_ = skip ? MILLPOND_WAIT_SKIP_LOCKED : MILLPOND_WAIT_WAIT;
}

// Where more than rows is locked, nothing is read without its lock.
void ReadLocks::set_semi_consistent(bool yes) {
  peek_ = yes && !open_.keeps_locks() ? Peek::MAY : Peek::NEVER;
}

uint ReadLocks::wait_of_scan() const {
  const bool peeks = peek_ != Peek::NEVER && is_exclusive() && wait_ == MILLPOND_WAIT_WAIT;
  return peeks ? uint{MILLPOND_WAIT_PEEK} : wait_;
}

const Buffer &ReadLocks::take_peeked() {
  peek_ = Peek::MAY;
  return locked_key_;
}

void ReadLocks::begin_read() {
  newly_locked_ = false;
  locked_index_ = MAX_KEY;
  if (peek_ == Peek::SHOWN) peek_ = Peek::MAY;
  // LOCK TABLES ... WRITE has said that rows are locked, whatever reads them. EXCHANGE PARTITION
  // would wait for its own transaction then.
  if (locks() && reads_without_locks(thd_sql_command(open_.thd()))) choose_none();
}

void ReadLocks::note_row(const millpond_row &row) {
  newly_locked_ = row.newly_locked != 0;
  if (peek_ != Peek::NEVER) peek_ = row.peeked ? Peek::SHOWN : Peek::MAY;
  if (newly_locked_ || row.peeked) locked_key_.assign(row.key.ptr, row.key.len);
}

void ReadLocks::note_row(millpond_bytes key, bool newly) {
  newly_locked_ = newly;
  if (newly) locked_key_.assign(key.ptr, key.len);
}

void ReadLocks::note_entry(uint index, millpond_bytes key, bool newly) {
  locked_index_ = newly ? index : MAX_KEY;
  if (newly) locked_entry_.assign(key.ptr, key.len);
}

// Levels above READ COMMITTED keep the locks, so that the statement would find the same rows again.
void ReadLocks::unlock_row() {
  if (peek_ == Peek::SHOWN) peek_ = Peek::MAY;  // It is not locked.
  if (open_.keeps_locks()) return;
  unlock_entry();
  if (!newly_locked_) return;
  newly_locked_ = false;
  millpond_unlock_row(open_.session()->txn(), open_.table().rows(), bytes_of(locked_key_));
}

void ReadLocks::unlock_entry() {
  if (locked_index_ == MAX_KEY) return;
  millpond_unlock_row(open_.txn(), open_.table().tree(locked_index_), bytes_of(locked_entry_));
  locked_index_ = MAX_KEY;
}

// Levels above READ COMMITTED keep the lock: no other transaction can insert the row.
void ReadLocks::unlock_missing(millpond_table *tree, millpond_bytes key, bool newly) {
  if (newly && !open_.keeps_locks()) millpond_unlock_row(open_.txn(), tree, key);
}

}  // namespace millpond
