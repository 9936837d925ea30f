// Reads the server's binary log: its index, and the transactions in its files.
#pragma once

#include "server.h"

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace millpond {

// A transaction of the log that ended with a commit of engines with two-phase commit.
struct BinlogTransaction {
  uint64_t id = 0;        // The server's number of it, which its name in the engines holds too.
  uint64_t end = 0;       // Where it ends in the file.
  uint64_t begin = 0;
  bool is_wanted = false;  // It changed wanted tables.
  // What it did to the wanted tables: for each statement its table maps and rows, as they are in the
  // file, and the statements that set savepoints and went back to them.
  struct Step {
    bool is_query = false;
    std::string bytes;
  };
  std::vector<Step> steps;
  std::string unread;  // Why its steps are not all; empty: they are.
};

// Reads one file of the log. A file that the server did not finish may end anywhere.
class BinlogFile {
 public:
  // Opens a file. From then on it can be read whatever becomes of its name. Returns false if that fails.
  bool open(const std::string &path);
  const std::string &path() const { return path_; }

  // Tells whether a table's rows are wanted.
  using Wanted = std::function<bool(const std::string &schema, const std::string &table)>;
  // Gets each transaction in turn. Returning false ends the reading.
  using Found = std::function<bool(const BinlogTransaction &)>;

  // Reads the transactions from `position` on, or from the file's begin if that is smaller. The last
  // one counts as the server counts it, which reads on without checksums when it recovers. Returns
  // false if the file cannot be read, or if it is damaged and goes on after it; then error() tells why.
  bool read(uint64_t position, const Wanted &wanted, const Found &found);

  const std::string &error() const { return error_; }
  // The event that describes the file's format.
  const std::string &format() const { return format_; }

 private:
  struct Closer {
    void operator()(FILE *file) const { fclose(file); }
  };
  bool fail(uint64_t position, const std::string &why);

  std::string path_;
  std::unique_ptr<FILE, Closer> file_;
  std::string error_;
  std::string format_;
};

// Returns the files that an index of the log names, in order. False: it cannot be read.
bool binlog_files(const char *index, std::vector<std::string> *files);

}  // namespace millpond
