// The transaction of one connection.

#include "session.h"
#include "errors.h"
#include "huge_pages.h"
#include "names.h"
#include "repeat.h"
#include "replication.h"
#include "server_functions.h"
#include "settings.h"
#include "two_phase.h"

#include <algorithm>
#include <mutex>
#include <new>

namespace millpond {

namespace {

// The sessions of all connections that have one, in no order.
std::mutex sessions_mutex;
std::vector<Session *> sessions;

}  // namespace

// With millpond_flush_log_at_trx_commit=0 the log is synced once a second, however much has been
// written.
constexpr uint64_t SECOND_MS = 1000;

// A transaction that the binary log repeats is on disk in the engine's own log within this time, so that
// a recovery has little to repeat.
constexpr uint64_t REPEATED_MS = 100;
// What is repeated at once has to fit in memory, and a statement of the server. Longer transactions are
// few, and one sync is little beside their rows.
constexpr ulonglong REPEATED_ROWS = 1000;
constexpr ulonglong REPEATED_BYTES = 1 << 20;

// The longest beginning of a statement that others are shown.
constexpr size_t STATEMENT_BYTES = 1024;

bool reads_newest(THD *thd) { return !settings::snapshot_isolation(thd) || is_applier(thd); }

Session *Session::existing(THD *thd) {
  return static_cast<Session *>(thd_get_ha_data(thd, engine));
}

Session *Session::of(THD *thd) {
  Session *session = existing(thd);
  if (session) return session;
  allow_huge_pages();
  session = new (std::nothrow) Session(thd);
  if (session == nullptr) return nullptr;
  if (millpond_txn_new(database, &session->txn_) != MILLPOND_RC_OK) {
    delete session;
    return nullptr;
  }
  thd_set_ha_data(thd, engine, session);
  std::lock_guard<std::mutex> guard(sessions_mutex);
  sessions.push_back(session);
  return session;
}

void Session::end() {
  {
    std::lock_guard<std::mutex> guard(sessions_mutex);
    auto at = std::find(sessions.begin(), sessions.end(), this);
    *at = sessions.back();
    sessions.pop_back();
  }
  thd_set_ha_data(thd_, engine, nullptr);
  millpond_txn_free(txn_);
  // A transaction that XA has prepared stays and uses them still. Nothing here would end a wait for it.
  (void)drop_unused_trees(dropped_);
  delete this;
}

// Tells whether the statement is a transaction of its own that is serializable by its snapshot, so that
// its reads need no locks: a query, or one whose metadata lock keeps writers out.
bool Session::reads_by_snapshot() const {
  switch (thd_sql_command(thd_)) {
    case SQLCOM_SELECT: return !thd_test_options(thd_, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
    case SQLCOM_ALTER_TABLE:
    case SQLCOM_CREATE_INDEX:
    case SQLCOM_DROP_INDEX:
    case SQLCOM_OPTIMIZE: return true;
    default: return false;
  }
}

int Session::begin() {
  millpond_txn_options options{};
  options.tag = thd_get_thread_id(thd_);
  const int isolation = thd_tx_isolation(thd_);
  isolation_.store(isolation, std::memory_order_relaxed);
  switch (isolation) {
    case ISO_READ_UNCOMMITTED:
    case ISO_READ_COMMITTED: options.isolation = MILLPOND_ISOLATION_READ_COMMITTED; break;
    case ISO_SERIALIZABLE:
      options.isolation = reads_by_snapshot() ? MILLPOND_ISOLATION_REPEATABLE_READ : MILLPOND_ISOLATION_SERIALIZABLE;
      break;
    default:
      options.isolation = MILLPOND_ISOLATION_REPEATABLE_READ;
      options.current_reads = reads_newest(thd_);
  }
  options.observed_as = wait_name(thd_);
  options.lock_wait_ms = settings::lock_wait_ms(thd_);
  int rc = millpond_txn_begin(txn_, &options);
  if (rc != MILLPOND_RC_OK) return server_error(nullptr, rc);
  running_ = true;
  changed_tables_.clear();
  changed_rows_.store(0, std::memory_order_relaxed);
  logged_rows_ = changed_bytes_ = 0;
  repeatable_ = true;
  if (!savepoints_.empty()) cut_savepoints(savepoints_.begin(), savepoints_.end());
  started_.store(time(nullptr), std::memory_order_relaxed);
  return 0;
}

void Session::set_ended() {
  running_ = statement_ = prepared_ = ordered_ = expects_position_ = repeated_ = moved_bookmark_ = false;
  started_.store(0, std::memory_order_relaxed);
}

std::vector<Session::Shown> Session::running() {
  std::vector<Shown> shown;
  std::lock_guard<std::mutex> guard(sessions_mutex);
  for (const Session *session : sessions) {
    const time_t started = session->started_.load(std::memory_order_relaxed);
    if (started == 0) continue;
    // The statement of another connection, unless that connection is just changing it.
    char statement[STATEMENT_BYTES + 1];
    const size_t bytes = thd_query_safe(session->thd_, statement, sizeof statement);
    shown.push_back({thd_get_thread_id(session->thd_), millpond_txn_is_waiting(session->txn_) != 0, started,
                     session->changed_rows_.load(std::memory_order_relaxed),
                     session->isolation_.load(std::memory_order_relaxed),
                     session->savepoint_count_.load(std::memory_order_relaxed), std::string(statement, bytes),
                     thd_charset(session->thd_)});
  }
  return shown;
}

std::vector<std::string> Session::descriptions(const std::vector<my_thread_id> &connections) {
  std::vector<std::string> texts(connections.size());
  std::lock_guard<std::mutex> guard(sessions_mutex);
  for (const Session *session : sessions) {
    const auto found = std::find(connections.begin(), connections.end(), thd_get_thread_id(session->thd_));
    if (found == connections.end()) continue;
    char text[STATEMENT_BYTES + 1];
    texts[found - connections.begin()] = thd_get_error_context_description(session->thd_, text, sizeof text, 0);
  }
  return texts;
}

int Session::begin_statement() {
  const bool several = thd_test_options(thd_, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
  const bool running = running_;
  if (!running) {
    if (int error = begin()) return error;
  }
  if (!statement_) {
    if (cancelled_.exchange(false)) millpond_txn_clear_cancel(txn_);
    // A new transaction has it from begin().
    if (running) millpond_txn_set_lock_wait(txn_, settings::lock_wait_ms(thd_));
    if (int rc = millpond_statement_begin(txn_)) return server_error(thd_, rc);
    statement_ = true;
    changed_before_ = changed_rows_.load(std::memory_order_relaxed);
    logged_before_ = logged_rows_;
  }
  trans_register_ha(thd_, false, engine, 0);
  if (several) trans_register_ha(thd_, true, engine, 0);
  return 0;
}

int Session::begin_with_snapshot() {
  if (!running_) {
    if (int error = begin()) return reported(error);
  }
  trans_register_ha(thd_, true, engine, 0);
  return reported(server_error(thd_, millpond_txn_snapshot(txn_)));
}

bool Session::ends_transaction(bool all) const {
  return all || !thd_test_options(thd_, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
}

uint Session::durability() const {
  switch (settings::flush_log_at_trx_commit()) {
    case 0: return MILLPOND_DURABILITY_BOUNDED;
    case 2: return MILLPOND_DURABILITY_WRITTEN;
    default: return MILLPOND_DURABILITY_SYNC;
  }
}

int Session::prepare(bool all) {
  if (!running_ || !ends_transaction(all)) return 0;
  // Where the binary log gets no row, the server commits in no order what several engines have prepared,
  // as that of an INSERT IGNORE of a duplicate and that of the replica's position.
  if (changed_rows_.load(std::memory_order_relaxed) == 0 && is_applier(thd_)) {
    if (int error = wait_for_prior_commits(thd_)) return error;
  }
  bool own_name = false;
  std::string xid = xid_of(thd_, &own_name);
  const bool one_phase = !own_name && thd_sql_command(thd_) == SQLCOM_XA_COMMIT;
  const uint how = durability();
  const bool repeated = (own_name || one_phase) && can_be_repeated();
  if (repeated && one_phase) xid = private_name();
  const millpond_bytes name = bytes_of(xid.data(), xid.size());
  int rc;
  if (repeated) {
    rc = millpond_txn_prepare_repeatable(txn_, name, MILLPOND_DURABILITY_BOUNDED, REPEATED_MS, UINT64_MAX);
    // If the log has begun anew meanwhile, its first transactions need what they needed before.
    if (rc == MILLPOND_RC_OK && !binlog_is_redo()) rc = millpond_sync(database);
  } else {
    rc = millpond_txn_prepare_held(txn_, name, how, SECOND_MS, UINT64_MAX);
  }
  if (rc != MILLPOND_RC_OK) return reported(server_error(nullptr, rc));
  prepared_ = true;
  repeated_ = repeated;
  expects_position_ = (own_name || one_phase) && opt_bin_log;
  if (expects_position_) expect_binlog_position(thd_);
  // The log is durable beyond the prepare record, so a commit apart is too. So is a commit apart that
  // one which is repeated may have seen.
  if (repeated || how != MILLPOND_DURABILITY_BOUNDED) unsynced_ = false;
  return 0;
}

// Tells whether the server can repeat the transaction after a crash by what the binary log will have of
// it. A replica's position is not in its binary log, and neither is a table that CREATE ... SELECT makes.
bool Session::can_be_repeated() const {
  return repeatable_ && logged_rows_ > 0 && changed_rows_.load(std::memory_order_relaxed) <= REPEATED_ROWS &&
         changed_bytes_ <= REPEATED_BYTES && binlog_is_redo() && !is_applier(thd_) &&
         thd_sql_command(thd_) != SQLCOM_CREATE_TABLE;
}

void Session::commit_ordered(bool all) {
  if (!prepared_ || ordered_ || !ends_transaction(all)) return;
  if (!expects_position_) {
    ordered_ = millpond_txn_commit_ordered(txn_) == MILLPOND_RC_OK;
    return;
  }
  // What nobody has on record commits later, and durably.
  generation_ = binlog_generation();
  const InLog done = commit_at_bookmark(thd_, txn_, logged_rows_ > 0);
  ordered_ = done == InLog::YES || done == InLog::MOVED;
  moved_bookmark_ = done == InLog::MOVED;
}

// Returns how durable the record of a commit has to be. Where the coordinator has the commit on record,
// it is safe without, unless the settings have changed meanwhile.
uint Session::durability_of_commit() const {
  if (!ordered_ || (repeated_ && !binlog_may_be_redo())) return durability();
  return settings::flush_log_at_trx_commit() == 3 ? MILLPOND_DURABILITY_SYNC : MILLPOND_DURABILITY_NONE;
}

int Session::commit(bool all) {
  if (!running_) return 0;
  if (!ends_transaction(all)) {
    statement_ = false;
    return reported(server_error(thd_, millpond_statement_end(txn_)));
  }
  // The first one in a new file of the binary log.
  const bool arms = moved_bookmark_ && binlog_may_be_redo() && !binlog_is_redo();
  const uint how = arms ? uint{MILLPOND_DURABILITY_SYNC} : durability_of_commit();
  set_ended();
  int rc;
  if (const std::string *bookmark = bookmark_of_commit) {
    rc = millpond_txn_commit_at(txn_, bytes_of(bookmark->data(), bookmark->size()), MILLPOND_DURABILITY_NONE, 0, 0);
  } else {
    rc = millpond_txn_commit(txn_, how, SECOND_MS, UINT64_MAX);
  }
  if (rc == MILLPOND_RC_OK && unsynced_) rc = millpond_sync(database);
  unsynced_ = false;
  if (rc == MILLPOND_RC_OK && arms) bookmark_is_durable(generation_);
  const int error = reported(server_error(nullptr, rc));
  for (const auto &table : changed_tables_) table->changed_at.store(time(nullptr), std::memory_order_relaxed);
  changed_tables_.clear();
  drop_temporary();
  return error;
}

int Session::commit_apart(millpond_txn *txn) {
  uint how = durability();
  if (how == MILLPOND_DURABILITY_SYNC) {
    how = MILLPOND_DURABILITY_NONE;
    unsynced_ = true;
  }
  return millpond_txn_commit(txn, how, SECOND_MS, UINT64_MAX);
}

int Session::rollback(bool all) {
  if (!running_) return 0;
  if (!ends_transaction(all)) {
    if (!statement_) return 0;
    statement_ = false;
    take_back(changed_before_, logged_before_);
    return reported(server_error(thd_, millpond_statement_rollback(txn_)));
  }
  // What somebody was told to be prepared must not come back.
  const bool told = prepared_ && thd_sql_command(thd_) == SQLCOM_XA_ROLLBACK;
  set_ended();
  int rc = millpond_txn_rollback(txn_);
  if (rc == MILLPOND_RC_OK && told) rc = millpond_sync(database);
  const int error = reported(server_error(nullptr, rc));
  drop_temporary();
  return error;
}

// The server commits before a statement that drops a table. So a transaction that has locked or
// changed something by then is the statement's own, and the statement has failed, as CREATE TABLE ...
// SELECT may, which drops what it has made before the server rolls it back.
void Session::abandon_tables() {
  if (has_locks()) {
    (void)rollback(true);
  } else {
    release_tables();
  }
}

bool Session::drop_at_end(const std::vector<std::string> &names) {
  if (running_) dropped_.insert(dropped_.end(), names.begin(), names.end());
  return running_;
}

// What cannot be dropped now is dropped at the next start.
void Session::drop_temporary() {
  if (dropped_.empty()) return;
  (void)drop_trees(dropped_);
  dropped_.clear();
}

// Counts as if the rows since then had not been changed. What of them stays in the binary log's cache is
// the server's own business.
void Session::take_back(ulonglong changed_rows, ulonglong logged_rows) {
  if (changed_rows != changed_rows_.load(std::memory_order_relaxed)) repeatable_ = false;
  changed_rows_.store(changed_rows, std::memory_order_relaxed);
  logged_rows_ = logged_rows;
}

int Session::set_savepoint(Savepoint *savepoint) {
  if (!running_) return HA_ERR_NO_SAVEPOINT;
  savepoint->changed_rows = changed_rows_.load(std::memory_order_relaxed);
  savepoint->logged_rows = logged_rows_;
  if (int error = reported(server_error(thd_, millpond_savepoint_set(txn_, &savepoint->place)))) return error;
  savepoint->number = ++last_savepoint_;
  savepoints_.push_back(savepoint->number);
  savepoint_count_.store(savepoints_.size(), std::memory_order_relaxed);
  return 0;
}

int Session::rollback_to(const Savepoint *savepoint) {
  if (!running_) return HA_ERR_NO_SAVEPOINT;
  take_back(savepoint->changed_rows, savepoint->logged_rows);
  cut_savepoints(std::upper_bound(savepoints_.begin(), savepoints_.end(), savepoint->number), savepoints_.end());
  return reported(server_error(thd_, millpond_savepoint_rollback(txn_, &savepoint->place)));
}

// RELEASE SAVEPOINT ends the later ones too. SAVEPOINT with a name that is there ends that one alone.
void Session::release_savepoint(const Savepoint *savepoint) {
  const auto from = std::lower_bound(savepoints_.begin(), savepoints_.end(), savepoint->number);
  if (from == savepoints_.end() || *from != savepoint->number) return;
  cut_savepoints(from, thd_sql_command(thd_) == SQLCOM_SAVEPOINT ? from + 1 : savepoints_.end());
}

void Session::cut_savepoints(std::vector<uint64_t>::iterator from, std::vector<uint64_t>::iterator to) {
  savepoints_.erase(from, to);
  savepoint_count_.store(savepoints_.size(), std::memory_order_relaxed);
}

namespace {

int commit(handlerton *, THD *thd, bool all) {
  Session *session = Session::existing(thd);
  return session ? session->commit(all) : 0;
}

int rollback(handlerton *, THD *thd, bool all) {
  Session *session = Session::existing(thd);
  return session ? session->rollback(all) : 0;
}

int savepoint_set(handlerton *, THD *thd, void *savepoint) {
  Session *session = Session::existing(thd);
  return session ? session->set_savepoint(static_cast<Session::Savepoint *>(savepoint)) : HA_ERR_NO_SAVEPOINT;
}

int savepoint_rollback(handlerton *, THD *thd, void *savepoint) {
  Session *session = Session::existing(thd);
  return session ? session->rollback_to(static_cast<Session::Savepoint *>(savepoint)) : HA_ERR_NO_SAVEPOINT;
}

// Metadata locks guard what the engine has locked and changed. A rollback to a savepoint keeps row
// locks, so it may release metadata locks only if there are none.
bool savepoint_can_release_mdl(handlerton *, THD *thd) {
  Session *session = Session::existing(thd);
  return session == nullptr || !session->has_locks();
}

// The memory is the server's, and the engine keeps positions.
int savepoint_release(handlerton *, THD *thd, void *savepoint) {
  if (Session *session = Session::existing(thd)) session->release_savepoint(static_cast<Session::Savepoint *>(savepoint));
  return 0;
}

int close_connection(handlerton *, THD *thd) {
  if (Session *session = Session::existing(thd)) session->end();
  return 0;
}

void kill_query(handlerton *, THD *thd, thd_kill_levels) {
  if (Session *session = Session::existing(thd)) session->cancel();
}

int start_consistent_snapshot(handlerton *, THD *thd) {
  Session *session = Session::of(thd);
  return session ? session->begin_with_snapshot() : HA_ERR_OUT_OF_MEM;
}

}  // namespace

void set_transaction_functions(handlerton *engine) {
  engine->savepoint_offset = sizeof(Session::Savepoint);
  engine->close_connection = close_connection;
  engine->commit = commit;
  engine->rollback = rollback;
  engine->savepoint_set = savepoint_set;
  engine->savepoint_rollback = savepoint_rollback;
  engine->savepoint_rollback_can_release_mdl = savepoint_can_release_mdl;
  engine->savepoint_release = savepoint_release;
  engine->kill_query = kill_query;
  engine->start_consistent_snapshot = start_consistent_snapshot;
}

}  // namespace millpond
