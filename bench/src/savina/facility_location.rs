//! Online facility location: a quad-tree that grows where customers are, navigated by messages.
//!
//! A quadrant serves its customers from the nearest facility that it knows. When that has become too costly it opens
//! one at its centre, tells the others, and leaves its customers to four quadrants of its own.
//!
//! The published program counts a customer on an inner edge for each quadrant that it touches, and draws points that
//! are heaped in one corner. In the strict variant quadrants do not overlap and points are spread evenly; then several
//! parts of the tree are busy at a time, and how many facilities are opened may depend on whose notice comes first.
use enact::{Actor, Cx, actor};
use enact_workloads::SplitMix64;
use enact_workloads::savina::Lcg16;

use super::oracle::{Wrong, equal, within};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

parameters! {
    /// Online facility location.
    FacilityLocation {
        /// How many customers come.
        points: u64 = 100_000,
        /// The side of the square that they come from.
        grid: f64 = 500.0,
        /// How much a facility costs, in diagonals of the square.
        alpha: f64 = 2.0,
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    x: f64,
    y: f64,
}

impl Point {
    fn distance(self, other: Self) -> f64 {
        ((self.x - other.x).powi(2) + (self.y - other.y).powi(2)).sqrt()
    }
}

/// Where customers come from.
enum Points {
    Heaped(Lcg16),
    Even(SplitMix64),
}

impl Points {
    fn new(variant: Variant) -> Self {
        match variant {
            Variant::Strict => Self::Even(SplitMix64::new(123_456)),
            _ => Self::Heaped(Lcg16::default()),
        }
    }

    fn draw(&mut self, grid: f64) -> Point {
        let mut fraction = || match self {
            Self::Heaped(draws) => draws.harmonic(),
            Self::Even(draws) => (draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64,
        };
        let (x, y) = (fraction() * grid, fraction() * grid);
        Point { x, y }
    }
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    low: Point,
    high: Point,
    /// Whether the upper edges belong to it: the ones of the whole square always do.
    closed: (bool, bool),
}

impl Bounds {
    fn contains(&self, point: Point) -> bool {
        let inside = |at: f64, low: f64, high: f64, closed: bool| at >= low && (at < high || (closed && at <= high));
        inside(point.x, self.low.x, self.high.x, self.closed.0)
            && inside(point.y, self.low.y, self.high.y, self.closed.1)
    }

    fn centre(&self) -> Point {
        Point { x: f64::midpoint(self.low.x, self.high.x), y: f64::midpoint(self.low.y, self.high.y) }
    }

    /// The quarters: those with larger y first, of two the one with smaller x first.
    fn quarters(&self, overlap: bool) -> [Self; 4] {
        let centre = self.centre();
        [(false, true), (true, true), (false, false), (true, false)].map(|(right, top)| {
            let x = if right { (centre.x, self.high.x) } else { (self.low.x, centre.x) };
            let y = if top { (centre.y, self.high.y) } else { (self.low.y, centre.y) };
            let closed = (overlap || (right && self.closed.0), overlap || (top && self.closed.1));
            Self { low: Point { x: x.0, y: y.0 }, high: Point { x: x.1, y: y.1 }, closed }
        })
    }
}

/// A quadrant without messages: what the actor and the oracle have in common.
#[derive(Debug, Clone)]
struct Ground {
    bounds: Bounds,
    /// What a quadrant's customers may cost it.
    threshold: f64,
    /// Whether quadrants overlap at their edges.
    overlap: bool,
    depth: u64,
    facilities: Vec<Point>,
    customers: Vec<Point>,
    cost: f64,
}

impl Ground {
    fn whole(parameters: &FacilityLocation, variant: Variant) -> Self {
        let FacilityLocation { grid, alpha, .. } = *parameters;
        let bounds = Bounds { low: Point { x: 0.0, y: 0.0 }, high: Point { x: grid, y: grid }, closed: (true, true) };
        Self {
            bounds,
            threshold: alpha * 2.0_f64.sqrt() * grid,
            overlap: variant != Variant::Strict,
            depth: 0,
            facilities: vec![bounds.centre()],
            customers: Vec::new(),
            cost: 0.0,
        }
    }

    fn add(&mut self, customer: Point) {
        self.customers.push(customer);
        let distances = self.facilities.iter().map(|facility| facility.distance(customer));
        self.cost += distances.fold(f64::INFINITY, f64::min);
    }

    fn is_too_costly(&self) -> bool {
        self.cost > self.threshold
    }

    /// The four quarters, which take the customers over.
    fn split(&mut self) -> [Self; 4] {
        let customers = std::mem::take(&mut self.customers);
        self.bounds.quarters(self.overlap).map(|bounds| {
            let mut facilities = self.facilities.clone();
            facilities.push(bounds.centre());
            let mut quarter =
                Self { bounds, depth: self.depth + 1, facilities, customers: Vec::new(), cost: 0.0, ..*self };
            customers.iter().filter(|&&customer| bounds.contains(customer)).for_each(|&customer| quarter.add(customer));
            quarter
        })
    }
}

struct Producer {
    left: u64,
    grid: f64,
    points: Points,
    root: QuadrantRef,
    _presence: Presence,
}

#[actor]
impl Producer {
    fn next_customer(&mut self, cx: &Cx<Self>) {
        if self.left == 0 {
            self.root.tell().exit();
            cx.stop();
            return;
        }
        self.left -= 1;
        self.root.tell().customer(self.points.draw(self.grid), Some(cx.handle()));
    }
}

struct Quadrant {
    ground: Ground,
    /// The parent, and which of its children this is.
    parent: Option<(QuadrantRef, usize)>,
    children: Vec<QuadrantRef>,
    bounds: Vec<Bounds>,
    below: Summary,
    confirmed: usize,
    report: Report<Summary>,
    presence: Presence,
}

/// A quadrant and all below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Summary {
    facilities: u64,
    leaves: u64,
    customers: u64,
    depth: u64,
    /// Messages that were taken up; a notice may come after the exit, and is dropped then.
    messages: u64,
}

impl Summary {
    fn with(self, other: Self) -> Self {
        Self {
            facilities: self.facilities + other.facilities,
            leaves: self.leaves + other.leaves,
            customers: self.customers + other.customers,
            depth: self.depth.max(other.depth),
            messages: self.messages + other.messages,
        }
    }
}

#[actor]
impl Quadrant {
    fn customer(&mut self, cx: &Cx<Self>, customer: Point, producer: Option<ProducerRef>) {
        self.below.messages += 1;
        if self.children.is_empty() {
            self.ground.add(customer);
            if self.ground.is_too_costly() {
                self.open(cx);
            }
        } else if let Some(at) = self.bounds.iter().position(|bounds| bounds.contains(customer)) {
            self.children[at].tell().customer(customer, None);
        }
        if let Some(producer) = producer {
            producer.tell().next_customer();
        }
    }

    /// A child, or somebody below it, has opened a facility.
    fn facility_below(&mut self, child: usize, facility: Point) {
        self.below.messages += 1;
        self.ground.facilities.push(facility);
        if let Some((parent, position)) = &self.parent {
            parent.tell().facility_below(*position, facility);
        }
        self.children[diagonally_opposite(child)].tell().facility_above(facility);
    }

    /// Somebody elsewhere has opened a facility.
    fn facility_above(&mut self, facility: Point) {
        self.below.messages += 1;
        self.ground.facilities.push(facility);
        self.children.iter().for_each(|child| drop(child.tell().facility_above(facility)));
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.below.messages += 1;
        if self.children.is_empty() {
            let Ground { customers, depth, .. } = &self.ground;
            let leaf = Summary { leaves: 1, customers: customers.len() as u64, depth: *depth, ..self.below };
            self.end(cx, leaf);
        } else {
            self.children.iter().for_each(|child| drop(child.tell().exit()));
        }
    }

    fn confirm(&mut self, cx: &Cx<Self>, child: Summary) {
        self.below = self.below.with(child);
        self.below.messages += 1;
        self.confirmed += 1;
        if self.confirmed == self.children.len() {
            self.end(cx, Summary { facilities: self.below.facilities + 1, ..self.below });
        }
    }
}

/// Of the positions top left, top right, bottom left, bottom right.
fn diagonally_opposite(position: usize) -> usize {
    3 - position
}

impl Quadrant {
    fn open(&mut self, cx: &Cx<Self>) {
        if let Some((parent, position)) = &self.parent {
            parent.tell().facility_below(*position, self.ground.bounds.centre());
        }
        for (position, ground) in self.ground.split().into_iter().enumerate() {
            self.bounds.push(ground.bounds);
            let parent = Some((cx.handle(), position));
            self.children.push(Self::new(ground, parent, self.report.clone(), self.presence.clone()).spawn());
        }
    }

    fn new(ground: Ground, parent: Option<(QuadrantRef, usize)>, report: Report<Summary>, presence: Presence) -> Self {
        let (children, bounds, below) = (Vec::new(), Vec::new(), Summary::default());
        Self { ground, parent, children, bounds, below, confirmed: 0, report, presence }
    }

    fn end(&self, cx: &Cx<Self>, summary: Summary) {
        match &self.parent {
            Some((parent, _)) => drop(parent.tell().confirm(summary)),
            None => self.report.give(summary),
        }
        cx.stop();
    }
}

/// The tree without messages: every notice arrives at once.
struct Tree {
    quadrants: Vec<Planted>,
}

struct Planted {
    ground: Ground,
    parent: Option<(usize, usize)>,
    children: Option<[usize; 4]>,
}

impl Tree {
    fn summary(parameters: &FacilityLocation, variant: Variant, mut points: Points) -> Summary {
        let root = Planted { ground: Ground::whole(parameters, variant), parent: None, children: None };
        let mut tree = Self { quadrants: vec![root] };
        let mut summary = Summary::default();
        for _ in 0..parameters.points {
            tree.customer(points.draw(parameters.grid), &mut summary.messages);
        }
        // An exit for each quadrant, and a confirmation from each but the root.
        summary.messages += 2 * tree.quadrants.len() as u64 - 1;
        tree.quadrants.iter().fold(summary, |summary, Planted { ground, children, .. }| match children {
            Some(_) => summary.with(Summary { facilities: 1, ..Summary::default() }),
            None => {
                let customers = ground.customers.len() as u64;
                summary.with(Summary { leaves: 1, customers, depth: ground.depth, ..Summary::default() })
            }
        })
    }

    fn customer(&mut self, customer: Point, messages: &mut u64) {
        let mut at = 0;
        *messages += 1;
        while let Some(children) = self.quadrants[at].children {
            let contains = |child: &&usize| self.quadrants[**child].ground.bounds.contains(customer);
            let Some(&child) = children.iter().find(contains) else { return };
            at = child;
            *messages += 1;
        }
        self.quadrants[at].ground.add(customer);
        if self.quadrants[at].ground.is_too_costly() {
            self.open(at, messages);
        }
    }

    fn open(&mut self, at: usize, messages: &mut u64) {
        let facility = self.quadrants[at].ground.bounds.centre();
        let first = self.quadrants.len();
        let quarters = self.quadrants[at].ground.split().into_iter().enumerate();
        let planted =
            quarters.map(|(position, ground)| Planted { ground, parent: Some((at, position)), children: None });
        self.quadrants.extend(planted);
        self.quadrants[at].children = Some([first, first + 1, first + 2, first + 3]);
        let mut from = at;
        while let Some((parent, position)) = self.quadrants[from].parent {
            *messages += 1;
            self.quadrants[parent].ground.facilities.push(facility);
            let children = self.quadrants[parent].children.expect("a parent has children");
            self.tell_down(children[diagonally_opposite(position)], facility, messages);
            from = parent;
        }
    }

    fn tell_down(&mut self, at: usize, facility: Point, messages: &mut u64) {
        *messages += 1;
        self.quadrants[at].ground.facilities.push(facility);
        for child in self.quadrants[at].children.into_iter().flatten() {
            self.tell_down(child, facility, messages);
        }
    }
}

pub(super) struct Prepared {
    variant: Variant,
    expected: Summary,
}

impl Program for FacilityLocation {
    const NAME: &'static str = "ofl";
    const TITLE: &'static str = "Online Facility Location";
    const SIZE: Option<&'static str> = Some("points");
    const VARIANTS: &'static [Variant] = &[Variant::Port, Variant::Strict];
    type Prepared = Prepared;
    type Found = Option<Summary>;

    fn refuse(&self) -> Option<&'static str> {
        let possible = self.grid > 0.0 && self.alpha >= 1.0;
        (!possible).then_some("the square has a side, and a facility costs a diagonal at least")
    }

    fn prepare(&self, variant: Variant) -> Prepared {
        Prepared { variant, expected: Tree::summary(self, variant, Points::new(variant)) }
    }

    fn start(&self, prepared: &Prepared, stage: &Stage) -> Findings<Option<Summary>> {
        let (report, reported) = reports();
        let ground = Ground::whole(self, prepared.variant);
        let root = stage.spawn(Quadrant::new(ground, None, report, stage.presence()));
        let points = Points::new(prepared.variant);
        let producer = Producer { left: self.points, grid: self.grid, points, root, _presence: stage.presence() };
        stage.spawn(producer).tell().next_customer();
        Box::new(move || reported.only())
    }

    fn verify(&self, prepared: &Prepared, found: &Option<Summary>) -> Result<Verified, Wrong> {
        let Prepared { variant, expected } = prepared;
        let summary = found.unwrap_or_default();
        equal("leaves", summary.leaves, 3 * summary.facilities + 1)?;
        if *variant == Variant::Strict {
            equal("customers", summary.customers, self.points)?;
            within("facilities", summary.facilities, expected.facilities / 2, expected.facilities * 2)?;
        } else {
            equal("customers", summary.customers, expected.customers)?;
            equal("facilities", summary.facilities, expected.facilities)?;
        }
        Ok(Verified::after(summary.messages + self.points + 1).with_fact("facilities", summary.facilities))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heaped(parameters: &FacilityLocation, variant: Variant) -> Summary {
        Tree::summary(parameters, variant, Points::new(Variant::Port))
    }

    #[test]
    fn oracle_has_the_published_result() {
        let program = FacilityLocation::default();
        let expected = Summary { facilities: 14, leaves: 43, customers: 100_003, depth: 14, messages: 1_349_435 };
        assert_eq!(heaped(&program, Variant::Port), expected);
        let Summary { facilities, customers, .. } = heaped(&program, Variant::Strict);
        assert_eq!((facilities, customers), (14, 100_000));
        let few = FacilityLocation { points: 1_000, ..program };
        let Summary { facilities, leaves, customers, .. } = heaped(&few, Variant::Port);
        assert_eq!((facilities, leaves, customers), (8, 25, 1_000));
    }

    #[test]
    fn evenly_spread_points_make_a_bushy_tree() {
        let program = FacilityLocation { points: 20_000, ..FacilityLocation::default() };
        let Summary { facilities, depth, customers, .. } = program.prepare(Variant::Strict).expected;
        assert_eq!(customers, 20_000);
        assert!(facilities > 3 * depth, "{facilities} facilities, depth {depth}");
    }

    #[test]
    fn a_lost_customer_or_facility_is_refused() {
        let program = FacilityLocation { points: 1_000, ..FacilityLocation::default() };
        for variant in [Variant::Port, Variant::Strict] {
            let prepared = program.prepare(variant);
            let right = prepared.expected;
            assert!(program.verify(&prepared, &Some(right)).is_ok());
            let lost = Summary { customers: right.customers - 1, ..right };
            assert!(program.verify(&prepared, &Some(lost)).is_err());
            let lost = Summary { facilities: right.facilities - 1, ..right };
            assert!(program.verify(&prepared, &Some(lost)).is_err());
            assert!(program.verify(&prepared, &None).is_err());
        }
    }
}
