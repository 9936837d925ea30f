// Hidden keys: the keys of rows in tables without a primary key.
//
// They are numbers in the order of inserts. The next one is in memory, and lives longer than the
// server's cache entry of the table: rows of open transactions are not seen by others. The first
// insert after a start of the server takes it from the greatest key of the tree.
#pragma once

#include "server.h"

#include <atomic>
#include <memory>
#include <string>

namespace millpond {

struct HiddenKeys {
  std::atomic<bool> known{false};
  std::atomic<ulonglong> next{1};

  // Makes the next key greater than `used`.
  void pass(ulonglong used) {
    ulonglong now = next.load(std::memory_order_relaxed);
    while (now <= used && !next.compare_exchange_weak(now, used + 1)) {
    }
  }
};

// Returns the hidden keys of a table, and makes them where there are none.
std::shared_ptr<HiddenKeys> hidden_keys_of(const std::string &table);
void rename_hidden_keys(const std::string &from, const std::string &to);
void forget_hidden_keys(const std::string &table);
void forget_all_hidden_keys();

}  // namespace millpond
