//! The outcomes of an entity from end to end, for a read that does not wait.

use indexmap::IndexSet;

use super::Admission;
use crate::model::Model;

/// The outcomes of one entity from end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Whether the instance has been created in some outcome.
    pub exists: bool,
    /// The names of the life-cycle states it may be in.
    pub states: Vec<String>,
    /// The numeric fields; one that some outcome lacks is left out.
    pub fields: Vec<FieldRange>,
}

/// The least and the greatest value of one field over all outcomes, as the model shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRange {
    /// The name of the field.
    pub name: String,
    /// The least value.
    pub low: String,
    /// The greatest value.
    pub high: String,
}

impl<M: Model> Admission<M> {
    /// What all outcomes have in common and between which values they differ, or nothing if what is in progress is not
    /// all linear and has more than [`Limits::outcomes_max`](super::Limits::outcomes_max) outcomes.
    pub fn range(&mut self) -> Option<Range> {
        self.lay_out_alone();
        let entity = self.progress.entity.clone();
        let mut range = Range { exists: entity.exists(self.base()), ..Range::default() };
        let mut field = |field, low, high| {
            let ((name, low), (_, high)) = (entity.show(field, low), entity.show(field, high));
            range.fields.push(FieldRange { name, low, high });
        };
        let numbers = entity.numbers(self.base());
        if self.progress.is_exact() && self.progress.interval.is_life_cycle_at_rest() {
            let ends = |(number, base)| Some((number, self.progress.interval.field(number, base)?));
            let ends: Option<Vec<_>> = numbers.iter().copied().map(ends).collect();
            if let Some(ends) = ends {
                ends.into_iter().for_each(|(number, ends)| field(number, ends.low, ends.high));
                range.states = vec![entity.state_name(self.base()).to_owned()];
                return Some(range);
            }
        }
        self.progress.refill();
        let outcomes = self.progress.outcomes()?;
        for (number, _) in numbers {
            let values: Option<Vec<i128>> = outcomes.iter().map(|state| entity.number(state, number)).collect();
            if let Some(values) = values
                && let (Some(&low), Some(&high)) = (values.iter().min(), values.iter().max())
            {
                field(number, low, high);
            }
        }
        range.exists = outcomes.iter().any(|state| entity.exists(state));
        let names: IndexSet<String> = outcomes.iter().map(|state| entity.state_name(state).to_owned()).collect();
        range.states = names.into_iter().collect();
        Some(range)
    }
}
