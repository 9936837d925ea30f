// Two-phase commit: with the binary log, with other engines, and by XA statements.

#include "two_phase.h"
#include "engine.h"
#include "repeat.h"
#include "server_functions.h"
#include "session.h"

#include <algorithm>
#include <atomic>
#include <vector>

namespace millpond {

namespace {

// What the functions that decide by name return: those of the XA specification.
constexpr int DECIDED = 0;
constexpr int FAILED = -3;
constexpr int UNKNOWN = -4;

// The names in the engine: format, length of the first and of the second part, both parts. The
// numbers have these bytes, the least significant first.
constexpr size_t FORMAT_BYTES = 4;
constexpr size_t HEAD_BYTES = FORMAT_BYTES + 2;

std::string encoded(const XID &xid) {
  std::string name;
  for (size_t n = 0; n < FORMAT_BYTES; n++) name.push_back(static_cast<char>(xid.formatID >> (8 * n)));
  name.push_back(static_cast<char>(xid.gtrid_length));
  name.push_back(static_cast<char>(xid.bqual_length));
  name.append(xid.data, xid.gtrid_length + xid.bqual_length);
  return name;
}

// Returns false for a name that is none of the server's.
bool decode(const std::string &name, XID *xid) {
  if (name.size() < HEAD_BYTES) return false;
  const auto *bytes = reinterpret_cast<const uchar *>(name.data());
  const long first = bytes[FORMAT_BYTES], second = bytes[FORMAT_BYTES + 1];
  if (first > MAXGTRIDSIZE || second > MAXBQUALSIZE || name.size() != HEAD_BYTES + first + second) return false;
  uint32 format = 0;
  for (size_t n = 0; n < FORMAT_BYTES; n++) format |= static_cast<uint32>(bytes[n]) << (8 * n);
  const char *parts = name.data() + HEAD_BYTES;
  xid->set(static_cast<int32>(format), parts, first, parts + first, second);
  return true;
}

int note_name(void *names, millpond_bytes name) {
  static_cast<std::vector<std::string> *>(names)->emplace_back(reinterpret_cast<const char *>(name.ptr), name.len);
  return 0;
}

// Returns the names of all prepared transactions, sorted.
std::vector<std::string> prepared() {
  std::vector<std::string> names;
  if (millpond_prepared(database, note_name, &names) != MILLPOND_RC_OK) {
    sql_print_error("Millpond: prepared transactions are not known: %s", millpond_error_text());
  }
  return names;
}

int prepare(handlerton *, THD *thd, bool all) {
  Session *session = Session::existing(thd);
  return session ? session->prepare(all) : 0;
}

void commit_ordered(handlerton *, THD *thd, bool all) {
  if (Session *session = Session::existing(thd)) session->commit_ordered(all);
}

// The server asks when it starts, with a list for so many, and again while the list was filled. It is
// told each of them once, also if it asks from the start a second time.
int recover(handlerton *, XID *list, uint length) {
  static std::string last;
  uint found = 0;
  const std::vector<std::string> names = prepared();
  for (auto name = std::upper_bound(names.begin(), names.end(), last); name != names.end() && found < length; ++name) {
    last = *name;
    if (decode(*name, &list[found])) found++;
  }
  return static_cast<int>(found);
}

using Decide = int (*)(const millpond_db *, millpond_bytes);

int decide_by_name(Decide decide, const std::string &name) {
  switch (decide(database, bytes_of(name.data(), name.size()))) {
    case MILLPOND_RC_OK: return DECIDED;
    case MILLPOND_RC_MISUSE: return UNKNOWN;
    default: sql_print_error("Millpond: a prepared transaction is not decided: %s", millpond_error_text()); return FAILED;
  }
}

// To the server two names are one if only their formats differ.
int decide_by_xid(Decide decide, const XID *xid) {
  const std::string name = encoded(*xid);
  const int outcome = decide_by_name(decide, name);
  if (outcome != UNKNOWN) return outcome;
  for (const std::string &other : prepared()) {
    if (name.compare(FORMAT_BYTES, std::string::npos, other, FORMAT_BYTES, std::string::npos) == 0) {
      return decide_by_name(decide, other);
    }
  }
  return UNKNOWN;
}

// At the start the server asks each engine to commit what any of them has prepared.
bool is_prepared(const XID *xid) {
  const std::vector<std::string> names = prepared();
  return std::binary_search(names.begin(), names.end(), encoded(*xid));
}

int commit_by_xid(handlerton *, XID *xid) {
  if (needs_note_of_decision(*xid) && is_prepared(xid) && !note_decided(*xid)) return FAILED;
  return decide_by_xid(millpond_commit_prepared, xid);
}

int rollback_by_xid(handlerton *, XID *xid) { return decide_by_xid(millpond_rollback_prepared, xid); }

// The coordinator forgets commits when it is told that their records are durable. If it is not told
// because the database has stopped, it remembers them.
void commit_checkpoint_request(void *cookie) {
  binlog_begins_anew();
  (void)millpond_sync_then(database, commit_checkpoint_notify_ha, cookie);
}

}  // namespace

std::vector<XID> prepared_xids() {
  std::vector<XID> xids;
  for (const std::string &name : prepared()) {
    XID xid;
    if (decode(name, &xid)) xids.push_back(xid);
  }
  return xids;
}

std::string xid_of(THD *thd, bool *own) {
  XID xid;
  thd_get_xid(thd, reinterpret_cast<MYSQL_XID *>(&xid));
  *own = xid.get_my_xid() != 0;
  return encoded(xid);
}

// Shorter than any name of the server's.
constexpr size_t PRIVATE_BYTES = 5;
static_assert(PRIVATE_BYTES < HEAD_BYTES);

std::string private_name() {
  static std::atomic<uint64_t> last{0};
  const uint64_t number = ++last;
  std::string name;
  for (size_t n = 0; n < PRIVATE_BYTES; n++) name.push_back(static_cast<char>(number >> (8 * n)));
  return name;
}

void roll_back_private() {
  for (const std::string &name : prepared()) {
    if (name.size() == PRIVATE_BYTES) (void)decide_by_name(millpond_rollback_prepared, name);
  }
}

void set_two_phase_functions(handlerton *engine) {
  engine->prepare = prepare;
  engine->commit_ordered = commit_ordered;
  engine->recover = recover;
  engine->commit_by_xid = commit_by_xid;
  engine->rollback_by_xid = rollback_by_xid;
  engine->commit_checkpoint_request = commit_checkpoint_request;
}

bool had_prepared_at_start;

void note_prepared() { had_prepared_at_start = !prepared().empty(); }

void tell_prepared() {
  if (!mysqld_server_started) return;
  if (const size_t found = prepared().size()) {
    sql_print_warning("Millpond: %zu transactions are prepared and keep their locks. XA RECOVER shows them when the "
                      "server starts with the plugin (plugin-load-add).", found);
  }
}

}  // namespace millpond
