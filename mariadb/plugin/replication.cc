// What the threads need that apply a primary's changes on a replica.
//
// Threads that apply in parallel commit in the primary's order. If a transaction waits for a lock of
// one that has to commit after it, neither goes on, and no cycle of locks shows it. So the server
// hears of every wait between two appliers. It kills the later transaction, which begins again.

#include "replication.h"
#include "engine.h"
#include "server_functions.h"

// How many commits a group of the binary log waits for (binlog_commit_wait_count). Where it waits, the
// server ends that as soon as a transaction of the group is in somebody's way.
extern ulong opt_binlog_commit_wait_count;

extern "C" {
int thd_is_slave(const THD *thd);
int thd_need_wait_reports(const THD *thd);
int thd_rpl_deadlock_check(THD *thd, THD *other);
}

namespace millpond {

namespace {

// The names are the connections themselves. The engine calls this while it keeps both transactions
// from ending, so neither connection ends.
int waits(void *, uint64_t waiter, uint64_t blocker) {
  return thd_rpl_deadlock_check(reinterpret_cast<THD *>(waiter), reinterpret_cast<THD *>(blocker));
}

}  // namespace

bool is_applier(THD *thd) { return thd_is_slave(thd) != 0; }

int wait_for_prior_commits(THD *thd) {
  if (wait_for_prior_commit == nullptr) return 0;
  return wait_for_prior_commit(thd) ? HA_ERR_ROLLBACK : 0;
}

uint64_t wait_name(THD *thd) {
  const bool asked = thd_need_wait_reports(thd) && (is_applier(thd) || opt_binlog_commit_wait_count > 0);
  return asked ? reinterpret_cast<uint64_t>(thd) : 0;
}

void observe_waits() { (void)millpond_observe_waits(database, waits, nullptr); }

}  // namespace millpond
