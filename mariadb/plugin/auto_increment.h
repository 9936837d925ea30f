// AUTO_INCREMENT: the numbers of the rows that a statement inserts, and the table's counter.
#pragma once

#include "open_table.h"

namespace millpond {

class AutoIncrement {
 public:
  explicit AutoIncrement(OpenTable &open) : open_(open) {}
  AutoIncrement(const AutoIncrement &) = delete;
  AutoIncrement &operator=(const AutoIncrement &) = delete;

  // Begins a change of a row. It raises the counter to nothing yet.
  void begin_row() { raised_ = raised_if_duplicate_ = 0; }

  // Gives the row that is about to be inserted its number, if it names none, and sets what it
  // raises the counter to. Returns an error number of the server, or 0.
  int number_row();

  // Sets what the new version of a row raises the counter to.
  void count_update(const uchar *record);

  // Returns what the table's counter becomes at least when the row is stored, or 0 for none.
  uint64_t raised() const { return raised_; }

  // A row was not inserted, because it is there already. `replaces`: the statement changes that
  // one.
  int count_duplicate(bool replaces);

  // Hands out values that are `offset` plus a multiple of `increment`
  // (handler::get_auto_increment).
  void reserve(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first, ulonglong *reserved);

  // Puts the next value of the table's counter into `next`, or makes the counter at least that.
  // Returns a return code of the engine.
  int next(uint64_t *next) const { return millpond_counter_next(open_.table().rows(), next); }
  int raise(uint64_t next) { return millpond_counter_raise(database, open_.table().rows(), next); }

  void end_statement() {
    rows_left_ = 0;
    took_numbers_ = false;
  }

 private:
  // How the statement shares the counter with others.
  enum class Lock : uchar { NONE, IF_LOCKED, ALWAYS };

  Lock lock() const;
  int lock_counter_for(uint64_t next);
  uint64_t counter_after_none() const;
  void count_row(Field *field);
  int take(millpond_counter *counter);

  OpenTable &open_;
  int error_ = 0;              // Why there was no number.
  ulonglong rows_left_ = 0;    // How many rows of the statement may still need a number.
  uint64_t raised_ = 0;        // What the row raises the counter to.
  uint64_t raised_if_duplicate_ = 0;  // The same, of a row that is there already.
  // Of the last numbers that this instance has handed out; an increment of 0: of none.
  ulonglong increment_ = 0;
  ulonglong offset_ = 0;
  bool took_numbers_ = false;  // The statement has taken numbers for its rows.
};

}  // namespace millpond
