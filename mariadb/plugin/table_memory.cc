// What the process remembers of a table.

#include "table_memory.h"

#include <map>
#include <mutex>

namespace millpond {

namespace {

std::mutex mutex;
std::map<std::string, std::shared_ptr<TableMemory>> by_table;

}  // namespace

std::shared_ptr<TableMemory> memory_of(const std::string &table) {
  std::lock_guard<std::mutex> guard(mutex);
  std::shared_ptr<TableMemory> &memory = by_table[table];
  if (!memory) memory = std::make_shared<TableMemory>();
  return memory;
}

void rename_memory(const std::string &from, const std::string &to) {
  std::lock_guard<std::mutex> guard(mutex);
  auto found = by_table.find(from);
  if (found == by_table.end()) return;
  std::shared_ptr<TableMemory> memory = found->second;
  by_table.erase(found);
  by_table[to] = memory;
}

void forget_memory(const std::string &table) {
  std::lock_guard<std::mutex> guard(mutex);
  by_table.erase(table);
}

void forget_all_memories() {
  std::lock_guard<std::mutex> guard(mutex);
  by_table.clear();
}

}  // namespace millpond
