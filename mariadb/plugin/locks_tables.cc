// The tables information_schema.MILLPOND_LOCKS and MILLPOND_LOCK_WAITS: the locks of transactions, and
// which transaction waits for which.

#include "locks_tables.h"
#include "info_row.h"
#include "lock_text.h"
#include "session.h"

#include <map>
#include <vector>

namespace millpond {

namespace {

// A statement that asks gets no more, with a warning.
constexpr size_t LOCKS_MOST = 100000;

ST_FIELD_INFO locks_columns[] = {
    Show::Column("TRX_ID", Show::ULonglong(), NOT_NULL),
    Show::Column("CONNECTION_ID", Show::ULonglong(), NULLABLE),
    Show::Column("LOCK_TYPE", Show::Varchar(16), NOT_NULL),
    Show::Column("LOCK_MODE", Show::Varchar(1), NOT_NULL),
    Show::Column("LOCK_STATUS", Show::Varchar(7), NOT_NULL),
    Show::Column("TABLE_SCHEMA", Show::Name(), NULLABLE),
    Show::Column("TABLE_NAME", Show::Name(), NULLABLE),
    Show::Column("PARTITION_NAME", Show::Name(), NULLABLE),
    Show::Column("INDEX_NAME", Show::Name(), NULLABLE),
    Show::Column("KEY_FROM", Show::Varchar(160), NULLABLE),
    Show::Column("KEY_BEFORE", Show::Varchar(160), NULLABLE),
    Show::CEnd(),
};

int collect(void *context, const millpond_lock_info *lock) {
  static_cast<std::vector<Lock> *>(context)->emplace_back(*lock);
  return 0;
}

void warn_if_cut(THD *thd, size_t shown) {
  if (shown < LOCKS_MOST) return;
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR,
                      "There are more than the %zu that are shown", LOCKS_MOST);
}

void put_names(InfoRow &row, const Lock &lock) {
  const TreeNames &names = lock.names;
  row.text_or_null(names.schema).text_or_null(names.table).text_or_null(names.partition).text_or_null(names.index);
}

int fill_locks(THD *thd, TABLE_LIST *tables, COND *) {
  if (lacks_process_privilege(thd)) return 1;
  std::vector<Lock> locks;
  millpond_locks(database, LOCKS_MOST, collect, &locks);
  InfoRow row(thd, tables->table);
  for (const Lock &lock : locks) {
    row.number(lock.transaction).number_or_null(lock.tag).text(lock.type).text(lock.mode);
    row.text(lock.waits ? "WAITING" : "GRANTED");
    put_names(row, lock);
    row.text_or_null(lock.from).text_or_null(lock.to);
    if (row.store()) return 1;
  }
  warn_if_cut(thd, locks.size());
  return 0;
}

ST_FIELD_INFO waits_columns[] = {
    Show::Column("WAITING_TRX_ID", Show::ULonglong(), NOT_NULL),
    Show::Column("WAITING_CONNECTION_ID", Show::ULonglong(), NULLABLE),
    Show::Column("WAITING_QUERY", Show::Varchar(1024), NULLABLE),
    Show::Column("LOCK_TYPE", Show::Varchar(16), NOT_NULL),
    Show::Column("LOCK_MODE", Show::Varchar(1), NOT_NULL),
    Show::Column("TABLE_SCHEMA", Show::Name(), NULLABLE),
    Show::Column("TABLE_NAME", Show::Name(), NULLABLE),
    Show::Column("PARTITION_NAME", Show::Name(), NULLABLE),
    Show::Column("INDEX_NAME", Show::Name(), NULLABLE),
    Show::Column("KEY_FROM", Show::Varchar(160), NULLABLE),
    Show::Column("BLOCKING_TRX_ID", Show::ULonglong(), NOT_NULL),
    Show::Column("BLOCKING_CONNECTION_ID", Show::ULonglong(), NULLABLE),
    Show::Column("BLOCKING_QUERY", Show::Varchar(1024), NULLABLE),
    Show::CEnd(),
};

struct Wait {
  Lock request;
  ulonglong blocker, blocker_connection;
};

int collect_waits(void *context, const millpond_lock_info *request, uint64_t blocker, uint64_t tag) {
  static_cast<std::vector<Wait> *>(context)->push_back({Lock(*request), blocker, tag});
  return 0;
}

using Statements = std::map<ulonglong, Session::Shown>;

void put_statement(InfoRow &row, const Statements &statements, ulonglong connection) {
  const auto found = statements.find(connection);
  if (found == statements.end()) {
    row.text_or_null(std::string());
  } else {
    row.text_or_null(found->second.statement, found->second.charset);
  }
}

int fill_waits(THD *thd, TABLE_LIST *tables, COND *) {
  if (lacks_process_privilege(thd)) return 1;
  std::vector<Wait> waits;
  millpond_lock_waits(database, LOCKS_MOST, collect_waits, &waits);
  Statements statements;
  for (Session::Shown &shown : Session::running()) statements.emplace(shown.connection, shown);
  InfoRow row(thd, tables->table);
  for (const Wait &wait : waits) {
    const Lock &request = wait.request;
    row.number(request.transaction).number_or_null(request.tag);
    put_statement(row, statements, request.tag);
    row.text(request.type).text(request.mode);
    put_names(row, request);
    row.text_or_null(request.from).number(wait.blocker).number_or_null(wait.blocker_connection);
    put_statement(row, statements, wait.blocker_connection);
    if (row.store()) return 1;
  }
  return 0;
}

}  // namespace

int start_locks_table(void *place) { return start_info_table(place, locks_columns, fill_locks); }
int start_lock_waits_table(void *place) { return start_info_table(place, waits_columns, fill_waits); }

}  // namespace millpond
