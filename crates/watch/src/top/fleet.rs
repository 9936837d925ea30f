//! Several targets at once: a list of all, or one of them. What keys do there, without a terminal.

use super::outlook::Urgency;
use super::state::{Key, State};

/// All targets that are looked at, at least one.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    targets: Vec<State>,
    /// The one that keys mean, and that is shown if the list is not.
    chosen: usize,
    /// All are shown, a few lines each.
    pub(super) listed: bool,
    /// The list's help is shown.
    pub(super) help: bool,
}

impl Fleet {
    /// Looks at some targets. Of several, all are shown first.
    pub(super) fn new(targets: Vec<State>) -> Fleet {
        Fleet { listed: targets.len() > 1, chosen: 0, help: false, targets }
    }

    /// Returns all targets, in the order in which they were named.
    pub(super) fn targets(&self) -> &[State] {
        &self.targets
    }

    /// Returns a target, to tell it what is new.
    pub(super) fn target_mut(&mut self, place: usize) -> Option<&mut State> {
        self.targets.get_mut(place)
    }

    /// Returns the place of the target that keys mean.
    pub(super) fn chosen(&self) -> usize {
        self.chosen
    }

    /// Returns the target that is shown, unless the list is.
    pub(super) fn shown(&self) -> Option<&State> {
        self.targets.get(self.chosen).filter(|_| !self.listed)
    }

    /// Returns whether there is a list to go back to.
    pub(super) fn is_several(&self) -> bool {
        self.targets.len() > 1
    }

    /// Returns how many targets give no samples, or say that somebody waits.
    pub(super) fn alarms(&self) -> usize {
        let alarms = |state: &State| state.trouble.is_some() || state.outlook().first().0 == Urgency::Alarm;
        self.targets.iter().filter(|state| alarms(state)).count()
    }

    /// Returns whether the user has paused. All are paused together: one picture is of one time.
    pub(super) fn is_paused(&self) -> bool {
        self.targets.iter().any(State::is_paused)
    }

    /// Takes a key. Returns whether to go on.
    pub(super) fn key(&mut self, key: Key) -> bool {
        match key {
            Key::Quit => return false,
            Key::Pause => {
                let pause = !self.is_paused();
                self.targets.iter_mut().for_each(|state| state.pause(pause));
            }
            Key::NextTarget => self.choose(1),
            Key::PreviousTarget => self.choose(self.targets.len() - 1),
            key if self.listed => return self.key_of_list(key),
            Key::Escape | Key::Number(0) if self.is_several() && !self.targets[self.chosen].help => {
                self.listed = true;
            }
            key => return self.targets.get_mut(self.chosen).is_none_or(|state| state.key(key)),
        }
        true
    }

    fn key_of_list(&mut self, key: Key) -> bool {
        match key {
            Key::Escape if self.help => self.help = false,
            Key::Escape => return false,
            Key::Help => self.help = !self.help,
            Key::Next => self.choose(1),
            Key::Previous => self.choose(self.targets.len() - 1),
            Key::Open => self.listed = false,
            Key::Number(n) if (1..=self.targets.len()).contains(&n) => {
                (self.chosen, self.listed) = (n - 1, false);
            }
            _ => {}
        }
        true
    }

    fn choose(&mut self, by: usize) {
        self.chosen = (self.chosen + by) % self.targets.len();
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::View;
    use super::*;

    fn fleet(count: usize) -> Fleet {
        Fleet::new((0..count).map(|n| State::new(format!("db{n}"), String::new())).collect())
    }

    fn shown(fleet: &Fleet) -> String {
        let target = &fleet.targets()[fleet.chosen()];
        let place = if fleet.listed { "list" } else { target.view.title() };
        format!("{} {place}", target.target)
    }

    #[test]
    fn keys_choose_a_target_open_it_and_go_back() {
        let mut fleet = fleet(3);
        let mut seen = vec![shown(&fleet)];
        for key in [
            Key::Next,
            Key::Open,
            Key::Next,
            Key::NextTarget,
            Key::NextTarget,
            Key::PreviousTarget,
            Key::Number(4),
            Key::Number(0),
            Key::Previous,
            Key::Number(3),
            Key::Escape,
            Key::Number(9),
        ] {
            assert!(fleet.key(key), "{key:?}");
            seen.push(format!("{key:?}: {}", shown(&fleet)));
        }
        assert_eq!(
            seen,
            [
                "db0 list",
                "Next: db1 list",
                "Open: db1 overview",
                "Next: db1 log",
                "NextTarget: db2 overview",
                "NextTarget: db0 overview",
                "PreviousTarget: db2 overview",
                "Number(4): db2 waits",
                "Number(0): db2 list",
                "Previous: db1 list",
                "Number(3): db2 waits",
                "Escape: db2 list",
                "Number(9): db2 list",
            ]
        );
        assert!(!fleet.key(Key::Escape));
    }

    #[test]
    fn one_target_has_no_list() {
        let mut fleet = fleet(1);
        assert!(fleet.shown().is_some() && fleet.key(Key::NextTarget) && fleet.key(Key::Number(0)));
        assert!(fleet.key(Key::Next) && fleet.shown().is_some_and(|state| state.view == View::Log));
        assert!(!fleet.key(Key::Escape));
    }

    #[test]
    fn escape_closes_a_help_first_and_all_pause_together() {
        let mut fleet = fleet(2);
        assert!(fleet.key(Key::Help) && fleet.help);
        assert!(fleet.key(Key::Escape));
        assert!(!fleet.help);
        fleet.key(Key::Open);
        assert!(fleet.key(Key::Help) && fleet.key(Key::Escape) && !fleet.listed, "the help of one target");
        fleet.key(Key::Pause);
        assert!(fleet.targets().iter().all(State::is_paused));
        fleet.key(Key::Pause);
        assert!(!fleet.is_paused());
    }
}
