// Reads of single rows of an open table, and how they come into records of the server: from the
// row, or from an index entry that has all columns of the read.
#pragma once

#include "open_table.h"
#include "read_locks.h"

namespace millpond {

// The results are error numbers of the server, or 0. HA_ERR_KEY_NOT_FOUND: there is no row, or it
// does not fit what was pushed, or another transaction has it and it is skipped.
class RowReader {
 public:
  RowReader(OpenTable &open, ReadLocks &locks) : open_(open), locks_(locks) {}
  RowReader(const RowReader &) = delete;
  RowReader &operator=(const RowReader &) = delete;

  // Begins reads by an index; MAX_KEY is the rows.
  void begin(uint index) { index_ = index; }
  // Says that the statement needs no columns but those of the index (HA_EXTRA_KEYREAD).
  void set_keyread(bool yes) { keyread_ = yes; }

  uint index() const { return index_; }
  // Tells whether the entries of the index are the rows themselves.
  bool reads_rows() const { return index_ == MAX_KEY || index_ == open_.table().primary(); }
  // Chooses whether the next entries are enough, or their rows are read.
  void choose_source() { from_index_ = can_read_from_index(); }

  // Reads the row of the entry on which a cursor stands.
  int read_entry(const millpond_row &entry, uchar *record);
  // Reads the one row of a whole key of the primary key or of a unique index.
  int read_key(millpond_bytes key, uchar *record);
  // Reads the row at a position.
  int read_position(const uchar *position, uchar *record);
  // Locks the row that was shown as it was last committed, and reads it again.
  int read_peeked(uchar *record);

  // A position is the server's key tuple of the primary key, or the hidden key. The first one puts
  // that of a record into `position`.
  void position_of(const uchar *record, uchar *position) const;
  int compare_positions(const uchar *a, const uchar *b);

 private:
  bool can_read_from_index() const;
  int read_primary(millpond_bytes primary, uchar *record);
  int put_entry(const millpond_row &entry, uchar *record);
  void put_virtual(millpond_bytes key, uchar *record);
  int check_pushed(const millpond_row &entry);

  OpenTable &open_;
  ReadLocks &locks_;
  uint index_ = MAX_KEY;
  bool keyread_ = false;
  bool from_index_ = false;  // The index has all columns of the read.
  Result value_;             // The row that was read without a cursor; blobs point into it.
  Buffer primary_, scratch_;
};

}  // namespace millpond
