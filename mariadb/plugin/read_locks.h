// How the reads of an open table lock rows, and what the last read has locked.
#pragma once

#include "open_table.h"

namespace millpond {

class ReadLocks {
 public:
  explicit ReadLocks(OpenTable &open) : open_(open) {}
  ReadLocks(const ReadLocks &) = delete;
  ReadLocks &operator=(const ReadLocks &) = delete;

  // Chooses how the statement's reads lock, by the lock of the table that the server would take.
  void choose(THD *thd, thr_lock_type lock_type);
  void choose_exclusive() { mode_ = MILLPOND_LOCK_EXCLUSIVE; }
  void choose_none() { mode_ = MILLPOND_LOCK_NONE; }
  void choose_as(const ReadLocks &other) {
    mode_ = other.mode_;
    wait_ = other.wait_;
  }
  // The server has ended its use of the table.
  void unlock_table() {
    mode_ = MILLPOND_LOCK_NONE;
    wait_ = MILLPOND_WAIT_WAIT;
  }

  // Returns how a row is locked, a `millpond_lock`, and whether its lock is waited for, a
  // `millpond_wait`.
  uint mode() const { return mode_; }
  uint wait() const { return wait_; }
  bool locks() const { return mode_ != MILLPOND_LOCK_NONE; }
  bool is_exclusive() const { return mode_ == MILLPOND_LOCK_EXCLUSIVE; }

  // Semi-consistent reads: at READ COMMITTED an UPDATE first looks at a row that another
  // transaction has as it was last committed, and waits for it only if it fits. The server says
  // when it can read such a row again.
  void set_semi_consistent(bool yes);
  // Returns how a cursor over the rows waits for their locks.
  uint wait_of_scan() const;
  // Tells whether the row that was read last has been shown so.
  bool has_peeked() const { return peek_ == Peek::SHOWN; }
  // Returns the key of that row, which the caller locks next.
  const Buffer &take_peeked();

  // Begins reads with a cursor or by keys.
  void begin_read();
  void end_statement() { peek_ = Peek::NEVER; }

  // Notes what a read has locked: the row on which a cursor stands, a row by its key, an entry of
  // an index. `newly`: the transaction did not have the lock before.
  void note_row(const millpond_row &row);
  void note_row(millpond_bytes key, bool newly);
  void note_entry(uint index, millpond_bytes key, bool newly);
  // Forgets the row that was read before.
  void forget_row() { newly_locked_ = false; }

  // Releases the row that was read last, and its index entry: it does not fit the statement's
  // condition.
  void unlock_row();
  // Releases the index entry alone.
  void unlock_entry();
  // Releases a key that no row has, if the read has locked it.
  void unlock_missing(millpond_table *tree, millpond_bytes key, bool newly);

 private:
  enum class Peek : uchar { NEVER, MAY, SHOWN };

  OpenTable &open_;
  uint mode_ = MILLPOND_LOCK_NONE;
  uint wait_ = MILLPOND_WAIT_WAIT;
  Peek peek_ = Peek::NEVER;
  bool newly_locked_ = false;  // The transaction has locked the row `locked_key_` just now.
  Buffer locked_key_;
  // It has locked the entry `locked_entry_` of this index just now; MAX_KEY: none.
  uint locked_index_ = MAX_KEY;
  Buffer locked_entry_;
};

}  // namespace millpond
