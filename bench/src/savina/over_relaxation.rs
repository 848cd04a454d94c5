//! Successive over-relaxation: a stencil with an actor for each point of the grid.
//!
//! The published reference values belong to the Java library's generator, which the strict variant draws from; the
//! published programs have another one by now.
use enact::{Actor, Cx, actor};
use enact_workloads::savina::{Java48, Lcg16};

use super::oracle::{Wrong, close, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

const SEED: u32 = 10_101_010;

parameters! {
    /// Successive over-relaxation.
    OverRelaxation {
        /// How many points a side of the grid has.
        side: usize = 20,
        /// How often each point is relaxed.
        iterations: u32 = 100,
        /// By how much a point overshoots.
        omega: f64 = 1.25,
    }
}

/// The grid's values and how they are relaxed.
#[derive(Debug, Clone)]
struct Grid {
    side: usize,
    iterations: u32,
    omega: f64,
    /// Row by row.
    values: Vec<f64>,
}

impl Grid {
    fn new(parameters: &OverRelaxation, variant: Variant) -> Self {
        let OverRelaxation { side, iterations, omega } = *parameters;
        let (mut java, mut lcg16) = (Java48::new(u64::from(SEED)), Lcg16::new(u64::from(SEED)));
        let mut draw = || if variant == Variant::Strict { java.f64() } else { lcg16.harmonic() };
        Self { side, iterations, omega, values: (0..side * side).map(|_| draw() * 1e-6).collect() }
    }

    /// The points beside one, as (row, column).
    fn beside(&self, (row, column): (usize, usize)) -> impl Iterator<Item = (usize, usize)> {
        let side = self.side;
        let near = [
            (row.checked_sub(1), Some(column)),
            (Some(row + 1), Some(column)),
            (Some(row), column.checked_sub(1)),
            (Some(row), Some(column + 1)),
        ];
        near.into_iter().filter_map(|(row, column)| row.zip(column)).filter(move |at| at.0 < side && at.1 < side)
    }

    /// Points of the leading colour send first; the others are relaxed first.
    fn is_leading((row, column): (usize, usize)) -> bool {
        (row + column).is_multiple_of(2)
    }

    /// The sum of all points in the end, colour after colour.
    fn relaxed_sum(mut self) -> f64 {
        for iteration in 1..=self.iterations {
            self.relax(false);
            if iteration < self.iterations {
                self.relax(true);
            }
        }
        self.values.into_iter().sum()
    }

    fn relax(&mut self, leading: bool) {
        let side = self.side;
        for point in (0..side * side).map(|at| (at / side, at % side)).filter(|&at| Self::is_leading(at) == leading) {
            let sum = self.beside(point).map(|(row, column)| self.values[row * side + column]).sum();
            let value = &mut self.values[point.0 * side + point.1];
            *value = relaxed(*value, sum, self.omega);
        }
    }
}

fn relaxed(value: f64, sum: f64, omega: f64) -> f64 {
    omega / 4.0 * sum + (1.0 - omega) * value
}

struct Point {
    value: f64,
    omega: f64,
    is_leading: bool,
    iteration: u32,
    iterations: u32,
    neighbours: Vec<PointRef>,
    received: usize,
    sum: f64,
    half: Half,
    _presence: Presence,
}

/// The actor that a point tells its last value.
#[derive(Clone)]
enum Half {
    Runner(RunnerRef),
    Peer(PeerRef),
}

#[actor]
impl Point {
    fn start(&mut self, cx: &Cx<Self>, neighbours: Vec<PointRef>) {
        self.neighbours = neighbours;
        if self.is_leading {
            self.send(cx);
        }
    }

    /// Waits for the start.
    #[when(!self.neighbours.is_empty())]
    fn value(&mut self, cx: &Cx<Self>, value: f64) {
        self.sum += value;
        self.received += 1;
        if self.received == self.neighbours.len() {
            self.value = relaxed(self.value, std::mem::take(&mut self.sum), self.omega);
            self.received = 0;
            self.send(cx);
        }
    }
}

impl Point {
    fn send(&mut self, cx: &Cx<Self>) {
        self.neighbours.iter().for_each(|neighbour| drop(neighbour.tell().value(self.value)));
        self.iteration += 1;
        if self.iteration == self.iterations {
            match &self.half {
                Half::Runner(runner) => runner.tell().result(self.value),
                Half::Peer(peer) => peer.tell().result(self.value),
            };
            cx.stop();
        }
    }
}

/// The points of some columns of the grid, by row; columns of others at either side.
struct Columns {
    /// The number of the first column.
    first: usize,
    /// Column after column.
    points: Vec<Vec<PointRef>>,
}

impl Columns {
    fn plant(grid: &Grid, columns: std::ops::Range<usize>, half: &Half, presence: &Presence) -> Self {
        let point = |row: usize, column: usize| Point {
            value: grid.values[row * grid.side + column],
            omega: grid.omega,
            is_leading: Grid::is_leading((row, column)),
            iteration: 0,
            iterations: grid.iterations,
            neighbours: Vec::new(),
            received: 0,
            sum: 0.0,
            half: half.clone(),
            _presence: presence.clone(),
        };
        let first = columns.start;
        let column = |column| (0..grid.side).map(|row| point(row, column).spawn()).collect();
        Self { first, points: columns.map(column).collect() }
    }

    fn at(&self, (row, column): (usize, usize)) -> PointRef {
        self.points[column - self.first][row].clone()
    }

    /// Starts the points of `columns`.
    fn start(&self, grid: &Grid, columns: std::ops::Range<usize>) {
        for point in columns.flat_map(|column| (0..grid.side).map(move |row| (row, column))) {
            let neighbours = grid.beside(point).map(|near| self.at(near)).collect();
            self.at(point).tell().start(neighbours);
        }
    }
}

struct Runner {
    grid: Grid,
    peer: PeerRef,
    own: Option<Columns>,
    /// Results that have not come: of each own point, and of the peer.
    missing: usize,
    sum: f64,
    report: Report<f64>,
    presence: Presence,
}

#[actor]
impl Runner {
    fn start(&mut self, cx: &Cx<Self>) {
        let half = self.grid.side / 2;
        let own = Columns::plant(&self.grid, 0..half, &Half::Runner(cx.handle()), &self.presence);
        self.missing = half * self.grid.side + 1;
        self.peer.tell().boot(own.points[half - 1].clone(), cx.handle());
        self.own = Some(own);
    }

    fn border(&mut self, column: Vec<PointRef>) {
        if let Some(mut own) = self.own.take() {
            let half = own.points.len();
            own.points.push(column);
            own.start(&self.grid, 0..half);
        }
    }

    fn result(&mut self, cx: &Cx<Self>, value: f64) {
        self.sum += value;
        self.missing -= 1;
        if self.missing == 0 {
            self.report.give(self.sum);
            cx.stop();
        }
    }
}

struct Peer {
    grid: Grid,
    runner: Option<RunnerRef>,
    missing: usize,
    sum: f64,
    presence: Presence,
}

#[actor]
impl Peer {
    fn boot(&mut self, cx: &Cx<Self>, border: Vec<PointRef>, runner: RunnerRef) {
        let (half, side) = (self.grid.side / 2, self.grid.side);
        let mut own = Columns::plant(&self.grid, half..side, &Half::Peer(cx.handle()), &self.presence);
        self.missing = (side - half) * side;
        runner.tell().border(own.points[0].clone());
        self.runner = Some(runner);
        own.points.insert(0, border);
        own.first -= 1;
        own.start(&self.grid, half..side);
    }

    fn result(&mut self, cx: &Cx<Self>, value: f64) {
        self.sum += value;
        self.missing -= 1;
        if let Some(runner) = self.runner.as_ref().filter(|_| self.missing == 0) {
            runner.tell().result(self.sum);
            cx.stop();
        }
    }
}

pub(super) struct Prepared {
    grid: Grid,
    sum: f64,
}

impl Program for OverRelaxation {
    const NAME: &'static str = "sor";
    const TITLE: &'static str = "Successive Over-Relaxation";
    const SIZE: Option<&'static str> = Some("iterations");
    const VARIANTS: &'static [Variant] = &[Variant::Port, Variant::Strict];
    type Prepared = Prepared;
    type Found = Option<f64>;

    fn refuse(&self) -> Option<&'static str> {
        let possible = self.side >= 2 && self.iterations >= 2;
        (!possible).then_some("the grid has four points, and each is relaxed")
    }

    fn prepare(&self, variant: Variant) -> Prepared {
        let grid = Grid::new(self, variant);
        Prepared { sum: grid.clone().relaxed_sum(), grid }
    }

    fn start(&self, prepared: &Prepared, stage: &Stage) -> Findings<Option<f64>> {
        let (report, reported) = reports();
        let grid = prepared.grid.clone();
        let peer = Peer { grid: grid.clone(), runner: None, missing: 0, sum: 0.0, presence: stage.presence() };
        let (peer, presence) = (stage.spawn(peer), stage.presence());
        stage.spawn(Runner { grid, peer, own: None, missing: 0, sum: 0.0, report, presence }).tell().start();
        Box::new(move || reported.only())
    }

    fn verify(&self, prepared: &Prepared, found: &Option<f64>) -> Result<Verified, Wrong> {
        equal("sums", found.iter().count(), 1)?;
        close("sum of all points", found.unwrap_or(f64::NAN), prepared.sum, 1e-9)?;
        let side = self.side as u64;
        let values = 4 * side * (side - 1) * u64::from(self.iterations);
        Ok(Verified::after(values + 2 * side * side + 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_has_the_published_results() {
        let rows = [
            (20, 3.189_420_084_871_273_7e-6, 4.162_686_342_332_719_4e-10),
            (80, 0.001_846_644_602_759_563, 2.666_682_653_434_878_5e-7),
        ];
        for (side, java, lcg16) in rows {
            let program = OverRelaxation { side, ..OverRelaxation::default() };
            let strict = program.prepare(Variant::Strict).sum;
            assert!(close("java", strict, java, 1e-9).is_ok(), "{side}: {strict}");
            let port = program.prepare(Variant::Port).sum;
            assert!(close("lcg16", port, lcg16, 1e-9).is_ok(), "{side}: {port}");
        }
    }

    #[test]
    fn a_point_relaxed_once_too_often_is_refused() {
        let program = OverRelaxation { side: 4, ..OverRelaxation::default() };
        let prepared = program.prepare(Variant::Strict);
        assert!(program.verify(&prepared, &Some(prepared.sum)).is_ok());
        let more = OverRelaxation { iterations: 101, ..program.clone() }.prepare(Variant::Strict).sum;
        assert!(program.verify(&prepared, &Some(more)).is_err());
        assert!(program.verify(&prepared, &None).is_err());
    }
}
