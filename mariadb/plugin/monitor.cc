// SHOW ENGINE MILLPOND STATUS, in the form of InnoDB's monitor: the same sections in the same order, and
// the same words for what is the same, so that programs find what they look for.

#include "monitor.h"
#include "deadlocks.h"
#include "errors.h"
#include "figures.h"
#include "table_memory.h"
#include "transactions.h"

#include <cstdarg>
#include <ctime>
#include <map>
#include <mutex>
#include <string>

namespace millpond {

namespace {

// Rates are averages since the status that was shown before, if that is so long ago.
constexpr double LEAST_SECONDS = 1;
// Transactions that are listed.
constexpr size_t TRANSACTIONS_MOST = 1000;

struct Moment {
  double seconds = 0;  // Of a clock that never goes back.
  std::map<std::string, double> figures;
};

double clock_seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

Moment moment() {
  Moment now;
  now.seconds = clock_seconds();
  for (const Figure &figure : all_figures()) now.figures.emplace(figure.name, figure.value);
  // Rows as SQL counts them; the engine's own figures count index entries too.
  const RowCounts rows = all_row_counts();
  now.figures["row_inserts"] = rows.inserted;
  now.figures["row_updates"] = rows.updated;
  now.figures["row_deletes"] = rows.deleted;
  now.figures["row_reads"] = rows.read;
  return now;
}

std::mutex mutex;
// The latest two that were shown, the later one second.
Moment shown_before[2];

// Returns the moment from which on rates are counted: that of an earlier status, or of the start.
Moment since(const Moment &now) {
  std::lock_guard<std::mutex> guard(mutex);
  if (now.seconds - shown_before[1].seconds >= LEAST_SECONDS) {
    shown_before[0] = shown_before[1];
    shown_before[1] = now;
  }
  Moment from = shown_before[0];
  if (from.seconds == 0) from.seconds = now.seconds - now.figures.at("uptime_seconds");
  return from;
}

class Monitor {
 public:
  Monitor() : now_(moment()), since_(since(now_)) {}

  std::string text() {
    const std::string stopped = failure();
    if (!stopped.empty()) line("%s\n", stopped.c_str());
    head();
    background();
    waits();
    deadlock();
    transactions();
    files();
    log();
    memory();
    rows();
    line("----------------------------");
    line("END OF MILLPOND MONITOR OUTPUT");
    line("============================");
    return text_;
  }

 private:
  void line(const char *format, ...) ATTRIBUTE_FORMAT(printf, 2, 3) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    const int bytes = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    text_.append(text, std::min<size_t>(bytes, sizeof text - 1)).push_back('\n');
  }

  // Lines of other sources, of any length.
  void lines(const std::string &text) {
    text_ += text;
    if (!text.empty() && text.back() != '\n') text_.push_back('\n');
  }

  void section(const std::string &title) {
    const std::string rule(title.size(), '-');
    lines(rule + "\n" + title + "\n" + rule);
  }

  ulonglong count(const char *name) const {
    const auto found = now_.figures.find(name);
    return found == now_.figures.end() ? 0 : static_cast<ulonglong>(found->second);
  }

  double seconds() const { return std::max(now_.seconds - since_.seconds, LEAST_SECONDS); }

  double rate(const char *name) const {
    const auto before = since_.figures.find(name);
    return (count(name) - (before == since_.figures.end() ? 0 : before->second)) / seconds();
  }

  void head() {
    char at[32];
    const time_t now = time(nullptr);
    tm parts;
    localtime_r(&now, &parts);
    strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S", &parts);
    lines("\n=====================================");
    line("%s 0x%lx MILLPOND MONITOR OUTPUT", at, static_cast<unsigned long>(pthread_self()));
    line("=====================================");
    line("Per second averages calculated from the last %.0f seconds", seconds());
  }

  void background() {
    section("BACKGROUND THREAD");
    line("Checkpoints %llu, page batches %llu", count("checkpoints"), count("page_batches"));
    line("Rows purged %llu, row versions reverted %llu", count("purge_rows"), count("row_reverts"));
    const ulonglong left = count("recovery_left_bytes"), aside = count("transactions_set_aside");
    if (left > 0) line("Recovery: %llu bytes of redo are still to be applied", left);
    if (aside > 0) line("Set aside because of pages or undo that cannot be read: %llu transactions", aside);
  }

  // Where threads have waited for each other or for room; nothing if none has.
  void waits() {
    const char *const kinds[][2] = {
        {"latch_waits", "a page latch"},         {"free_frame_waits", "a free page of the buffer pool"},
        {"log_buffer_waits", "the log buffer"},  {"throttled_ops", "admission: the log or the pages lag behind"},
        {"hard_waits", "the log, at its limit"}, {"undo_waits", "the log, for rollback or purge"},
    };
    bool any = false;
    for (const auto &kind : kinds) any |= count(kind[0]) > 0;
    if (!any) return;
    section("SEMAPHORES");
    for (const auto &kind : kinds) {
      if (count(kind[0]) > 0) line("Waits for %s: %llu, %.2f/s", kind[1], count(kind[0]), rate(kind[0]));
    }
    if (count("throttled_us_total") > 0) line("Delayed by admission: %llu us", count("throttled_us_total"));
  }

  void deadlock() {
    const std::string report = latest_deadlock();
    if (report.empty()) return;
    section("LATEST DETECTED DEADLOCK");
    lines(report);
  }

  void transaction(const RunningTransaction &found) {
    const Session::Shown &session = found.session;
    const bool connected = session.connection != 0;
    std::string state = found.prepared ? ", PREPARED" : "";
    if (connected) {
      state += ", ACTIVE " + std::to_string(std::max<longlong>(time(nullptr) - session.started, 0)) + " sec";
      state += std::string(", ") + isolation_name(session.isolation);
    }
    line("---TRANSACTION %llu%s", found.transaction, state.c_str());
    line("%s%llu lock(s), undo log entries %llu, %llu bytes", found.waits ? "LOCK WAIT " : "", found.locks,
         found.changed_rows, found.undo_bytes);
    if (connected) lines(Session::descriptions({session.connection}).front());
    if (found.waits) {
      line("------- TRX WAITS FOR THIS LOCK TO BE GRANTED:");
      lines(found.waited.line());
      line("------------------");
    }
  }

  void transactions() {
    section("TRANSACTIONS");
    line("History list length %llu", count("history_transactions"));
    line("Prepared transactions %llu, transactions to be reverted %llu", count("prepared_transactions"),
         count("aborted_transactions"));
    line("Locks in queues %llu, ranges %llu, bytes %llu", count("locks_held"), count("range_locks"),
         count("lock_bytes"));
    line("Lock waits %llu, timeouts %llu, deadlocks %llu, write conflicts %llu", count("lock_waits"),
         count("lock_timeouts"), count("deadlocks"), count("write_conflicts"));
    line("LIST OF TRANSACTIONS FOR EACH SESSION:");
    const std::vector<RunningTransaction> all = running_transactions();
    for (size_t n = 0; n < all.size() && n < TRANSACTIONS_MOST; n++) transaction(all[n]);
    if (all.size() > TRANSACTIONS_MOST) line("and %zu more", all.size() - TRANSACTIONS_MOST);
  }

  void by_force() {
    constexpr char FAMILY[] = "pages_written_by_force.";
    constexpr size_t FAMILY_BYTES = sizeof FAMILY - 1;
    for (const auto &[name, value] : now_.figures) {
      if (name.compare(0, FAMILY_BYTES, FAMILY) != 0 || value == 0) continue;
      line("Pages written for %s: %.0f", name.c_str() + FAMILY_BYTES, value);
    }
  }

  void files() {
    section("FILE I/O");
    line("Page reads: %llu pages in %llu I/Os, %llu read ahead", count("pages_read"), count("page_reads_io"),
         count("pages_read_ahead"));
    line("Page writes: %llu pages in %llu I/Os", count("pages_written"), count("page_writes_io"));
    by_force();
    line("Doublewrite: %llu pages in %llu batches", count("doublewrite_pages"), count("doublewrite_batches"));
    line("Log writes: %llu flushes, %llu blocks, in flight %llu", count("log_flushes"), count("log_blocks_written"),
         count("log_flushes_in_flight"));
    line("Fsyncs: %llu, %llu us, %llu callers have waited", count("fsyncs"), count("fsync_us_total"),
         count("fsync_waiters"));
    for (const Syncs &syncs : all_syncs()) {
      line("Fsyncs of %s for %s: %llu, %llu waiters, p50 %llu us, p99 %llu us, max %llu us", syncs.file.c_str(),
           syncs.reason.c_str(), syncs.count, syncs.waiters, syncs.p50, syncs.p99, syncs.longest);
    }
    line("%.2f reads/s, %.2f writes/s, %.2f fsyncs/s", rate("page_reads_io"),
         rate("page_writes_io") + rate("doublewrite_batches") + rate("log_flushes"), rate("fsyncs"));
  }

  // Programs read the first four lines by their words.
  void log() {
    section("LOG");
    line("Log sequence number %llu", count("current_lsn"));
    line("Log flushed up to   %llu", count("durable_lsn"));
    line("Pages flushed up to %llu", count("pages_flushed_lsn"));
    line("Last checkpoint at  %llu", count("checkpoint_lsn"));
    line("Checkpoint age %llu, target %llu, callers are delayed from %llu, limit %llu", count("checkpoint_age_bytes"),
         count("checkpoint_age_target"), count("checkpoint_age_soft"), count("checkpoint_age_limit"));
    line("Log capacity %llu", count("redo_capacity_bytes"));
    line("%llu log flushes done, %.2f log flushes/second", count("log_flushes"), rate("log_flushes"));
    const double flushes = rate("fsyncs_by_reason.commit");
    line("%.2f commits/s, %.2f commits for each sync", rate("commits"), flushes > 0 ? rate("commits") / flushes : 0.0);
  }

  void memory() {
    section("BUFFER POOL AND MEMORY");
    const ulonglong frames = count("buffer_frames"), dirty = count("dirty_pages");
    line("Total large memory allocated %llu", count("buffer_pool_bytes"));
    line("Buffer pool size   %llu", frames);
    line("Free buffers       %llu", count("free_frames"));
    line("Database pages     %llu", count("lru_pages"));
    line("Modified db pages  %llu", dirty);
    line("Percent of dirty pages(LRU & free pages): %.3f", frames > 0 ? 100.0 * dirty / frames : 0.0);
    line("Pages read %llu, written %llu, evicted %llu", count("pages_read"), count("pages_written"),
         count("frame_evictions"));
    line("%.2f reads/s, %.2f writes/s, %.2f evictions/s", rate("pages_read"), rate("pages_written"),
         rate("frame_evictions"));
    line("Undo and old versions: %llu bytes in memory, %llu in files, budget %llu",
         count("undo_bytes") + count("status_bytes"), count("undo_file_bytes"), count("history_budget_bytes"));
  }

  void rows() {
    section("ROW OPERATIONS");
    line("%llu read views open inside Millpond", count("open_snapshots"));
    line("Number of rows inserted %llu, updated %llu, deleted %llu, read %llu", count("row_inserts"),
         count("row_updates"), count("row_deletes"), count("row_reads"));
    line("%.2f inserts/s, %.2f updates/s, %.2f deletes/s, %.2f reads/s", rate("row_inserts"), rate("row_updates"),
         rate("row_deletes"), rate("row_reads"));
  }

  const Moment now_, since_;
  std::string text_;
};

}  // namespace

bool show_status(handlerton *, THD *thd, stat_print_fn *print, ha_stat_type kind) {
  if (kind != HA_ENGINE_STATUS) return false;
  const std::string text = Monitor().text();
  return print(thd, STRING_WITH_LEN("Millpond"), STRING_WITH_LEN(""), text.data(), text.size());
}

}  // namespace millpond
