// Transactions that the binary log has and the database lacks after a crash: repeated at the start.
//
// Where the binary log is synced before a commit is acknowledged and holds all rows of the transaction,
// the engine need not sync its own log too. The database's bookmark tells up to where the binary log is
// contained in the database.
#pragma once

#include "server.h"
#include <millpond.h>

#include <cstdint>
#include <string>

namespace millpond {

// Looks whether the binary log is there that the database needs. Returns false, and says why in the
// server's log, if the database must not be used without it.
bool can_repeat_binlog();

// Tells whether the decision on a prepared transaction has to be noted, so that the transaction is not
// repeated too. Notes that it is committed; returns false if that fails.
bool needs_note_of_decision(const XID &xid);
bool note_decided(const XID &xid);

// Repeats what the database lacks, when the server can run statements. Returns false, and says why in
// the server's log, if that failed.
bool repeat_binlog();

// Notes that nothing is missing, when the server ends.
void forget_binlog();

// Tells whether the settings allow commits that only the binary log has durably.
bool binlog_may_be_redo();
// Tells whether such commits are safe now: a bookmark of the present binary log is durable.
bool binlog_is_redo();

// The server begins a new file of the binary log, or begins the log anew. Commits are safe again by the log
// alone when a bookmark of that file is durable.
void binlog_begins_anew();
// Counts how often that was, or the settings did not allow such commits any more.
uint64_t binlog_generation();
// Notes that a bookmark is durable that was made since the log began for the `generation`th time.
void bookmark_is_durable(uint64_t generation);

// Makes commit_at_bookmark() know whether the binary log gets the transaction that the connection now commits.
// It does not where nothing is logged, and where a failure has switched the log off.
void expect_binlog_position(THD *thd);
enum class InLog { NOT, YES, MOVED, FAILED };
// Commits a transaction that is in the binary log, with a bookmark if `moves`. MOVED: transactions after the
// bookmark may be repeated. FAILED: by an error of the engine.
InLog commit_at_bookmark(THD *thd, millpond_txn *txn, bool moves);

// The bookmark with which this thread's next commit is made; null: with none.
extern thread_local const std::string *bookmark_of_commit;

}  // namespace millpond
