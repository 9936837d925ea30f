// Locks in words: for tables of information_schema, the monitor and the server's log.
#pragma once

#include "engine.h"

#include <string>

namespace millpond {

// The names behind a tree. Empty where there is none.
struct TreeNames {
  std::string schema, table, partition, index;
};

// Returns the names in the encoding of the server's own tables.
TreeNames names_of(millpond_bytes tree);

// Copies of what a call of the engine shows.
struct Lock {
  ulonglong transaction = 0;
  ulonglong tag = 0;  // The connection's number, or 0.
  TreeNames names;
  std::string type;      // TABLE, COUNTER, ROW, ROWS, ROWS AND GAPS, TURN
  std::string mode;      // S, X
  std::string from, to;  // Bytes of keys in hexadecimal; empty where there are none.
  bool waits = false;

  Lock() = default;
  explicit Lock(const millpond_lock_info &lock);

  // Returns a line about the lock, without an end of line.
  std::string line() const;
};

}  // namespace millpond
