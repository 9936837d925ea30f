// What the server's own list of decided transactions has, where there is no binary log.
#pragma once

namespace millpond {

// Commits in all engines what that list has and a crash has left prepared. Called when the plugin starts.
// Returns false if this engine cannot.
bool commit_decided();

}  // namespace millpond
