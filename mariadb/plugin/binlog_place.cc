// A place in the binary log, as the database's bookmark holds it.

#include "binlog_place.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace millpond {

namespace {

constexpr uchar PLACE_VERSION = 1;
constexpr uchar AT_REST = 1;
constexpr size_t HEAD_BYTES = 1 + 1 + 4 + 4 + 8;
constexpr size_t TRANSACTION_BYTES = 8;

void put(uint64_t value, size_t bytes, std::string *out) {
  for (size_t n = 0; n < bytes; n++) out->push_back(static_cast<char>(value >> (8 * n)));
}

}  // namespace

std::string BinlogPlace::encoded() const {
  std::string bytes(1, static_cast<char>(PLACE_VERSION));
  put(at_rest ? AT_REST : 0, 1, &bytes);
  put(name, 4, &bytes);
  put(number, 4, &bytes);
  put(position, 8, &bytes);
  for (uint64_t transaction : decided) put(transaction, TRANSACTION_BYTES, &bytes);
  return bytes;
}

bool BinlogPlace::decode(const std::string &bytes, BinlogPlace *place) {
  const auto *at = reinterpret_cast<const uchar *>(bytes.data());
  if (bytes.size() < HEAD_BYTES || at[0] != PLACE_VERSION) return false;
  if ((bytes.size() - HEAD_BYTES) % TRANSACTION_BYTES != 0) return false;
  place->at_rest = at[1] & AT_REST;
  place->name = uint4korr(at + 2);
  place->number = uint4korr(at + 6);
  place->position = uint8korr(at + 10);
  place->decided.clear();
  for (size_t n = HEAD_BYTES; n < bytes.size(); n += TRANSACTION_BYTES) place->decided.push_back(uint8korr(at + n));
  return true;
}

bool BinlogPlace::of(const char *file, uint64_t position, BinlogPlace *place) {
  const char *slash = strrchr(file, FN_LIBCHAR);
  const char *start = slash ? slash + 1 : file, *dot = strrchr(start, '.');
  if (dot == nullptr || dot[1] == 0) return false;
  char *end = nullptr;
  const unsigned long number = strtoul(dot + 1, &end, 10);
  if (*end != 0 || number > UINT32_MAX) return false;
  place->name = my_checksum(0, start, dot - start);
  place->number = static_cast<uint32_t>(number);
  place->position = position;
  place->at_rest = false;
  place->decided.clear();
  return true;
}

bool BinlogPlace::has_decided(uint64_t transaction) const {
  return std::find(decided.begin(), decided.end(), transaction) != decided.end();
}

}  // namespace millpond
