// Statements that the plugin runs in its own server.

#include "sql_connection.h"

#include <mysql/service_sql.h>

namespace millpond {

SqlConnection::~SqlConnection() {
  if (mysql_ != nullptr) mysql_close(mysql_);
}

bool SqlConnection::connect() {
  mysql_ = mysql_init(nullptr);
  return mysql_ != nullptr && mysql_real_connect_local(mysql_) != nullptr;
}

bool SqlConnection::run(const std::string &statement) {
  if (mysql_real_query(mysql_, statement.data(), statement.size()) != 0) return false;
  if (MYSQL_RES *result = mysql_store_result(mysql_)) mysql_free_result(result);
  return true;
}

bool SqlConnection::run(const std::string &statement, std::string *first, std::string *second) {
  if (mysql_real_query(mysql_, statement.data(), statement.size()) != 0) return false;
  MYSQL_RES *result = mysql_store_result(mysql_);
  if (result == nullptr) return false;
  if (MYSQL_ROW row = mysql_fetch_row(result)) {
    if (row[0] != nullptr) *first = row[0];
    if (row[1] != nullptr) *second = row[1];
  }
  mysql_free_result(result);
  return true;
}

std::string SqlConnection::error() {
  if (mysql_ == nullptr) return "no memory";
  return std::to_string(mysql_errno(mysql_)) + " " + mysql_error(mysql_);
}

}  // namespace millpond
