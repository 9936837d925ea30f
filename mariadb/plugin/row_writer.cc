// Changes of the rows of an open table.

#include "row_writer.h"
#include "errors.h"
#include "names.h"

#include <algorithm>
#include <new>

namespace millpond {

int RowWriter::open() {
  const Table &table = open_.table();
  changes_.reset(new (std::nothrow) millpond_row_change[RowEntries::most(table)]());
  return entries_.open(&table) && changes_ ? 0 : HA_ERR_OUT_OF_MEM;
}

int RowWriter::insert(const uchar *record) {
  if (open_.is_sequence()) {
    if (int error = open_.begin_apart()) return error;
  }
  numbers_.begin_row();
  const TABLE *form = open_.form();
  if (form->next_number_field && record == form->record[0]) {
    if (int error = numbers_.number_row()) return error;
  }
  if (!open_.table().has_primary()) {
    if (int rc = open_.hidden_key().draw(open_.table())) return open_.error_of(rc);
  }
  entries_.insert(record, open_.hidden_key());
  int error = change_row();
  return open_.is_sequence() ? open_.commit_apart(error) : error;
}

int RowWriter::update(const uchar *before, const uchar *after) {
  if (int error = end_bulk()) return error;
  compute_virtual(before);
  compute_virtual(after);
  numbers_.begin_row();
  if (!entries_.update(before, after, open_.hidden_key())) return HA_ERR_RECORD_IS_THE_SAME;
  numbers_.count_update(after);
  int error = change_row();
  return open_.is_sequence() ? open_.commit_apart(error) : error;
}

int RowWriter::remove(const uchar *record) {
  if (int error = end_bulk()) return error;
  compute_virtual(record);
  numbers_.begin_row();
  entries_.remove(record, open_.hidden_key());
  return change_row();
}

// Computes the virtual columns of indexes that the server has not computed: those that a statement
// need not read. Where a replica applies a row of which the binary log has few columns, these are
// the others.
void RowWriter::compute_virtual(const uchar *record) {
  if (!open_.table().has_virtual()) return;
  TABLE *form = open_.form();
  uchar *own = form->record[0];
  if (record != own) form->move_fields(form->field, record, own);
  (void)form->update_virtual_fields(open_.file(), VCOL_UPDATE_INDEXED);
  if (record != own) form->move_fields(form->field, own, record);
}

// Fails if a key is longer than a page allows. The error names its index.
int RowWriter::check_key_lengths() {
  for (uint i = 0; i < entries_.count(); i++) {
    const size_t bytes = entries_.key(i).len;
    if (bytes <= MAX_KEY_BYTES) continue;
    const uint index = entries_.index(i) == MAX_KEY ? open_.table().primary() : entries_.index(i);
    char text[MYSQL_ERRMSG_SIZE];
    my_snprintf(text, sizeof text, "the key of index '%s' is %zu bytes long, %u is the most",
                open_.form()->key_info[index].name.str, bytes, MAX_KEY_BYTES);
    return open_.own_error(MILLPOND_RC_KEY_TOO_LONG, text);
  }
  return 0;
}

// Makes the collected changes: all or none.
int RowWriter::change_row() {
  if (int error = check_key_lengths()) return error;
  if (!bulk_) return change_now();
  const int result = load_row();
  if (result == MILLPOND_RC_MISUSE) {
    // The rows come in another order from here on, and are inserted one by one.
    if (int error = end_bulk()) return error;
    return change_now();
  }
  if (result != MILLPOND_RC_OK) {
    bulk_.reset();
    open_.session()->note_duplicate(open_.table().primary());
    return bulk_error_of(result);
  }
  bulk_counter_ = std::max(bulk_counter_, numbers_.raised());
  open_.count_change(entries_.row_op());
  return 0;
}

int RowWriter::change_now() {
  const Table &table = open_.table();
  for (uint i = 0; i < entries_.count(); i++) {
    const uint index = entries_.index(i);
    millpond_row_change &change = changes_[i];
    change.table = index == MAX_KEY ? table.rows() : table.tree(index);
    change.op = entries_.op(i);
    change.key = entries_.key(i);
    change.value = entries_.value(i);
  }
  millpond_row_changes row{};
  row.changes = changes_.get();
  row.count = entries_.count();
  row.counter = numbers_.raised();
  row.lock_existing = replaces_ ? MILLPOND_LOCK_EXCLUSIVE : MILLPOND_LOCK_SHARED;
  const RedoCount redo(open_.counts());
  int rc = millpond_change_row(open_.txn(), &row, &conflict_);
  if (rc == MILLPOND_RC_OK) {
    open_.count_change(entries_.row_op());
    const bool finds_slowly = !table.has_primary() && entries_.op(0) != MILLPOND_ROW_OP_INSERT;
    open_.note_change(
        {open_.form()->file->row_logging, !is_temporary(table.name()), finds_slowly, entries_.bytes()});
    return 0;
  }
  if (rc == MILLPOND_RC_KEY_EXISTS) {
    const uint index = entries_.index(static_cast<uint>(conflict_.index));
    open_.session()->note_duplicate(index == MAX_KEY ? table.primary() : index);
    if (int error = numbers_.count_duplicate(replaces_)) return error;
    return HA_ERR_FOUND_DUPP_KEY;
  }
  return open_.error_of(rc);
}

// Adds the row to the load. Returns what BulkInsert::add() does.
int RowWriter::load_row() {
  const RedoCount redo(open_.counts());
  for (uint i = 0; i < entries_.count(); i++) {
    const int result = bulk_->add(entries_.index(i), entries_.key(i), entries_.value(i));
    if (result != MILLPOND_RC_OK) return result;
  }
  return MILLPOND_RC_OK;
}

int RowWriter::bulk_error_of(int result) { return result < 0 ? -result : open_.error_of(result); }

// ALTER TABLE copies rows into a table that nobody else uses. If they are many, they are loaded.
// The flag says that no row may be there twice; with IGNORE the second one would be left out.
void RowWriter::begin_bulk(ha_rows rows, uint flags) {
  constexpr ha_rows MANY = 1000;
  if (!(flags & HA_CREATE_UNIQUE_INDEX_BY_SORT) || rows < MANY) return;
  const TABLE *form = open_.form();
  // The server looks for duplicates itself, in the table that is being filled.
  if (form->s->long_unique_table || form->s->period.name) return;
  const Table &table = open_.table();
  // A transaction that goes on must see the rows, whatever its snapshot.
  if (is_temporary(table.name())) return;
  if (!BulkInsert::is_empty(table)) return;
  bulk_counter_ = 0;
  bulk_.reset(new (std::nothrow) BulkInsert(table, form));
}

int RowWriter::end_bulk() {
  if (!bulk_) return 0;
  std::unique_ptr<BulkInsert> bulk = std::move(bulk_);
  const RedoCount redo(open_.counts());
  open_.cursors().forget();
  // The new trees have counters of their own.
  uint64_t next = 0;
  int error = open_.error_of(numbers_.next(&next));
  if (!error) error = bulk_error_of(bulk->finish(open_.thd(), &duplicate_));
  if (error == HA_ERR_FOUND_DUPP_KEY) {
    open_.session()->note_duplicate(duplicate_.index);
    const millpond_bytes primary = bytes_of(duplicate_.primary), value = bytes_of(duplicate_.value);
    if (int shown = open_.put_row(primary, value, open_.form()->record[0])) error = shown;
  }
  if (!error) error = open_.table().reopen_trees(open_.form());
  next = std::max(next, bulk_counter_);
  if (!error && next > 1) error = open_.error_of(numbers_.raise(next));
  my_errno = error;  // What the server prints.
  return error;
}

}  // namespace millpond
