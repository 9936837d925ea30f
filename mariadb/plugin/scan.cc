// A scan of an open table.

#include "scan.h"

namespace millpond {

namespace {

// At most so many rows are copied at once when a range scan begins.
constexpr ulonglong FETCH_SIZE_MAX = 64;

}  // namespace

int Scan::begin(uint index) {
  reader_.begin(index);
  positioned_ = false;
  match_ = Match::ANY;
  edge_ = Edge::NONE;
  locks_.begin_read();
  open_.cursors().leave();
  return open_.is_sequence() ? open_.begin_apart() : 0;
}

void Scan::end() {
  reader_.begin(MAX_KEY);
  positioned_ = false;
  match_ = Match::ANY;
  open_.cursors().reset();
  open_.end_apart();
}

// Goes to a row and reads it. `none` is the error where there is none.
int Scan::seek(uint where, millpond_bytes key, millpond_bytes prefix, uchar *record, int none) {
  const bool backward = where >= MILLPOND_SEEK_AT_OR_BEFORE && where != MILLPOND_SEEK_FIRST;
  millpond_seek_to to{};
  to.seek = where;
  to.key = key;
  to.prefix = prefix;
  to.upper = prefix.ptr || backward ? no_bytes() : range_end();
  to.lock = locks_.mode();
  to.wait = reader_.reads_rows() ? locks_.wait_of_scan() : locks_.wait();
  if (to.upper.ptr) to.rows = fetch_size();
  positioned_ = false;
  match_ = prefix.ptr ? Match::PREFIX : Match::ANY;
  edge_ = backward ? Edge::FRONT : Edge::BACK;
  reader_.choose_source();
  Cursors &cursors = open_.cursors();
  // A read by a whole key needs no cursor, so a seek is the first to choose it.
  if (cursors.present() == nullptr) {
    if (int rc = cursors.choose(reader_.index())) return open_.error_of(rc);
  }
  millpond_row row;
  int rc = millpond_cursor_seek(cursors.present(), open_.txn(), &to, &row);
  if (rc == MILLPOND_RC_NOT_FOUND) return none;
  if (rc != MILLPOND_RC_OK) return open_.error_of(rc);
  positioned_ = true;
  edge_ = Edge::NONE;
  if (match_ == Match::PREFIX) entry_.assign(row.key.ptr, row.key.len);
  int error = reader_.read_entry(row, record);
  if (error != HA_ERR_KEY_NOT_FOUND) return error;
  // Another transaction has the entry's row, and it is skipped; or the row is gone.
  error = step(backward, record);
  return error == HA_ERR_END_OF_FILE ? none : error;
}

// Goes one row on, or back, and reads it.
int Scan::step(bool backward, uchar *record) {
  if (locks_.has_peeked()) {
    int error = reader_.read_peeked(record);
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
    if (match_ == Match::PREFIX) entry_.assign(row.key.ptr, row.key.len);
    int error = reader_.read_entry(row, record);
    if (error != HA_ERR_KEY_NOT_FOUND) return error;
  }
}

// Returns the key at which a range scan of the server ends, so that no further row is read or
// locked. Only scans forward have such an end.
millpond_bytes Scan::range_end() {
  const uint index = reader_.index();
  const key_range *end = open_.file()->end_range;
  if (index == MAX_KEY || end == nullptr) return no_bytes();
  const KeyCodec &codec = open_.table().index(index).codec;
  upper_.clear();
  codec.append_tuple(end->key, codec.parts_of(end->keypart_map), upper_, scratch_);
  if (end->flag != HA_READ_BEFORE_KEY && !advance_past_prefix(upper_)) return no_bytes();
  return bytes_of(upper_);
}

// Returns how many rows a range will have, or 0 if nobody knows. One more than expected shows that
// there are no more. A statement may want fewer rows than the range has.
uint32_t Scan::fetch_size() const {
  if (reader_.index() != expected_index_) return 0;
  return static_cast<uint32_t>(expected_rows_ < FETCH_SIZE_MAX ? expected_rows_ + 1 : FETCH_SIZE_MAX);
}

// Tells whether a read by a whole key of a unique index finds one entry at most. A transaction that
// has changed rows beyond its snapshot may see two: of a row of its own, and of one of the
// snapshot.
bool Scan::has_one_entry() const {
  if (locks_.locks() || reader_.reads_rows()) return true;
  const Table &table = open_.table();
  return !millpond_has_overtaken(open_.txn(), table.tree(reader_.index()), table.rows());
}

// Reads the one row with the key `search_`.
int Scan::read_one(uchar *record) {
  positioned_ = false;
  match_ = Match::ONE_ROW;
  edge_ = Edge::NONE;
  reader_.choose_source();
  return reader_.read_key(bytes_of(search_), record);
}

int Scan::read(uchar *record, const uchar *key, key_part_map map, ha_rkey_function find) {
  const Index &index = open_.table().index(reader_.index());
  search_.clear();
  uint parts = index.codec.parts_of(map);
  bool null = index.codec.append_tuple(key, parts, search_, scratch_);
  millpond_bytes sought = bytes_of(search_);
  switch (find) {
    case HA_READ_KEY_EXACT:
    case HA_READ_PREFIX:
      if (index.unique && parts == index.codec.parts() && !null && has_one_entry()) return read_one(record);
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
int Scan::next(uchar *record) {
  const int none = HA_ERR_END_OF_FILE;
  if (match_ == Match::ANY) {
    if (edge_ == Edge::FRONT) return first(record);
    return positioned_ ? step(false, record) : none;
  }
  if (positioned_) return seek(MILLPOND_SEEK_AFTER, bytes_of(entry_), no_bytes(), record, none);
  return seek(MILLPOND_SEEK_AFTER_PREFIX, bytes_of(search_), no_bytes(), record, none);
}

int Scan::prev(uchar *record) {
  const int none = HA_ERR_END_OF_FILE;
  const bool passed = edge_ == Edge::BACK;
  if (match_ == Match::ANY) {
    if (passed) return last(record);
    return positioned_ ? step(true, record) : none;
  }
  if (positioned_) {
    const uint where = passed ? MILLPOND_SEEK_AT_OR_BEFORE : MILLPOND_SEEK_BEFORE;
    return seek(where, bytes_of(entry_), no_bytes(), record, none);
  }
  const bool at = passed && match_ == Match::ONE_ROW;
  const uint where = at ? MILLPOND_SEEK_PREFIX_OR_BEFORE : MILLPOND_SEEK_BEFORE;
  return seek(where, bytes_of(search_), no_bytes(), record, none);
}

int Scan::next_same(uchar *record) {
  if (match_ != Match::ONE_ROW) return step(false, record);
  edge_ = Edge::BACK;
  return HA_ERR_END_OF_FILE;
}

int Scan::first(uchar *record) {
  return seek(MILLPOND_SEEK_FIRST, no_bytes(), no_bytes(), record, HA_ERR_END_OF_FILE);
}

int Scan::last(uchar *record) {
  return seek(MILLPOND_SEEK_LAST, no_bytes(), no_bytes(), record, HA_ERR_END_OF_FILE);
}

int Scan::next_row(uchar *record) {
  if (positioned_) return step(false, record);
  return seek(MILLPOND_SEEK_FIRST, no_bytes(), no_bytes(), record, HA_ERR_END_OF_FILE);
}

}  // namespace millpond
