// One open instance of a table: what its reads, its changes of rows and its numbers share. It has
// the transaction in which they run, their errors and their counts.
#pragma once

#include "cursors.h"
#include "hidden_key.h"
#include "row_counts.h"
#include "sequence_txn.h"
#include "session.h"
#include "table.h"

#include <string>

namespace millpond {

class OpenTable {
 public:
  // `file` is the server's handler of the table.
  explicit OpenTable(handler *file) : file_(file) {}
  OpenTable(const OpenTable &) = delete;
  OpenTable &operator=(const OpenTable &) = delete;

  // Begins and ends the use of a table. The first one returns an error number of the server, or 0.
  int open(Table *table);
  void close();

  bool is_open() const { return table_ != nullptr; }
  Table &table() const { return *table_; }
  handler *file() const { return file_; }
  // Returns the server's definition and records of the table.
  TABLE *form() const { return file_->get_table(); }
  THD *thd() const;
  Cursors &cursors() { return cursors_; }
  // Returns the hidden key of the row that was read or written last.
  HiddenKey &hidden_key() { return hidden_key_; }

  // Begins a statement in the transaction of a connection.
  int use_session(THD *thd);
  // Returns the session; null before the first statement.
  Session *session() const { return session_; }
  // Returns the transaction of reads and changes. That of a sequence is not the session's.
  millpond_txn *txn() const { return apart_.get() ? apart_.get() : session_->txn(); }
  // Tells whether rows that do not fit the statement's condition stay locked.
  bool keeps_locks() const { return thd_tx_isolation(thd()) > ISO_READ_COMMITTED; }

  // A sequence's row is read and changed in transactions of its own.
  bool is_sequence() const { return file_->get_table_share()->table_type == TABLE_TYPE_SEQUENCE; }
  // Begins such a transaction where none runs.
  int begin_apart();
  // Ends one that has only read.
  void end_apart() { apart_.rollback(); }
  // Ends one after a change with this result.
  int commit_apart(int error);

  // Puts the columns of a primary key, or the hidden key, where the server has them. Returns an
  // error number of the server, or 0.
  int put_primary(millpond_bytes primary, uchar *record);
  // Puts the row of a primary key and a value into the record. Blobs of the record point into
  // `value`.
  int put_row(millpond_bytes primary, millpond_bytes value, uchar *record);

  // Returns the server's number for a return code. A failure is counted, and its text remembered.
  int error_of(int rc) { return rc == MILLPOND_RC_OK ? 0 : error_of_failure(rc); }
  // Remembers the text of an error of the plugin's own, and returns its number.
  int own_error(int rc, const char *text);
  // Returns the text of an error of the plugin's own. One that this instance has not seen comes
  // from the session, or from the opening of the table, and is the thread's last one.
  std::string own_error_text(int error) const;

  // Counts a row that was read or changed.
  void count_read() {
    if (++counts_.read >= COUNTS_MANY) tell_counts();
  }
  void count_change(uint op);
  // Returns the counts, for those of redo.
  RowCounts *counts() { return &counts_; }
  // Notes that the session's transaction has changed a row.
  void note_change(const Session::Change &change);
  // Tells the table's statistics how many rows were changed: a large table less often, unless
  // `always`.
  void tell_changes(bool always);
  void end_statement();

 private:
  // The table is told of so many rows of a long statement at once.
  static constexpr ulonglong COUNTS_MANY = 4096;

  int error_of_failure(int rc);
  void count_conflict(int rc);
  void tell_counts();

  handler *file_;
  Table *table_ = nullptr;
  Session *session_ = nullptr;
  SequenceTxn apart_;
  Cursors cursors_;
  HiddenKey hidden_key_;
  RowCounts counts_;        // Not told to the table yet.
  uint changed_rows_ = 0;   // Not told to the statistics yet.
  bool noted_ = false;      // The session knows that the statement has changed the table.
  int last_own_error_ = 0;
  char error_text_[MYSQL_ERRMSG_SIZE] = {0};
};

}  // namespace millpond
