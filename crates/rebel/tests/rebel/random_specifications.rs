//! Random specifications: the three analyses say nothing that the interpreter does not do.
//!
//! A class with two integers, an amount, a flag, two states and three events is written at random; every instance and
//! every argument of a small domain is tried.

use std::cell::Cell;

use enact_rebel::ir::ExprKind;
use enact_rebel::{Class, EventCall, Instance, Relation, Verdict};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::generated::{calls, instances, specification};
use crate::support::{NOW, class, key};

/// Whether the call happens, and what it needs of others if it does.
fn verdict(class: &Class, instance: &Instance, call: &EventCall) -> Option<String> {
    class.next(&key(class), instance, call, NOW).ok()?;
    Some(format!("{:?}", class.syncs(&key(class), instance, call, NOW).ok()?))
}

fn check_relations(class: &Class, instances: &[Instance], met: &Met) -> Result<(), TestCaseError> {
    for open in ["E", "F", "G"] {
        for incoming in ["E", "F", "G"] {
            let relation = class.relation(open, incoming).unwrap();
            match relation {
                Relation::Never => meet(&met.never),
                Relation::Invariant => meet(&met.invariant),
                Relation::Dynamic => continue,
            }
            for before in instances {
                for open in calls(class, open) {
                    let Ok(after) = class.next(&key(class), before, &open, NOW) else { continue };
                    for incoming in calls(class, incoming) {
                        let (base, later) = (verdict(class, before, &incoming), verdict(class, &after, &incoming));
                        let holds = base == later && (relation == Relation::Invariant || base.is_none());
                        prop_assert!(holds, "{:?}: {} then {} in {:?}", relation, open, incoming, before);
                    }
                }
            }
        }
    }
    Ok(())
}

fn check_calls(class: &Class, instances: &[Instance], met: &Met) -> Result<(), TestCaseError> {
    let key = key(class);
    for call in ["E", "F", "G"].into_iter().flat_map(|event| calls(class, event)) {
        let linear = class.linear(&key, std::slice::from_ref(&call), NOW);
        linear.iter().for_each(|_| meet(&met.linear));
        if linear.is_some() && has_branches(class, &call) {
            meet(&met.branched);
        }
        let verdicts: Vec<_> = instances.iter().map(|instance| verdict(class, instance, &call)).collect();
        for (instance, verdict) in instances.iter().zip(&verdicts) {
            let next = class.next(&key, instance, &call, NOW);
            if let Some(linear) = &linear {
                prop_assert_eq!(linear.happens_in(instance), next.is_ok(), "{} {:?} {:?}", call, instance, linear);
            }
            let alone = class.judge(&key, &class.outline(instance), &call, NOW).verdict;
            let is_right = match alone {
                Verdict::Accepted => verdict.is_some(),
                Verdict::Refused => next.is_err(),
                Verdict::Unsure => true,
            };
            prop_assert!(is_right, "{:?} of {} in {:?}", alone, call, instance);
        }
        for (index, window) in instances.windows(3).enumerate() {
            let outline = window.iter().map(|instance| class.outline(instance)).reduce(|a, b| a.join(&b)).unwrap();
            let judged = class.judge(&key, &outline, &call, NOW).verdict;
            let verdicts = &verdicts[index..index + 3];
            let is_right = match judged {
                Verdict::Accepted => {
                    meet(&met.accepted);
                    verdicts.iter().all(|verdict| verdict.is_some() && *verdict == verdicts[0])
                }
                Verdict::Refused => {
                    meet(&met.refused);
                    window.iter().all(|instance| class.next(&key, instance, &call, NOW).is_err())
                }
                Verdict::Unsure => true,
            };
            prop_assert!(is_right, "{:?} of {} in {:?}", judged, call, window);
        }
    }
    Ok(())
}

/// Whether the event has an effect under a condition or in a loop.
fn has_branches(class: &Class, call: &EventCall) -> bool {
    let effects = class.event(call.event()).unwrap().ways().iter().flat_map(|way| &way.body.effects);
    effects.into_iter().any(|effect| matches!(effect.value.kind(), ExprKind::If(..) | ExprKind::Updated(..)))
}

/// A run of the property also has to meet each of these, or it shows nothing.
#[derive(Debug, Default)]
struct Met {
    never: Cell<usize>,
    invariant: Cell<usize>,
    linear: Cell<usize>,
    branched: Cell<usize>,
    accepted: Cell<usize>,
    refused: Cell<usize>,
}

fn meet(mark: &Cell<usize>) {
    mark.set(mark.get() + 1);
}

#[test]
fn no_analysis_claims_what_the_interpreter_does_not_do() {
    let met = Met::default();
    let config = Config { cases: 48, source_file: Some(file!()), ..Config::default() };
    TestRunner::new(config)
        .run(&specification(), |source| {
            let class = class(&source, "A");
            let instances = instances(&class);
            check_relations(&class, &instances, &met)?;
            check_calls(&class, &instances, &met)
        })
        .unwrap();
    let Met { never, invariant, linear, branched, accepted, refused } = &met;
    assert!([never, invariant, linear, branched, accepted, refused].into_iter().all(|mark| mark.get() > 0), "{met:?}");
}
