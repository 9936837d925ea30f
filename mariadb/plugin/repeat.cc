// Transactions that the binary log has and the database lacks after a crash: repeated at the start.

#include "repeat.h"
#include "binlog_position.h"
#include "binlog_reader.h"
#include "engine.h"
#include "settings.h"
#include "sql_connection.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

extern const char *log_bin_index;
extern my_bool rpl_semi_sync_master_enabled;
extern my_bool global_rpl_semi_sync_slave_enabled;
void mysql_bin_log_commit_pos(THD *thd, ulonglong *position, const char **file);

namespace millpond {

thread_local const std::string *bookmark_of_commit;

namespace {

// The bookmark that the last run has left, with what was decided since. Used while the server starts.
BinlogPosition left;
bool has_left;
// The files from there on. They are open from the begin: the server may remove old ones while it starts.
std::vector<std::unique_ptr<BinlogFile>> left_files;
// The position that the bookmark has now, and how often the log has begun, or the bookmark was at rest. Commits
// with a bookmark follow each other anyway.
std::mutex bookmark_mutex;
BinlogPosition present;
bool has_present;
std::atomic<uint64_t> generation{0};
// A bookmark is durable that was made since then.
std::atomic<bool> armed{false};

int note_bookmark(void *to, millpond_bytes bookmark) {
  static_cast<std::string *>(to)->assign(reinterpret_cast<const char *>(bookmark.ptr), bookmark.len);
  return 0;
}

bool set_bookmark(const std::string &bookmark, uint how = MILLPOND_DURABILITY_SYNC) {
  if (millpond_set_bookmark(database, bytes_of(bookmark.data(), bookmark.size()), how, 0, 0) == MILLPOND_RC_OK) return true;
  sql_print_error("Millpond: the place in the binary log is not noted: %s", millpond_error_text());
  return false;
}

constexpr char HOW_TO_GO_ON[] = "millpond_recover_from_binlog=OFF goes on without them";

bool refuse(const char *why) {
  sql_print_error("Millpond: the last run did not end, and its last transactions may be in the binary log alone, in "
                  "the file with the number %06u from %llu on. %s. %s.",
                  left.number, static_cast<ulonglong>(left.position), why, HOW_TO_GO_ON);
  return false;
}

std::string sql_text(const std::string &text) {
  std::string quoted;
  for (char c : text) {
    if (c == '\'' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  return "'" + quoted + "'";
}

// Repeats transactions of the binary log by statements.
class Repeater {
 public:
  // Returns false on an error, which the server's log has then.
  bool repeat() {
    if (!sql_.connect()) return failed("no connection to the server itself", std::string());
    // Settings of the server that new connections get. Savepoints have names in UTF-8, and texts here are
    // quoted with backslashes.
    for (const char *statement : {"SET SESSION sql_mode = ''", "SET NAMES utf8mb4", "SET SESSION max_statement_time = 0",
                                  "SET SESSION completion_type = NO_CHAIN", "SET SESSION tx_read_only = OFF"}) {
      if (!sql_.run(statement)) return failed(sql_.error(), std::string());
    }
    // The log has the rows of triggers too.
    const ulong triggers = slave_run_triggers_for_rbr;
    slave_run_triggers_for_rbr = SLAVE_RUN_TRIGGERS_FOR_RBR_NO;
    const bool ok = std::all_of(left_files.begin(), left_files.end(), [&](const auto &file) { return repeat_file(*file); });
    slave_run_triggers_for_rbr = triggers;
    return ok;
  }

  size_t repeated() const { return repeated_; }

 private:
  bool failed(const std::string &why, const std::string &where) {
    sql_print_error("Millpond: the transactions that only the binary log has are not repeated%s: %s. %s.", where.c_str(),
                    why.c_str(), HOW_TO_GO_ON);
    return false;
  }

  bool repeat_file(BinlogFile &file) {
    const std::string &path = file.path();
    BinlogPosition start;
    if (!BinlogPosition::of(path.c_str(), 0, &start)) return failed("this is no name of a binary log", " (" + path + ")");
    const uint64_t from = start.number == left.number ? left.position : 0;
    bool ok = true, described = false;
    const auto wanted = [&](const std::string &schema, const std::string &table) { return is_ours(schema, table); };
    const auto found = [&](const BinlogTransaction &transaction) {
      if (!knows_tables_) return false;
      if (!transaction.is_wanted || left.has_decided(transaction.id)) return true;
      if (!described) described = ok = apply(BinlogTransaction::Step{false, file.format()});
      start.position = transaction.end;
      ok = ok && apply(transaction, start);
      if (!ok) failed(error_, " (" + path + " at " + std::to_string(transaction.begin) + ")");
      return ok;
    };
    const bool was_read = file.read(from, wanted, found);
    if (!knows_tables_) return failed("the engine of a table is not known: " + error_, " (" + path + ")");
    if (!was_read) return failed(file.error(), std::string());
    return ok;
  }

  bool apply(const BinlogTransaction &transaction, BinlogPosition reached) {
    if (!transaction.unread.empty()) {
      error_ = "the transaction cannot be read: " + transaction.unread;
      return false;
    }
    reached.decided = left.decided;
    const std::string bookmark = reached.encoded();
    if (!run("BEGIN")) return false;
    for (const BinlogTransaction::Step &step : transaction.steps) {
      if (!apply(step)) return false;
    }
    bookmark_of_commit = &bookmark;
    const bool ok = run("COMMIT");
    bookmark_of_commit = nullptr;
    repeated_ += ok;
    return ok;
  }

  bool apply(const BinlogTransaction::Step &step) {
    return run(step.is_query ? step.bytes : "BINLOG '" + base64(step.bytes) + "'");
  }

  bool run(const std::string &statement) {
    if (sql_.run(statement)) return true;
    error_ = sql_.error();
    return false;
  }

  // Sequences commit apart from the transaction that uses them, so they are durable. A table that is gone was
  // dropped later in the log. Where the server does not tell, nothing may be left out.
  bool is_ours(const std::string &schema, const std::string &table) {
    const auto known = ours_.find({schema, table});
    if (known != ours_.end()) return known->second;
    std::string engine, type;
    if (!sql_.run("SELECT engine, table_type FROM information_schema.tables WHERE table_schema = " + sql_text(schema) +
                      " AND table_name = " + sql_text(table),
                  &engine, &type)) {
      error_ = sql_.error();
      return knows_tables_ = false;
    }
    const bool ours = engine == "Millpond" && type != "SEQUENCE";
    ours_[{schema, table}] = ours;
    return ours;
  }

  static std::string base64(const std::string &bytes) {
    std::string text(my_base64_needed_encoded_length(static_cast<int>(bytes.size())), 0);
    my_base64_encode(bytes.data(), bytes.size(), text.data());
    text.resize(strlen(text.c_str()));
    return text;
  }

  SqlConnection sql_;
  std::map<std::pair<std::string, std::string>, bool> ours_;
  bool knows_tables_ = true;
  std::string error_;
  size_t repeated_ = 0;
};

// Opens the files from the bookmark's on. Returns false if that is not there, or one cannot be opened.
bool open_left(const std::vector<std::string> &names) {
  left_files.clear();
  for (const std::string &name : names) {
    BinlogPosition start;
    const bool begins = BinlogPosition::of(name.c_str(), 0, &start) && start.number == left.number;
    if (left_files.empty() && !begins) continue;
    left_files.push_back(std::make_unique<BinlogFile>());
    if (!left_files.back()->open(name)) return false;
  }
  return !left_files.empty();
}

// Notes where the binary log of this run begins. The bookmark of a transaction in it is not durable yet.
bool note_begin() {
  std::vector<std::string> files;
  BinlogPosition start;
  if (!opt_bin_log || !binlog_files(log_bin_index, &files) || files.empty()) return set_bookmark(std::string());
  if (!BinlogPosition::of(files.back().c_str(), 0, &start)) return set_bookmark(std::string());
  start.at_rest = !binlog_may_be_redo();
  if (!set_bookmark(start.encoded())) return false;
  std::lock_guard<std::mutex> guard(bookmark_mutex);
  present = start;
  has_present = true;
  armed.store(!start.at_rest);
  return true;
}

}  // namespace

bool can_repeat_binlog() {
  std::string bookmark;
  left = BinlogPosition();
  has_left = false;
  armed.store(false);
  if (millpond_bookmark(database, note_bookmark, &bookmark) != MILLPOND_RC_OK) return true;
  has_left = BinlogPosition::decode(bookmark, &left);
  // At rest nothing is missing, and the server may have removed the file.
  if (has_left && left.at_rest) has_left = false;
  if (bookmark.empty() || (!has_left && left.at_rest)) return true;
  if (!settings::recover_from_binlog()) {
    sql_print_warning("Millpond: the last run did not end, and what of its last transactions the binary log alone has "
                      "is left out: millpond_recover_from_binlog is OFF");
    has_left = false;
    return true;
  }
  if (!has_left) {
    sql_print_error("Millpond: the place in the binary log is not known to this version. %s.", HOW_TO_GO_ON);
    return false;
  }
  if (mysqld_server_started) return refuse("The server reads them when it starts with the plugin (plugin-load-add)");
  if (!opt_bin_log) return refuse("The server has no binary log now (log-bin)");
  std::vector<std::string> files;
  if (!binlog_files(log_bin_index, &files) || files.empty()) return refuse("The binary log has no files");
  BinlogPosition last;
  if (!BinlogPosition::of(files.back().c_str(), 0, &last) || last.name != left.name) {
    return refuse("The binary log has another name now (log-bin)");
  }
  return open_left(files) || refuse("The binary log has no such file");
}

bool needs_note_of_decision(const XID &xid) {
  return !mysqld_server_started && has_left && const_cast<XID &>(xid).get_my_xid() != 0;
}

bool note_decided(const XID &xid) {
  left.decided.push_back(const_cast<XID &>(xid).get_my_xid());
  return set_bookmark(left.encoded());
}

bool repeat_binlog() {
  if (!has_left) return note_begin();
  Repeater repeater;
  if (!repeater.repeat()) return false;
  left_files.clear();
  if (repeater.repeated() > 0) {
    sql_print_information("Millpond: repeated %zu transactions from the binary log", repeater.repeated());
  }
  has_left = false;
  return note_begin();
}

void forget_binlog() {
  // After a repetition that failed, the next start tries again.
  if (has_left) return;
  armed.store(false);
  has_present = false;
  (void)set_bookmark(std::string());
}

// After a crash a server with semi-synchronous replication may cut off the end of its binary log. With 3 the
// redo log is to be synced; with 0 and 2 a crash may take transactions that cannot be repeated.
bool binlog_may_be_redo() {
  return settings::recover_from_binlog() && settings::flush_log_at_trx_commit() == 1 && sync_binlog_period == 1 &&
         !opt_bin_log_compress && !encrypt_binlog && !rpl_semi_sync_master_enabled &&
         !global_rpl_semi_sync_slave_enabled;
}

bool binlog_is_redo() { return armed.load() && binlog_may_be_redo(); }

// The bookmark says so before the server hears that all commits are durable: then it may remove the file.
void binlog_begins_anew() {
  std::lock_guard<std::mutex> guard(bookmark_mutex);
  armed.store(false);
  generation.fetch_add(1);
  if (!has_present) return;
  present.at_rest = true;
  (void)set_bookmark(present.encoded(), MILLPOND_DURABILITY_NONE);
}

uint64_t binlog_generation() { return generation.load(); }

void bookmark_is_durable(uint64_t of) {
  std::lock_guard<std::mutex> guard(bookmark_mutex);
  if (of == generation.load()) armed.store(true);
}

// The server keeps the position of a connection's last transaction, and leaves it if the next one is not
// logged. The position is the connection's own, and whoever reads it does so after it is written again.
void expect_binlog_position(THD *thd) {
  ulonglong position = 0;
  const char *file = nullptr;
  mysql_bin_log_commit_pos(thd, &position, &file);
  if (file != nullptr) const_cast<char *>(file)[0] = 0;
}

InLog commit_at_bookmark(THD *thd, millpond_txn *txn, bool moves) {
  ulonglong position = 0;
  const char *file = nullptr;
  mysql_bin_log_commit_pos(thd, &position, &file);
  BinlogPosition reached;
  if (file == nullptr || file[0] == 0 || !BinlogPosition::of(file, position, &reached)) return InLog::NOT;
  int rc;
  InLog done = InLog::YES;
  std::unique_lock<std::mutex> guard(bookmark_mutex, std::defer_lock);
  if (moves) guard.lock();
  reached.at_rest = !binlog_may_be_redo();
  // A bookmark at rest says all there is to say, wherever it is.
  if (moves && !(reached.at_rest && has_present && present.at_rest)) {
    if (reached.at_rest) {
      armed.store(false);
      generation.fetch_add(1);
    } else {
      done = InLog::MOVED;
    }
    const std::string bookmark = reached.encoded();
    rc = millpond_txn_commit_ordered_at(txn, bytes_of(bookmark.data(), bookmark.size()));
    present = std::move(reached);
    has_present = true;
  } else {
    rc = millpond_txn_commit_ordered(txn);
  }
  return rc == MILLPOND_RC_OK ? done : InLog::FAILED;
}

}  // namespace millpond
