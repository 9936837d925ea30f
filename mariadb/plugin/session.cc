// The transaction of one connection.

#include "session.h"
#include "errors.h"
#include "huge_pages.h"
#include "names.h"
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
  drop_temporary();
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
  started_.store(time(nullptr), std::memory_order_relaxed);
  return 0;
}

void Session::set_ended() {
  running_ = statement_ = prepared_ = ordered_ = false;
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
                     session->isolation_.load(std::memory_order_relaxed), std::string(statement, bytes),
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
  const std::string xid = xid_of(thd_);
  const uint how = durability();
  const int rc = millpond_txn_prepare_held(txn_, bytes_of(xid.data(), xid.size()), how, SECOND_MS, UINT64_MAX);
  if (rc != MILLPOND_RC_OK) return reported(server_error(nullptr, rc));
  prepared_ = true;
  // The log is durable beyond the prepare record, so a commit apart is too.
  if (how != MILLPOND_DURABILITY_BOUNDED) unsynced_ = false;
  return 0;
}

void Session::commit_ordered(bool all) {
  if (!prepared_ || ordered_ || !ends_transaction(all)) return;
  ordered_ = millpond_txn_commit_ordered(txn_) == MILLPOND_RC_OK;
}

// Returns how durable the record of a commit has to be. Where the coordinator has the commit on record,
// it is safe without.
uint Session::durability_of_commit() const {
  if (!ordered_) return durability();
  return settings::flush_log_at_trx_commit() == 3 ? MILLPOND_DURABILITY_SYNC : MILLPOND_DURABILITY_NONE;
}

int Session::commit(bool all) {
  if (!running_) return 0;
  if (!ends_transaction(all)) {
    statement_ = false;
    return reported(server_error(thd_, millpond_statement_end(txn_)));
  }
  const uint how = durability_of_commit();
  set_ended();
  int rc = millpond_txn_commit(txn_, how, SECOND_MS, UINT64_MAX);
  if (rc == MILLPOND_RC_OK && unsynced_) rc = millpond_sync(database);
  unsynced_ = false;
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
    changed_rows_.store(changed_before_, std::memory_order_relaxed);
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

int Session::set_savepoint(Savepoint *savepoint) {
  if (!running_) return HA_ERR_NO_SAVEPOINT;
  savepoint->changed_rows = changed_rows_.load(std::memory_order_relaxed);
  return reported(server_error(thd_, millpond_savepoint_set(txn_, &savepoint->place)));
}

int Session::rollback_to(const Savepoint *savepoint) {
  if (!running_) return HA_ERR_NO_SAVEPOINT;
  changed_rows_.store(savepoint->changed_rows, std::memory_order_relaxed);
  return reported(server_error(thd_, millpond_savepoint_rollback(txn_, &savepoint->place)));
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

// Savepoints need no release: the memory is the server's, the engine keeps positions.
int savepoint_release(handlerton *, THD *, void *) { return 0; }

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
