// A row of a table of information_schema, column by column.
#pragma once

#include "server.h"

#include <sql_i_s.h>

#include <string>

namespace millpond {

extern st_mysql_information_schema table_interface;

class InfoRow {
 public:
  InfoRow(THD *thd, TABLE *table) : thd_(thd), table_(table) { begin(); }

  InfoRow &number(ulonglong value);
  InfoRow &real(double value);
  InfoRow &text(const std::string &value, CHARSET_INFO *charset = system_charset_info);
  // As text(), NULL for an empty one.
  InfoRow &text_or_null(const std::string &value, CHARSET_INFO *charset = system_charset_info);
  // As number(), NULL for 0.
  InfoRow &number_or_null(ulonglong value);
  // A moment in the time zone of the server's machine.
  InfoRow &time_or_null(time_t moment);

  // Gives the row to the statement, and begins the next one. Returns true after an error.
  bool store();

 private:
  void begin();
  Field *next();

  THD *thd_;
  TABLE *table_;
  uint column_ = 0;
};

// Describes a table to the server.
int start_info_table(void *place, ST_FIELD_INFO *columns, int (*fill)(THD *, TABLE_LIST *, COND *));

// Tells whether the statement must not see what others do; that is its error then.
bool lacks_process_privilege(THD *thd);

}  // namespace millpond
