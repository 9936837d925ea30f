// AUTO_INCREMENT: the numbers of the rows that a statement inserts, and the table's counter.

#include "auto_increment.h"
#include "settings.h"

namespace millpond {

namespace {

// Sets the first of the wanted values that is `next` or greater, and how many there are. This is
// how the engine takes them.
void choose_numbers(uint64_t next, millpond_counter *counter) {
  const uint64_t increment = counter->increment ? counter->increment : 1;
  const uint64_t offset = counter->offset > increment ? 0 : counter->offset;
  if (next < offset) next = offset;
  const uint64_t beyond = (next - offset) % increment;
  const uint64_t missing = beyond ? increment - beyond : 0;
  counter->granted = 0;
  if (next > counter->max || counter->max - next < missing) return;
  counter->first = next + missing;
  const uint64_t most = (counter->max - counter->first) / increment;
  counter->granted = counter->count > most ? most + 1 : counter->count;
}

// Returns what the table's counter becomes at least when the record is stored, or 0 for none: the
// first value after the one in the column that is the session's offset plus a multiple of its
// increment, as InnoDB counts. An offset above the increment counts as none.
uint64_t counter_after(Field *field) {
  longlong value = field->val_int();
  if (value < 0 && !(field->flags & UNSIGNED_FLAG)) return 0;
  const ulonglong used = static_cast<ulonglong>(value);
  if (used == ULONGLONG_MAX || used == 0) return used;
  ulong offset = 0, increment = 1;
  thd_get_autoinc(field->get_thd(), &offset, &increment);
  if (increment == 0) increment = 1;
  if (offset > increment) offset = 0;
  const ulonglong before = used < offset ? 0 : (used - offset) / increment + 1;
  const ulonglong next = offset + before * increment;
  return next > used && next <= field->get_max_int_value() ? next : used + 1;
}

uint lock_kind(bool always) {
  return always ? MILLPOND_COUNTER_LOCK_KIND_ALWAYS : MILLPOND_COUNTER_LOCK_KIND_IF_LOCKED;
}

}  // namespace

// How the statement shares the counter with others (millpond_autoinc_lock_mode). INSERT and REPLACE
// with a list of rows take as many numbers as they have rows at once. Other statements guess, and
// so have consecutive numbers only if nobody else takes some in between.
AutoIncrement::Lock AutoIncrement::lock() const {
  switch (thd_sql_command(open_.thd())) {
    // Nobody else has the table.
    case SQLCOM_ALTER_TABLE:
    case SQLCOM_CREATE_INDEX:
    case SQLCOM_DROP_INDEX:
    case SQLCOM_OPTIMIZE: return Lock::NONE;
    case SQLCOM_INSERT:
    case SQLCOM_REPLACE:
    case SQLCOM_END:  // an event of row-based replication
      if (settings::autoinc_lock_mode() == 1) return Lock::IF_LOCKED;
      break;
    default: break;
  }
  return settings::autoinc_lock_mode() == 2 ? Lock::NONE : Lock::ALWAYS;
}

// Locks the counter for a row that names its number itself and raises the counter to `to`.
int AutoIncrement::lock_counter_for(uint64_t to) {
  const Lock lock = this->lock();
  uint64_t present = 0;
  if (lock == Lock::NONE) return 0;
  int rc = next(&present);
  if (rc != MILLPOND_RC_OK || to <= present) return open_.error_of(rc);
  return open_.error_of(
      millpond_counter_lock(open_.session()->txn(), open_.table().rows(), lock_kind(lock == Lock::ALWAYS)));
}

// Returns what a row that names 0 or a negative number raises the counter to. That is no number
// that InnoDB counts from, so it counts from 0; and it rounds 0 up by the offset twice. So the
// counter of a table that is new becomes 3, and the rows of both engines have the same numbers. An
// open instance that has handed out no number yet counts in steps of one, from 1.
uint64_t AutoIncrement::counter_after_none() const {
  if (increment_ == 0) return 1;
  const uint64_t offset = offset_ > increment_ ? 0 : offset_;
  return (offset == increment_ ? 2 * offset : offset) + increment_;
}

// Sets what the row that is about to be inserted raises the counter to.
void AutoIncrement::count_row(Field *field) {
  raised_ = raised_if_duplicate_ = counter_after(field);
  if (raised_) return;
  raised_if_duplicate_ = counter_after_none();
  if (!took_numbers_) raised_ = raised_if_duplicate_;
}

int AutoIncrement::number_row() {
  handler *file = open_.file();
  error_ = 0;
  if (int error = file->update_auto_increment()) return error_ ? error_ : error;
  count_row(open_.form()->next_number_field);
  if (raised_ && file->insert_id_for_cur_row == 0) {
    if (int error = lock_counter_for(raised_)) return error;
  }
  // A row that names its number counts too, whatever the number.
  if (rows_left_ > 0) rows_left_--;
  return 0;
}

// An update may give the counter's column a value that has not been handed out.
void AutoIncrement::count_update(const uchar *record) {
  const TABLE *form = open_.form();
  Field *counted = form->found_next_number_field;
  if (counted && record == form->record[0] && bitmap_is_set(form->write_set, counted->field_index)) {
    raised_ = counter_after(counted);
  }
}

// A row that is not inserted leaves the counter as it was. REPLACE and INSERT ... SELECT go on with
// their next rows, whose numbers are to be greater than those that the statement has named.
int AutoIncrement::count_duplicate(bool replaces) {
  switch (thd_sql_command(open_.thd())) {
    case SQLCOM_REPLACE:
    case SQLCOM_REPLACE_SELECT:
    case SQLCOM_INSERT_SELECT: break;
    case SQLCOM_LOAD:
      if (replaces) break;
      return 0;
    default: return 0;
  }
  uint64_t present = 0;
  const uint64_t to = raised_if_duplicate_;
  int rc = to ? next(&present) : MILLPOND_RC_OK;
  if (rc == MILLPOND_RC_OK && to > present) rc = raise(to);
  return open_.error_of(rc);
}

// Takes values of the table's counter as millpond_autoinc_lock_mode says.
int AutoIncrement::take(millpond_counter *counter) {
  const Lock lock = this->lock();
  millpond_table *rows = open_.table().rows();
  if (lock == Lock::NONE) return millpond_counter_take(rows, counter);
  millpond_txn *txn = open_.session()->txn();
  if (settings::autoinc_lock_mode() != 0) {
    return millpond_counter_take_locked(txn, rows, lock_kind(lock == Lock::ALWAYS), counter);
  }
  // No other statement takes numbers until this one ends. So the values stay in the counter, and
  // each row that is stored raises it: a row that fails uses none.
  int rc = millpond_counter_lock(txn, rows, MILLPOND_COUNTER_LOCK_KIND_ALWAYS);
  uint64_t present = 0;
  if (rc == MILLPOND_RC_OK) rc = next(&present);
  if (rc == MILLPOND_RC_OK) choose_numbers(present, counter);
  return rc;
}

void AutoIncrement::reserve(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                            ulonglong *reserved) {
  const ulonglong max = open_.form()->next_number_field->get_max_int_value();
  // The server goes on after a negative number that ON DUPLICATE KEY UPDATE has given to a row, as
  // if it had no sign. It refuses that value itself.
  if (*first > max) {
    *reserved = 0;
    took_numbers_ = false;
    return;
  }
  millpond_counter counter{};
  counter.offset = offset;
  counter.increment = increment;
  // The server knows at the first row how many rows an INSERT has, and guesses later. So as many
  // values are taken as rows are left.
  if (rows_left_ == 0) rows_left_ = wanted ? wanted : 1;
  counter.count = rows_left_;
  counter.max = max;
  const int rc = take(&counter);
  error_ = open_.error_of(rc);
  if (rc != MILLPOND_RC_OK) {
    *first = ULONGLONG_MAX;
    *reserved = 0;
    return;
  }
  if (counter.granted == 0) {
    took_numbers_ = false;
    // The server refuses a value that the column cannot hold, and fails where there is none.
    *first = counter.max == ULONGLONG_MAX ? ULONGLONG_MAX : counter.max + 1;
    *reserved = counter.max == ULONGLONG_MAX ? 0 : 1;
    return;
  }
  *first = counter.first;
  *reserved = counter.granted;
  increment_ = increment;
  offset_ = offset;
  took_numbers_ = settings::autoinc_lock_mode() != 0;
}

}  // namespace millpond
