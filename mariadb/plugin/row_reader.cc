// Reads of single rows of an open table, and how they come into records of the server.

#include "row_reader.h"

#include <algorithm>
#include <utility>

namespace millpond {

// Tells whether the read needs only the index. The server decides by the columns, and it believes
// that an index has all columns of the primary key; those that are text have to be read. A
// statement that may change the row locks it too; one that only keeps others from changing what it
// has read locks the entry alone.
bool RowReader::can_read_from_index() const {
  return keyread_ && !locks_.is_exclusive() && !reads_rows() &&
         open_.table().covers(index_, open_.form()->read_set);
}

int RowReader::read_entry(const millpond_row &entry, uchar *record) {
  if (reads_rows()) {
    locks_.note_row(entry);
    return open_.put_row(entry.key, entry.value, record);
  }
  locks_.note_entry(index_, entry.key, entry.newly_locked != 0);
  const Table &table = open_.table();
  millpond_bytes primary;
  if (!table.primary_of(index_, entry.key, entry.value, &primary)) return HA_ERR_WRONG_IN_RECORD;
  if (entry.view != MILLPOND_VIEW_ANY) {
    int rc = millpond_shows(open_.txn(), table.rows(), primary, entry.view);
    if (rc != MILLPOND_RC_OK) return rc == MILLPOND_RC_NOT_FOUND ? HA_ERR_KEY_NOT_FOUND : open_.error_of(rc);
  }
  if (int error = check_pushed(entry)) return error;
  if (from_index_) return put_entry(entry, record);
  int error = read_primary(primary, record);
  if (error == 0) put_virtual(entry.key, record);
  if (error == HA_ERR_KEY_NOT_FOUND && !open_.keeps_locks()) locks_.unlock_entry();
  return error;
}

int RowReader::read_key(millpond_bytes key, uchar *record) {
  if (reads_rows()) return read_primary(key, record);
  millpond_table *tree = open_.table().tree(index_);
  uint32_t newly = 0;
  int rc = millpond_get(open_.txn(), tree, key, locks_.mode(), locks_.wait(), &value_, &newly);
  if (rc == MILLPOND_RC_NOT_FOUND) locks_.unlock_missing(tree, key, newly);
  if (rc != MILLPOND_RC_OK) return rc == MILLPOND_RC_SKIPPED ? HA_ERR_KEY_NOT_FOUND : open_.error_of(rc);
  locks_.note_entry(index_, key, newly != 0);
  millpond_row entry{key, bytes_of(value_.ptr, value_.len), newly, 0, MILLPOND_VIEW_ANY};
  if (int error = check_pushed(entry)) return error;
  if (from_index_) return put_entry(entry, record);
  primary_.assign(value_.ptr, value_.len);
  int error = read_primary(bytes_of(primary_), record);
  if (error == 0) put_virtual(key, record);
  return error;
}

int RowReader::read_position(const uchar *position, uchar *record) {
  const Table &table = open_.table();
  if (!table.has_primary()) return read_primary(bytes_of(position, HIDDEN_KEY_BYTES), record);
  const KeyCodec &codec = table.index(table.primary()).codec;
  primary_.clear();
  codec.append_tuple(position, codec.parts(), primary_, scratch_);
  return read_primary(bytes_of(primary_), record);
}

// There may be no such row any more.
int RowReader::read_peeked(uchar *record) {
  const Buffer &key = locks_.take_peeked();
  primary_.assign(key.data(), key.size());
  return read_primary(bytes_of(primary_), record);
}

int RowReader::read_primary(millpond_bytes primary, uchar *record) {
  millpond_table *rows = open_.table().rows();
  uint32_t newly = 0;
  locks_.forget_row();
  int rc = millpond_get(open_.txn(), rows, primary, locks_.mode(), locks_.wait(), &value_, &newly);
  if (rc == MILLPOND_RC_NOT_FOUND) locks_.unlock_missing(rows, primary, newly);
  if (rc != MILLPOND_RC_OK) return rc == MILLPOND_RC_SKIPPED ? HA_ERR_KEY_NOT_FOUND : open_.error_of(rc);
  locks_.note_row(primary, newly != 0);
  return open_.put_row(primary, bytes_of(value_.ptr, value_.len), record);
}

// Puts the columns of an index entry into the record.
int RowReader::put_entry(const millpond_row &entry, uchar *record) {
  open_.count_read();
  const Table &table = open_.table();
  millpond_bytes primary;
  if (!table.primary_of(index_, entry.key, entry.value, &primary)) return HA_ERR_WRONG_IN_RECORD;
  if (table.index(index_).codec.restore(entry.key.ptr, entry.key.len, record) == 0) return HA_ERR_WRONG_IN_RECORD;
  return open_.put_primary(primary, record);
}

// Puts the virtual columns of an index entry into the record. If the server reads an index alone,
// it computes no virtual columns, although the row is read.
void RowReader::put_virtual(millpond_bytes key, uchar *record) {
  const Index &index = open_.table().index(index_);
  if (keyread_ && index.has_virtual) index.codec.restore(key.ptr, key.len, record);
}

// Checks what the server has pushed against an index entry: a condition and a filter of primary
// keys. After HA_ERR_KEY_NOT_FOUND the record has columns of an unwanted entry.
int RowReader::check_pushed(const millpond_row &entry) {
  handler *file = open_.file();
  const bool condition = file->pushed_idx_cond && file->pushed_idx_cond_keyno == index_;
  const bool filter = file->pushed_rowid_filter && file->rowid_filter_is_active;
  if (!condition && !filter) return 0;
  // The condition and position() read the first record, whichever the row will be put into.
  if (int error = put_entry(entry, open_.form()->record[0])) return error;
  // The cursor ends where the range ends. The server's own check of that compares columns of the
  // record, and text is not in it yet.
  key_range *end = std::exchange(file->end_range, nullptr);
  check_result_t result = condition ? handler_index_cond_check(file) : CHECK_POS;
  if (result == CHECK_POS && filter) result = handler_rowid_filter_check(file);
  file->end_range = end;
  if (result == CHECK_POS) return 0;
  // Levels above READ COMMITTED keep the lock of the entry, and never lock the row.
  if (!open_.keeps_locks()) locks_.unlock_entry();
  if (result == CHECK_ABORTED_BY_USER) return HA_ERR_ABORTED_BY_USER;
  return result == CHECK_ERROR ? HA_ERR_INTERNAL_ERROR : HA_ERR_KEY_NOT_FOUND;
}

void RowReader::position_of(const uchar *record, uchar *position) const {
  const Table &table = open_.table();
  if (!table.has_primary()) {
    memcpy(position, open_.hidden_key().bytes(), HIDDEN_KEY_BYTES);
    return;
  }
  KEY *key = &open_.form()->key_info[table.primary()];
  key_copy(position, record, key, key->key_length);
}

// Sorts of positions call this for each comparison. Both keys stand in one buffer that is kept.
int RowReader::compare_positions(const uchar *a, const uchar *b) {
  const Table &table = open_.table();
  if (!table.has_primary()) return memcmp(a, b, HIDDEN_KEY_BYTES);
  const KeyCodec &codec = table.index(table.primary()).codec;
  primary_.clear();
  codec.append_tuple(a, codec.parts(), primary_, scratch_);
  const size_t left = primary_.size();
  codec.append_tuple(b, codec.parts(), primary_, scratch_);
  const size_t right = primary_.size() - left;
  const int order = memcmp(primary_.data(), primary_.data() + left, std::min(left, right));
  if (order != 0) return order;
  return left < right ? -1 : left > right;
}

}  // namespace millpond
