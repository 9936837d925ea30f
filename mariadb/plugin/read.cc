// Reads: index scans, table scans, and rows by position.

#include "handler.h"
#include "errors.h"

#include <algorithm>

namespace millpond {

namespace {

// At most so many rows are copied at once when a range scan begins.
constexpr ulonglong AHEAD_MAX = 64;

}  // namespace

int Handler::begin_read(uint index) {
  index_ = index;
  positioned_ = by_key_ = by_prefix_ = false;
  newly_locked_ = entry_newly_locked_ = false;
  if (peek_ == Peek::SHOWN) peek_ = Peek::MAY;
  edge_ = Edge::NONE;
  open_.cursors().leave();
  // LOCK TABLES ... WRITE has said that rows are locked, whatever reads them. EXCHANGE PARTITION would
  // wait for its own transaction then.
  if (lock_ != MILLPOND_LOCK_NONE && reads_without_locks(thd_sql_command(ha_thd()))) lock_ = MILLPOND_LOCK_NONE;
  return open_.is_sequence() ? open_.begin_apart() : 0;
}

int Handler::index_init(uint index, bool) {
  active_index = index;
  return begin_read(index);
}

int Handler::index_end() {
  active_index = MAX_KEY;
  index_ = MAX_KEY;
  positioned_ = by_key_ = false;
  open_.cursors().reset();
  in_range_check_pushed_down = false;
  many_ranges_.dsmrr_close();
  open_.end_apart();
  return 0;
}

int Handler::rnd_init(bool) { return begin_read(MAX_KEY); }

int Handler::rnd_end() { return index_end(); }

// Releases the lock of a key that no row has. Levels above READ COMMITTED keep it: no other
// transaction can insert the row.
void Handler::release_missing(millpond_table *tree, millpond_bytes key, bool newly) {
  if (newly && !open_.keeps_locks()) millpond_unlock_row(open_.txn(), tree, key);
}

// Releases the index entry that was read last, if the statement has locked it just now.
void Handler::unlock_entry() {
  if (!entry_newly_locked_) return;
  entry_newly_locked_ = false;
  millpond_unlock_row(open_.txn(), open_.table().tree(index_), bytes_of(locked_entry_));
}

// Reads the row of a primary key.
int Handler::show_by_primary(millpond_bytes primary, uchar *record) {
  uint32_t newly = 0;
  newly_locked_ = false;
  int rc = millpond_get(open_.txn(), open_.table().rows(), primary, lock_, wait_, &value_, &newly);
  if (rc == MILLPOND_RC_NOT_FOUND) release_missing(open_.table().rows(), primary, newly);
  if (rc != MILLPOND_RC_OK) return rc == MILLPOND_RC_SKIPPED ? HA_ERR_KEY_NOT_FOUND : open_.error_of(rc);
  newly_locked_ = newly != 0;
  if (newly_locked_) locked_key_.assign(primary.ptr, primary.len);
  return open_.put_row(primary, bytes_of(value_.ptr, value_.len), record);
}

// Puts the columns of an index entry into the record.
int Handler::show_from_index(const millpond_row &row, uchar *record) {
  open_.count_read();
  const KeyCodec &codec = open_.table().index(index_).codec;
  millpond_bytes primary;
  if (!open_.table().primary_of(index_, row.key, row.value, &primary)) return HA_ERR_WRONG_IN_RECORD;
  if (codec.restore(row.key.ptr, row.key.len, record) == 0) return HA_ERR_WRONG_IN_RECORD;
  return open_.put_primary(primary, record);
}

// Puts the row on which the cursor stands into the record.
int Handler::show(const millpond_row &row, uchar *record) {
  if (index_ == MAX_KEY || index_ == open_.table().primary()) {
    newly_locked_ = row.newly_locked != 0;
    if (peek_ != Peek::NEVER) peek_ = row.peeked ? Peek::SHOWN : Peek::MAY;
    if (newly_locked_ || row.peeked) locked_key_.assign(row.key.ptr, row.key.len);
    return open_.put_row(row.key, row.value, record);
  }
  entry_newly_locked_ = row.newly_locked != 0;
  if (entry_newly_locked_) locked_entry_.assign(row.key.ptr, row.key.len);
  millpond_bytes primary;
  if (!open_.table().primary_of(index_, row.key, row.value, &primary)) return HA_ERR_WRONG_IN_RECORD;
  if (row.view != MILLPOND_VIEW_ANY) {
    int rc = millpond_shows(open_.txn(), open_.table().rows(), primary, row.view);
    if (rc != MILLPOND_RC_OK) return rc == MILLPOND_RC_NOT_FOUND ? HA_ERR_KEY_NOT_FOUND : open_.error_of(rc);
  }
  if (int error = check_pushed(row)) return error;
  if (from_index_) return show_from_index(row, record);
  int error = show_by_primary(primary, record);
  if (error == 0) show_virtual(row.key, record);
  if (error == HA_ERR_KEY_NOT_FOUND && !open_.keeps_locks()) unlock_entry();
  return error;
}

// Puts the virtual columns of an index entry into the record. If the server reads an index alone, it
// computes no virtual columns, although the row is read.
void Handler::show_virtual(millpond_bytes key, uchar *record) {
  const Index &index = open_.table().index(index_);
  if (keyread_ && index.has_virtual) index.codec.restore(key.ptr, key.len, record);
}

// Locks the row that was shown as it was last committed, and reads it again. There may be none any
// more.
int Handler::lock_peeked(uchar *record) {
  peek_ = Peek::MAY;
  at_.assign(locked_key_.data(), locked_key_.size());
  return show_by_primary(bytes_of(at_), record);
}

// Tells whether the read needs only the index. The server decides by the columns, and it believes
// that an index has all columns of the primary key; those that are text have to be read. A statement
// that may change the row locks it too; one that only keeps others from changing what it has read
// locks the entry alone.
bool Handler::reads_from_index() const {
  return keyread_ && lock_ != MILLPOND_LOCK_EXCLUSIVE && index_ != MAX_KEY && index_ != open_.table().primary() &&
         open_.table().covers(index_, table->read_set);
}

// Goes to a row and reads it. `none` is the error where there is none.
int Handler::seek(uint where, millpond_bytes key, millpond_bytes prefix, uchar *record, int none) {
  const bool backward = where >= MILLPOND_SEEK_AT_OR_BEFORE && where != MILLPOND_SEEK_FIRST;
  millpond_seek_to to{};
  to.seek = where;
  to.key = key;
  to.prefix = prefix;
  to.upper = prefix.ptr || backward ? no_bytes() : range_end();
  to.lock = lock_;
  const bool rows = index_ == MAX_KEY || index_ == open_.table().primary();
  const bool peeks = peek_ != Peek::NEVER && rows && lock_ == MILLPOND_LOCK_EXCLUSIVE;
  to.wait = wait_;
  if (peeks && wait_ == MILLPOND_WAIT_WAIT) to.wait = MILLPOND_WAIT_PEEK;
  if (to.upper.ptr && index_ == expected_index_) {
    // One more shows that there are no more. A statement may want fewer rows than the range has.
    to.rows = static_cast<uint32_t>(expected_rows_ < AHEAD_MAX ? expected_rows_ + 1 : AHEAD_MAX);
  }
  positioned_ = by_key_ = false;
  by_prefix_ = prefix.ptr != nullptr;
  from_index_ = reads_from_index();
  edge_ = backward ? Edge::FRONT : Edge::BACK;
  Cursors &cursors = open_.cursors();
  if (cursors.present() == nullptr) {
    if (int rc = cursors.choose(index_)) return open_.error_of(rc);
  }
  millpond_row row;
  int rc = millpond_cursor_seek(cursors.present(), open_.txn(), &to, &row);
  if (rc == MILLPOND_RC_NOT_FOUND) return none;
  if (rc != MILLPOND_RC_OK) return open_.error_of(rc);
  positioned_ = true;
  edge_ = Edge::NONE;
  if (by_prefix_) entry_.assign(row.key.ptr, row.key.len);
  int error = show(row, record);
  if (error != HA_ERR_KEY_NOT_FOUND) return error;
  // Another transaction has the entry's row, and it is skipped; or the row is gone.
  error = step(backward, record);
  return error == HA_ERR_END_OF_FILE ? none : error;
}

// Goes one row on, or back, and reads it.
int Handler::step(bool backward, uchar *record) {
  if (peek_ == Peek::SHOWN) {
    int error = lock_peeked(record);
    if (error != HA_ERR_KEY_NOT_FOUND) return error;
  }
  millpond_txn *txn = open_.txn();
  millpond_cursor *cursor = open_.cursors().present();
  for (;;) {
    millpond_row row;
    int rc = backward ? millpond_cursor_prev(cursor, txn, &row) : millpond_cursor_next(cursor, txn, &row);
    if (rc == MILLPOND_RC_NOT_FOUND) {
      edge_ = backward ? Edge::FRONT : Edge::BACK;
      return HA_ERR_END_OF_FILE;
    }
    if (rc != MILLPOND_RC_OK) return open_.error_of(rc);
    edge_ = Edge::NONE;
    if (by_prefix_) entry_.assign(row.key.ptr, row.key.len);
    int error = show(row, record);
    if (error != HA_ERR_KEY_NOT_FOUND) return error;
  }
}

// Returns the key at which a range scan of the server ends, so that no further row is read or
// locked. Only scans forward have such an end.
millpond_bytes Handler::range_end() {
  if (index_ == MAX_KEY || end_range == nullptr) return no_bytes();
  const KeyCodec &codec = open_.table().index(index_).codec;
  upper_.clear();
  codec.append_tuple(end_range->key, codec.parts_of(end_range->keypart_map), upper_, scratch_);
  if (end_range->flag != HA_READ_BEFORE_KEY && !advance_past_prefix(upper_)) return no_bytes();
  return bytes_of(upper_);
}

// Tells whether a read by a whole key of a unique index finds one entry at most. A transaction that has
// changed rows beyond its snapshot may see two: of a row of its own, and of one of the snapshot.
bool Handler::has_one_entry() const {
  if (lock_ != MILLPOND_LOCK_NONE || index_ == open_.table().primary()) return true;
  return !millpond_has_overtaken(open_.txn(), open_.table().tree(index_), open_.table().rows());
}

// Reads the one row of a whole key of the primary key or of a unique index; `search_` has the key.
int Handler::read_exact(uchar *record) {
  positioned_ = by_prefix_ = false;
  by_key_ = true;
  from_index_ = reads_from_index();
  edge_ = Edge::NONE;
  if (index_ == open_.table().primary()) return show_by_primary(bytes_of(search_), record);
  uint32_t newly = 0;
  millpond_txn *txn = open_.txn();
  int rc = millpond_get(txn, open_.table().tree(index_), bytes_of(search_), lock_, wait_, &value_, &newly);
  if (rc == MILLPOND_RC_NOT_FOUND) release_missing(open_.table().tree(index_), bytes_of(search_), newly);
  if (rc != MILLPOND_RC_OK) return rc == MILLPOND_RC_SKIPPED ? HA_ERR_KEY_NOT_FOUND : open_.error_of(rc);
  entry_newly_locked_ = newly != 0;
  if (newly) locked_entry_.assign(search_.data(), search_.size());
  millpond_row row{bytes_of(search_), bytes_of(value_.ptr, value_.len), newly, 0, MILLPOND_VIEW_ANY};
  if (int error = check_pushed(row)) return error;
  if (from_index_) return show_from_index(row, record);
  at_.assign(value_.ptr, value_.len);
  int error = show_by_primary(bytes_of(at_), record);
  if (error == 0) show_virtual(bytes_of(search_), record);
  return error;
}

int Handler::index_read_map(uchar *record, const uchar *key, key_part_map map, ha_rkey_function find) {
  const Index &index = open_.table().index(index_);
  search_.clear();
  uint parts = index.codec.parts_of(map);
  bool null = index.codec.append_tuple(key, parts, search_, scratch_);
  millpond_bytes sought = bytes_of(search_);
  switch (find) {
    case HA_READ_KEY_EXACT:
    case HA_READ_PREFIX:
      if (index.unique && parts == index.codec.parts() && !null && has_one_entry()) return read_exact(record);
      return seek(MILLPOND_SEEK_AT_OR_AFTER, sought, sought, record, HA_ERR_KEY_NOT_FOUND);
    case HA_READ_KEY_OR_NEXT:
      return seek(MILLPOND_SEEK_AT_OR_AFTER, sought, no_bytes(), record, HA_ERR_KEY_NOT_FOUND);
    case HA_READ_AFTER_KEY:
      return seek(MILLPOND_SEEK_AFTER_PREFIX, sought, no_bytes(), record, HA_ERR_KEY_NOT_FOUND);
    case HA_READ_BEFORE_KEY:
      return seek(MILLPOND_SEEK_BEFORE, sought, no_bytes(), record, HA_ERR_KEY_NOT_FOUND);
    case HA_READ_KEY_OR_PREV:
    case HA_READ_PREFIX_LAST_OR_PREV:
      return seek(MILLPOND_SEEK_PREFIX_OR_BEFORE, sought, no_bytes(), record, HA_ERR_KEY_NOT_FOUND);
    case HA_READ_PREFIX_LAST:
      return seek(MILLPOND_SEEK_LAST, sought, sought, record, HA_ERR_KEY_NOT_FOUND);
    default: return HA_ERR_WRONG_COMMAND;
  }
}

// A read by a whole key leaves the cursor where it was, and a read of all rows with a key lets it
// see only those. A step to other rows begins anew beside the present one, or beside the key where
// no row has it.
int Handler::index_next(uchar *record) {
  const int none = HA_ERR_END_OF_FILE;
  if (by_key_ || (by_prefix_ && !positioned_)) {
    return seek(MILLPOND_SEEK_AFTER_PREFIX, bytes_of(search_), no_bytes(), record, none);
  }
  if (by_prefix_) return seek(MILLPOND_SEEK_AFTER, bytes_of(entry_), no_bytes(), record, none);
  if (edge_ == Edge::FRONT) return index_first(record);
  return positioned_ ? step(false, record) : none;
}

int Handler::index_prev(uchar *record) {
  const int none = HA_ERR_END_OF_FILE;
  const bool passed = edge_ == Edge::BACK;
  if (by_key_ || (by_prefix_ && !positioned_)) {
    uint where = by_key_ && passed ? MILLPOND_SEEK_PREFIX_OR_BEFORE : MILLPOND_SEEK_BEFORE;
    return seek(where, bytes_of(search_), no_bytes(), record, none);
  }
  if (by_prefix_) {
    uint where = passed ? MILLPOND_SEEK_AT_OR_BEFORE : MILLPOND_SEEK_BEFORE;
    return seek(where, bytes_of(entry_), no_bytes(), record, none);
  }
  if (passed) return index_last(record);
  return positioned_ ? step(true, record) : none;
}

int Handler::index_next_same(uchar *record, const uchar *, uint) {
  if (!by_key_) return step(false, record);
  edge_ = Edge::BACK;
  return HA_ERR_END_OF_FILE;
}

int Handler::index_first(uchar *record) {
  return seek(MILLPOND_SEEK_FIRST, no_bytes(), no_bytes(), record, HA_ERR_END_OF_FILE);
}

int Handler::index_last(uchar *record) {
  return seek(MILLPOND_SEEK_LAST, no_bytes(), no_bytes(), record, HA_ERR_END_OF_FILE);
}

int Handler::rnd_next(uchar *record) {
  if (positioned_) return step(false, record);
  return seek(MILLPOND_SEEK_FIRST, no_bytes(), no_bytes(), record, HA_ERR_END_OF_FILE);
}

// A position is the server's key tuple of the primary key, or the hidden key.
void Handler::position(const uchar *record) {
  if (!open_.table().has_primary()) {
    memcpy(ref, open_.hidden_key().bytes(), HIDDEN_KEY_BYTES);
    return;
  }
  KEY *key = &table->key_info[open_.table().primary()];
  key_copy(ref, record, key, key->key_length);
}

int Handler::rnd_pos(uchar *record, uchar *place) {
  if (!open_.table().has_primary()) return show_by_primary(bytes_of(place, HIDDEN_KEY_BYTES), record);
  const KeyCodec &codec = open_.table().index(open_.table().primary()).codec;
  at_.clear();
  codec.append_tuple(place, codec.parts(), at_, scratch_);
  return show_by_primary(bytes_of(at_), record);
}

// Sorts of positions call this for each comparison. Both keys stand in one buffer that is kept.
int Handler::cmp_ref(const uchar *a, const uchar *b) {
  if (!open_.table().has_primary()) return memcmp(a, b, HIDDEN_KEY_BYTES);
  const KeyCodec &codec = open_.table().index(open_.table().primary()).codec;
  at_.clear();
  codec.append_tuple(a, codec.parts(), at_, scratch_);
  const size_t left = at_.size();
  codec.append_tuple(b, codec.parts(), at_, scratch_);
  const size_t right = at_.size() - left;
  const int order = memcmp(at_.data(), at_.data() + left, std::min(left, right));
  if (order != 0) return order;
  return left < right ? -1 : left > right;
}

}  // namespace millpond
