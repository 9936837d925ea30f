// A row of a table of information_schema, column by column.

#include "info_row.h"

#include <sql_acl.h>

namespace millpond {

st_mysql_information_schema table_interface = {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

void InfoRow::begin() {
  restore_record(table_, s->default_values);
  column_ = 0;
}

Field *InfoRow::next() {
  Field *field = table_->field[column_++];
  field->set_notnull();
  return field;
}

InfoRow &InfoRow::number(ulonglong value) {
  next()->store(static_cast<longlong>(value), true);
  return *this;
}

InfoRow &InfoRow::real(double value) {
  next()->store(value);
  return *this;
}

InfoRow &InfoRow::text(const std::string &value, CHARSET_INFO *charset) {
  next()->store(value.data(), value.size(), charset);
  return *this;
}

InfoRow &InfoRow::text_or_null(const std::string &value, CHARSET_INFO *charset) {
  if (!value.empty()) return text(value, charset);
  next()->set_null();
  return *this;
}

InfoRow &InfoRow::number_or_null(ulonglong value) {
  if (value != 0) return number(value);
  next()->set_null();
  return *this;
}

InfoRow &InfoRow::time_or_null(time_t moment) {
  Field *field = next();
  if (moment == 0) {
    field->set_null();
    return *this;
  }
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
  field->store_time(&time);
  return *this;
}

bool InfoRow::store() {
  const bool failed = schema_table_store_record(thd_, table_);
  begin();
  return failed;
}

int start_info_table(void *place, ST_FIELD_INFO *columns, int (*fill)(THD *, TABLE_LIST *, COND *)) {
  auto *table = static_cast<ST_SCHEMA_TABLE *>(place);
  table->fields_info = columns;
  table->fill_table = fill;
  return 0;
}

bool lacks_process_privilege(THD *thd) { return check_global_access(thd, PROCESS_ACL); }

}  // namespace millpond
