//! The product of two matrices, with an actor for each row.
//!
//! The actors share the factors, which nobody changes; each is made for one row, answers with it and ends. Making them
//! is part of the kernel; the threads of both pools are there before. There is no tail call to be forwarded, and
//! synchronous calls would compute one row after the other: what is compared is a loop (*seq*) and a parallel loop
//! (*rayon*) over the same function of a row.
use std::marker::PhantomData;
use std::sync::Arc;

use enact::{ActorError, Cx, actor};
use enact_workloads::kernels::{Factors, Product, WrongKernel};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::Variant;
use super::probe::Probe;
use super::program::{Program, Stage, Version};

struct Row<P> {
    factors: Arc<Factors>,
    number: usize,
    _probe: PhantomData<P>,
}

#[actor]
impl<P: Probe> Row<P> {
    fn elements(&self) -> Vec<f64> {
        P::called();
        self.factors.row(self.number)
    }
}

/// Makes the actors of the rows, and puts the product together.
struct Desk<P> {
    factors: Arc<Factors>,
    _probe: PhantomData<P>,
}

#[actor]
impl<P: Probe> Desk<P> {
    async fn product(cx: Cx<Self>) -> Result<Vec<Vec<f64>>, ActorError> {
        P::called();
        let factors = cx.with(|desk| Arc::clone(&desk.factors));
        let ask = |number| {
            P::promised();
            cx.spawn(Row { factors: Arc::clone(&factors), number, _probe: PhantomData::<P> }).elements()
        };
        let promises: Vec<_> = (0..factors.rows()).map(ask).collect();
        let mut rows = Vec::with_capacity(promises.len());
        for promise in promises {
            rows.push(promise.await?);
        }
        Ok(rows)
    }
}

pub(super) struct Matrix {
    factors: Arc<Factors>,
    product: Product,
}

impl Matrix {
    pub(super) fn new(rows: usize) -> Self {
        let factors = Arc::new(Factors::drawn(rows));
        Self { product: factors.product(), factors }
    }
}

impl Program for Matrix {
    type Found = Vec<Vec<f64>>;

    fn versions<'a, P: Probe>(&'a self, stage: &'a Stage) -> Vec<Version<'a, Vec<Vec<f64>>>> {
        let desk = stage.system.spawn(Desk::<P> { factors: Arc::clone(&self.factors), _probe: PhantomData });
        let by_actors = move || {
            P::promised();
            desk.product().wait().flatten()
        };
        let rows = 0..self.factors.rows();
        let in_parallel = rows.clone();
        let row = |number| self.factors.row(number);
        vec![
            Version::new(Variant::Await, 1, by_actors),
            Version::new(Variant::Seq, 1, move || Ok(rows.clone().map(row).collect())),
            Version::new(Variant::Rayon, 1, move || {
                Ok(stage.pool.install(|| in_parallel.clone().into_par_iter().map(row).collect()))
            }),
        ]
    }

    fn verify(&self, found: &Vec<Vec<f64>>) -> Result<(), WrongKernel> {
        self.product.verify(found)
    }
}
