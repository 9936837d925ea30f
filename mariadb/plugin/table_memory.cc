// What the process remembers of a table.

#include "table_memory.h"

#include <map>
#include <mutex>

namespace millpond {

namespace {

std::mutex mutex;
std::map<std::string, std::shared_ptr<TableMemory>> by_table;
// What was done to tables that are gone.
RowCounts of_gone;

// Removes a table's memory, but for the counts.
void remove(const std::string &table) {
  const auto found = by_table.find(table);
  if (found == by_table.end()) return;
  of_gone.add(found->second->counts.get());
  by_table.erase(found);
}

}  // namespace

std::shared_ptr<TableMemory> memory_of(const std::string &table) {
  std::lock_guard<std::mutex> guard(mutex);
  std::shared_ptr<TableMemory> &memory = by_table[table];
  if (!memory) memory = std::make_shared<TableMemory>();
  return memory;
}

std::shared_ptr<TableMemory> known_memory_of(const std::string &table) {
  std::lock_guard<std::mutex> guard(mutex);
  const auto found = by_table.find(table);
  return found == by_table.end() ? nullptr : found->second;
}

void rename_memory(const std::string &from, const std::string &to) {
  std::lock_guard<std::mutex> guard(mutex);
  auto found = by_table.find(from);
  if (found == by_table.end()) return;
  std::shared_ptr<TableMemory> memory = found->second;
  by_table.erase(found);
  remove(to);
  by_table[to] = memory;
}

void forget_memory(const std::string &table) {
  std::lock_guard<std::mutex> guard(mutex);
  remove(table);
}

void forget_all_memories() {
  std::lock_guard<std::mutex> guard(mutex);
  by_table.clear();
  of_gone = RowCounts();
}

RowCounts all_row_counts() {
  std::lock_guard<std::mutex> guard(mutex);
  RowCounts all = of_gone;
  for (const auto &[table, memory] : by_table) all.add(memory->counts.get());
  return all;
}

}  // namespace millpond
