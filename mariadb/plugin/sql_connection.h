// Statements that the plugin runs in its own server.
#pragma once

#include "server.h"

#include <mysql.h>

#include <string>

namespace millpond {

// A connection without a client. It may do everything, and nothing of it is in the binary log.
class SqlConnection {
 public:
  SqlConnection() = default;
  ~SqlConnection();
  SqlConnection(const SqlConnection &) = delete;
  SqlConnection &operator=(const SqlConnection &) = delete;

  bool connect();
  // Runs a statement. Returns false if that fails.
  bool run(const std::string &statement);
  // Puts the first columns of the first row into `first` and `second`, which stay empty if there is none.
  bool run(const std::string &statement, std::string *first, std::string *second);
  std::string error();

 private:
  MYSQL *mysql_ = nullptr;
};

}  // namespace millpond
