// The last deadlocks: what the engine knows of them, with the statements of their connections.
//
// The engine tells of a deadlock while all its transactions still wait, so that the statements are
// those of the deadlock. Then it has mutexes locked; so names are looked up and texts are written
// later.

#include "deadlocks.h"
#include "engine.h"
#include "lock_text.h"
#include "session.h"
#include "settings.h"

#include <atomic>
#include <ctime>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

namespace millpond {

namespace {

// As many as the engine remembers.
constexpr size_t KEPT = 16;

// What is known of a deadlock when it happens.
struct Noted {
  time_t at;
  std::vector<std::string> statements;  // By the places of the members.
  bool to_log;
};

std::mutex mutex;
std::map<uint64_t, Noted> noted;
// Some are to be written to the log.
std::atomic<bool> log_waits{false};

// A member, as the engine shows it.
struct Member {
  uint64_t deadlock = 0;
  ulonglong transaction = 0, connection = 0, changed_rows = 0, locks = 0;
  bool victim = false, waits = false, holds = false;
  Lock waited, held;
};

int collect(void *context, const millpond_deadlock_member *shown) {
  const millpond_txn_info &txn = shown->transaction;
  Member member;
  member.deadlock = shown->deadlock;
  member.transaction = txn.transaction;
  member.connection = txn.tag;
  member.changed_rows = txn.rows_changed;
  member.locks = txn.locks;
  member.victim = shown->victim != 0;
  if (txn.waits_for != nullptr) {
    member.waits = true;
    member.waited = Lock(*txn.waits_for);
  }
  if (shown->holds != nullptr) {
    member.holds = true;
    member.held = Lock(*shown->holds);
  }
  static_cast<std::vector<Member> *>(context)->push_back(member);
  return 0;
}

std::string time_text(time_t at) {
  char text[32];
  tm parts;
  localtime_r(&at, &parts);
  strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

// Returns the report of a deadlock. Each line ends as lines do.
std::string report(const std::vector<Member> &members, const Noted &known) {
  std::ostringstream text;
  text << time_text(known.at) << "\n";
  for (size_t n = 0; n < members.size(); n++) {
    const Member &member = members[n];
    text << "*** (" << n + 1 << ") TRANSACTION:\n";
    text << "TRANSACTION " << member.transaction << ", connection " << member.connection << ", "
         << member.locks << " lock(s), undo log entries " << member.changed_rows << "\n";
    if (n < known.statements.size() && !known.statements[n].empty()) text << known.statements[n] << "\n";
    if (member.holds) text << "*** (" << n + 1 << ") HOLDS THE LOCK:\n" << member.held.line() << "\n";
    if (member.waits) {
      text << "*** (" << n + 1 << ") WAITING FOR THIS LOCK TO BE GRANTED:\n" << member.waited.line() << "\n";
    }
  }
  for (size_t n = 0; n < members.size(); n++) {
    if (members[n].victim) text << "*** WE ROLL BACK TRANSACTION (" << n + 1 << ")\n";
  }
  return text.str();
}

// Returns the members of the deadlock with this number; none if the engine has forgotten it.
std::vector<Member> members_of(uint64_t number) {
  std::vector<Member> all, found;
  millpond_deadlocks(database, number - 1, collect, &all);
  for (const Member &member : all) {
    if (member.deadlock == number) found.push_back(member);
  }
  return found;
}

// The server's log has lines of a limited length.
void log_lines(const std::string &text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) sql_print_information("Millpond: %s", line.c_str());
}

}  // namespace

void note_deadlock(void *, uint64_t number, const uint64_t *connections, size_t count) {
  const bool to_log = settings::print_all_deadlocks();
  const std::vector<my_thread_id> members(connections, connections + count);
  Noted now{time(nullptr), Session::descriptions(members), to_log};
  std::lock_guard<std::mutex> guard(mutex);
  noted[number] = std::move(now);
  while (noted.size() > KEPT) noted.erase(noted.begin());
  if (to_log) log_waits.store(true);
}

std::string latest_deadlock() {
  std::map<uint64_t, Noted> all;
  {
    std::lock_guard<std::mutex> guard(mutex);
    all = noted;
  }
  // The engine has no report of one where the victim's wait has ended by itself.
  for (auto known = all.rbegin(); known != all.rend(); ++known) {
    const std::vector<Member> members = members_of(known->first);
    if (!members.empty()) return report(members, known->second);
  }
  return std::string();
}

void log_deadlocks() {
  if (!log_waits.exchange(false)) return;
  std::vector<std::pair<uint64_t, Noted>> wanted;
  {
    std::lock_guard<std::mutex> guard(mutex);
    for (auto &[number, known] : noted) {
      if (!known.to_log) continue;
      wanted.emplace_back(number, known);
      known.to_log = false;
    }
  }
  for (const auto &[number, known] : wanted) {
    const std::vector<Member> members = members_of(number);
    if (members.empty()) continue;
    log_lines("Transactions deadlock detected, dumping detailed information.\n" + report(members, known));
  }
}

void forget_deadlocks() {
  std::lock_guard<std::mutex> guard(mutex);
  noted.clear();
  log_waits.store(false);
}

}  // namespace millpond
