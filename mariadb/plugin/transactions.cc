// The table information_schema.MILLPOND_TRX: the transactions that run now.

#include "transactions.h"
#include "session.h"

#include <sql_acl.h>
#include <sql_i_s.h>

namespace millpond {

st_mysql_information_schema transactions_interface = {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

namespace {

enum { CONNECTION_ID, STATE, STARTED, ROWS_CHANGED };

ST_FIELD_INFO columns[] = {
    Show::Column("CONNECTION_ID", Show::ULonglong(), NOT_NULL),
    Show::Column("STATE", Show::Varchar(9), NOT_NULL),
    Show::Column("STARTED", Show::Datetime(0), NOT_NULL),
    Show::Column("ROWS_CHANGED", Show::ULonglong(), NOT_NULL),
    Show::CEnd(),
};

// Stores a moment in the time zone of the server's machine.
int store_time(Field *field, time_t moment) {
  tm parts;
  localtime_r(&moment, &parts);
  MYSQL_TIME time{};
  time.year = parts.tm_year + 1900;
  time.month = parts.tm_mon + 1;
  time.day = parts.tm_mday;
  time.hour = parts.tm_hour;
  time.minute = parts.tm_min;
  time.second = parts.tm_sec;
  time.time_type = MYSQL_TIMESTAMP_DATETIME;
  return field->store_time(&time);
}

int fill(THD *thd, TABLE_LIST *tables, COND *) {
  // Others' transactions are shown to those only who may see others' connections.
  if (check_global_access(thd, PROCESS_ACL)) return 1;
  TABLE *table = tables->table;
  for (const Session::Shown &shown : Session::running()) {
    const std::string state = shown.waits ? "LOCK WAIT" : "RUNNING";
    table->field[CONNECTION_ID]->store(static_cast<longlong>(shown.connection), true);
    table->field[STATE]->store(state.data(), state.size(), system_charset_info);
    store_time(table->field[STARTED], shown.started);
    table->field[ROWS_CHANGED]->store(static_cast<longlong>(shown.changed_rows), true);
    if (schema_table_store_record(thd, table)) return 1;
  }
  return 0;
}

}  // namespace

int start_transactions_table(void *place) {
  auto *table = static_cast<ST_SCHEMA_TABLE *>(place);
  table->fields_info = columns;
  table->fill_table = fill;
  return 0;
}

}  // namespace millpond
