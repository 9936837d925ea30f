// What the server's own list of decided transactions has, where there is no binary log.
//
// Before several engines commit what they have prepared, the server writes the transaction's number into a
// file (log_tc, tc.log). The engines need not have their commits on disk then: after a crash the server has
// to commit what is prepared and in the file. MariaDB 10.11 reads the file and rolls all of it back, also
// what was acknowledged, and what one of the engines has committed. So it is committed here, before the
// server begins with that. To a server that goes by its file this changes nothing.
//
// File, in the machine's order of bytes: magic 4 bytes | number of engines u8 | 0 0 0 | numbers u64, 0: none

#include "tc_log.h"
#include "engine.h"
#include "two_phase.h"

#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <unordered_set>
#include <vector>

extern char *opt_tc_log_file;

namespace millpond {

namespace {

constexpr uchar MAGIC[] = {0xfe, 0x23, 0x05, 0x74};

using Numbers = std::unordered_set<my_xid>;

// Returns the numbers in the file, and 0. There is no file if the server has stopped as it should.
Numbers decided() {
  char path[FN_REFLEN];
  fn_format(path, opt_tc_log_file, mysql_data_home, "", MY_UNPACK_FILENAME);
  std::ifstream file(path, std::ios::binary);
  Numbers numbers;
  my_xid word = 0;
  auto read = [&] { return static_cast<bool>(file.read(reinterpret_cast<char *>(&word), sizeof word)); };
  if (!read() || memcmp(&word, MAGIC, sizeof MAGIC) != 0) return numbers;
  while (read()) numbers.insert(word);
  return numbers;
}

// Commits in an engine those of its prepared transactions that are decided. Returns false if one is not.
bool commit_in(handlerton *entry, const char *name, XID *prepared, size_t count, const Numbers &numbers) {
  unsigned committed = 0, failed = 0;
  for (XID *xid = prepared; xid != prepared + count; xid++) {
    if (numbers.count(xid->get_my_xid()) == 0) continue;
    (entry->commit_by_xid(entry, xid) == 0 ? committed : failed)++;
  }
  if (committed > 0) {
    sql_print_information("Millpond: %s has committed %u prepared transactions that %s has", name, committed,
                          opt_tc_log_file);
  }
  if (failed > 0) {
    sql_print_error("Millpond: %s has not committed %u prepared transactions that %s has", name, failed,
                    opt_tc_log_file);
  }
  return failed == 0;
}

// The server asks twice when it starts, so each engine tells all that is prepared as often as it is asked with
// a list that has room for it.
my_bool commit_in_other(THD *, plugin_ref plugin, void *numbers) {
  handlerton *other = plugin_hton(plugin);
  if (other == engine || other->recover == nullptr || other->commit_by_xid == nullptr) return false;
  const std::unique_ptr<XID[]> list(new (std::nothrow) XID[MAX_XID_LIST_SIZE]);
  const int found = list == nullptr ? 0 : other->recover(other, list.get(), MAX_XID_LIST_SIZE);
  const size_t count = found > 0 ? found : 0;
  (void)commit_in(other, plugin_name(plugin)->str, list.get(), count, *static_cast<Numbers *>(numbers));
  return false;
}

}  // namespace

bool commit_decided() {
  if (opt_bin_log || mysqld_server_started) return true;
  Numbers numbers = decided();
  numbers.erase(0);
  if (numbers.empty()) return true;
  (void)plugin_foreach(nullptr, commit_in_other, MYSQL_STORAGE_ENGINE_PLUGIN, &numbers);
  std::vector<XID> own = prepared_xids();
  return commit_in(engine, "Millpond", own.data(), own.size(), numbers);
}

}  // namespace millpond
