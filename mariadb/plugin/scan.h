// A scan of an open table: where it stands in an index or in the rows, and how it goes on from
// there.
#pragma once

#include "open_table.h"
#include "read_locks.h"
#include "row_reader.h"

namespace millpond {

// The results are error numbers of the server, or 0.
class Scan {
 public:
  Scan(OpenTable &open, ReadLocks &locks, RowReader &reader) : open_(open), locks_(locks), reader_(reader) {}
  Scan(const Scan &) = delete;
  Scan &operator=(const Scan &) = delete;

  // Begins a scan of an index, or of the rows for MAX_KEY, and ends it.
  int begin(uint index);
  void end();

  // Reads the row that a key tuple of the server names (handler::index_read_map).
  int read(uchar *record, const uchar *key, key_part_map map, ha_rkey_function find);
  int next(uchar *record);
  int prev(uchar *record);
  int first(uchar *record);
  int last(uchar *record);
  // Reads the next row whose key begins with that of the last read().
  int next_same(uchar *record);
  // Reads the next row of a scan of all rows. The first one is read where there was none before.
  int next_row(uchar *record);

  // Says how many rows the optimizer expects from a range of an index.
  void expect(uint index, ulonglong rows) {
    expected_index_ = index;
    expected_rows_ = rows;
  }
  void end_statement() { expected_index_ = MAX_KEY; }

 private:
  // Which rows the last read can find.
  enum class Match : uchar {
    ANY,      // all rows of the range
    PREFIX,   // those whose keys begin with `search_`; the cursor knows no others
    ONE_ROW,  // the one row with the key `search_`; it is read without the cursor
  };
  // Where a scan stands that found no further row: after the last one, or before the first one. A
  // step back from there finds that row.
  enum class Edge : uchar { NONE, FRONT, BACK };

  int seek(uint where, millpond_bytes key, millpond_bytes prefix, uchar *record, int none);
  int step(bool backward, uchar *record);
  int read_one(uchar *record);
  bool has_one_entry() const;
  millpond_bytes range_end();
  uint32_t fetch_size() const;

  OpenTable &open_;
  ReadLocks &locks_;
  RowReader &reader_;
  Match match_ = Match::ANY;
  bool positioned_ = false;  // The cursor stands on a row, or at an edge after it.
  Edge edge_ = Edge::NONE;
  Buffer search_;            // The key of the last read().
  Buffer entry_;             // The key of the present entry, for Match::PREFIX.
  Buffer upper_, scratch_;
  uint expected_index_ = MAX_KEY;
  ulonglong expected_rows_ = 0;
};

}  // namespace millpond
