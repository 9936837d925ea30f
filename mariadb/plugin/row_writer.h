// Changes of the rows of an open table: one call of the engine for a row with all its index
// entries. Rows of a new table are loaded, where they are many.
#pragma once

#include "auto_increment.h"
#include "bulk_insert.h"
#include "open_table.h"
#include "row_entries.h"

#include <memory>

namespace millpond {

class RowWriter {
 public:
  RowWriter(OpenTable &open, AutoIncrement &numbers) : open_(open), numbers_(numbers) {}
  ~RowWriter() { millpond_buffer_free(&conflict_.value); }
  RowWriter(const RowWriter &) = delete;
  RowWriter &operator=(const RowWriter &) = delete;

  // Makes room for the changes of a row. Returns an error number of the server, or 0.
  int open();

  int insert(const uchar *record);
  int update(const uchar *before, const uchar *after);
  int remove(const uchar *record);

  // Says that REPLACE or ON DUPLICATE KEY UPDATE changes the row that is there.
  void set_replaces(bool yes) { replaces_ = yes; }

  // Begins a load of rows, if they are that many and the table may be loaded, and ends it
  // (handler::start_bulk_insert). After the end the rows are there, or none.
  void begin_bulk(ha_rows rows, uint flags);
  int end_bulk();

 private:
  int change_row();
  int change_now();
  int load_row();
  int check_key_lengths();
  int bulk_error_of(int result);
  void compute_virtual(const uchar *record);

  OpenTable &open_;
  AutoIncrement &numbers_;
  RowEntries entries_;
  std::unique_ptr<millpond_row_change[]> changes_;  // The entries as the engine wants them.
  millpond_conflict conflict_{};
  bool replaces_ = false;
  std::unique_ptr<BulkInsert> bulk_;  // The rows are loaded into a new table.
  uint64_t bulk_counter_ = 0;         // What they raise the counter to.
  BulkInsert::Duplicate duplicate_;   // The record that is shown points into it.
};

}  // namespace millpond
