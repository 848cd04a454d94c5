//! All-pairs shortest paths: blocks of a matrix go through phases, each with what its row and column have of the phase.
//!
//! A neighbour that is a phase ahead must not be mistaken for one that is not: early blocks wait for their phase.
use std::collections::HashMap;
use std::sync::Arc;

use enact::{Cx, actor};
use enact_workloads::savina::Lcg16;

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

parameters! {
    /// All-pairs shortest paths.
    ShortestPaths {
        /// How many nodes the graph has.
        nodes: usize = 300,
        /// How many rows and columns a block has.
        block: usize = 50,
        /// The largest weight of an edge.
        weight: u64 = 100,
    }
}

/// Where a block is, in blocks.
type Place = (usize, usize);

/// A block's distances row by row, shared with all neighbours.
type Distances = Arc<[i64]>;

struct Block {
    place: Place,
    size: usize,
    phases: usize,
    /// The phase that comes next.
    phase: usize,
    distances: Distances,
    neighbours: Vec<BlockRef>,
    /// What neighbours had before this phase.
    others: HashMap<Place, Distances>,
    report: Report<(Place, Distances)>,
    _presence: Presence,
}

#[actor]
impl Block {
    fn meet(&mut self, neighbours: Vec<BlockRef>) {
        self.neighbours = neighbours;
    }

    fn start(&mut self, cx: &Cx<Self>) {
        self.tell_neighbours();
        self.advance(cx);
    }

    #[when(*phase == self.phase)]
    fn result(&mut self, cx: &Cx<Self>, phase: usize, place: Place, distances: Distances) {
        self.others.insert(place, distances);
        self.advance(cx);
    }
}

impl Block {
    fn tell_neighbours(&self) {
        for neighbour in &self.neighbours {
            neighbour.tell().result(self.phase, self.place, Arc::clone(&self.distances));
        }
    }

    /// Goes through the phases that all neighbours have come to.
    fn advance(&mut self, cx: &Cx<Self>) {
        while self.phase < self.phases && self.others.len() == self.neighbours.len() {
            let others = std::mem::take(&mut self.others);
            self.distances = self.after_phase(&others);
            self.phase += 1;
            self.tell_neighbours();
            if self.phase == self.phases {
                self.report.give((self.place, Arc::clone(&self.distances)));
                cx.stop();
            }
        }
    }

    fn after_phase(&self, others: &HashMap<Place, Distances>) -> Distances {
        let (size, (row, column)) = (self.size, self.place);
        let (block, inner) = (self.phase / size, self.phase % size);
        let of = |place| if place == self.place { &self.distances } else { &others[&place] };
        let (to, from) = (of((row, block)), of((block, column)));
        let shortest = |(at, &distance): (usize, &i64)| {
            let (i, j) = (at / size, at % size);
            distance.min(to[i * size + inner] + from[inner * size + j])
        };
        self.distances.iter().enumerate().map(shortest).collect()
    }
}

impl ShortestPaths {
    /// Weights of a complete graph, row by row.
    fn graph(&self) -> Vec<i64> {
        let nodes = self.nodes;
        let mut draws = Lcg16::new(nodes as u64);
        let mut weights = vec![0; nodes * nodes];
        for i in 0..nodes {
            for j in i + 1..nodes {
                let weight = draws.below(self.weight) as i64 + 1;
                (weights[i * nodes + j], weights[j * nodes + i]) = (weight, weight);
            }
        }
        weights
    }

    /// The block of `matrix` at `place`.
    fn block_of(&self, matrix: &[i64], (row, column): Place) -> Distances {
        let size = self.block;
        let element = |at: usize| matrix[(row * size + at / size) * self.nodes + column * size + at % size];
        (0..size * size).map(element).collect()
    }
}

pub(super) struct Prepared {
    graph: Vec<i64>,
    /// The distances of all pairs, row by row.
    distances: Vec<i64>,
}

impl Program for ShortestPaths {
    const NAME: &'static str = "apsp";
    const TITLE: &'static str = "All-Pairs Shortest Path";
    type Prepared = Prepared;
    type Found = Vec<(Place, Distances)>;

    fn refuse(&self) -> Option<&'static str> {
        let possible = self.block > 0 && self.nodes > 0 && self.nodes.is_multiple_of(self.block) && self.weight > 0;
        (!possible).then_some("edges have a weight, and the graph divides into blocks")
    }

    fn prepare(&self, _variant: Variant) -> Prepared {
        let (nodes, graph) = (self.nodes, self.graph());
        let mut distances = graph.clone();
        for k in 0..nodes {
            for i in 0..nodes {
                for j in 0..nodes {
                    let through = distances[i * nodes + k] + distances[k * nodes + j];
                    distances[i * nodes + j] = distances[i * nodes + j].min(through);
                }
            }
        }
        Prepared { graph, distances }
    }

    fn start(&self, prepared: &Prepared, stage: &Stage) -> Findings<Self::Found> {
        let (report, reported) = reports();
        let across = self.nodes / self.block;
        let places = || (0..across * across).map(move |at| (at / across, at % across));
        let block = |place| {
            stage.spawn(Block {
                place,
                size: self.block,
                phases: self.nodes,
                phase: 0,
                distances: self.block_of(&prepared.graph, place),
                neighbours: Vec::new(),
                others: HashMap::new(),
                report: report.clone(),
                _presence: stage.presence(),
            })
        };
        let blocks: Vec<_> = places().map(|place| (place, block(place))).collect();
        for (place, block) in &blocks {
            let is_near = |other: &Place| other != place && (other.0 == place.0 || other.1 == place.1);
            let near = blocks.iter().filter(|(other, _)| is_near(other));
            block.tell().meet(near.map(|(_, block)| block.clone()).collect());
        }
        blocks.iter().for_each(|(_, block)| drop(block.tell().start()));
        Box::new(move || reported.all())
    }

    fn verify(&self, prepared: &Prepared, found: &Self::Found) -> Result<Verified, Wrong> {
        let across = self.nodes / self.block;
        equal("blocks", found.len(), across * across)?;
        for (place, block) in found {
            let expected = self.block_of(&prepared.distances, *place);
            let wrong = block.iter().zip(&*expected).find(|(found, expected)| found != expected);
            equal("a distance that is not the shortest", wrong, None)?;
        }
        let links = (across * across * (2 * across - 2)) as u64;
        Ok(Verified::after((self.nodes as u64 + 1) * links))
    }
}

#[cfg(test)]
mod tests {
    use enact_workloads::savina::poly31;

    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let Prepared { graph, distances } = ShortestPaths::default().prepare(Variant::Port);
        assert_eq!((graph.iter().sum::<i64>(), distances.iter().sum::<i64>()), (4_535_482, 401_700));
        assert_eq!((distances.iter().max(), distances[299], distances[302]), (Some(&9), 5, 5));
        assert_eq!(poly31(distances), -4_904_559_828_020_252_750);
    }

    #[test]
    fn a_longer_path_is_refused() {
        let program = ShortestPaths { nodes: 4, block: 2, weight: 9 };
        let prepared = program.prepare(Variant::Port);
        let found = |matrix: &[i64]| {
            let block = |place| (place, program.block_of(matrix, place));
            [(0, 0), (0, 1), (1, 0), (1, 1)].map(block).to_vec()
        };
        assert!(program.verify(&prepared, &found(&prepared.distances)).is_ok());
        let mut longer = prepared.distances.clone();
        longer[2] += 1;
        assert!(program.verify(&prepared, &found(&longer)).is_err());
        assert!(program.verify(&prepared, &found(&prepared.distances)[1..].to_vec()).is_err());
    }
}
