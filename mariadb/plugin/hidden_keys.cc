// Hidden keys: the keys of rows in tables without a primary key.

#include "hidden_keys.h"

#include <map>
#include <mutex>

namespace millpond {

namespace {

std::mutex mutex;
std::map<std::string, std::shared_ptr<HiddenKeys>> by_table;

}  // namespace

std::shared_ptr<HiddenKeys> hidden_keys_of(const std::string &table) {
  std::lock_guard<std::mutex> guard(mutex);
  std::shared_ptr<HiddenKeys> &keys = by_table[table];
  if (!keys) keys = std::make_shared<HiddenKeys>();
  return keys;
}

void rename_hidden_keys(const std::string &from, const std::string &to) {
  std::lock_guard<std::mutex> guard(mutex);
  auto found = by_table.find(from);
  if (found == by_table.end()) return;
  std::shared_ptr<HiddenKeys> keys = found->second;
  by_table.erase(found);
  by_table[to] = keys;
}

void forget_hidden_keys(const std::string &table) {
  std::lock_guard<std::mutex> guard(mutex);
  by_table.erase(table);
}

void forget_all_hidden_keys() {
  std::lock_guard<std::mutex> guard(mutex);
  by_table.clear();
}

}  // namespace millpond
