// Locks in words: for tables of information_schema, the monitor and the server's log.

#include "lock_text.h"
#include "figures.h"
#include "server_functions.h"

namespace millpond {

namespace {

// The longest part of a key that is shown, bytes.
constexpr size_t KEY_BYTES = 64;

// The tree of rows has no index's name. InnoDB calls the index of a table without a primary key
// otherwise; here nobody knows without opening the table.
constexpr char INDEX_OF_ROWS[] = "PRIMARY";
constexpr char PARTITION[] = "#P#";

// Returns a name as SQL has it. The server's files have it in another encoding.
std::string decoded(const std::string &name) {
  char text[NAME_LEN + MYSQL50_TABLE_NAME_PREFIX_LENGTH + 1];
  const uint bytes = filename_to_tablename(name.c_str(), text, sizeof text, true);
  return std::string(text, bytes);
}

std::string hexadecimal(millpond_bytes key) {
  static const char DIGITS[] = "0123456789ABCDEF";
  std::string text = "0x";
  for (size_t n = 0; n < key.len && n < KEY_BYTES; n++) {
    text.push_back(DIGITS[key.ptr[n] >> 4]);
    text.push_back(DIGITS[key.ptr[n] & 15]);
  }
  if (key.len > KEY_BYTES) text.append("...");
  return text;
}

const char *type_of(uint place) {
  switch (place) {
    case MILLPOND_LOCK_PLACE_TABLE: return "TABLE";
    case MILLPOND_LOCK_PLACE_COUNTER: return "COUNTER";
    case MILLPOND_LOCK_PLACE_ROW: return "ROW";
    case MILLPOND_LOCK_PLACE_ROWS: return "ROWS";
    case MILLPOND_LOCK_PLACE_ROWS_AND_GAPS: return "ROWS AND GAPS";
    default: return "TURN";
  }
}

bool has_keys(uint place) {
  return place == MILLPOND_LOCK_PLACE_ROW || place == MILLPOND_LOCK_PLACE_ROWS ||
         place == MILLPOND_LOCK_PLACE_ROWS_AND_GAPS;
}

}  // namespace

TreeNames names_of(millpond_bytes tree) {
  TreeNames names;
  std::string rest = text_of(tree);
  const size_t table = rest.find('/');
  if (table == std::string::npos) return names;
  names.schema = decoded(rest.substr(0, table));
  rest.erase(0, table + 1);
  names.index = INDEX_OF_ROWS;
  const size_t index = rest.find('/');
  if (index != std::string::npos) {
    // The name of an index has no other encoding.
    names.index = rest.substr(index + 1);
    rest.erase(index);
  }
  const size_t partition = rest.find(PARTITION);
  if (partition != std::string::npos) {
    names.partition = decoded(rest.substr(partition + sizeof PARTITION - 1));
    rest.erase(partition);
  }
  names.table = decoded(rest);
  return names;
}

Lock::Lock(const millpond_lock_info &lock)
    : transaction(lock.transaction),
      tag(lock.tag),
      names(names_of(lock.table)),
      type(type_of(lock.place)),
      mode(lock.exclusive ? "X" : "S"),
      waits(lock.waits != 0) {
  if (has_keys(lock.place)) from = hexadecimal(lock.key);
  if (lock.to.ptr != nullptr) to = hexadecimal(lock.to);
}

std::string Lock::line() const {
  std::string text = type + " LOCK";
  if (!names.table.empty()) {
    if (!from.empty()) text += " index " + names.index + " of";
    text += " table `" + names.schema + "`.`" + names.table + "`";
    if (!names.partition.empty()) text += " /* Partition `" + names.partition + "` */";
  }
  text += " trx id " + std::to_string(transaction) + " lock mode " + mode;
  if (type == "ROW") text += " key " + from;
  if (type != "ROW" && !from.empty()) text += " keys from " + from + (to.empty() ? " on" : " to before " + to);
  if (waits) text += " waiting";
  return text;
}

}  // namespace millpond
