// A position in the binary log, as the database's bookmark holds it.

#include "binlog_position.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace millpond {

namespace {

constexpr uchar POSITION_VERSION = 1;
constexpr uchar AT_REST = 1;
constexpr size_t HEAD_BYTES = 1 + 1 + 4 + 4 + 8;
constexpr size_t TRANSACTION_BYTES = 8;

void put(uint64_t value, size_t bytes, std::string *out) {
  for (size_t n = 0; n < bytes; n++) out->push_back(static_cast<char>(value >> (8 * n)));
}

}  // namespace

std::string BinlogPosition::encoded() const {
  std::string bytes(1, static_cast<char>(POSITION_VERSION));
  put(at_rest ? AT_REST : 0, 1, &bytes);
  put(name, 4, &bytes);
  put(number, 4, &bytes);
  put(position, 8, &bytes);
  for (uint64_t transaction : decided) put(transaction, TRANSACTION_BYTES, &bytes);
  return bytes;
}

bool BinlogPosition::decode(const std::string &bytes, BinlogPosition *result) {
  const auto *at = reinterpret_cast<const uchar *>(bytes.data());
  if (bytes.size() < HEAD_BYTES || at[0] != POSITION_VERSION) return false;
  if ((bytes.size() - HEAD_BYTES) % TRANSACTION_BYTES != 0) return false;
  result->at_rest = at[1] & AT_REST;
  result->name = uint4korr(at + 2);
  result->number = uint4korr(at + 6);
  result->position = uint8korr(at + 10);
  result->decided.clear();
  for (size_t n = HEAD_BYTES; n < bytes.size(); n += TRANSACTION_BYTES) result->decided.push_back(uint8korr(at + n));
  return true;
}

bool BinlogPosition::of(const char *file, uint64_t position, BinlogPosition *result) {
  const char *slash = strrchr(file, FN_LIBCHAR);
  const char *start = slash ? slash + 1 : file, *dot = strrchr(start, '.');
  if (dot == nullptr || dot[1] == 0) return false;
  char *end = nullptr;
  const unsigned long number = strtoul(dot + 1, &end, 10);
  if (*end != 0 || number > UINT32_MAX) return false;
  result->name = my_checksum(0, start, dot - start);
  result->number = static_cast<uint32_t>(number);
  result->position = position;
  result->at_rest = false;
  result->decided.clear();
  return true;
}

bool BinlogPosition::has_decided(uint64_t transaction) const {
  return std::find(decided.begin(), decided.end(), transaction) != decided.end();
}

}  // namespace millpond
