//! What an entity may be, field by field, for a read that does not wait.
//!
//! Each field is told apart, over all outcomes: which values of two fields go together is not. Whatever some outcome has lies in the
//! answer. What the cells tell costs as much as the state is large, however much is open. A field that changes in a way that they
//! do not tell is looked up in the outcomes, if these are few enough.

use std::collections::BTreeSet;

use enact_rebel::Value;
use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use super::Admission;
use crate::model::{Content, Model, Place};

/// Values of one field that are told one by one, at most; cells never hold as many.
const VALUES_MAX: usize = 32;

/// What one entity may be, field by field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Whether the instance has been created in some outcome.
    pub exists: bool,
    /// The names of the life-cycle states it may be in.
    pub states: Vec<String>,
    /// The fields; one that some outcome lacks is left out.
    pub fields: Vec<FieldRange>,
}

/// What one field may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldRange {
    /// The name of the field.
    pub name: String,
    /// Its values over all outcomes.
    pub values: Values,
}

/// The values of one field over all outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Values {
    /// A number: the least and the greatest, as the model shows them.
    Between {
        /// The least value.
        low: String,
        /// The greatest value.
        high: String,
    },
    /// A set.
    Elements {
        /// What is in it in all outcomes.
        certain: BTreeSet<Value>,
        /// What is in it in some outcomes and not in others; nothing if that may be anything.
        possible: Option<BTreeSet<Value>>,
    },
    /// Any other field, or a number in several units: each of its values once, at most 32; nothing if it may be anything.
    Among(Option<Vec<Value>>),
}

impl Values {
    /// Of which nothing is known, but what a field like `value` is.
    fn any_like(value: &Value) -> Self {
        match value {
            Value::Set(_) => Self::Elements { certain: BTreeSet::new(), possible: None },
            _ => Self::Among(None),
        }
    }

    const fn are_known(&self) -> bool {
        !matches!(self, Self::Elements { possible: None, .. } | Self::Among(None))
    }

    /// All of these.
    fn all_of(values: Vec<Value>) -> Self {
        let sets = values.iter().map(|value| match value {
            Value::Set(elements) => Some(&**elements),
            _ => None,
        });
        if let Some(sets) = sets.collect::<Option<Vec<&BTreeSet<Value>>>>()
            && let Some((first, others)) = sets.split_first()
        {
            let certain = first.iter().filter(|element| others.iter().all(|set| set.contains(element)));
            let certain: BTreeSet<Value> = certain.cloned().collect();
            let possible = sets.iter().flat_map(|set| set.iter()).filter(|element| !certain.contains(element));
            let possible = Some(possible.cloned().collect());
            return Self::Elements { certain, possible };
        }
        Self::Among((values.len() <= VALUES_MAX).then_some(values))
    }
}

impl<M: Model> Admission<M> {
    /// What the entity may be, or nothing if what is in progress has more than
    /// [`Limits::outcomes_max`](super::Limits::outcomes_max) outcomes and is not described by cells.
    pub fn range(&mut self) -> Option<Range> {
        self.lay_out_alone();
        let of_cells = self.range_of_cells();
        if of_cells.as_ref().is_some_and(|range| range.fields.iter().all(|field| field.values.are_known())) {
            return of_cells;
        }
        self.progress.refill();
        self.range_of_outcomes().or(of_cells)
    }

    fn range_of_cells(&self) -> Option<Range> {
        let (entity, interval, base) = (&self.progress.entity, &self.progress.interval, self.base());
        if !self.progress.is_exact() || !entity.exists(base) {
            return None;
        }
        let states = interval.contents(&Place::LIFE_CYCLE, &self.progress)?;
        let mut range = Range { exists: true, states, fields: Vec::new() };
        for (number, value) in entity.numbers(base) {
            let ends = interval.field(number, value)?;
            let ((name, low), (_, high)) = (entity.show(number, ends.low), entity.show(number, ends.high));
            range.fields.push(FieldRange { name, values: Values::Between { low, high } });
        }
        for (place, value) in entity.model.fields(&entity.key, base) {
            let name = entity.place_name(&place);
            if !range.has(&name) {
                let values = self.values_of_cells(&place, &value).unwrap_or_else(|| Values::any_like(&value));
                range.fields.push(FieldRange { name, values });
            }
        }
        Some(range)
    }

    /// What a field that is no number may be; nothing if its cells do not tell.
    fn values_of_cells(&self, field: &Place, base: &Value) -> Option<Values> {
        let Self { progress, .. } = self;
        let read = |place: &Place, value| {
            progress.entity.model.value_of(&progress.entity.key, &Content { place: place.clone(), value })
        };
        let cells: Vec<&Place> = progress.interval.cells_of(field).collect();
        match (cells.as_slice(), base) {
            (cells, Value::Set(elements)) => {
                let (mut certain, mut possible) = (BTreeSet::clone(elements), BTreeSet::new());
                for cell in cells {
                    let contents = progress.interval.contents(cell, progress)?;
                    let may_be = |text: &str| contents.iter().any(|content| content == text);
                    let (is_in, is_out) = (may_be("true"), may_be("false"));
                    let element = read(cell, "true".to_owned())?;
                    certain.remove(&element);
                    if is_in {
                        let found = if is_out { &mut possible } else { &mut certain };
                        found.insert(element);
                    }
                }
                Some(Values::Elements { certain, possible: Some(possible) })
            }
            ([], base) => Some(Values::Among(Some(vec![base.clone()]))),
            _ => {
                let contents = progress.interval.contents(field, progress)?;
                let values = contents.into_iter().map(|content| read(field, content)).collect::<Option<_>>()?;
                Some(Values::all_of(values))
            }
        }
    }

    fn range_of_outcomes(&mut self) -> Option<Range> {
        let outcomes = self.progress.outcomes()?;
        let entity = &self.progress.entity;
        let names: IndexSet<&str> = outcomes.iter().map(|state| entity.state_name(state)).collect();
        let mut range = Range {
            exists: outcomes.iter().any(|state| entity.exists(state)),
            states: names.into_iter().map(str::to_owned).collect(),
            fields: Vec::new(),
        };
        let first = outcomes.first()?;
        for (number, _) in entity.numbers(first) {
            let values: Option<Vec<i128>> = outcomes.iter().map(|state| entity.number(state, number)).collect();
            if let Some(values) = values
                && let (Some(&low), Some(&high)) = (values.iter().min(), values.iter().max())
            {
                let ((name, low), (_, high)) = (entity.show(number, low), entity.show(number, high));
                range.fields.push(FieldRange { name, values: Values::Between { low, high } });
            }
        }
        let states: Vec<_> = outcomes.iter().map(|state| entity.model.fields(&entity.key, state)).collect();
        for (place, _) in &states[0] {
            let name = entity.place_name(place);
            let value = |fields: &Vec<(Place, Value)>| {
                fields.iter().find_map(|(found, value)| (found == place).then(|| value.clone()))
            };
            if !range.has(&name)
                && let Some(values) = states.iter().map(value).collect::<Option<IndexSet<Value>>>()
            {
                let values = Values::all_of(values.into_iter().collect());
                range.fields.push(FieldRange { name, values });
            }
        }
        Some(range)
    }
}

impl Range {
    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }
}
