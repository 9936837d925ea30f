// What the process remembers of a table. It lives longer than the server's cache entry of the table,
// and ends with the table or the plugin.
#pragma once

#include "row_counts.h"
#include "server.h"

#include <atomic>
#include <ctime>
#include <memory>
#include <string>

namespace millpond {

struct TableMemory {
  // Hidden keys, of rows in tables without a primary key: numbers in the order of inserts. Rows of
  // open transactions are not seen by others, so the next key is here. The first insert after a start
  // of the server takes it from the greatest key of the tree.
  std::atomic<bool> knows_key{false};
  std::atomic<ulonglong> next_key{1};

  // When a transaction that has changed rows was committed last; 0: not since the start.
  std::atomic<time_t> changed_at{0};

  // What statements have done since the start.
  SharedRowCounts counts;
  // Errors 1020, 1205 and 1213 of statements at this table.
  std::atomic<ulonglong> write_conflicts{0}, lock_timeouts{0}, deadlocks{0};

  // Makes the next key greater than `used`.
  void pass_key(ulonglong used) {
    ulonglong now = next_key.load(std::memory_order_relaxed);
    while (now <= used && !next_key.compare_exchange_weak(now, used + 1)) {
    }
  }
};

// Returns the memory of a table, and makes it where there is none.
std::shared_ptr<TableMemory> memory_of(const std::string &table);
// Returns the memory of a table; null if there is none, because nothing has opened it since the start.
std::shared_ptr<TableMemory> known_memory_of(const std::string &table);
void rename_memory(const std::string &from, const std::string &to);
void forget_memory(const std::string &table);
void forget_all_memories();

// Returns what statements have done to all tables since the start, dropped ones included.
RowCounts all_row_counts();

}  // namespace millpond
