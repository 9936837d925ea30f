//! The graph of dependencies between transactions, and the search for cycles in it.

use std::collections::VecDeque;

/// Write dependency: the second overwrote what the first wrote. The kinds of edges are bits.
pub(crate) const WW: u8 = 1;
/// Read dependency: the second read what the first wrote.
pub(crate) const WR: u8 = 2;
/// Anti-dependency: the second overwrote what the first read.
pub(crate) const RW: u8 = 4;
/// Real time: the first had ended before the second began.
pub(crate) const TIME: u8 = 8;

/// A directed graph whose edges have kinds.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    edges: Vec<Vec<(u32, u8)>>,
}

impl Graph {
    /// Makes a graph with `nodes` nodes and no edge.
    pub(crate) fn new(nodes: usize) -> Graph {
        Graph { edges: vec![Vec::new(); nodes] }
    }

    /// Adds a node and returns its number.
    pub(crate) fn node(&mut self) -> u32 {
        self.edges.push(Vec::new());
        self.edges.len() as u32 - 1
    }

    /// Adds an edge, unless it leads from a node to itself.
    pub(crate) fn edge(&mut self, from: u32, to: u32, kind: u8) {
        if from != to && !self.edges[from as usize].contains(&(to, kind)) {
            self.edges[from as usize].push((to, kind));
        }
    }

    /// Returns the number of edges.
    pub(crate) fn len(&self) -> usize {
        self.edges.iter().map(Vec::len).sum()
    }

    /// Returns the edges of a node that have one of `kinds`.
    fn next(&self, node: u32, kinds: u8) -> impl Iterator<Item = (u32, u8)> {
        self.edges[node as usize].iter().copied().filter(move |(_, kind)| kind & kinds != 0)
    }

    /// Returns a shortest cycle over edges of `kinds` through some node: its nodes and the kind of
    /// the edge that leaves each.
    pub(crate) fn cycle(&self, kinds: u8) -> Option<Vec<(u32, u8)>> {
        let component = self.components(kinds);
        let size = component.iter().copied().max().map_or(0, |max| max as usize + 1);
        let mut count = vec![0u32; size];
        component.iter().for_each(|&c| count[c as usize] += 1);
        let start = (0..component.len()).find(|&n| count[component[n] as usize] > 1)? as u32;
        // Breadth-first search from that node back to itself, inside its component.
        let inside = |n: u32| component[n as usize] == component[start as usize];
        let mut came: Vec<Option<(u32, u8)>> = vec![None; self.edges.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for (to, kind) in self.next(node, kinds).filter(|(to, _)| inside(*to)) {
                if to == start {
                    let mut cycle = vec![(node, kind)];
                    let mut at = node;
                    while let Some((from, kind)) = came[at as usize].filter(|_| at != start) {
                        cycle.push((from, kind));
                        at = from;
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if came[to as usize].is_none() {
                    came[to as usize] = Some((node, kind));
                    queue.push_back(to);
                }
            }
        }
        unreachable!("every node of a component is on a cycle")
    }

    /// Returns a cycle over edges of `kinds` and `RW` in which no two `RW` are consecutive.
    /// Snapshot isolation excludes these (Cerone and Gotsman, "Analysing Snapshot Isolation", PODC
    /// 2016).
    pub(crate) fn cycle_without_two_rw(&self, kinds: u8) -> Option<Vec<(u32, u8)>> {
        // Each node is there twice: reached by an `RW` edge, after which no `RW` edge may follow,
        // and reached by any other edge.
        let n = self.edges.len() as u32;
        let mut twice = Graph::new(2 * n as usize);
        for from in 0..n {
            for (to, kind) in self.next(from, kinds | RW) {
                if kind == RW {
                    twice.edge(from, n + to, RW);
                } else {
                    twice.edge(from, to, kind);
                    twice.edge(n + from, to, kind);
                }
            }
        }
        let cycle = twice.cycle(kinds | RW)?;
        Some(cycle.into_iter().map(|(node, kind)| (node % n, kind)).collect())
    }

    /// Returns the strongly connected component of each node (Tarjan's algorithm, without
    /// recursion).
    fn components(&self, kinds: u8) -> Vec<u32> {
        const NONE: u32 = u32::MAX;
        let n = self.edges.len();
        let (mut index, mut low, mut component) = (vec![NONE; n], vec![0u32; n], vec![NONE; n]);
        let (mut stack, mut next_index, mut next_component) = (Vec::new(), 0, 0);
        for root in 0..n as u32 {
            if index[root as usize] != NONE {
                continue;
            }
            let mut path = vec![(root, 0usize)];
            while let Some((node, at)) = path.last_mut() {
                let v = *node as usize;
                if *at == 0 {
                    index[v] = next_index;
                    low[v] = next_index;
                    next_index += 1;
                    stack.push(v);
                }
                let edge = self.edges[v].get(*at).copied();
                *at += 1;
                match edge {
                    Some((_, kind)) if kind & kinds == 0 => {}
                    Some((to, _)) if index[to as usize] == NONE => path.push((to, 0)),
                    Some((to, _)) if component[to as usize] == NONE => {
                        low[v] = low[v].min(index[to as usize]);
                    }
                    Some(_) => {}
                    None => {
                        path.pop();
                        if let Some((above, _)) = path.last() {
                            low[*above as usize] = low[*above as usize].min(low[v]);
                        }
                        if low[v] == index[v] {
                            while let Some(member) = stack.pop() {
                                component[member] = next_component;
                                if member == v {
                                    break;
                                }
                            }
                            next_component += 1;
                        }
                    }
                }
            }
        }
        component
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: usize, edges: &[(u32, u32, u8)]) -> Graph {
        let mut graph = Graph::new(nodes);
        edges.iter().for_each(|&(from, to, kind)| graph.edge(from, to, kind));
        graph
    }

    #[test]
    fn cycles_are_found_among_the_edges_of_the_given_kinds() {
        let g = graph(5, &[(0, 1, WW), (1, 2, WR), (2, 3, WW), (3, 1, RW), (3, 4, WW)]);
        assert_eq!(g.cycle(WW | WR), None);
        assert_eq!(g.cycle(WW | WR | RW).unwrap(), [(1, WR), (2, WW), (3, RW)]);
        assert_eq!(graph(2, &[(0, 0, WW)]).len(), 0);
    }

    #[test]
    fn snapshot_isolation_allows_cycles_with_two_consecutive_rw() {
        let skew = graph(2, &[(0, 1, RW), (1, 0, RW)]);
        assert!(skew.cycle(WW | WR | RW).is_some() && skew.cycle_without_two_rw(WW | WR).is_none());
        let fork = graph(4, &[(0, 1, WR), (1, 2, RW), (2, 3, WR), (3, 0, RW)]);
        assert!(fork.cycle_without_two_rw(WW | WR).is_some());
        let single = graph(2, &[(0, 1, WW), (1, 0, RW)]);
        assert_eq!(single.cycle_without_two_rw(WW | WR).unwrap().len(), 2);
    }

    /// Compared with a slow search from every node.
    #[test]
    fn random_graphs_have_a_cycle_when_some_node_reaches_itself() {
        let mut rng = base::prng::Prng::new(7);
        for _ in 0..500 {
            let n = 2 + rng.below(8);
            let mut g = Graph::new(n as usize);
            for _ in 0..rng.below(2 * n) {
                g.edge(rng.below(n) as u32, rng.below(n) as u32, WW);
            }
            let reaches_itself = (0..n as u32).any(|start| {
                let (mut seen, mut open) = (vec![false; n as usize], vec![start]);
                while let Some(node) = open.pop() {
                    for (to, _) in g.next(node, WW) {
                        if to == start {
                            return true;
                        }
                        if !std::mem::replace(&mut seen[to as usize], true) {
                            open.push(to);
                        }
                    }
                }
                false
            });
            assert_eq!(g.cycle(WW).is_some(), reaches_itself);
        }
    }
}
