// The transactions that run, as the session and the engine know them, and the table
// information_schema.MILLPOND_TRX.

#include "transactions.h"
#include "info_row.h"

#include <map>

namespace millpond {

namespace {

int collect(void *context, const millpond_txn_info *shown) {
  RunningTransaction found;
  found.transaction = shown->transaction;
  found.locks = shown->locks;
  found.undo_bytes = shown->undo_bytes;
  found.changed_rows = shown->rows_changed;
  found.prepared = shown->xid.ptr != nullptr;
  if (shown->waits_for != nullptr) {
    found.waits = true;
    found.waited = Lock(*shown->waits_for);
  }
  found.session.connection = shown->tag;
  static_cast<std::vector<RunningTransaction> *>(context)->push_back(found);
  return 0;
}

}  // namespace

std::vector<RunningTransaction> running_transactions() {
  std::vector<RunningTransaction> of_engine, all;
  millpond_transactions(database, collect, &of_engine);
  std::map<my_thread_id, Session::Shown> sessions;
  for (Session::Shown &shown : Session::running()) sessions.emplace(shown.connection, shown);
  for (RunningTransaction &found : of_engine) {
    const auto session = sessions.find(found.session.connection);
    if (session != sessions.end()) {
      found.session = session->second;
      sessions.erase(session);
    } else {
      // Others are the engine's own, or have ended meanwhile.
      if (!found.prepared) continue;
      found.session = Session::Shown{};
    }
    all.push_back(found);
  }
  // These have neither locked nor changed anything, or have just ended for the engine.
  for (const auto &[connection, shown] : sessions) {
    RunningTransaction found;
    found.session = shown;
    all.push_back(found);
  }
  return all;
}

const char *isolation_name(uint level) {
  switch (level) {
    case ISO_READ_UNCOMMITTED: return "READ UNCOMMITTED";
    case ISO_READ_COMMITTED: return "READ COMMITTED";
    case ISO_SERIALIZABLE: return "SERIALIZABLE";
    default: return "REPEATABLE READ";
  }
}

namespace {

ST_FIELD_INFO columns[] = {
    Show::Column("CONNECTION_ID", Show::ULonglong(), NULLABLE),
    Show::Column("STATE", Show::Varchar(9), NOT_NULL),
    Show::Column("STARTED", Show::Datetime(0), NULLABLE),
    Show::Column("ROWS_CHANGED", Show::ULonglong(), NOT_NULL),
    Show::Column("TRX_ID", Show::ULonglong(), NULLABLE),
    Show::Column("QUERY", Show::Varchar(1024), NULLABLE),
    Show::Column("ISOLATION", Show::Varchar(16), NULLABLE),
    Show::Column("LOCKS", Show::ULonglong(), NOT_NULL),
    Show::Column("UNDO_BYTES", Show::ULonglong(), NOT_NULL),
    Show::Column("SAVEPOINTS", Show::ULonglong(), NOT_NULL),
    Show::Column("XA_STATE", Show::Varchar(8), NULLABLE),
    Show::CEnd(),
};

int fill(THD *thd, TABLE_LIST *tables, COND *) {
  // Others' transactions are shown to those only who may see others' connections.
  if (lacks_process_privilege(thd)) return 1;
  InfoRow row(thd, tables->table);
  for (const RunningTransaction &found : running_transactions()) {
    const Session::Shown &session = found.session;
    const bool connected = session.connection != 0;
    row.number_or_null(session.connection).text(session.waits ? "LOCK WAIT" : "RUNNING");
    row.time_or_null(session.started);
    // The session counts a row that is in several trees once.
    row.number(connected ? session.changed_rows : found.changed_rows).number_or_null(found.transaction);
    row.text_or_null(session.statement, connected ? session.charset : system_charset_info);
    row.text_or_null(connected ? isolation_name(session.isolation) : "");
    row.number(found.locks).number(found.undo_bytes).number(session.savepoints).text_or_null(found.prepared ? "PREPARED" : "");
    if (row.store()) return 1;
  }
  return 0;
}

}  // namespace

int start_transactions_table(void *place) { return start_info_table(place, columns, fill); }

}  // namespace millpond
