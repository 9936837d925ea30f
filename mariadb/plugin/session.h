// The transaction of one connection.
#pragma once

#include "engine.h"
#include "table_memory.h"

#include <atomic>
#include <ctime>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace millpond {

// Tells whether changes and locking reads at REPEATABLE READ use the newest rows, whatever the snapshot.
// Those of a replica's threads do: the primary has allowed the changes already.
bool reads_newest(THD *thd);

// One connection's place for transactions. It lives from the connection's first use of a Millpond
// table to its end.
class Session {
 public:
  // Returns the session of a connection, and makes it where there is none. Null: no memory.
  static Session *of(THD *thd);
  // Returns the session of a connection if it has one.
  static Session *existing(THD *thd);

  // Registers the statement with the server, and begins the transaction and the statement where
  // they have not begun. Returns an error number of the server, or 0.
  int begin_statement();

  // Begins a transaction and draws its snapshot at once.
  int begin_with_snapshot();

  // Two-phase commit: prepares the transaction, and commits it when its coordinator has the commit on
  // record. The second may be called by another thread while this session waits. commit() follows.
  int prepare(bool all);
  void commit_ordered(bool all);

  int commit(bool all);
  int rollback(bool all);

  // A savepoint, in memory of the server.
  struct Savepoint {
    millpond_savepoint place;
    ulonglong changed_rows;  // Of the transaction by then.
    ulonglong logged_rows;
    uint64_t number;
  };
  int set_savepoint(Savepoint *savepoint);
  int rollback_to(const Savepoint *savepoint);
  void release_savepoint(const Savepoint *savepoint);

  // Commits a transaction that is not this session's: the change of a sequence. It is durable when
  // the session's transaction is.
  int commit_apart(millpond_txn *txn);

  // Drops trees of a temporary table when the transaction ends. Returns false if none runs.
  bool drop_at_end(const std::vector<std::string> &names);

  // Lets a change of tables go on that the transaction itself has read.
  void release_tables() { millpond_txn_release_tables(txn_); }

  // Lets a table be dropped that the transaction itself has used.
  void abandon_tables();

  // Tells whether the transaction has locked or changed anything so far.
  bool has_locks() const { return running_ && millpond_txn_has_locks(txn_); }

  // Makes the present wait and the rest of the statement fail. Called by another connection.
  void cancel() {
    millpond_txn_cancel(txn_);
    cancelled_.store(true);  // Later: the next statement that sees it ends the effect.
  }
  void end();

  // How a row was changed that the transaction has changed.
  struct Change {
    bool is_logged;    // The row goes to the binary log.
    bool is_needed;    // Its table is there after a restart.
    bool finds_slowly; // Whoever repeats the change has to read the table for the row.
    size_t bytes;      // Of the row and its keys.
  };
  void count_changed_row(const Change &change) {
    changed_rows_.store(changed_rows_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    logged_rows_ += change.is_logged;
    changed_bytes_ += change.bytes;
    if (change.is_needed && (!change.is_logged || change.finds_slowly)) repeatable_ = false;
  }

  // Remembers a table that the transaction has changed.
  void note_changed_table(const std::shared_ptr<TableMemory> &table) { changed_tables_.insert(table); }

  // What other connections are shown of the transaction. It may end meanwhile.
  struct Shown {
    my_thread_id connection;
    bool waits;
    time_t started;
    ulonglong changed_rows;
    uint isolation;         // An enum_tx_isolation.
    size_t savepoints;
    std::string statement;  // The beginning of what runs now; empty if nothing does, or nobody can tell.
    CHARSET_INFO *charset;  // Its character set.
  };

  // Returns what is shown of all transactions that run now.
  static std::vector<Shown> running();

  // Returns lines about each of these connections and its statement, as InnoDB's monitor has them. They
  // are empty for a connection that has no session here.
  static std::vector<std::string> descriptions(const std::vector<my_thread_id> &connections);

  // The index that had the last duplicate. It is not the handler's: where an update moves a row to
  // another partition, the server asks the handler of the partition before.
  void note_duplicate(uint index) { duplicate_index_ = index; }
  uint duplicate_index() const { return duplicate_index_; }

  millpond_txn *txn() { return txn_; }

 private:
  explicit Session(THD *thd) : thd_(thd) {}
  ~Session() = default;
  int begin();
  bool reads_by_snapshot() const;
  bool ends_transaction(bool all) const;
  uint durability() const;
  uint durability_of_commit() const;
  bool can_be_repeated() const;
  void take_back(ulonglong changed_rows, ulonglong logged_rows);
  void cut_savepoints(std::vector<uint64_t>::iterator from, std::vector<uint64_t>::iterator to);
  void drop_temporary();
  void set_ended();

  THD *thd_;
  millpond_txn *txn_ = nullptr;
  bool running_ = false;
  bool statement_ = false;
  bool prepared_ = false;  // It is prepared, and its session decides it.
  bool ordered_ = false;   // commit_ordered() has committed it.
  bool expects_position_ = false;  // The binary log decides whether it commits.
  bool repeated_ = false;  // It was prepared as one that the binary log repeats.
  bool moved_bookmark_ = false;  // Its commit has moved the bookmark,
  uint64_t generation_ = 0;      // when the binary log had begun so often.
  std::set<std::shared_ptr<TableMemory>> changed_tables_;
  std::vector<std::string> dropped_;  // Trees that are dropped when the transaction ends.
  uint duplicate_index_ = 0;
  bool unsynced_ = false;  // A commit apart may not be durable yet.
  std::atomic<bool> cancelled_{false};  // The engine's transaction may have to forget a cancel().
  std::atomic<time_t> started_{0};      // When the transaction began; 0: none runs.
  std::atomic<ulonglong> changed_rows_{0};
  ulonglong changed_before_ = 0;  // Rows that the transaction had changed when its statement began.
  ulonglong logged_rows_ = 0;     // Changed rows that are in the binary log's cache.
  ulonglong logged_before_ = 0;   // As changed_before_.
  ulonglong changed_bytes_ = 0;   // Of the changed rows.
  bool repeatable_ = true;        // The binary log has all changes so far.
  std::atomic<uint> isolation_{0};  // An enum_tx_isolation.
  std::vector<uint64_t> savepoints_;  // The numbers of those that are there, ascending.
  uint64_t last_savepoint_ = 0;
  std::atomic<size_t> savepoint_count_{0};
};

// Puts the functions of transactions into the engine's entry.
void set_transaction_functions(handlerton *engine);

}  // namespace millpond
