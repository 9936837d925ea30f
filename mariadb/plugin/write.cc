// Changes of rows: one call of the engine for a row with all its index entries.

#include "handler.h"
#include "errors.h"
#include "names.h"

#include <algorithm>

namespace millpond {

void Handler::begin_row() {
  bytes_.clear();
  entry_count_ = 0;
  numbers_.begin_row();
}

// Appends the primary key of a record, or the hidden key of the present row.
Handler::Piece Handler::append_own_key(const uchar *record) {
  size_t at = bytes_.size();
  if (open_.table().has_primary()) {
    open_.table().append_primary(record, bytes_, scratch_);
  } else {
    bytes_.append(open_.hidden_key().bytes(), HIDDEN_KEY_BYTES);
  }
  return Piece{at, bytes_.size() - at};
}

Handler::Piece Handler::append_row(const uchar *record) {
  size_t at = bytes_.size();
  open_.table().row().pack(record, bytes_);
  return Piece{at, bytes_.size() - at};
}

// Appends the key of an entry of a secondary index.
Handler::Piece Handler::append_entry_key(uint i, const uchar *record, Piece primary) {
  const Index &index = open_.table().index(i);
  size_t at = bytes_.size();
  bool null = index.codec.append_record(record, bytes_, scratch_);
  if (!index.unique || null) {
    bytes_.room(primary.bytes);
    bytes_.append(bytes_.data() + primary.at, primary.bytes);
  }
  return Piece{at, bytes_.size() - at};
}

Handler::Piece Handler::append_entry_value(uint i, Piece primary) {
  size_t at = bytes_.size();
  bytes_.room(primary.bytes);
  open_.table().append_entry_value(i, bytes_.data() + primary.at, primary.bytes, bytes_);
  return Piece{at, bytes_.size() - at};
}

bool Handler::same(Piece a, Piece b) const {
  return a.bytes == b.bytes && memcmp(bytes_.data() + a.at, bytes_.data() + b.at, a.bytes) == 0;
}

void Handler::add(uint index, uint op, Piece key, Piece value) {
  entries_[entry_count_++] = Entry{index, op, key, value};
}

void Handler::add_entry(uint i, const uchar *record, Piece primary) {
  Piece key = append_entry_key(i, record, primary);
  // Only an index of unique columns can have an entry with this key already.
  uint op = open_.table().index(i).unique ? MILLPOND_ROW_OP_INSERT : MILLPOND_ROW_OP_PUT;
  add(i, op, key, append_entry_value(i, primary));
}

void Handler::update_entry(uint i, const uchar *before, const uchar *after, Piece old_primary,
                           Piece new_primary) {
  const bool moved = old_primary.at != new_primary.at;
  if (!moved && open_.table().index(i).codec.same_columns(before, after)) return;
  Piece old_key = append_entry_key(i, before, old_primary);
  Piece new_key = append_entry_key(i, after, new_primary);
  Piece value = append_entry_value(i, new_primary);
  if (same(old_key, new_key)) {
    // The entry of a unique index stays, but names the row's new primary key.
    if (moved && open_.table().index(i).unique) add(i, MILLPOND_ROW_OP_PUT, new_key, value);
    return;
  }
  add(i, MILLPOND_ROW_OP_DELETE, old_key, Piece{0, 0});
  add(i, open_.table().index(i).unique ? MILLPOND_ROW_OP_INSERT : MILLPOND_ROW_OP_PUT, new_key, value);
}

// Fails if a key is longer than a page allows. The error names its index.
int Handler::check_key_lengths() {
  for (uint i = 0; i < entry_count_; i++) {
    const Entry &entry = entries_[i];
    if (entry.key.bytes <= MAX_KEY_BYTES) continue;
    const uint index = entry.index == MAX_KEY ? open_.table().primary() : entry.index;
    char text[MYSQL_ERRMSG_SIZE];
    my_snprintf(text, sizeof text, "the key of index '%s' is %zu bytes long, %u is the most",
                table->key_info[index].name.str, entry.key.bytes, MAX_KEY_BYTES);
    return open_.own_error(MILLPOND_RC_KEY_TOO_LONG, text);
  }
  return 0;
}

// Makes the collected changes: all or none.
int Handler::change_row() {
  if (int error = check_key_lengths()) return error;
  if (!bulk_) return change_now();
  for (uint i = 0; i < entry_count_; i++) {
    const int result = add_in_bulk(entries_[i]);
    if (result == MILLPOND_RC_MISUSE) {
      // The rows come in another order from here on, and are inserted one by one.
      if (int error = end_bulk_insert()) return error;
      return change_now();
    }
    if (result != MILLPOND_RC_OK) {
      bulk_.reset();
      open_.session()->note_duplicate(open_.table().primary());
      return bulk_error_of(result);
    }
  }
  bulk_counter_ = std::max(bulk_counter_, numbers_.raised());
  count_change();
  return 0;
}

int Handler::add_in_bulk(const Entry &entry) {
  const RedoCount redo(open_.counts());
  return bulk_->add(entry.index, bytes_of(bytes_.data() + entry.key.at, entry.key.bytes),
                    bytes_of(bytes_.data() + entry.value.at, entry.value.bytes));
}

int Handler::bulk_error_of(int result) { return result < 0 ? -result : open_.error_of(result); }

// ALTER TABLE copies rows into a table that nobody else uses. If they are many, they are loaded. The
// flag says that no row may be there twice; with IGNORE the second one would be left out.
void Handler::start_bulk_insert(ha_rows rows, uint flags) {
  constexpr ha_rows MANY = 1000;
  if (!(flags & HA_CREATE_UNIQUE_INDEX_BY_SORT) || rows < MANY) return;
  // The server looks for duplicates itself, in the table that is being filled.
  if (table->s->long_unique_table || table->s->period.name) return;
  // A transaction that goes on must see the rows, whatever its snapshot.
  if (is_temporary(open_.table().name())) return;
  if (!BulkInsert::is_empty(open_.table())) return;
  bulk_counter_ = 0;
  bulk_.reset(new (std::nothrow) BulkInsert(open_.table(), table));
}

int Handler::end_bulk_insert() {
  if (!bulk_) return 0;
  std::unique_ptr<BulkInsert> bulk = std::move(bulk_);
  const RedoCount redo(open_.counts());
  open_.cursors().forget();
  // The new trees have counters of their own.
  uint64_t next = 0;
  int error = open_.error_of(numbers_.next(&next));
  if (!error) error = bulk_error_of(bulk->finish(ha_thd(), &duplicate_));
  if (error == HA_ERR_FOUND_DUPP_KEY) {
    open_.session()->note_duplicate(duplicate_.index);
    int shown = open_.put_row(bytes_of(duplicate_.primary), bytes_of(duplicate_.value), table->record[0]);
    if (shown) error = shown;
  }
  if (!error) error = open_.table().reopen_trees(table);
  if (next < bulk_counter_) next = bulk_counter_;
  if (!error && next > 1) error = open_.error_of(numbers_.raise(next));
  my_errno = error;  // What the server prints.
  return error;
}

// Counts the row that was written. One that moves is deleted and inserted.
void Handler::count_change() {
  const bool moves = entry_count_ > 1 && entries_[1].index == MAX_KEY;
  open_.count_change(moves ? uint{MILLPOND_ROW_OP_PUT} : entries_[0].op);
}

int Handler::change_now() {
  for (uint i = 0; i < entry_count_; i++) {
    const Entry &entry = entries_[i];
    millpond_row_change &change = changes_[i];
    change.table = entry.index == MAX_KEY ? open_.table().rows() : open_.table().tree(entry.index);
    change.op = entry.op;
    change.key = bytes_of(bytes_.data() + entry.key.at, entry.key.bytes);
    change.value = bytes_of(bytes_.data() + entry.value.at, entry.value.bytes);
  }
  millpond_row_changes row{};
  row.changes = changes_;
  row.count = entry_count_;
  row.counter = numbers_.raised();
  row.lock_existing = replaces_ ? MILLPOND_LOCK_EXCLUSIVE : MILLPOND_LOCK_SHARED;
  const RedoCount redo(open_.counts());
  int rc = millpond_change_row(open_.txn(), &row, &conflict_);
  if (rc == MILLPOND_RC_OK) {
    count_change();
    const bool finds_slowly = !open_.table().has_primary() && entries_[0].op != MILLPOND_ROW_OP_INSERT;
    open_.note_change({table->file->row_logging, !is_temporary(open_.table().name()), finds_slowly, bytes_.size()});
    return 0;
  }
  if (rc == MILLPOND_RC_KEY_EXISTS) {
    uint index = entries_[conflict_.index].index;
    open_.session()->note_duplicate(index == MAX_KEY ? open_.table().primary() : index);
    if (int error = numbers_.count_duplicate(replaces_)) return error;
    return HA_ERR_FOUND_DUPP_KEY;
  }
  return open_.error_of(rc);
}

int Handler::write_row(const uchar *record) {
  if (open_.is_sequence()) {
    if (int error = open_.begin_apart()) return error;
  }
  begin_row();
  if (table->next_number_field && record == table->record[0]) {
    if (int error = numbers_.number_row()) return error;
  }
  if (!open_.table().has_primary()) {
    if (int rc = open_.hidden_key().draw(open_.table())) return open_.error_of(rc);
  }
  Piece primary = append_own_key(record);
  add(MAX_KEY, MILLPOND_ROW_OP_INSERT, primary, append_row(record));
  for (uint i = 0; i < open_.table().indexes(); i++) {
    if (i != open_.table().primary()) add_entry(i, record, primary);
  }
  int error = change_row();
  return open_.is_sequence() ? open_.commit_apart(error) : error;
}

// Computes the virtual columns of indexes that the server has not computed: those that a statement need
// not read. Where a replica applies a row of which the binary log has few columns, these are the others.
void Handler::compute_virtual(const uchar *record) {
  if (!open_.table().has_virtual()) return;
  uchar *own = table->record[0];
  if (record != own) table->move_fields(table->field, record, own);
  (void)table->update_virtual_fields(this, VCOL_UPDATE_INDEXED);
  if (record != own) table->move_fields(table->field, own, record);
}

int Handler::update_row(const uchar *before, const uchar *after) {
  if (int error = end_bulk_insert()) return error;
  compute_virtual(before);
  compute_virtual(after);
  begin_row();
  Piece old_primary = append_own_key(before);
  Piece new_primary = append_own_key(after);
  if (same(old_primary, new_primary)) {
    // The server compares rows itself only if the statement reads all columns that it writes.
    if (open_.table().row().same(before, after)) return HA_ERR_RECORD_IS_THE_SAME;
    new_primary = old_primary;
    add(MAX_KEY, MILLPOND_ROW_OP_PUT, old_primary, append_row(after));
  } else {
    add(MAX_KEY, MILLPOND_ROW_OP_DELETE, old_primary, Piece{0, 0});
    add(MAX_KEY, MILLPOND_ROW_OP_INSERT, new_primary, append_row(after));
  }
  for (uint i = 0; i < open_.table().indexes(); i++) {
    if (i != open_.table().primary()) update_entry(i, before, after, old_primary, new_primary);
  }
  numbers_.count_update(after);
  int error = change_row();
  return open_.is_sequence() ? open_.commit_apart(error) : error;
}

int Handler::delete_row(const uchar *record) {
  if (int error = end_bulk_insert()) return error;
  compute_virtual(record);
  begin_row();
  Piece primary = append_own_key(record);
  add(MAX_KEY, MILLPOND_ROW_OP_DELETE, primary, Piece{0, 0});
  for (uint i = 0; i < open_.table().indexes(); i++) {
    if (i == open_.table().primary()) continue;
    add(i, MILLPOND_ROW_OP_DELETE, append_entry_key(i, record, primary), Piece{0, 0});
  }
  return change_row();
}

}  // namespace millpond
