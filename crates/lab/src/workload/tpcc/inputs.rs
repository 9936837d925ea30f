//! The random choices of each transaction (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1 and 2.8.1), and the
//! order in which the five transactions come (clause 5.2.4). Nothing here reads a table.

use super::field::Cents;
use super::random::{NuRands, last_name, shuffle};
use super::scale::{DISTRICTS, Scale};
use base::prng::Prng;
use std::time::Duration;

/// The five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// How many of each are in a deck of a hundred.
const MIX: [(Kind, usize); 5] = [
    (Kind::NewOrder, 45),
    (Kind::Payment, 43),
    (Kind::OrderStatus, 4),
    (Kind::Delivery, 4),
    (Kind::StockLevel, 4),
];

impl Kind {
    /// The name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new-order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order-status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock-level",
        }
    }

    /// Returns whether it changes nothing.
    pub(crate) fn only_reads(self) -> bool {
        matches!(self, Kind::OrderStatus | Kind::StockLevel)
    }

    /// Returns how long a user types before the transaction (clause 5.2.5.7).
    fn keying(self) -> Duration {
        Duration::from_secs(match self {
            Kind::NewOrder => 18,
            Kind::Payment => 3,
            Kind::OrderStatus | Kind::Delivery | Kind::StockLevel => 2,
        })
    }

    /// Returns how long a user thinks after it, on average.
    fn mean_think(self) -> Duration {
        Duration::from_secs(match self {
            Kind::NewOrder | Kind::Payment => 12,
            Kind::OrderStatus => 10,
            Kind::Delivery | Kind::StockLevel => 5,
        })
    }
}

/// Returns how long a user waits between transaction `last` and `next`: the time to think, which
/// is exponential and at most ten times its mean, and the time to type.
pub(crate) fn pause(last: Option<Kind>, next: Kind, rng: &mut Prng) -> Duration {
    let think = last.map_or(Duration::ZERO, |last| {
        // In (0, 1], so the logarithm is finite.
        let unit = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        last.mean_think().mul_f64((-unit.ln()).min(10.0))
    });
    think + next.keying()
}

/// A deck of a hundred cards, dealt in random order and shuffled again when it is used up. So each
/// hundred transactions of a thread have exactly the mix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deck(Vec<Kind>);

impl Deck {
    /// Takes the next card.
    pub(crate) fn next(&mut self, rng: &mut Prng) -> Kind {
        if self.0.is_empty() {
            self.0 = MIX.iter().flat_map(|(kind, cards)| vec![*kind; *cards]).collect();
            shuffle(&mut self.0, rng);
        }
        self.0.pop().unwrap_or(Kind::NewOrder)
    }
}

/// A district.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) w: u16,
    pub(crate) d: u8,
}

/// How a user names a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Id(u32),
    LastName(String),
}

/// A line of a new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) item: u32,
    pub(crate) supply_w: u16,
    pub(crate) quantity: u8,
}

/// What the user of a terminal has entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A new order; its lines are sorted by item, so that two orders lock stock in the same order.
    /// One order in a hundred ends with an item that does not exist, and rolls back.
    NewOrder { at: Place, customer: u32, lines: Vec<Line> },
    /// A payment at a district, of a customer who may belong to another warehouse.
    Payment { at: Place, of: Place, who: Who, amount: Cents },
    /// The state of a customer's last order.
    OrderStatus { at: Place, who: Who },
    /// The oldest new order of each district is delivered.
    Delivery { w: u16, carrier: u8 },
    /// How many recently sold items are low.
    StockLevel { at: Place, threshold: u32 },
}

impl Input {
    /// Returns which transaction it is for.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Input::NewOrder { .. } => Kind::NewOrder,
            Input::Payment { .. } => Kind::Payment,
            Input::OrderStatus { .. } => Kind::OrderStatus,
            Input::Delivery { .. } => Kind::Delivery,
            Input::StockLevel { .. } => Kind::StockLevel,
        }
    }
}

/// Draws what users enter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices {
    scale: Scale,
    nurands: NuRands,
}

impl Choices {
    /// Draws those of a run with this seed.
    pub(crate) fn new(scale: Scale, seed: u64) -> Choices {
        Choices { scale, nurands: NuRands::of_run(&mut Prng::new(seed ^ 0xc0ffee)) }
    }

    /// Returns a random warehouse.
    pub(crate) fn warehouse(&self, rng: &mut Prng) -> u16 {
        rng.between(1, self.scale.warehouses.into()) as u16
    }

    /// Draws the input of a transaction at a terminal of warehouse `home.w`. The stock level is
    /// always asked for the terminal's own district.
    pub(crate) fn input(&self, kind: Kind, home: Place, rng: &mut Prng) -> Input {
        let at = Place { w: home.w, d: district(rng) };
        match kind {
            Kind::NewOrder => {
                Input::NewOrder { at, customer: self.customer(rng), lines: self.lines(home.w, rng) }
            }
            Kind::Payment => {
                let local = rng.percent(85) || self.scale.warehouses == 1;
                let of = if local { at } else { Place { w: self.other(at.w, rng), d: district(rng) } };
                let who = self.who(rng);
                Input::Payment { at, of, who, amount: Cents(rng.between(100, 500_000) as i64) }
            }
            Kind::OrderStatus => Input::OrderStatus { at, who: self.who(rng) },
            Kind::Delivery => Input::Delivery { w: home.w, carrier: rng.between(1, 10) as u8 },
            Kind::StockLevel => Input::StockLevel { at: home, threshold: rng.between(10, 20) as u32 },
        }
    }

    fn customer(&self, rng: &mut Prng) -> u32 {
        self.nurands.customer.pick(1, self.scale.customers().into(), rng) as u32
    }

    /// Six in ten customers are named by their last name.
    fn who(&self, rng: &mut Prng) -> Who {
        if !rng.percent(60) {
            return Who::Id(self.customer(rng));
        }
        let last = u64::from(self.scale.last_names()) - 1;
        Who::LastName(last_name(self.nurands.last_name.pick(0, last, rng) as u32))
    }

    /// Returns another warehouse than `w`. REQUIRES: there are at least two.
    fn other(&self, w: u16, rng: &mut Prng) -> u16 {
        let other = rng.between(1, u64::from(self.scale.warehouses) - 1) as u16;
        if other < w { other } else { other + 1 }
    }

    /// Draws 5 to 15 lines; one in a hundred is supplied by another warehouse.
    fn lines(&self, home: u16, rng: &mut Prng) -> Vec<Line> {
        let items = self.scale.items();
        let mut lines: Vec<Line> = (0..rng.between(5, 15))
            .map(|_| {
                let item = self.nurands.item.pick(1, items.into(), rng) as u32;
                let remote = rng.one_in(100) && self.scale.warehouses > 1;
                let supply_w = if remote { self.other(home, rng) } else { home };
                Line { item, supply_w, quantity: rng.between(1, 10) as u8 }
            })
            .collect();
        let unused = rng.one_in(100);
        if let Some(last) = lines.last_mut().filter(|_| unused) {
            last.item = items + 1;
        }
        lines.sort_by_key(|line| (line.item, line.supply_w));
        lines
    }
}

fn district(rng: &mut Prng) -> u8 {
    rng.between(1, DISTRICTS.into()) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const HOME: Place = Place { w: 2, d: 3 };

    fn choices(warehouses: u16) -> Choices {
        Choices::new(Scale { warehouses, part: 1 }, 1)
    }

    fn draw(choices: &Choices, kind: Kind, count: usize) -> Vec<Input> {
        let mut rng = Prng::new(5);
        (0..count).map(|_| choices.input(kind, HOME, &mut rng)).collect()
    }

    #[test]
    fn each_deck_has_the_mix_in_an_order_of_its_own() {
        let (mut deck, mut rng) = (Deck::default(), Prng::new(1));
        let mut hands: Vec<Vec<Kind>> = Vec::new();
        for _ in 0..3 {
            let hand: Vec<Kind> = (0..100).map(|_| deck.next(&mut rng)).collect();
            let mut counts = BTreeMap::new();
            hand.iter().for_each(|kind| *counts.entry(*kind).or_insert(0) += 1);
            assert_eq!(counts.into_values().collect::<Vec<_>>(), [45, 43, 4, 4, 4]);
            hands.push(hand);
        }
        assert!(hands[0] != hands[1] && hands[1] != hands[2]);
    }

    #[test]
    fn new_orders_are_as_the_standard_says() {
        let choices = choices(5);
        let (mut lines_seen, mut remote, mut unused, mut lengths) = (0, 0, 0, BTreeMap::new());
        for input in draw(&choices, Kind::NewOrder, 20_000) {
            let Input::NewOrder { at, customer, lines } = input else { panic!() };
            assert!(at.w == HOME.w && (1..=10).contains(&at.d) && (1..=3000).contains(&customer));
            assert!(lines.is_sorted_by_key(|line| line.item));
            *lengths.entry(lines.len()).or_insert(0) += 1;
            lines_seen += lines.len();
            remote += lines.iter().filter(|line| line.supply_w != HOME.w).count();
            unused += lines.iter().filter(|line| line.item == 100_001).count();
            assert!(lines.iter().all(|line| (1..=10).contains(&line.quantity)));
            assert!(lines.iter().all(|line| (1..=5).contains(&line.supply_w)));
        }
        assert!(lengths.keys().copied().eq(5..=15), "{lengths:?}");
        let percent = remote as f64 * 100.0 / lines_seen as f64;
        assert!((0.9..1.1).contains(&percent), "{percent} % remote lines");
        assert!((150..250).contains(&unused), "{unused} of 20 000 roll back");
    }

    #[test]
    fn payments_are_as_the_standard_says() {
        let choices = choices(5);
        let (mut remote, mut by_name, mut of) = (0, 0, BTreeMap::new());
        for input in draw(&choices, Kind::Payment, 20_000) {
            let Input::Payment { at, of: place, who, amount } = input else { panic!() };
            assert!((Cents(100)..=Cents(500_000)).contains(&amount));
            assert!(place.w != at.w || place == at);
            remote += usize::from(place.w != at.w);
            by_name += usize::from(matches!(who, Who::LastName(_)));
            *of.entry(place.w).or_insert(0) += 1;
        }
        assert!((2800..3200).contains(&remote), "{remote} of 20 000 are remote");
        assert!((11_700..12_300).contains(&by_name), "{by_name} of 20 000 by last name");
        assert!(of.keys().copied().eq(1..=5), "{of:?}");
    }

    #[test]
    fn with_one_warehouse_all_is_local() {
        let choices = Choices::new(Scale { warehouses: 1, part: 100 }, 1);
        let mut rng = Prng::new(5);
        let home = Place { w: 1, d: 1 };
        for _ in 0..2000 {
            let Input::Payment { of, who, .. } = choices.input(Kind::Payment, home, &mut rng) else {
                panic!()
            };
            assert_eq!(of.w, 1);
            assert!(matches!(who, Who::LastName(_) | Who::Id(1..=30)));
            let Input::NewOrder { lines, .. } = choices.input(Kind::NewOrder, home, &mut rng) else {
                panic!()
            };
            assert!(lines.iter().all(|line| line.supply_w == 1 && line.item <= 1001));
        }
    }

    #[test]
    fn users_type_and_think_as_long_as_the_standard_says() {
        let mut rng = Prng::new(9);
        assert_eq!(pause(None, Kind::NewOrder, &mut rng), Duration::from_secs(18));
        let all: Vec<Duration> =
            (0..20_000).map(|_| pause(Some(Kind::Delivery), Kind::Payment, &mut rng)).collect();
        let mean = all.iter().map(Duration::as_secs_f64).sum::<f64>() / 20_000.0;
        assert!((7.8..8.2).contains(&mean), "5 s to think and 3 s to type: {mean}");
        assert!(all.iter().all(|pause| (3.0..=53.0).contains(&pause.as_secs_f64())));
    }
}
